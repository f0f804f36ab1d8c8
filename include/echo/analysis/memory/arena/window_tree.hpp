// SPDX-License-Identifier: BSL-1.0
/// @file
/// `window_tree`: which of the items that live entirely within a window of time comes first in an order.
#pragma once

#include <echo/analysis/memory/arena/timeline.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace echo::arena {

/// A tournament tree over the items of a timeline. The items that start in a window are consecutive leaves;
/// each inner node knows the earliest end and the best rank below it, so that a search skips what ends too
/// late or ranks worse than what it has. `remove` is O(log n). `best` is O(log n) when the window holds no
/// item; otherwise it visits what the two bounds leave, in practice some 10 nodes, in the worst case O(n):
/// `visits` lets the caller stop. The timeline must outlive it.
class window_tree {
public:
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    /// Holds no items. O(n).
    explicit window_tree(const timeline& line) : line_(line) {
        while (leaves_ < line.size()) leaves_ *= 2;
        nodes_.resize(2 * leaves_);
    }

    /// Puts all items in. `order` lists them, best first. O(n).
    void fill(std::span<const std::uint32_t> order) {
        for (std::uint32_t rank = 0; rank < order.size(); ++rank)
            nodes_[leaves_ + order[rank]] = {line_[order[rank]].last, rank};
        for (std::size_t i = leaves_ - 1; i > 0; --i) nodes_[i] = join(nodes_[2 * i], nodes_[2 * i + 1]);
        visits_ = 0;
    }

    /// The best rank among the items left that start at `first` or later and end at `last` or earlier; `none` if there
    /// is no such item.
    std::uint32_t best(std::uint32_t first, std::uint32_t last) {
        std::uint32_t found = none;
        std::size_t left = leaves_ + line_.begin(first), right = leaves_ + line_.begin(last + 1);
        std::size_t cover[128], count = 0;
        const auto take = [&](std::size_t i) {
            if (nodes_[i].earliest_end <= last) cover[count++] = i;
        };
        for (; left < right; left /= 2, right /= 2) {
            if (left & 1) take(left++);
            if (right & 1) take(--right);
        }
        for (std::size_t i = 0; i < count; ++i) found = search(cover[i], last, found);
        return found;
    }

    /// Takes an item out.
    void remove(std::uint32_t item) {
        std::size_t i = leaves_ + item;
        nodes_[i] = {};
        for (i /= 2; i > 0; i /= 2) {
            const node now = join(nodes_[2 * i], nodes_[2 * i + 1]);
            if (now == nodes_[i]) break;
            nodes_[i] = now;
        }
    }

    /// Nodes that searches have looked at since `fill`.
    std::uint64_t visits() const noexcept { return visits_; }

private:
    struct node {
        std::uint32_t earliest_end = none;
        std::uint32_t rank = none;
        friend bool operator==(const node&, const node&) = default;
    };
    static node join(node a, node b) {
        return {std::min(a.earliest_end, b.earliest_end), std::min(a.rank, b.rank)};
    }

    /// Depth first, the child with the better rank before the other: what it finds cuts the other off.
    std::uint32_t search(std::size_t top, std::uint32_t last, std::uint32_t found) {
        std::size_t open[64], count = 0;
        open[count++] = top;
        const auto worth = [&](std::size_t i) {
            return nodes_[i].earliest_end <= last && nodes_[i].rank < found;
        };
        while (count) {
            std::size_t i = open[--count];
            ++visits_;
            if (nodes_[i].rank >= found) continue;
            while (i != 0 && i < leaves_) {
                ++visits_;
                std::size_t better = 2 * i, other = better + 1;
                if (nodes_[other].rank < nodes_[better].rank) std::swap(better, other);
                if (worth(better)) {
                    if (worth(other)) open[count++] = other;
                    i = better;
                } else {
                    i = worth(other) ? other : 0;
                }
            }
            if (i) found = nodes_[i].rank;
        }
        return found;
    }

    const timeline& line_;
    std::size_t leaves_ = 1;
    std::vector<node> nodes_;
    std::uint64_t visits_ = 0;
};

} // namespace echo::arena
