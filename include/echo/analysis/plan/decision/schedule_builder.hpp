// SPDX-License-Identifier: BSL-1.0
/// @file
/// `schedule_builder`: from a decision (what to make again, what to encode) to the steps that carry it out.
///
/// One mechanism, driven by demand: what the forward pass needs runs in its place; a backward node that reads
/// a value of which there is no copy has it made just before, with whatever that needs. If the value had not
/// been made yet, that run is its first, and merely late; else it is a recompute. A copy is there until it is
/// forgotten: at the end of the forward pass if its node is chosen to be made `again`, or where a `forgotten`
/// says so; one that is forgotten unread is not made.
#pragma once

#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/analysis/plan/decision/decision.hpp>
#include <echo/analysis/plan/decision/idle_runs.hpp>
#include <echo/analysis/plan/decision/settled_decision.hpp>
#include <echo/analysis/plan/decision/turn_queue.hpp>
#include <echo/analysis/schedule/schedule.hpp>
#include <echo/graph/id_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace echo::detail {

/// Of each node the length of the longest chain of nodes that may run again, of which it is the end. O(nodes + edges).
inline id_vector<node_id, std::uint32_t> chain_depths(const snapshot& s, const id_set<node_id>& rerunnable) {
    id_vector<node_id, std::uint32_t> depth(s.node_count(), 0);
    for (const auto n : s.nodes()) {
        if (!rerunnable[n]) continue;
        for (const edge_source& from : s.sources(n)) depth[n] = std::max(depth[n], depth[from.producer]);
        ++depth[n];
    }
    return depth;
}

/// The nodes where an encoding may be made, or a view hoisted to make one of it. O(nodes + edges + values).
inline id_set<node_id> where_encodings_may_be_made(const snapshot& s, const candidates& c) {
    id_set<node_id> packs(s.node_count());
    for (const auto v : s.values())
        if (c.packable[v]) packs.insert(c.packed_at[v].valid() ? c.packed_at[v] : s[v].producer);
    for (const auto n : s.nodes()) {
        if (!c.hoistable[n]) continue;
        for (const edge_source& from : s.sources(n)) packs.insert(from.producer);
    }
    return packs;
}

/// Lays out schedules of one snapshot; scratch memory is kept between calls. Snapshot and candidates must outlive it.
class schedule_builder {
public:
    schedule_builder(const snapshot& s, const candidates& c)
        : s_(s), c_(c), settled_(s, c), remove_idle_(s, c), depth_(detail::chain_depths(s, c.rerunnable)),
          packs_(detail::where_encodings_may_be_made(s, c)) {}

    /// The steps that carry a decision out. Nodes that may not run again are kept even if chosen. O(nodes + edges +
    /// steps + their inputs + readers of what is forgotten).
    [[nodiscard]] schedule operator()(const decision& decided) {
        schedule steps;
        id_vector<step_id, node_id> homes;
        (*this)(decided, steps, homes);
        return steps;
    }
    /// The same into `steps`, and into `homes`, by step, the node in whose place or for whose sake it runs. Their
    /// memory is used again.
    void operator()(const decision& decided, schedule& steps, id_vector<step_id, node_id>& homes) {
        std::swap(steps_, steps), std::swap(homes_, homes); // worked on here, and given back below
        build(decided);
        std::swap(steps_, steps), std::swap(homes_, homes);
    }

private:
    void build(const decision& decided) {
        settled_.settle(decided);
        steps_.clear();
        steps_.reserve(s_.node_count() + s_.node_count() / 4, s_.edge_count() + s_.edge_count() / 4);
        homes_.clear();
        original_.assign(s_.node_count(), step_id::none());
        copy_.assign(s_.node_count(), step_id::none());
        encoding_.assign(s_.value_count(), step_id::none());
        forgets_.fill(decided.forgets, s_.node_count());
        early_.fill(decided.early, s_.node_count());
        for (const auto n : s_.nodes()) {
            forgets_.at(n, [&](node_id m) { forget(m); });
            if (!c_.live[n]) continue;
            if (s_.phase_of(n) == phase::forward) {
                if (settled_.needed(n)) run_forward(n);
            } else if (!settled_.hoisted(n)) {
                if (runs_after_forward(s_.phase_of(n))) {
                    early_.at(n, [&](node_id m) {
                        if (m < n && settled_.demanded(m)) make(m);
                    });
                    make_inputs(n);
                    if (may_encode_at(n)) encode_inputs(n);
                }
                run(n);
            }
            while (homes_.size() < steps_.size()) homes_.push_back(n); // mostly once
        }
        if (!decided.forgets.empty() || !decided.early.empty()) remove_idle_(steps_, homes_);
    }

    /// With the views of it, which would hold its storage.
    void forget(node_id wanted) {
        stack_.push_back({wanted, 0});
        while (!stack_.empty()) {
            const node_id n = stack_.back().node;
            stack_.pop_back();
            if (!settled_.remade(n) || !copy_[n].valid()) continue;
            copy_[n] = step_id::none();
            for (const auto v : s_.outputs(n))
                for (const use& u : s_.uses(v))
                    for (const auto out : s_.outputs(u.reader))
                        if (s_[out].view_of == u.position) stack_.push_back({u.reader, 0});
        }
    }

