// SPDX-License-Identifier: BSL-1.0
/// @file
/// `ranking`: sorting by a number, once for all of Echo. A sort of every record type of its own would be a tenth of
/// the cost of including the library.
#pragma once

#include <echo/config.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace echo::detail {

/// Indices ordered by a key, among equal keys by a second one, then by index: a total order, so a deterministic one.
class ranking {
public:
    /// Room for so many entries, so that `add` takes no memory.
    void reserve(std::size_t size) { entries_.reserve(size); }
    /// One more entry. Ties of `key` are broken by `second`, and then by the index. O(1) amortised.
    void add(std::uint32_t index, std::uint64_t key, std::uint64_t second = 0) {
        entries_.push_back({key, second, index});
    }
    /// `key` of 0 or more: the bits of such doubles are ordered as the doubles are.
    void add(std::uint32_t index, double key, std::uint64_t second = 0) {
        add(index, std::bit_cast<std::uint64_t>(key), second);
    }

    /// Largest first. O(n log n).
    std::vector<std::uint32_t> descending() {
        std::sort(entries_.begin(), entries_.end(), is_larger{});
        std::vector<std::uint32_t> order;
        order.reserve(entries_.size());
        for (const entry& e : entries_) order.push_back(e.index);
        return order;
    }

    /// What `take` gives is known once this was called; nothing is added after it. O(n).
    void begin_taking() { std::make_heap(entries_.begin(), entries_.end(), is_smaller{}); }
    /// Whether all were taken. O(1).
    bool empty() const noexcept { return entries_.empty(); }
    /// The largest that was not taken yet, where there is one. O(log n): for who needs only some of many.
    std::uint32_t take() {
        std::pop_heap(entries_.begin(), entries_.end(), is_smaller{});
        const std::uint32_t index = entries_.back().index;
        entries_.pop_back();
        return index;
    }

private:
    struct entry {
        std::uint64_t key, second;
        std::uint32_t index;
    };
    struct is_larger {
        bool operator()(const entry& a, const entry& b) const {
            if (a.key != b.key) return a.key > b.key;
            return a.second != b.second ? a.second > b.second : a.index < b.index;
        }
    };
    struct is_smaller {
        bool operator()(const entry& a, const entry& b) const { return is_larger{}(b, a); }
    };
    std::vector<entry> entries_;
};

} // namespace echo::detail
