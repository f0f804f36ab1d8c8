// SPDX-License-Identifier: BSL-1.0
/// @file
/// The exact choice of what to stash: a minimum cut of bytes kept + price × time run again. One
/// network serves the strategy `min_cut`, its sweep over the anchor distance, and the lower bound.
///
/// Per storage S a vertex "available in the backward pass", per op v a vertex "run again":
///   source → S (∞) for what a gradient reads; S → maker(S), bytes(S); v → each input's S (∞); v → sink,
///   price(v).
/// An op that the forward pass does not need is first run in the backward pass, and so not run again, unless something
/// kept depends on it: a vertex "runs late" per such op, v → late(v), price(v); late(v) → v and → late(reader), ∞.
/// A one-bit reader demands S only up to the bytes of its encoding: source → S, encoded bytes.
#pragma once

#include <echo/analysis/plan/decision/schedule_builder.hpp>
#include <echo/analysis/plan/strategies/anchors.hpp>
#include <echo/graph/max_flow.hpp>

#include <algorithm>
#include <bit>
#include <utility>

namespace echo::detail {

/// What a run costs in the network. `run`: its price, `none` if the node may not run again (it may still run late);
/// `held`: the price of what it makes, for as long as that is held; `allowed`: false for what is kept in any case.
struct rerun_price {
    static constexpr flow_capacity none = flow_network::infinite; ///< it may not run again
    /// Price of a run.
    flow_capacity run = none;
    /// Price of what it makes.
    flow_capacity held = 0;
    /// Whether the network may choose.
    bool allowed = true;
};

/// The network over the forward nodes of one snapshot. Usage: `begin`, `solve`, then ask. Scratch memory is kept
/// between uses. Snapshot and candidates must outlive it.
class stash_network {
public:
    using capacity = flow_network::capacity;

    stash_network(const snapshot& s, const candidates& c) : s_(s), c_(c) {}

    /// What the gradients read must be available, with `encode` in one bit where that is enough. What they read is
    /// found once: O(nodes + edges); then O(nodes + values).
    void begin(bool encode) {
        if (required_.size() == 0 || encode != encode_) find_reads(encode);
        flow_.clear();
        available_.assign(s_.value_count(), no_vertex);
        again_.assign(s_.node_count(), no_vertex);
        late_.assign(s_.node_count(), no_vertex);
    }

    /// `bytes_price(base, bytes)` is the capacity of keeping that many bytes of a storage, `price_of(node)` a
    /// `rerun_price`. Returns the cut's capacity, what must be kept in any case included.
    template <class BytesPrice, class PriceOf>
    capacity solve(const BytesPrice& bytes_price, const PriceOf& price_of) {
        capacity fixed = 0;
        demand_one_bits(bytes_price);
        for (std::size_t i = s_.node_count(); i-- > 0;) {
            const node_id n(i);
            if (!c_.live[n] || s_[n].phase == phase::input) continue;
            const bool late = s_[n].phase == phase::forward && c_.late_is_free(n);
            if (late) add_late(n);
            if (!demanded(n)) continue;
            const rerun_price price =
                s_[n].phase == phase::forward ? price_of(n) : rerun_price{.allowed = false};
            if (price.allowed && (late || price.run < rerun_price::none)) {
                add_rerun(n, price, bytes_price);
            } else {
                fixed += keep_outputs(n, bytes_price);
                if (late) flow_.to_sink(late_[n], flow_network::infinite);
            }
        }
        return fixed + flow_.cut();
    }

    /// Whether the last cut has the node run again.
    bool made_again(node_id n) const {
        const auto v = again_[n];
        return v != no_vertex && flow_.on_source_side(v);
    }

    /// The decision that the cut stands for.
    void read_choice(decision& out) const {
        for (const auto n : s_.nodes()) out.again[n] = made_again(n);
        out.encoded.assign(s_.value_count());
        for (const auto v : one_bit_) {
            const value_id base = c_.base[v];
            const auto vertex = available_[base];
            out.encoded[v] = !c_.costless[base] && !required_[base] && vertex != no_vertex &&
                             !flow_.on_source_side(vertex);
        }
    }

private:
    static constexpr flow_vertex no_vertex = ~flow_vertex{0};

