// SPDX-License-Identifier: BSL-1.0
/// @file
/// Strong 32-bit indices: a node is not a value and neither is a step.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace echo {

/// An index that only compares with its own kind. `none()` is the largest, for "no such thing".
template <class Tag>
class strong_id {
public:
    constexpr strong_id() = default;
    constexpr explicit strong_id(std::size_t index) noexcept : index_(static_cast<std::uint32_t>(index)) {}
    static constexpr strong_id none() noexcept { return strong_id(); }
    static constexpr std::size_t limit() noexcept { return std::numeric_limits<std::uint32_t>::max(); }

    constexpr std::uint32_t index() const noexcept { return index_; }
    constexpr bool valid() const noexcept { return index_ != std::numeric_limits<std::uint32_t>::max(); }
    /// The id behind this one.
    constexpr strong_id next() const noexcept { return strong_id(std::size_t{index_} + 1); }
    friend constexpr auto operator<=>(strong_id, strong_id) = default;

private:
    std::uint32_t index_ = std::numeric_limits<std::uint32_t>::max();
};

using node_id = strong_id<struct node_tag>;       ///< a node of the snapshot, in the host's execution order
using value_id = strong_id<struct value_tag>;     ///< one output of one node
using step_id = strong_id<struct step_tag>;       ///< one step of a schedule
using storage_id = strong_id<struct storage_tag>; ///< one storage of a schedule

/// A half-open run of consecutive ids, e.g. the outputs of a node.
template <class Id>
class id_range {
public:
    class iterator {
    public:
        using value_type = Id;
        using difference_type = std::ptrdiff_t;
        constexpr iterator() = default;
        constexpr explicit iterator(std::size_t at) noexcept : at_(at) {}
        constexpr Id operator*() const noexcept { return Id(at_); }
        constexpr iterator& operator++() noexcept {
            ++at_;
            return *this;
        }
        constexpr iterator operator++(int) noexcept { return iterator(at_++); }
        friend constexpr bool operator==(iterator, iterator) = default;

    private:
        std::size_t at_ = 0;
    };

    constexpr id_range(std::size_t first, std::size_t last) noexcept : first_(first), last_(last) {}
    constexpr iterator begin() const noexcept { return iterator(first_); }
    constexpr iterator end() const noexcept { return iterator(last_); }
    constexpr std::size_t size() const noexcept { return last_ - first_; }
    constexpr bool empty() const noexcept { return first_ == last_; }
    constexpr Id operator[](std::size_t at) const noexcept { return Id(first_ + at); }

private:
    std::size_t first_, last_;
};

} // namespace echo

template <class Tag>
struct std::hash<echo::strong_id<Tag>> {
    std::size_t operator()(echo::strong_id<Tag> id) const noexcept { return id.index(); }
};