    void run(node_id n) {
        const auto sources = s_.sources(n);
        const bool late = runs_after_forward(s_.phase_of(n)) && !settled_.hoisted(n);
        const step_id t = steps_.add({.node = n}, sources.size(), [&](std::size_t k) {
            return late ? late_copy(n, k) : copy_id{original_[sources[k].producer], sources[k].output};
        });
        original_[n] = t;
        if (!settled_.made_again(n)) copy_[n] = t;
    }

    /// An encoding is made right after its value, as are the views that it looks through: nothing forces the
    /// value to live longer for it.
    void run_forward(node_id n) {
        run(n);
        if (!may_encode_at(n)) return;
        for (const auto v : s_.outputs(n)) {
            if (!c_.packed_at[v].valid()) encode(v, original_[n]);
            for (const use& u : s_.uses(v)) {
                node_id view = u.reader;
                if (!settled_.hoisted(view)) continue;
                for (;;) {
                    run(view);
                    const value_id seen = s_.output(view, 0);
                    encode(seen, original_[view]);
                    if (s_.uses(seen).empty() || !settled_.hoisted(s_.uses(seen)[0].reader)) break;
                    view = s_.uses(seen)[0].reader;
                }
            }
        }
    }

    /// Whether an encoding may be made where the node runs.
    bool may_encode_at(node_id n) const { return settled_.encodes_any() && packs_[n]; }

    void encode(value_id v, step_id copy) {
        if (!settled_.encodes(v)) return;
        const node_id n = s_[v].producer;
        const step_id t =
            steps_.add({.node = n, .kind = step_kind::encode, .bytes = encoded_bytes(s_[v].elements)});
        steps_.read({copy, s_.output_index(v)});
        encoding_[v] = t;
    }

    /// What the backward node is the last to read all of, before others read the encoding.
    void encode_inputs(node_id reader) {
        for (const auto v : s_.inputs(reader))
            if (c_.packed_at[v] == reader && !encoding_[v].valid()) encode(v, copy_[s_[v].producer]);
    }

    /// What a node that runs behind the forward pass reads at this position.
    copy_id late_copy(node_id reader, std::size_t position) const {
        const value_id v = s_.inputs(reader)[position];
        if (settled_.reads_encoding(reader, position, v)) return {encoding_[v], 0};
        const auto [maker, output] = s_.sources(reader)[position];
        return {copy_[maker], output};
    }

    /// Everything the backward node reads that is made again and not there yet, in the order of its inputs.
    void make_inputs(node_id reader) {
        const auto sources = s_.sources(reader);
        for (std::size_t k = 0; k < sources.size(); ++k)
            if (missing(sources[k].producer) && !settled_.reads_encoding(reader, k, s_.inputs(reader)[k]))
                make(sources[k].producer);
    }

    bool missing(node_id n) const { return !copy_[n].valid(); }
    /// Position of the first such; their number if nothing is missing.
    std::size_t deepest_missing(std::span<const edge_source> sources) const {
        std::size_t deepest = sources.size();
        for (std::size_t k = 0; k < sources.size(); ++k) {
            const node_id maker = sources[k].producer;
            if (!missing(maker)) continue;
            if (deepest == sources.size() || depth_[maker] > depth_[sources[deepest].producer]) deepest = k;
        }
        return deepest;
    }

    /// Depth first over what is missing, on an explicit stack. Of what a node reads, the input behind the longest chain
    /// comes first: what the others make would be held while that chain is made.
    void make(node_id wanted) {
        if (!missing(wanted)) return;
        stack_.push_back({wanted, frame::unseen});
        while (!stack_.empty()) {
            auto& [n, next] = stack_.back();
            const auto sources = s_.sources(n);
            std::size_t from_source = next;
            if (next == frame::unseen) {
                next = 0;
                from_source = deepest_missing(sources);
            } else {
                while (next < sources.size() && !missing(sources[next].producer)) ++next;
                from_source = next;
            }
            if (from_source < sources.size()) {
                stack_.push_back({sources[from_source].producer, frame::unseen});
                continue;
            }
            const bool first = !original_[n].valid();
            const step_id t = steps_.add({.node = n, .kind = first ? step_kind::run : step_kind::recompute},
                                         sources.size(), [&](std::size_t k) {
                                             return copy_id{copy_[sources[k].producer], sources[k].output};
                                         });
            copy_[n] = t;
            if (first) original_[n] = t;
            stack_.pop_back();
        }
    }

    struct frame {
        static constexpr std::size_t unseen = ~std::size_t{0};
        node_id node;
        std::size_t next; ///< input to look at
    };

    const snapshot& s_;
    const candidates& c_;
    settled_decision settled_;
    idle_run_remover remove_idle_;
    id_vector<node_id, std::uint32_t> depth_; ///< node: as `chain_depths` says
    id_set<node_id> packs_;                   ///< as `where_encodings_may_be_made` says
    schedule steps_;
    id_vector<step_id, node_id> homes_;
    id_vector<node_id, step_id> original_;  ///< node: its first run so far
    id_vector<node_id, step_id> copy_;      ///< node: the run whose copy the backward pass reads now
    id_vector<value_id, step_id> encoding_; ///< value: the step that encodes it
    turn_queue forgets_, early_;
    detail::large_vector<frame> stack_;
};

} // namespace echo::detail