    void find_reads(bool encode) {
        encode_ = encode;
        required_.assign(s_.value_count());
        asked_.assign(s_.value_count());
        one_bit_.clear();
        for_each_gradient_read(s_, c_, encode, node_id::none(), [&](value_id v, bool one_bit) {
            if (!one_bit)
                required_[c_.base[v]] = 1;
            else if (asked_.add(v))
                one_bit_.push_back(v);
        });
    }

    bool is_free(value_id base) const { return c_.costless[base] != 0; }

    flow_network::vertex available(value_id base) {
        auto& vertex = available_[base];
        if (vertex == no_vertex) vertex = flow_.add_vertex();
        return vertex;
    }

    template <class BytesPrice>
    void demand_one_bits(const BytesPrice& bytes_price) {
        for (const auto v : one_bit_) {
            const value_id base = c_.base[v];
            if (is_free(base) || required_[base]) continue;
            flow_.from_source(available(base), bytes_price(base, encoded_bytes(s_[v].elements)));
        }
    }

    bool demanded(node_id n) const {
        for (const auto v : s_.outputs(n)) {
            if (c_.base[v] != v || is_free(v)) continue;
            if (required_[v] || available_[v] != no_vertex) return true;
        }
        return false;
    }

    template <class BytesPrice>
    capacity keep_outputs(node_id n, const BytesPrice& bytes_price) {
        capacity fixed = 0;
        for (const auto v : s_.outputs(n)) {
            if (c_.base[v] != v || is_free(v)) continue;
            const capacity bytes = bytes_price(v, s_[v].bytes);
            if (required_[v])
                fixed += bytes;
            else if (available_[v] != no_vertex)
                flow_.to_sink(available_[v], bytes);
        }
        return fixed;
    }

    /// The node may run late if all that the forward pass makes of its outputs may.
    void add_late(node_id n) {
        const auto late = late_[n] = flow_.add_vertex();
        for (const auto v : s_.outputs(n)) {
            const value_id base = c_.base[v];
            if (asked_[v] && available_[base] != no_vertex)
                flow_.add_arc(late, available_[base], flow_network::infinite);
            for (const use& u : s_.uses(v)) {
                if (!c_.live[u.reader] || s_[u.reader].phase != phase::forward) continue;
                flow_.add_arc(late, late_[u.reader], flow_network::infinite);
            }
        }
    }

    template <class BytesPrice>
    void add_rerun(node_id n, const rerun_price& price, const BytesPrice& bytes_price) {
        const auto run = flow_.add_vertex();
        again_[n] = run;
        flow_.to_sink(run, price.held);
        if (late_[n] != no_vertex) {
            flow_.add_arc(run, late_[n], price.run);
            flow_.add_arc(late_[n], run, flow_network::infinite);
        } else {
            flow_.to_sink(run, price.run);
        }
        for (const auto v : s_.outputs(n)) {
            if (c_.base[v] != v || is_free(v)) continue;
            const capacity bytes = bytes_price(v, s_[v].bytes);
            if (required_[v])
                flow_.from_source(run, bytes);
            else if (available_[v] != no_vertex)
                flow_.add_arc(available_[v], run, bytes);
        }
        for (const auto v : s_.inputs(n)) {
            const value_id base = c_.base[v];
            if (is_free(base) || required_[base]) continue;
            flow_.add_arc(run, available(base), flow_network::infinite);
        }
    }

