// SPDX-License-Identifier: BSL-1.0
/// @file
/// `place_shaped`: offsets for buffers that have alignments of their own, and gaps in which they need less.
#pragma once

#include <echo/analysis/memory/arena/place.hpp>
#include <echo/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace echo::format {

/// What a buffer needs from time `begin` until before time `end`: its bytes from `low` until before `high`.
struct shape_span {
    std::uint64_t begin = 0, end = 0, low = 0, high = 0;
};

/// A buffer: its spans in the order of time, without overlap. One without spans needs nothing.
struct shape {
    std::vector<shape_span> spans{};
    std::uint64_t bytes = 0, align = 1;
};

namespace detail {

/// How far `above` must lie above `below` at least, if it lies above; nothing where they never live at once. O(spans).
inline std::optional<std::int64_t> distance(const shape& below, const shape& above) {
    std::optional<std::int64_t> most;
    for (std::size_t i = 0, j = 0; i < below.spans.size() && j < above.spans.size();) {
        const shape_span &a = below.spans[i], &b = above.spans[j];
        if (a.begin < b.end && b.begin < a.end) {
            const auto needed = static_cast<std::int64_t>(a.high) - static_cast<std::int64_t>(b.low);
            most = std::max(most.value_or(needed), needed);
        }
        ++(a.end < b.end ? i : j);
    }
    return most;
}

/// The largest sum of bytes at one time: no arena is smaller. O(n log n).
inline std::uint64_t load_of(std::span<const shape> items) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> changes; // time, bytes; negative ones wrap
    for (const shape& item : items)
        for (const shape_span& s : item.spans) {
            changes.emplace_back(s.begin, s.high - s.low);
            changes.emplace_back(s.end, s.low - s.high);
        }
    std::ranges::sort(changes, {}, [](const auto& c) { return c.first; });
    std::uint64_t now = 0, most = 0;
    for (std::size_t i = 0; i < changes.size();) {
        const std::uint64_t time = changes[i].first;
        for (; i < changes.size() && changes[i].first == time; ++i) now += changes[i].second;
        most = std::max(most, now);
    }
    return most;
}

/// First fit by several orders, the best of which is kept: longest life, most bytes, largest product; from there on
/// what ended above the bound comes earlier ("squeaky wheel" optimisation, Joslin and Clements 1999).
class shaped_placer {
public:
    explicit shaped_placer(std::span<const shape> items) : items_(items), weight_(items.size(), 0) {
        for (std::uint32_t i = 0; i < items.size(); ++i)
            if (!items[i].spans.empty()) order_.push_back(i);
    }

    /// Until the arena has at most `aim` bytes; three orders at least, then while fewer than `max_work` pairs were
    /// looked at. O(n^2) for each order.
    void run(std::uint64_t aim, std::uint64_t bound, std::uint64_t max_work) {
        constexpr std::size_t fixed = 3;
        for (std::size_t tried = 0; bytes_ > aim && (tried < fixed || work_ < max_work); ++tried) {
            weigh(tried, bound);
            std::ranges::stable_sort(order_, std::ranges::greater{}, [this](auto i) { return weight_[i]; });
            now_.assign(items_.size(), 0);
            std::uint64_t end = 0;
            for (std::size_t k = 0; k < order_.size(); ++k) end = std::max(end, put(k));
            if (end >= bytes_) continue;
            bytes_ = end;
            best_ = now_;
        }
    }

    const std::vector<std::uint64_t>& offsets() const noexcept { return best_; }
    std::uint64_t bytes() const noexcept { return bytes_; }

private:
    void weigh(std::size_t tried, std::uint64_t bound) {
        double largest = 0;
        for (const auto i : order_) {
            const shape& item = items_[i];
            const auto life = static_cast<double>(item.spans.back().end - item.spans.front().begin);
            const auto bytes = static_cast<double>(item.bytes);
            if (tried < 3)
                weight_[i] = tried == 0 ? life : tried == 1 ? bytes : life * bytes;
            else if (now_[i] + item.bytes > bound)
                weight_[i] *= 4;
            largest = std::max(largest, weight_[i]);
        }
        if (largest > 0x1p800)
            for (const auto i : order_) weight_[i] *= 0x1p-600;
    }

