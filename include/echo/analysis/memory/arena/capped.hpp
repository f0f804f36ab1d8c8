// SPDX-License-Identifier: BSL-1.0
/// @file
/// `place_capped`: intervals into several arenas, none larger than its capacity.
#pragma once

#include <echo/analysis/memory/arena/place.hpp>
#include <echo/analysis/memory/arena/timeline.hpp>
#include <echo/graph/ranking.hpp>

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace echo::arena {

/// Where intervals lie in several arenas. All in bytes.
struct capped_placement {
    static constexpr std::uint32_t nowhere = std::numeric_limits<std::uint32_t>::max();
    std::vector<std::uint32_t> arenas{};  ///< one per interval; `nowhere`: no room was found
    std::vector<std::uint64_t> offsets{}; ///< within the arena; 0 where there is none
    std::uint64_t left_over = 0;          ///< sum of what has no room
};

/// Fills one arena after the other: of what is left, as much is chosen as the capacity can be loaded with, and
/// placed; what then ends above the capacity is left to the arenas that follow, as is what was not chosen.
/// Intervals and capacities (bytes) must outlive it.
class capped_placer {
public:
    /// Nothing is placed yet. The search's limit is shared out among the ways of choosing.
    capped_placer(std::span<const interval> items, std::span<const std::uint64_t> capacities,
                  const place_options& options)
        : items_(items), capacities_(capacities), options_(options) {
        options_.limit = options.limit / orders;
    }

    /// The first way of choosing that leaves nothing over; else the first of those that leave the least. Errors: as
    /// `place_capped`.
    capped_placement run() {
        capped_placement best;
        for (std::uint32_t order = 0; order < orders; ++order) {
            capped_placement made = fill(order);
            if (order == 0 || made.left_over < best.left_over) best = std::move(made);
            if (best.left_over == 0) break;
        }
        return best;
    }

private:
    /// What is chosen first: most bytes × life; most bytes; longest life. The last way places all that is left
    /// and splits it at the capacity.
    static constexpr std::uint32_t orders = 4, split = 3;

    /// The capacity where every block counts as whole alignment units. Offsets tell whether it is kept.
    std::uint64_t padded(std::uint64_t capacity) const {
        const std::uint64_t rest = options_.align ? capacity % options_.align : 0;
        const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
        return rest && capacity <= most - options_.align ? capacity - rest + options_.align : capacity;
    }

    capped_placement fill(std::uint32_t order) {
        capped_placement made{.arenas = std::vector<std::uint32_t>(items_.size(), capped_placement::nowhere),
                              .offsets = std::vector<std::uint64_t>(items_.size(), 0)};
        std::vector<std::uint32_t> left = sorted(order);
        for (std::uint32_t k = 0; k < capacities_.size() && !left.empty(); ++k) {
            put(order == split ? left : choose(left, padded(capacities_[k])), k, made);
            left = waiting(left, made);
        }
        for (const auto i : left) made.left_over += items_[i].bytes;
        return made;
    }

    std::vector<std::uint32_t> sorted(std::uint32_t order) const {
        echo::detail::ranking by_weight;
        by_weight.reserve(items_.size());
        for (std::uint32_t i = 0; i < items_.size(); ++i) {
            const interval& x = items_[i];
            const double life = x.last - x.first + 1.0, bytes = static_cast<double>(x.bytes);
            const double weights[orders] = {life * bytes, bytes, life, 1};
            by_weight.add(i, weights[order]);
        }
        return by_weight.descending();
    }

    /// Those of `from`, in turn, with which the load does not exceed the capacity. O(n log n + all lives).
    std::vector<std::uint32_t> choose(const std::vector<std::uint32_t>& from, std::uint64_t capacity) const {
        std::vector<interval> items;
        for (const auto i : from) items.push_back(items_[i]);
        const timeline line(items, options_.align);
        for (auto& x : items) x.bytes = 0;
        for (std::uint32_t j = 0; j < line.size(); ++j) items[line.origin(j)] = line[j]; // padded
        std::vector<std::uint64_t> load(line.times(), 0);
        std::vector<std::uint32_t> chosen;
        for (std::size_t i = 0; i < from.size(); ++i) {
            const interval& x = items[i];
            bool fits = x.bytes <= capacity;
            if (x.bytes)
                for (std::uint32_t t = x.first; fits && t <= x.last; ++t)
                    fits = load[t] <= capacity - x.bytes;
            if (!fits) continue;
            if (x.bytes)
                for (std::uint32_t t = x.first; t <= x.last; ++t) load[t] += x.bytes;
            chosen.push_back(from[i]);
        }
        return chosen;
    }

    /// Places items in arena k; those that end above its capacity stay nowhere.
    void put(const std::vector<std::uint32_t>& which, std::uint32_t k, capped_placement& made) const {
        std::vector<interval> items;
        for (const auto i : which) items.push_back(items_[i]);
        place_options options = options_;
        options.enough = padded(capacities_[k]);
        const auto placed = place(items, options);
        for (std::size_t i = 0; i < which.size(); ++i) {
            const std::uint64_t end = placed.offsets[i] + items[i].bytes;
            if (end > capacities_[k]) continue;
            made.arenas[which[i]] = k;
            made.offsets[which[i]] = placed.offsets[i];
        }
    }

    static std::vector<std::uint32_t> waiting(const std::vector<std::uint32_t>& which,
                                              const capped_placement& made) {
        std::vector<std::uint32_t> left;
        for (const auto i : which)
            if (made.arenas[i] == capped_placement::nowhere) left.push_back(i);
        return left;
    }

    std::span<const interval> items_;
    std::span<const std::uint64_t> capacities_;
    place_options options_;
};

/// As `place`, for arenas of these capacities, in bytes and in the order of preference; `options.enough` is not
/// used. Where no room is found for some intervals, they are `nowhere`: this is a search, not a proof.
/// Deterministic. At most four ways are tried; each takes, per arena, O(n log n + all lives in moments) and a
/// `place` with a quarter of `options.limit`. Errors: as `place`, unless there are no intervals or no arenas.
[[nodiscard]] inline capped_placement place_capped(std::span<const interval> items,
                                                   std::span<const std::uint64_t> capacities,
                                                   const place_options& options = {}) {
    return capped_placer(items, capacities, options).run();
}

} // namespace echo::arena
