// SPDX-License-Identifier: BSL-1.0
/// @file
/// `room_under`: where a plan has room under a limit on its peak, as it would be after changes that have not been
/// replayed.
#pragma once

#include <echo/analysis/schedule/load_profile.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace echo::detail {

/// All in bytes. O(steps) memory.
class room_under {
public:
    /// `load`: live bytes at each step. O(steps).
    room_under(std::uint64_t limit, std::span<const std::uint64_t> load)
        : profile_(load), limit_(static_cast<std::int64_t>(limit)), fullest_(profile_.peak()) {}

    /// Whether so many bytes more at the steps `first` to `last` stay under the limit; where there are no such steps,
    /// whether the bytes alone do. O(1) where the fullest step is among them, since that step decides then; else
    /// O(log steps).
    bool has(std::size_t first, std::size_t last, std::int64_t bytes) const {
        const bool over_fullest = first <= fullest_ && fullest_ <= last;
        return (over_fullest ? profile_.most() : profile_.most(first, last)) + bytes <= limit_;
    }
    /// Takes so many bytes at the steps `first` to `last`; less than 0 gives them back. O(log steps).
    void take(std::size_t first, std::size_t last, std::int64_t bytes) {
        profile_.add(first, last, bytes);
        fullest_ = profile_.peak();
    }

private:
    load_profile profile_;
    std::int64_t limit_;
    std::size_t fullest_; ///< the step of the highest load
};

} // namespace echo::detail