    /// Gives the item at position `k` of the order the lowest offset that those before it leave; where it ends.
    std::uint64_t put(std::size_t k) {
        const shape& item = items_[order_[k]];
        taken_.clear();
        for (std::size_t j = 0; j < k; ++j) {
            const shape& other = items_[order_[j]];
            const auto over = distance(other, item);
            if (!over) continue;
            const auto at = static_cast<std::int64_t>(now_[order_[j]]);
            taken_.emplace_back(at - *distance(item, other), at + *over);
        }
        work_ += k;
        std::ranges::sort(taken_);
        std::uint64_t offset = 0;
        for (const auto& [low, high] : taken_) { // offsets between the two are not free
            const auto here = static_cast<std::int64_t>(offset);
            if (here <= low) break; // and all others begin higher
            if (here < high)
                offset = (static_cast<std::uint64_t>(high) + item.align - 1) / item.align * item.align;
        }
        now_[order_[k]] = offset;
        return offset + item.bytes;
    }

    std::span<const shape> items_;
    std::vector<double> weight_;
    std::vector<std::uint32_t> order_;
    std::vector<std::uint64_t> now_, best_;
    std::vector<std::pair<std::int64_t, std::int64_t>> taken_; ///< from where to where an item cannot begin
    std::uint64_t bytes_ = ~std::uint64_t{0}, work_ = 0;
};

/// A number that all alignments divide; nothing where it is too large for offsets.
inline std::optional<std::uint64_t> common_alignment(std::span<const shape> items) {
    constexpr std::uint64_t most = std::uint64_t{1} << 40;
    std::uint64_t all = 1;
    for (const shape& item : items) {
        if (item.spans.empty()) continue;
        if (item.align > most) return std::nullopt;
        all = std::lcm(all, item.align);
        if (all > most) return std::nullopt;
    }
    return all;
}

/// Errors: offsets would not fit.
inline void check_sums(std::span<const shape> items) {
    constexpr std::uint64_t most = std::uint64_t{1} << 62;
    std::uint64_t sum = 0;
    for (const shape& item : items) {
        if (item.bytes > most || item.align > most || item.bytes + item.align > most - sum)
            throw error({}, "bytes", "sizes and alignments together exceed 2^62 bytes", "check them");
        sum += item.bytes + item.align;
    }
}

} // namespace detail

/// No two buffers share a byte that both need at one time, and every offset is a multiple of its buffer's alignment.
/// `whole`: the same buffers as intervals without gaps. Without alignments and gaps this is `arena::place`; else the
/// better of that, by a common alignment, and of first fit by several orders. Errors: as `arena::place`; sizes and
/// alignments that exceed 2^62 bytes together.
inline arena::placement place_shaped(std::span<const shape> items, std::span<const arena::interval> whole,
                                     const arena::place_options& options) {
    bool plain = true;
    for (std::size_t i = 0; i < items.size(); ++i) {
        const auto& spans = items[i].spans;
        plain = plain && (whole[i].bytes == 0 || (items[i].align == 1 && spans.size() == 1 &&
                                                  spans[0].high - spans[0].low == whole[i].bytes));
    }
    if (plain) return arena::place(whole, options);
    detail::check_sums(items);
    const auto align = detail::common_alignment(items);
    arena::place_options once = options;
    once.align = align.value_or(1);
    arena::placement made{.bytes = ~std::uint64_t{0}};
    if (align && *align <= (std::uint64_t{1} << 62) / (items.size() + 1)) made = arena::place(whole, once);
    made.bound = detail::load_of(items);
    const auto work = static_cast<std::uint64_t>(
        std::min(arena::work_per_second * options.limit, 1e18)); // pairs for moments: about the same work
    constexpr std::uint64_t most_pairs = 200'000'000;            // some seconds
    if (made.bytes != ~std::uint64_t{0} && items.size() * items.size() > most_pairs) return made;
    detail::shaped_placer placer(items);
    placer.run(std::min(std::max(options.enough, made.bound), made.bytes - 1), made.bound, work);
    if (placer.bytes() >= made.bytes) return made;
    made.bytes = placer.bytes();
    made.offsets = placer.offsets();
    return made;
}

} // namespace echo::format
