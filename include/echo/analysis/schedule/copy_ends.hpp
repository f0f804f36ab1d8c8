// SPDX-License-Identifier: BSL-1.0
/// @file
/// `copy_ends`: where copies end that others are written over, in place.
#pragma once

#include <echo/graph/id_vector.hpp>
#include <echo/graph/ids.hpp>
#include <echo/graph/large_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace echo::detail {

/// Copies are named by their position among all copies of a schedule.
class copy_ends {
public:
    /// Forgets all; the memory is kept.
    void clear() noexcept {
        ends_.clear();
        content_.clear();
    }
    /// The step that writes over the copy; `step_id::none()` if no step does. O(1).
    step_id operator[](std::size_t copy) const { return copy < ends_.size() ? ends_[copy] : step_id::none(); }
    /// Step `by` writes copy `made` over what lies on storage `i`; where nothing has been written there before, that is
    /// copy `maker`. O(1), but for growing.
    void write(storage_id i, std::size_t maker, std::size_t made, step_id by) {
        if (content_.size() <= i.index()) content_.resize(i.index() + 1, nothing);
        const std::size_t before = content_[i] == nothing ? maker : content_[i];
        if (ends_.size() <= before) ends_.resize(before + 1, step_id::none());
        ends_[before] = by;
        content_[i] = static_cast<std::uint32_t>(made);
    }

private:
    static constexpr std::uint32_t nothing = ~std::uint32_t{0};
    detail::large_vector<step_id> ends_;             ///< per copy, as far as there are any
    id_vector<storage_id, std::uint32_t> content_{}; ///< per storage: the copy that was written on it last
};

} // namespace echo::detail
