// SPDX-License-Identifier: BSL-1.0
/// @file
/// `decision`: what a strategy decides: which nodes the backward pass has made again, which values it reads from an
/// encoding, and at which nodes a copy is forgotten or made.
#pragma once

#include <echo/graph/id_vector.hpp>
#include <echo/graph/snapshot.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <vector>

namespace echo::detail {

/// Something that happens to what `node` makes, before backward node `at` and what that needs.
struct turn {
    node_id node{};
    node_id at{};
    friend constexpr auto operator<=>(const turn&, const turn&) = default;
};

/// What a strategy decides.
struct decision {
    bool heavy = false; ///< compute-heavy nodes may run twice; without it they may only run late
    /// In order. From there on there is no copy, until the node is run again.
    std::vector<turn> forgets{};
    /// In order. If there is no copy and one will be needed, it is made there already.
    std::vector<turn> early{};
    id_set<node_id> again;    ///< node: the backward pass has it made again rather than kept
    id_set<value_id> encoded; ///< value: one-bit readers in the backward pass read its encoding

    /// Everything is kept, nothing encoded. O(nodes + values).
    static decision nothing(const snapshot& s) {
        return {.again = id_set<node_id>(s.node_count()), .encoded = id_set<value_id>(s.value_count())};
    }
    /// Adds to `forgets`, once. O(forgets).
    void forget(node_id node, node_id at) { insert(forgets, {node, at}); }
    /// Adds all of them to `forgets`, once each; in any order, and in order afterwards. O(forgets + more × log more).
    void forget_all(std::vector<turn>& more) {
        std::sort(more.begin(), more.end());
        std::size_t old = forgets.size(), left = more.size();
        forgets.resize(old + left);
        // From behind: the room that was made is taken by what comes, or by what must move for it.
        for (std::size_t at = forgets.size(); left > 0;)
            forgets[--at] = old > 0 && more[left - 1] < forgets[old - 1] ? forgets[--old] : more[--left];
        forgets.erase(std::unique(forgets.begin(), forgets.end()), forgets.end());
    }
    /// Adds to `early`, once. O(early).
    void make_early(node_id node, node_id at) { insert(early, {node, at}); }
    /// The copy of `node` stays over the backward nodes behind `from` up to `to`. O(forgets).
    void remember(node_id node, node_id from, node_id to) {
        const auto first =
            std::lower_bound(forgets.begin(), forgets.end(), turn{node, node_id(from.index() + 1)});
        const auto last = std::lower_bound(first, forgets.end(), turn{node, node_id(to.index() + 1)});
        forgets.erase(first, last);
    }
    /// Compares turns first: most decisions that differ have not as many of them.
    friend bool operator==(const decision&, const decision&) = default;

private:
    static void insert(std::vector<turn>& turns, const turn& t) {
        const auto place = std::lower_bound(turns.begin(), turns.end(), t);
        if (place == turns.end() || *place != t) turns.insert(place, t);
    }
};

} // namespace echo::detail
