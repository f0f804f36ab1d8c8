// SPDX-License-Identifier: BSL-1.0
/// @file
/// The least that must be live while a gradient runs, over every schedule that schedule_rules.hpp allows: a minimum
/// cut.
///
/// Stop a schedule while gradient b runs. What a later step reads is either made behind b or live now. So, per storage
/// x, a vertex "read behind b"; per node n that may run behind b, a vertex "runs behind b":
///   source → x (∞) for what gradients behind b read, and for results, which are read at the end;
///   x → its maker n, bytes(x): x is live now, unless n runs behind b; to the sink if n may not; x costs nothing if its
///   maker is b or a later gradient; n → each of its inputs (∞).
/// A node that may not run again runs behind b only if that is its first run; then all that wait for it run behind b as
/// well. A vertex "first runs behind b": n → late(n), late(n) → late(m) for each m that waits for n, late(m) → m, all
/// ∞. A one-bit reader needs a vertex e, the encoding of the value: e → x, encoded bytes.
///
/// Every schedule is one way to put these vertices on the source's side that breaks no arc of ∞, and the arcs that it
/// cuts count storages that are live while b runs. They are different ones: copies of two storages that are both read
/// behind b never share memory, not by a write in place either, since that ends what lay there before. Nor are they
/// among the working set of b (working_set.hpp): what b reads costs nothing more to keep, but for what an output of b
/// would otherwise take over; of what b reads in one bit, the rest. So working set plus minimum cut is a bound.
///
/// Runs may have a price: n → sink, or n → late(n), since a late first run repeats nothing. Working set plus cut then
/// bounds the live bytes plus price × time run again behind b (budget_bound.hpp).
#pragma once

#include <echo/analysis/plan/bound/working_set.hpp>
#include <echo/graph/max_flow.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace echo::detail {

/// What the cut counts. A byte costs `byte`, a tick run again `tick`; both times their amounts over the whole graph
/// stay below 2^58.
struct held_prices {
    flow_capacity byte = 1;                                   ///< price of a byte
    flow_capacity tick = 0;                                   ///< price of a tick, in the same unit
    const id_vector<node_id, std::uint64_t>* ticks = nullptr; ///< of a run; not read if a tick costs nothing
};

/// Cuts at the gradients of one snapshot. Scratch memory is kept between cuts. The rules must outlive it.
class held_cut {
public:
    using capacity = flow_network::capacity;

    explicit held_cut(const schedule_rules& rules) : rules_(rules), s_(rules.graph()), count_(rules) {
        share_of_.assign(s_.value_count(), none);
    }

    /// The least price of what is live while gradient `at` runs and of what runs again behind it. O(nodes + edges) and
    /// a minimum cut.
    capacity operator()(node_id at, const held_prices& prices) {
        at_ = at;
        prices_ = prices;
        flow_.clear();
        priced_.clear();
        const capacity working = price_of(count_(at));
        for (std::uint32_t i = 0; const auto& share : count_.storages()) share_of_[share.base] = i++;
        storage_.assign(s_.value_count(), no_vertex);
        bit_.assign(s_.value_count(), no_vertex);
        run_.assign(s_.node_count(), no_vertex);
        late_.assign(s_.node_count(), no_vertex);
        require_reads();
        while (!to_do_.empty()) {
            const auto [n, is_late] = to_do_.back();
            to_do_.pop_back();
            is_late ? connect_late(n) : connect_run(n);
        }
        for (const auto& share : count_.storages()) share_of_[share.base] = none;
        return working + flow_.cut();
    }

    /// Of the last cut: ticks of what it runs again, as far as that has a price. O(nodes).
    std::uint64_t ticks_again() const {
        std::uint64_t sum = 0;
        for (const auto& p : priced_) {
            const bool late = p.late != no_vertex && flow_.on_source_side(p.late);
            if (flow_.on_source_side(p.run) && !late) sum += p.time;
        }
        return sum;
    }

private:
    using vertex = flow_network::vertex;
    static constexpr vertex no_vertex = ~vertex{0};
    static constexpr std::uint32_t none = ~std::uint32_t{0};
    /// A run that has a price, unless it is late.
    struct priced_run {
        vertex run, late;
        std::uint64_t time;
    };
    struct task {
        node_id node;
        bool is_late;
    };

    /// More bytes than a sum of capacities has room for count as less: it stays a bound.
    capacity price_of(std::uint64_t bytes) const {
        constexpr std::uint64_t most = std::uint64_t{1} << 58;
        return prices_.byte *
               static_cast<capacity>(std::min(bytes, most / static_cast<std::uint64_t>(prices_.byte)));
    }

