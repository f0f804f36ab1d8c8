// SPDX-License-Identifier: BSL-1.0
/// @file
/// `anytime_placer`: the best placement that a given amount of work finds.
///
/// The greedy orders come first, whatever the limit. Then, in passes of which each may work twice as much as
/// the one before, the exact search (section_search.hpp) is asked for an arena as small as the bound, and
/// between the bound and the best arena known by bisection, where what was not found within the pass's share
/// counts as too small. What it proves raises the bound. All ends when the arena is as small as the bound.
///
/// The limit is work, not time: the same input with the same limit gives the same placement on every machine
/// and however busy it is. A second stands for `work_per_second` moments and items looked at, what a core of
/// a server of 2023 does in one, give or take a half; no clock is read. A larger limit only carries the same
/// search further, so it never gives a larger arena.
#pragma once

#include <echo/analysis/memory/arena/greedy.hpp>
#include <echo/analysis/memory/arena/search_orders.hpp>
#include <echo/analysis/memory/arena/section_search.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace echo::arena {

/// Units of `section_search::work` that a second of a limit stands for; see above.
inline constexpr double work_per_second = 150e6;

/// Skylines tried for n intervals whatever the limit: what some milliseconds allow.
constexpr std::size_t greedy_tries(std::size_t n) noexcept {
    const std::size_t tries = 2 + 15'000 / (n ? n : 1);
    return tries < 64 ? tries : 64;
}

/// The largest; of 0 and a number, that number. The standard library has one, at the price of including it.
constexpr std::uint64_t common_divisor(std::uint64_t a, std::uint64_t b) noexcept {
    while (b) {
        const std::uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/// Greedy orders, then exact search, as said above. O(n) memory. The timeline must outlive it.
class anytime_placer {
public:
    /// `enough`: an arena of so many bytes will do.
    anytime_placer(const timeline& line, std::uint64_t enough)
        : line_(line), greedy_(line), enough_(enough), bound_(line.load()) {
        for (const auto& x : line.items()) unit_ = common_divisor(unit_, x.bytes);
        questions_ = std::max<std::uint64_t>(4 * line.size(), 1000);
    }

    /// Greedy orders, then search until `max_work` is done, in units of `section_search::work`; of many items, the
    /// search over orders may go beyond that by its share of one pass. Call once. O(n log n + max_work).
    void run(std::uint64_t max_work) {
        greedy_.run(aim(), greedy_tries(line_.size()), ~std::uint64_t{0});
        keep(greedy_.bytes(), greedy_.offsets());
        if (bytes_ <= aim() || max_work == 0) return;
        exact_search search(line_);
        const std::uint64_t before = greedy_.work();
        for (std::uint64_t share = first_share; bytes_ > aim(); share *= 2) {
            if (line_.size() > many) {
                greedy_.run(aim(), ~std::size_t{0}, greedy_.work() + share);
                keep(greedy_.bytes(), greedy_.offsets());
            }
            questions_ += questions_ / 4;
            const std::uint64_t spent = greedy_.work() - before;
            work_ = spent + search.sections.work();
            if (work_ >= max_work) return;
            const bool goes_on = pass(search, share, max_work - spent);
            work_ = spent + search.sections.work();
            if (!goes_on) return;
        }
    }

    /// After `run`: one per item of the timeline, in bytes.
    const std::vector<std::uint64_t>& offsets() const noexcept { return offsets_; }
    /// After `run`: the size of the arena.
    std::uint64_t bytes() const noexcept { return bytes_; }
    /// Bytes; no arena is smaller.
    std::uint64_t bound() const noexcept { return bound_; }
    /// After `run`: what was done behind the greedy orders, in the units of its limit.
    std::uint64_t work() const noexcept { return work_; }

private:
    static constexpr std::uint64_t first_share = 500'000;
    static constexpr std::size_t many = 4096; ///< items, from which on the search over orders goes on, too

    struct exact_search {
        explicit exact_search(const timeline& line) : sections(line), orders(line) {}
        section_search sections;
        search_orders orders;
    };

    std::uint64_t aim() const noexcept { return enough_ > bound_ ? enough_ : bound_; }

    void keep(std::uint64_t bytes, std::span<const std::uint64_t> offsets) {
        if (bytes >= bytes_) return;
        bytes_ = bytes;
        offsets_.assign(offsets.begin(), offsets.end());
    }

    /// One share for each capacity tried. False if `max_work` is spent.
    bool pass(exact_search& search, std::uint64_t share, std::uint64_t max_work) {
        std::uint64_t low = aim(); // too small, as far as is known
        for (std::uint64_t capacity = low; bytes_ > aim();) {
            // Most often the bound is reached if anything is: it gets twice the share.
            if (!attempt(search, capacity, capacity == aim() ? 2 * share : share, max_work)) return false;
            if (bytes_ > capacity) low = capacity;
            const std::uint64_t step = (bytes_ - aim()) / 8;
            if (bytes_ - low <= step + unit_) break;
            // Every arena without gaps is a whole number of units. `bytes_` is one, and lies more than a unit above
            // `low`: between them there is another.
            capacity = low + (bytes_ - low) / 2;
            capacity -= capacity % unit_;
        }
        return true;
    }

    /// False if `max_work` is spent.
    bool attempt(exact_search& search, std::uint64_t capacity, std::uint64_t share, std::uint64_t max_work) {
        section_search& sections = search.sections;
        const std::uint64_t end = share < max_work - sections.work() ? sections.work() + share : max_work;
        while (sections.work() < end) {
            const auto rank = search.orders.next();
            const auto found = sections.run(capacity, rank, search.orders.prices(), questions_, end);
            if (found == verdict::fits) keep(extent(line_.items(), sections.offsets()), sections.offsets());
            if (found == verdict::cannot_fit)
                bound_ = capacity - capacity % unit_ + unit_; // the next whole number
            if (found != verdict::stopped) break;
        }
        return sections.work() < max_work;
    }

    const timeline& line_;
    greedy_placer greedy_;
    std::uint64_t enough_, bound_;
    std::uint64_t work_ = 0;
    std::uint64_t unit_ = 0;      ///< bytes that divide the size of every item
    std::uint64_t questions_ = 0; ///< after which the exact search starts afresh
    std::uint64_t bytes_ = std::numeric_limits<std::uint64_t>::max();
    std::vector<std::uint64_t> offsets_;
};

} // namespace echo::arena
