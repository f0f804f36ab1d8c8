// SPDX-License-Identifier: BSL-1.0
/// @file
/// `place`: an offset for each of a set of intervals, in as small an arena as a given effort finds. How, and why
/// the limit is not read off a clock, is said in arena/anytime.hpp.
#pragma once

#include <echo/analysis/memory/arena/anytime.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace echo::arena {

/// Options of `place`.
struct place_options {
    std::uint64_t align = 1;  ///< every offset is a multiple of it; bytes
    double limit = 0.2;       ///< seconds of search beyond the greedy orders, on the machine of anytime.hpp
    std::uint64_t enough = 0; ///< the search ends with an arena of at most so many bytes
};

/// Where intervals lie. All in bytes.
struct placement {
    std::vector<std::uint64_t> offsets{}; ///< one per interval, in the order given; 0 for one of 0 bytes
    std::uint64_t bytes = 0;              ///< size of the arena: the largest offset + bytes
    std::uint64_t bound = 0;              ///< no arena is smaller: the load, or more where that was proven
    friend bool operator==(const placement&, const placement&) = default;
};

namespace detail {

/// Units of `section_search::work` for so many seconds. Errors: negative, or no number.
inline std::uint64_t work_of(double seconds) {
    if (!(seconds >= 0)) throw error({}, "limit", "is negative or no number", "give seconds, 0 or more");
    constexpr double most = 1e18;
    const double work = seconds * work_per_second;
    return static_cast<std::uint64_t>(work < most ? work : most);
}

/// The most bytes that rounding up to `align` adds to one of the intervals. O(n).
inline std::uint64_t most_padding(std::span<const interval> items, std::uint64_t align) {
    std::uint64_t most = 0;
    for (const interval& item : items) most = std::max(most, (align - item.bytes % align) % align);
    return most;
}

} // namespace detail

/// No two intervals alive at one time overlap. The arena's size depends on the set of intervals alone, not on
/// their order; offsets depend on nothing else than the input. O(n log n) time at limit 0, O(n log n + work)
/// beyond; O(n) memory, no recursion. Errors: as `timeline`; a limit that is negative or NaN.
[[nodiscard]] inline placement place(std::span<const interval> items, const place_options& options = {}) {
    const std::uint64_t max_work = detail::work_of(options.limit);
    const timeline line(items, options.align);
    placement made{.offsets = std::vector<std::uint64_t>(items.size(), 0)};
    if (line.size() == 0) return made;
    anytime_placer placer(line, options.enough);
    placer.run(max_work);
    for (std::size_t i = 0; i < line.size(); ++i) made.offsets[line.origin(i)] = placer.offsets()[i];
    made.bytes = extent(items, made.offsets);
    made.bound = placer.bound();
    // That is of intervals that are rounded up; the one that lies highest is not.
    if (const std::uint64_t padding = detail::most_padding(items, options.align); padding > 0)
        made.bound = std::max(peak_load(items), made.bound - std::min(made.bound, padding));
    return made;
}

} // namespace echo::arena
