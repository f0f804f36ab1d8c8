// SPDX-License-Identifier: BSL-1.0
/// @file
/// What an eviction is: copies that are given up in a gap between two of their uses; and what a round of evictions
/// looks at.
#pragma once

#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/analysis/plan/decision/evaluated_plan.hpp>
#include <echo/analysis/schedule/copy_history.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace echo::detail {

/// A node of which a copy is given up. `storage`: what that frees; `from`, `to`: its last use before, the next one
/// behind.
struct evicted_copy {
    /// The node of which a copy is given up.
    node_id node;
    /// What that frees.
    storage_id storage;
    /// Its last use before, and the next one behind.
    step_id from, to;
};

/// Copies that are given up together.
struct eviction {
    std::size_t first, count; ///< in `eviction_list::copies`
    std::int64_t freed;       ///< bytes at the peak
    bool pulls = false;       ///< the nodes are run earlier rather than again
    value_id encodes{};       ///< the value of which an encoding is kept instead, if any
};

/// Evictions of which one or more may be carried out.
struct eviction_list {
    /// Of all evictions, one behind the other.
    std::vector<evicted_copy> copies;
    /// The evictions.
    std::vector<eviction> all;

    /// No eviction; the memory is kept.
    void clear() {
        copies.clear();
        all.clear();
    }
    /// The copies of one eviction. O(1).
    std::span<const evicted_copy> copies_of(const eviction& e) const {
        return {copies.data() + e.first, e.count};
    }
    /// The first and the last step that are relieved of what the eviction frees: those between the uses, and where an
    /// encoding is read instead, the last reader as well. O(1).
    std::pair<std::size_t, std::size_t> relieved(const eviction& e) const {
        const evicted_copy& copy = copies[e.first];
        return {copy.from.index() + 1, copy.to.index() - !e.encodes.valid()};
    }
    /// Whether the node is among the copies from number `first` on.
    bool names(node_id n, std::size_t first) const {
        return std::any_of(copies.begin() + static_cast<std::ptrdiff_t>(first), copies.end(),
                           [&](const evicted_copy& e) { return e.node == n; });
    }
};

/// A storage that is not there at the steps from `first` to before `until`, though the plan holds it.
struct absent_storage {
    storage_id storage;
    step_id first, until;
};

/// What a round of evictions looks at: a plan, at one step; and what has been decided since the plan was made.
struct eviction_view {
    /// The graph.
    const snapshot& s;
    /// What may be done with its nodes.
    const candidates& c;
    /// The plan that is looked at.
    const evaluated_plan& plan;
    const copy_history& history; ///< of the plan
    const decision& next;        ///< that of the plan, with the evictions so far
    step_id peak{};              ///< the step at which bytes are to be freed
    std::span<const absent_storage> absent{};

    /// Whether the storage is not there at the peak anyway. O(absent).
    bool is_absent(storage_id i) const {
        return std::ranges::any_of(absent, [&](const absent_storage& a) {
            return a.storage == i && a.first <= peak && peak < a.until;
        });
    }

    /// The node in whose place or for whose sake the step runs.
    node_id home(step_id t) const { return plan.homes()[t]; }
    /// Whether the step belongs to the forward pass.
    bool in_forward(step_id t) const { return !runs_after_forward(s.phase_of(home(t))); }
    /// Bytes of a storage.
    std::int64_t bytes_of(storage_id i) const { return static_cast<std::int64_t>(plan.live()[i].bytes); }

    /// Whether what it makes can be forgotten and made again.
    bool may_run_again(node_id n) const { return c.rerunnable[n] || (next.heavy && c.heavy_rerunnable[n]); }
    /// Whether the node could as well run late, for the first time: then it costs nothing.
    bool runs_late(node_id n, storage_id i, step_id from) const {
        return c.late_is_free(n) && plan.live()[i].first == from && in_forward(from);
    }
    /// Whether what was given up can be had at its next use: by another run, or by a late one.
    bool may_run_later(const evicted_copy& e) const {
        return may_run_again(e.node) || runs_late(e.node, e.storage, e.from);
    }
    /// What having it again takes; nothing where its first run can be late.
    ticks cost(const evicted_copy& e) const {
        return runs_late(e.node, e.storage, e.from) ? 0 : c.rerun[e.node];
    }

    /// Whether the copy that `run` makes is not there any more at step `to`.
    bool is_forgotten(node_id n, step_id run, step_id to) const {
        if (next.again[n] && in_forward(run)) return true;
        const auto f = std::lower_bound(next.forgets.begin(), next.forgets.end(),
                                        turn{n, node_id(home(run).index() + 1)});
        return f != next.forgets.end() && f->node == n && f->at <= home(to);
    }
    /// Where the copy is forgotten: at the peak, but behind its last use.
    node_id forgotten_at(const evicted_copy& e) const {
        return std::max(node_id(home(e.from).index() + 1), std::min(home(peak), home(e.to)));
    }
    /// Whether the copy is given up there already.
    bool is_decided(const evicted_copy& e) const {
        if (in_forward(e.from)) return next.again[e.node] != 0;
        return std::binary_search(next.forgets.begin(), next.forgets.end(), turn{e.node, forgotten_at(e)});
    }
};

} // namespace echo::detail
