// SPDX-License-Identifier: BSL-1.0
/// @file
/// Strong 32-bit indices: a node is not a value and neither is a step.
#pragma once

#include <echo/config.hpp>

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
    /// The id of that position. `index` is below `limit()`.
    constexpr explicit strong_id(std::size_t index) noexcept : index_(static_cast<std::uint32_t>(index)) {}
    /// What names nothing.
    static constexpr strong_id none() noexcept { return strong_id(); }
    /// One more than the largest index that an id can have.
    static constexpr std::size_t limit() noexcept { return std::numeric_limits<std::uint32_t>::max(); }

    /// The position that it stands for.
    constexpr std::uint32_t index() const noexcept { return index_; }
    /// Whether it names something.
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
    /// Goes over the ids of a range.
    class iterator {
    public:
        using value_type = Id;                  ///< What it points to.
        using difference_type = std::ptrdiff_t; ///< For algorithms of the standard library.
        constexpr iterator() = default;
        /// Points to the id of that position.
        constexpr explicit iterator(std::size_t at) noexcept : at_(at) {}
        /// The id.
        constexpr Id operator*() const noexcept { return Id(at_); }
        /// On to the next id.
        constexpr iterator& operator++() noexcept {
            ++at_;
            return *this;
        }
        /// On to the next id; gives the place before.
        constexpr iterator operator++(int) noexcept { return iterator(at_++); }
        friend constexpr bool operator==(iterator, iterator) = default;

    private:
        std::size_t at_ = 0;
    };

    /// Ids from `first` on, until before `last`.
    constexpr id_range(std::size_t first, std::size_t last) noexcept : first_(first), last_(last) {}
    /// The first id.
    constexpr iterator begin() const noexcept { return iterator(first_); }
    /// Behind the last id.
    constexpr iterator end() const noexcept { return iterator(last_); }
    /// How many ids there are.
    constexpr std::size_t size() const noexcept { return last_ - first_; }
    /// Whether there is none.
    constexpr bool empty() const noexcept { return first_ == last_; }
    /// The id at that place of the range, which must be one of it.
    constexpr Id operator[](std::size_t at) const noexcept { return Id(first_ + at); }

private:
    std::size_t first_, last_;
};

} // namespace echo

/// Ids are keys of hashed containers.
template <class Tag>
struct std::hash<echo::strong_id<Tag>> {
    /// The position itself. O(1).
    std::size_t operator()(echo::strong_id<Tag> id) const noexcept { return id.index(); }
};