    /// What is read behind `at_` whatever the schedule, and what a plan might have to read inside `at_` itself.
    void require_reads() {
        for (std::size_t i = at_.index() + 1; i < s_.node_count(); ++i) {
            const node_id n(i);
            if (!rules_.is_gradient(n)) continue;
            for (std::size_t k = 0; const auto v : s_.inputs(n)) require(v, rules_.reads_bit(n, k++));
        }
        for (const auto& read : count_.inside()) require(read.value, read.one_bit);
        for (const auto v : s_.results()) require(v, false);
    }
    void require(value_id v, bool one_bit) {
        const vertex wanted = one_bit ? bit(v) : storage(rules_.base(v));
        if (wanted != no_vertex) flow_.from_source(wanted, flow_network::infinite);
    }
    void read(vertex reader, value_id v, bool one_bit) {
        const vertex wanted = one_bit ? bit(v) : storage(rules_.base(v));
        if (wanted != no_vertex) flow_.add_arc(reader, wanted, flow_network::infinite);
    }

    /// The vertex of a storage; none if it costs nothing.
    vertex storage(value_id base) {
        vertex& x = storage_[base];
        if (x != no_vertex || !rules_.counts(base)) return x;
        const node_id maker = s_[base].producer;
        const bool gradient = rules_.is_gradient(maker);
        if (gradient && maker >= at_) return x;
        x = flow_.add_vertex();
        const capacity price = price_of(bytes_to_keep(base));
        if (!gradient && rules_.may_run_behind(maker, at_))
            flow_.add_arc(x, run(maker), price);
        else
            flow_.to_sink(x, price);
        return x;
    }
    /// Beyond the working set.
    std::uint64_t bytes_to_keep(value_id base) const {
        const std::uint32_t i = share_of_[base];
        if (i == none) return s_[base].bytes;
        return s_[base].bytes - count_.storages()[i].bytes + count_.storages()[i].taken_over;
    }
    /// The vertex of a value's encoding; none if it costs nothing. Of what `at_` reads in one bit it is counted
    /// already.
    vertex bit(value_id v) {
        vertex& e = bit_[v];
        if (e != no_vertex) return e;
        const std::uint32_t i = share_of_[rules_.base(v)];
        if (i != none && !count_.storages()[i].whole) return e;
        const vertex x = storage(rules_.base(v));
        if (x == no_vertex) return e;
        e = flow_.add_vertex();
        const std::uint64_t bytes = encoded_bytes(s_[v].elements);
        flow_.add_arc(e, x, price_of(std::min(bytes, bytes_to_keep(rules_.base(v)))));
        return e;
    }

    vertex run(node_id n) {
        vertex& r = run_[n];
        if (r != no_vertex) return r;
        r = flow_.add_vertex();
        to_do_.push_back({n, false});
        return r;
    }
    vertex late(node_id n) {
        vertex& l = late_[n];
        if (l != no_vertex) return l;
        l = flow_.add_vertex();
        flow_.add_arc(l, run(n), flow_network::infinite);
        to_do_.push_back({n, true});
        return l;
    }

    void connect_run(node_id n) {
        const vertex r = run_[n];
        for (std::size_t k = 0; const auto v : s_.inputs(n)) read(r, v, rules_.reads_bit(n, k++));
        if (!rules_.may_rerun(n))
            flow_.add_arc(r, late(n), flow_network::infinite);
        else if (prices_.tick > 0 && (*prices_.ticks)[n] > 0 && !rules_.may_run_inside_others(n))
            add_price(n, (*prices_.ticks)[n]);
    }
    void add_price(node_id n, std::uint64_t time) {
        // A price above that of all bytes is never paid.
        constexpr capacity most = flow_network::infinite / 4;
        const auto fits = static_cast<std::uint64_t>(most / prices_.tick);
        const capacity price = time < fits ? static_cast<capacity>(time) * prices_.tick : most;
        const vertex r = run_[n], l = rules_.may_be_later(n, at_) ? late(n) : no_vertex;
        if (l != no_vertex)
            flow_.add_arc(r, l, price);
        else
            flow_.to_sink(r, price);
        priced_.push_back({r, l, time});
    }
    void connect_late(node_id n) {
        const vertex l = late_[n];
        rules_.for_each_that_waits(n, [&](node_id m) {
            if (!rules_.is_gradient(m)) flow_.add_arc(l, late(m), flow_network::infinite);
        });
    }

    const schedule_rules& rules_;
    const snapshot& s_;
    working_set count_;
    flow_network flow_;
    node_id at_{};
    held_prices prices_{};
    std::vector<task> to_do_;
    std::vector<priced_run> priced_;
    id_vector<value_id, std::uint32_t> share_of_; ///< base value: its entry of the working set, or `none`
    id_vector<value_id, vertex> storage_, bit_;
    id_vector<node_id, vertex> run_, late_; ///< by value or by node: its vertex
};

} // namespace echo::detail
