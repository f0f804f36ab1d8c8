// SPDX-License-Identifier: BSL-1.0
/// @file
/// The paper's partition: the forward graph cut at its compute-heavy ops into disjoint subgraphs, so that the
/// footprint effect of recomputation is judged over whole subgraphs and in small pieces (the paper,
/// "Footprint Reduction Estimation": 100 to 2,000 of at most 10 nodes on its models).
#pragma once

#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/graph/id_vector.hpp>

#include <algorithm>
#include <numeric>
#include <vector>

namespace echo::detail {

/// Disjoint sets of nodes over a snapshot.
class node_sets {
public:
    /// Each node is a set by itself.
    explicit node_sets(std::size_t nodes) : parent_(nodes) { std::iota(parent_.begin(), parent_.end(), 0U); }
    /// The representative of the node's set. O(1) amortised, nearly.
    std::uint32_t find(std::uint32_t n) {
        while (parent_[n] != n) n = parent_[n] = parent_[parent_[n]];
        return n;
    }
    /// The smaller index stays the representative.
    void join(std::uint32_t a, std::uint32_t b) {
        a = find(a), b = find(b);
        if (a != b) parent_[std::max(a, b)] = std::min(a, b);
    }

private:
    std::vector<std::uint32_t> parent_;
};

/// Groups of nodes: members of group g, in execution order, are `members(g)`; groups ordered by their first
/// member.
class node_groups {
public:
    std::size_t size() const noexcept { return members_.size(); }
    /// The nodes of a group. O(1).
    std::span<const node_id> members(std::size_t group) const { return members_[group_id(group)]; }
    /// The group of a node; `none` if it is in no group.
    std::uint32_t of(node_id n) const { return of_[n]; }
    /// Nodes of the largest group; 0 if there is none. O(groups).
    std::size_t largest() const {
        std::size_t most = 0;
        for (std::size_t g = 0; g < size(); ++g) most = std::max(most, members(g).size());
        return most;
    }
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    /// Groups the nodes for which `chosen(n)`, two of them together when one reads the other. O(nodes +
    /// edges).
    template <class Chosen>
    static node_groups connected(const snapshot& s, const Chosen& chosen) {
        node_sets sets(s.node_count());
        for (const auto n : s.nodes()) {
            if (!chosen(n)) continue;
            for (const auto v : s.inputs(n))
                if (chosen(s[v].producer)) sets.join(n.index(), s[v].producer.index());
        }
        node_groups g;
        g.of_.assign(s.node_count(), none);
        std::uint32_t count = 0;
        for (const auto n : s.nodes()) {
            if (!chosen(n)) continue;
            const node_id root(sets.find(n.index()));
            g.of_[n] = root == n ? count++ : g.of_[root];
        }
        g.members_.begin(count);
        for (const auto n : s.nodes())
            if (g.of_[n] != none) g.members_.count(group_id(g.of_[n]));
        g.members_.lay_out();
        for (const auto n : s.nodes())
            if (g.of_[n] != none) g.members_.add(group_id(g.of_[n]), n);
        return g;
    }

private:
    using group_id = strong_id<struct group_tag>;
    id_vector<node_id, std::uint32_t> of_;
    id_lists<group_id, node_id> members_;
};

/// The subgraphs between compute-heavy ops: live forward nodes that are not heavy. O(nodes + edges). Errors: none.
inline node_groups partition(const snapshot& s, const candidates& c) {
    return node_groups::connected(s, [&](node_id n) {
        return c.live[n] && s[n].phase == phase::forward && s[n].kind != op_kind::heavy;
    });
}

} // namespace echo::detail
