// SPDX-License-Identifier: BSL-1.0
/// @file
/// `busy_times`: when a copy engine is taken.
#pragma once

#include <echo/analysis/plan/decision/cost.hpp>

#include <algorithm>
#include <iterator>
#include <map>

namespace echo::detail {

/// Spans of time that do not overlap; those that touch are one.
class busy_times {
public:
    /// The earliest begin of a free span of `length`, not before `from`. O(spans behind it).
    ticks earliest(ticks from, ticks length) const {
        auto next = spans_.upper_bound(from);
        if (next != spans_.begin()) from = std::max(from, std::prev(next)->second);
        while (next != spans_.end() && next->first < from + length) {
            from = std::max(from, next->second);
            ++next;
        }
        return from;
    }
    /// The latest begin of a free span of `length` that ends by `end`; below 0 where there is none. O(spans before it).
    ticks latest(ticks end, ticks length) const {
        auto next = spans_.lower_bound(end);
        while (next != spans_.begin()) {
            const auto before = std::prev(next);
            if (before->second <= end - length) break;
            end = std::min(end, before->first);
            next = before;
        }
        return end - length;
    }
    /// Takes a free span. O(log spans).
    void take(ticks from, ticks length) {
        ticks end = from + length;
        if (length == 0) return;
        auto next = spans_.lower_bound(from);
        if (next != spans_.end() && next->first == end) {
            end = next->second;
            next = spans_.erase(next);
        }
        if (next != spans_.begin() && std::prev(next)->second == from)
            std::prev(next)->second = end;
        else
            spans_.emplace_hint(next, from, end);
    }
    /// Frees a span that was taken. O(log spans).
    void give_back(ticks from, ticks length) {
        if (length == 0) return;
        const auto behind = spans_.upper_bound(from);
        if (behind == spans_.begin()) return;
        const auto whole = std::prev(behind);
        const ticks begin = whole->first, end = whole->second;
        spans_.erase(whole);
        if (begin < from) spans_.emplace(begin, from);
        if (from + length < end) spans_.emplace(from + length, end);
    }
    /// Forgets all.
    void clear() noexcept { spans_.clear(); }

private:
    std::map<ticks, ticks> spans_; ///< begin: end
};

} // namespace echo::detail
