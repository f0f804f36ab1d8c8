// SPDX-License-Identifier: BSL-1.0
/// @file
/// `plan_memory`: lays the storages of a plan out in one arena. Which values share a storage (views, writes
/// in place, accumulated gradients) is settled before, by the liveness analysis; where storages lie is
/// settled by the solvers in arena/.
#pragma once

#include <echo/analysis/arena/place.hpp>
#include <echo/analysis/liveness.hpp>
#include <echo/analysis/memory_plan.hpp>
#include <echo/analysis/plan.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace echo {

/// Options of `plan_memory`, in bytes.
struct memory_options {
    std::uint64_t align = 1;       ///< every offset is a multiple of it
    std::uint64_t granularity = 1; ///< the size of every block is a multiple of it
};

namespace detail {

inline std::uint64_t whole_granules(std::uint64_t bytes, std::uint64_t granularity) {
    const std::uint64_t rest = bytes % granularity;
    const auto whole = checked_add(bytes, rest ? granularity - rest : 0);
    if (!whole) throw error({}, "granularity", "a block does not fit in 64 bits", "give a smaller one");
    return *whole;
}

/// Largest sum of bytes of storages that are not resident, over the steps. The bytes as they are: no padding.
inline std::uint64_t largest_load(const liveness& live, std::size_t steps) {
    std::vector<std::uint64_t> change(steps + 1, 0);
    for (const auto i : live.storages()) {
        if (live[i].resident) continue;
        change[live[i].first.index()] += live[i].bytes;
        change[live[i].last.index() + std::size_t{1}] -= live[i].bytes; // wraps; the running sum does not
    }
    std::uint64_t now = 0, most = 0;
    for (const auto c : change) most = std::max(most, now += c);
    return most;
}

/// The offset of each copy, from that of its storage.
inline void lay_copies(const snapshot& s, const schedule& steps, const liveness& live,
                       const std::vector<std::uint64_t>& of_storage, memory_plan_parts& parts) {
    parts.offsets.reserve(live.copy_count());
    parts.first_copy.reserve(steps.size() + 1);
    for (const auto t : steps.steps()) {
        for (std::uint32_t k = 0; k < copy_count(s, steps[t]); ++k) {
            const storage_id i = live.storage({t, k});
            parts.offsets.push_back(i.valid() ? of_storage[i.index()] : memory_plan_parts::no_offset);
        }
        parts.first_copy.push_back(static_cast<std::uint32_t>(parts.offsets.size()));
    }
}

} // namespace detail

/// An offset for every storage that is not resident, so that no two which are live at one step overlap.
/// Workspace lies outside the arena. The arena is as small as `lower_bound()` on most training graphs, and
/// never further from it than the best of the methods tried (arena/place.hpp). Deterministic. Errors: an
/// alignment or granularity of 0, sizes that do not fit, and those of `liveness_analysis`.
/// O(steps + copies + n log n) for n storages.
inline memory_plan plan_memory(const snapshot& s, const schedule& steps, const memory_options& options = {}) {
    if (!options.granularity) throw error({}, "granularity", "is 0", "give 1 or more");
    liveness_analysis analyse;
    const liveness& live = analyse(s, steps);

    std::vector<arena::interval> reserved;
    memory_plan_parts parts{.align = options.align};
    std::vector<storage_id> placed;
    for (const auto i : live.storages()) {
        const storage_record& storage = live[i];
        if (storage.resident || !storage.bytes) continue;
        placed.push_back(i);
        reserved.push_back({storage.first.index(), storage.last.index(),
                            detail::whole_granules(storage.bytes, options.granularity)});
    }
    const auto offsets = arena::place(reserved, options.align);
    parts.bytes = arena::extent(reserved, offsets);
    parts.lower_bound = detail::largest_load(live, steps.size());

    std::vector<std::uint64_t> of_storage(live.storage_count(), 0);
    for (const auto i : live.storages())
        if (live[i].resident) of_storage[i.index()] = memory_plan_parts::no_offset;
    parts.blocks.reserve(placed.size());
    for (std::size_t i = 0; i < placed.size(); ++i) { // storages are numbered in the order of their makers
        of_storage[placed[i].index()] = offsets[i];
        parts.blocks.push_back({live[placed[i]].maker, offsets[i], reserved[i].bytes});
    }
    detail::lay_copies(s, steps, live, of_storage, parts);
    return memory_plan(std::move(parts));
}

inline memory_plan plan_memory(const snapshot& s, const plan& p, const memory_options& options = {}) {
    return plan_memory(s, p.steps(), options);
}

} // namespace echo