    const snapshot& s_;
    const candidates& c_;
    flow_network flow_;
    bool encode_ = false;
    id_set<value_id> required_; ///< base value: all of it must be available
    id_set<value_id> asked_;    ///< value: one bit per element must be available
    id_vector<value_id, flow_network::vertex> available_;
    id_vector<node_id, flow_network::vertex> again_, late_;
    detail::large_vector<value_id> one_bit_;
};

/// A price of time: so many bytes may be kept to save so much time.
struct time_price {
    /// 0: time is free, and of cuts of equal bytes the one of the fewest runs is taken.
    std::uint64_t bytes = 0;
    /// How much time that many bytes are worth.
    ticks time = 1;
};

/// What to optimise.
struct cut_options {
    /// What time costs in bytes.
    time_price price{};
    /// By node, sums of the weights of all earlier nodes (size: nodes + 1): how much a byte counts while a
    /// node runs, in parts of `whole_weight`. Empty: bytes count once, where the backward pass begins.
    std::span<const std::uint64_t> weight_sums{};
    /// The weight of a byte that counts once.
    static constexpr std::uint64_t whole_weight = std::uint64_t{1} << 32;
    bool heavy = false; ///< compute-heavy ops may run again, at their price
    bool encode = true;
};

/// Solves the stash problem of one snapshot for any options; what they share is computed once.
class min_cut {
public:
    min_cut(const snapshot& s, const candidates& c) : s_(s), c_(c), network_(s, c) { find_scale(); }

    /// `needs` say which nodes are anchors. O(nodes + edges) to build; near-linear to solve in practice.
    /// `out` must have the snapshot's sizes.
    void operator()(const backward_needs& needs, const cut_options& options, decision& out) {
        network_.begin(options.encode);
        const std::uint64_t time_scale = options.price.bytes * scale_;
        const auto time = static_cast<std::uint64_t>(options.price.time);
        const auto weights = options.weight_sums;
        const auto kept = [&](value_id base, std::uint64_t bytes) {
            const std::uint64_t weight =
                weights.empty() ? cut_options::whole_weight : weights[needs.last[s_[base].producer] + 1];
            return capacity_of(detail::mul_div(bytes * scale_, weight, cut_options::whole_weight));
        };
        const auto rerun = [&](node_id n) {
            rerun_price price{.allowed = !needs.anchor[n]};
            if (c_.rerunnable[n] || (options.heavy && c_.heavy_rerunnable[n]))
                price.run =
                    capacity_of(detail::mul_div(static_cast<std::uint64_t>(c_.rerun[n]), time_scale, time));
            if (!weights.empty() && !c_.fusion.folds[n])
                price.held = capacity_of(held_again(n, needs, weights));
            return price;
        };
        cost_ = network_.solve(kept, rerun);
        network_.read_choice(out);
    }

    /// Bytes of the last cut: what is kept, plus the price of the time.
    double cost_bytes() const noexcept { return static_cast<double>(cost_) / static_cast<double>(scale_); }

private:
    /// A finite capacity: sums of them stay below `infinite`.
    static flow_network::capacity capacity_of(std::uint64_t price) {
        return static_cast<flow_network::capacity>(
            std::min(price, static_cast<std::uint64_t>(flow_network::infinite / 4)));
    }

    /// Weighted and scaled bytes of the copies that making `n` again would hold, from its first need to its last.
    std::uint64_t held_again(node_id n, const backward_needs& needs,
                             std::span<const std::uint64_t> weights) const {
        if (needs.first[n] == backward_needs::nobody) return 0;
        std::uint64_t bytes = 0;
        for (const auto v : s_.outputs(n))
            if (c_.base[v] == v && !c_.resident[v]) bytes += s_[v].bytes;
        return detail::mul_div(bytes * scale_, weights[needs.last[n] + 1] - weights[needs.first[n]],
                               cut_options::whole_weight);
    }

    /// Capacities are bytes × scale: whole numbers that still tell small prices apart.
    void find_scale() {
        constexpr auto most = static_cast<std::uint64_t>(flow_network::infinite) / 8;
        std::uint64_t bytes = 1;
        for (const auto v : s_.values())
            if (s_[s_[v].producer].phase == phase::forward) bytes = std::min(most, bytes + s_[v].bytes);
        scale_ = std::bit_floor(std::min(most / bytes, std::uint64_t{1} << 40));
    }

    const snapshot& s_;
    const candidates& c_;
    stash_network network_;
    std::uint64_t scale_ = 1;
    flow_network::capacity cost_ = 0;
};

} // namespace echo::detail
