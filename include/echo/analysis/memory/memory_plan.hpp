// SPDX-License-Identifier: BSL-1.0
/// @file
/// `memory_plan`: an offset in one arena, or in several, for every storage of a schedule, as a value. Made by
/// `plan_memory` (plan_memory.hpp); hosts read offsets from it, files and `verify` its blocks.
///
/// Several arenas are numbered through as if they lay end to end: one run of offsets is enough to say what
/// overlaps, to write a file and to check it. `where` splits an offset into the arena and the offset in it.
#pragma once

#include <echo/analysis/schedule/schedule.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace echo {

/// Where one storage lies. All in bytes.
struct memory_block {
    copy_id maker{};          ///< the step, and its output, that made the storage
    std::uint64_t offset = 0; ///< in all arenas, end to end
    std::uint64_t bytes = 0;  ///< reserved: at least the storage's own
    std::uint32_t arena = 0;  ///< the one that holds the block
    friend bool operator==(const memory_block&, const memory_block&) = default;
};

/// One of several arenas. All in bytes.
struct memory_arena {
    /// Its first offset where all arenas are numbered through: a multiple of `align`.
    std::uint64_t first = 0;
    std::uint64_t bytes = 0;    ///< what is needed of it
    std::uint64_t capacity = 0; ///< what it may have
    friend bool operator==(const memory_arena&, const memory_arena&) = default;
};

/// A place in one arena.
struct memory_place {
    /// Which of the arenas.
    std::uint32_t arena = 0;
    std::uint64_t offset = 0; ///< bytes from the arena's own first
    friend bool operator==(const memory_place&, const memory_place&) = default;
};

namespace detail {
/// Where the copy stands among all of a plan's, by `memory_plan_parts::first_copy`; empty for one that the plan does
/// not have. O(1).
inline std::optional<std::size_t> position_of(std::span<const std::uint32_t> first_copy,
                                              copy_id copy) noexcept {
    const std::size_t t = copy.step.index();
    if (t + 1 >= first_copy.size() || copy.output >= first_copy[t + 1] - first_copy[t]) return std::nullopt;
    return std::size_t{first_copy[t]} + copy.output;
}
} // namespace detail

/// What a memory plan consists of, open to change: how one is built, read from a file, or spoilt in a test.
struct memory_plan_parts {
    std::vector<memory_block> blocks{}; ///< one per non-resident storage of more than 0 bytes, by maker
    std::uint64_t bytes = 0;            ///< size of the arena; of several, where the last one in use ends
    std::uint64_t align = 1;            ///< every offset is a multiple of it
    std::uint64_t lower_bound = 0;      ///< largest unpadded live sum over the steps, workspace left out
    /// The offset of each copy, those of step t at `[first_copy[t], first_copy[t + 1])`; `no_offset` for a
    /// copy on resident storage, and for one that a fused step makes.
    std::vector<std::uint64_t> offsets{};
    /// By step, and one more at the end: where its copies stand in `offsets`.
    std::vector<std::uint32_t> first_copy{0};
    std::vector<memory_arena> arenas{}; ///< empty: one, without a capacity
    /// Of a copy that has no place in an arena.
    static constexpr std::uint64_t no_offset = ~std::uint64_t{0};
    friend bool operator==(const memory_plan_parts&, const memory_plan_parts&) = default;
};

/// Two memory plans are equal if all their parts are.
class memory_plan {
public:
    memory_plan() = default;
    /// Requires blocks sorted by maker. Nothing else is checked here: that is what `verify` is for.
    explicit memory_plan(memory_plan_parts parts) : parts_(std::move(parts)) {}

    /// Sorted by step, then output. Workspace and resident storages lie outside the arena.
    std::span<const memory_block> blocks() const noexcept { return parts_.blocks; }
    /// Size of the arena; of several, where the last one in use ends.
    std::uint64_t bytes() const noexcept { return parts_.bytes; }
    /// Every offset is a multiple of it.
    std::uint64_t align() const noexcept { return parts_.align; }
    /// No arena for these steps can be smaller.
    std::uint64_t lower_bound() const noexcept { return parts_.lower_bound; }

    /// Offset of the storage that the copy lies on: a view's and an in-place result's is its base's; 0 if the storage
    /// has no bytes. Empty for a copy on resident storage, for one that a fused step makes, and for one that the
    /// schedule does not have. O(1).
    std::optional<std::uint64_t> offset(copy_id copy) const noexcept {
        const auto position = detail::position_of(parts_.first_copy, copy);
        if (!position || parts_.offsets[*position] == memory_plan_parts::no_offset) return std::nullopt;
        return parts_.offsets[*position];
    }
    /// The offset of an output of a step. Empty and O(1) as above.
    std::optional<std::uint64_t> offset(step_id step, std::uint32_t output = 0) const noexcept {
        return offset(copy_id{step, output});
    }

    /// The arenas in the order of the capacities asked for; empty where none was.
    std::span<const memory_arena> arenas() const noexcept { return parts_.arenas; }
    /// The arena that the copy lies in, and its offset there; empty as `offset`. O(arenas).
    std::optional<memory_place> where(copy_id copy) const noexcept {
        const auto at = offset(copy);
        if (!at) return std::nullopt;
        std::uint32_t arena = 0;
        while (arena + std::size_t{1} < parts_.arenas.size() && parts_.arenas[arena + 1].first <= *at)
            ++arena;
        return memory_place{arena, *at - (parts_.arenas.empty() ? 0 : parts_.arenas[arena].first)};
    }

    /// All of it, open to reading.
    const memory_plan_parts& parts() const noexcept { return parts_; }

    friend bool operator==(const memory_plan&, const memory_plan&) = default;

private:
    memory_plan_parts parts_;
};

} // namespace echo
