// SPDX-License-Identifier: BSL-1.0
/// @file
/// Anchors: values across which nothing is recomputed, because what is rebuilt for an early reader would be
/// held for a much later one. Without them the light ops of a whole recurrence form one chain, rebuilt at the
/// start of the backward pass (the authors pinned LSTM cell states by a
/// name pattern).
#pragma once

#include <echo/analysis/plan/decision/candidates.hpp>

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

namespace echo::detail {

/// An anchor distance that no span exceeds.
inline constexpr std::uint32_t no_anchor = std::numeric_limits<std::uint32_t>::max();

/// When the outputs of each forward node are needed in the backward pass, were they made again: from the
/// first gradient reader, or the first need of an op that reads them and is itself made again, to the last
/// such.
struct backward_needs {
    id_vector<node_id, std::uint32_t>
        first; ///< node: position of the first backward node that needs it, or `nobody`
    id_vector<node_id, std::uint32_t> last; ///< node: position of the last backward node that needs it
    id_set<node_id> anchor;                 ///< node: its needs lie too far apart, so it is not made again
    std::uint32_t largest_span = 0;         ///< of all nodes, in the unit of anchor distances

    static constexpr std::uint32_t nobody = std::numeric_limits<std::uint32_t>::max();
};

/// The needs at one anchor distance: a node is an anchor if more than `distance` compute-heavy backward nodes
/// (in a graph without such: backward nodes that are no views) lie between its first need and the beginning of its
/// last. What an anchor reads is not needed as early as
/// the anchor is, so anchors stand about `distance` apart along a chain, as checkpoints do. Reusable: the
/// backward readers are found once, O(nodes + edges); each distance is O(nodes + edges) more.
class anchor_finder {
public:
    anchor_finder(const snapshot& s, const candidates& c) : s_(s), c_(c) {
        direct_.first.assign(s.node_count(), backward_needs::nobody);
        direct_.last.assign(s.node_count(), 0);
        direct_.anchor.assign(s.node_count());
        heavy_before_.reserve(s.node_count() + 1);
        heavy_before_.push_back(0);
        bool any_heavy = false;
        for (const auto n : s.nodes())
            any_heavy |= runs_after_forward(s[n].phase) && s[n].kind == op_kind::heavy;
        for (const auto n : s.nodes()) {
            const bool backward = c.live[n] && runs_after_forward(s[n].phase);
            const bool counts = any_heavy ? s[n].kind == op_kind::heavy : s[n].kind != op_kind::view;
            heavy_before_.push_back(heavy_before_.back() + (backward && counts));
            if (!backward) continue;
            for (const auto v : s.inputs(n)) {
                const node_id maker = s[c.base[v]].producer;
                direct_.last[maker] = n.index();
                if (direct_.first[maker] == backward_needs::nobody) direct_.first[maker] = n.index();
            }
        }
    }

    /// The needs at that distance. O(nodes + edges).
    backward_needs operator()(std::uint32_t distance) const {
        backward_needs needs = direct_;
        // Readers of one value count from the first of them.
        id_vector<node_id, std::uint32_t> last_begin = direct_.first;
        for (std::size_t i = s_.node_count(); i-- > 0;) {
            const node_id n(i);
            if (!c_.live[n] || s_[n].phase != phase::forward || needs.first[n] == backward_needs::nobody)
                continue;
            const std::uint32_t span = heavy_before_[last_begin[n]] - heavy_before_[needs.first[n]];
            needs.largest_span = std::max(needs.largest_span, span);
            needs.anchor[n] = span > distance;
            if (needs.anchor[n] || (!c_.rerunnable[n] && !c_.late_is_free(n))) continue;
            // Views are followed to what they lie on, as everywhere: that is what would be made again.
            for (const auto v : s_.inputs(n)) {
                const node_id maker = s_[c_.base[v]].producer;
                const bool known = needs.first[maker] != backward_needs::nobody;
                needs.first[maker] = known ? std::min(needs.first[maker], needs.first[n]) : needs.first[n];
                last_begin[maker] = known ? std::max(last_begin[maker], needs.first[n]) : needs.first[n];
                needs.last[maker] = std::max(needs.last[maker], needs.first[n]);
            }
        }
        return needs;
    }

private:
    const snapshot& s_;
    const candidates& c_;
    backward_needs direct_;
    std::vector<std::uint32_t> heavy_before_;
};

/// Anchor distances worth trying, given the largest span there is: ∞, then 1 and on by a factor (2, or what it takes to
/// get there), and 0; at most `most` of them (at least 3). O(`most` + log² of the span). Errors: none.
inline std::vector<std::uint32_t> anchor_distances(std::uint32_t largest_span, std::size_t most) {
    std::vector<std::uint32_t> all{no_anchor};
    std::uint64_t factor = 2;
    for (; factor < largest_span; factor *= 2) {
        std::uint64_t reach = 1;
        for (std::size_t i = 3; i < most && reach < largest_span; ++i) reach *= factor;
        if (reach >= largest_span / 2) break;
    }
    for (std::uint64_t d = 1; d < largest_span && all.size() + 1 < most; d *= factor)
        all.push_back(static_cast<std::uint32_t>(d));
    if (largest_span > 0) all.push_back(0);
    return all;
}

} // namespace echo::detail
