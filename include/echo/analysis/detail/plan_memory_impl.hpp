// SPDX-License-Identifier: BSL-1.0
/// @file
/// What `plan_memory` does with the liveness and the solvers of arena/. `echo::core` compiles it once.
#pragma once

#include <echo/analysis/memory/arena/capped.hpp>
#include <echo/analysis/memory/arena/nnvm_pool.hpp>
#include <echo/analysis/memory/memory_options.hpp>
#include <echo/analysis/memory/memory_plan.hpp>
#include <echo/analysis/plan/plan.hpp>
#include <echo/analysis/plan_memory.hpp>
#include <echo/analysis/schedule/liveness.hpp>
#include <echo/analysis/schedule/load_sweep.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace echo {
namespace detail {

inline std::uint64_t whole_granules(std::uint64_t bytes, std::uint64_t granularity) {
    const std::uint64_t rest = bytes % granularity;
    const auto whole = checked_add(bytes, rest ? granularity - rest : 0);
    if (!whole) throw error({}, "granularity", "a block does not fit in 64 bits", "give a smaller one");
    return *whole;
}

/// Largest sum of bytes of storages that are not resident, over the steps. The bytes as they are: no padding.
inline std::uint64_t largest_load(const liveness& live, std::size_t steps) {
    std::vector<std::uint64_t> loads;
    begin_loads(loads, steps);
    for (const auto i : live.storages())
        if (!live[i].resident) add_life(loads, live[i].first.index(), live[i].last.index(), live[i].bytes);
    return sum_lives(loads);
}

/// The offset of each copy, from that of its storage.
inline void lay_copies(const snapshot& s, const schedule& steps, const liveness& live,
                       const id_vector<storage_id, std::uint64_t>& of_storage, memory_plan_parts& parts) {
    parts.offsets.reserve(live.copy_count());
    parts.first_copy.reserve(steps.size() + 1);
    for (const auto t : steps.steps()) {
        for (std::uint32_t k = 0; k < copy_count(s, steps[t]); ++k) {
            const storage_id i = live.storage({t, k});
            parts.offsets.push_back(i.valid() ? of_storage[i] : memory_plan_parts::no_offset);
        }
        parts.first_copy.push_back(static_cast<std::uint32_t>(parts.offsets.size()));
    }
}

/// Blocks and arenas for capacities. Errors: no room for a block.
inline void place_in_arenas(const snapshot& s, const schedule& steps, const memory_options& options,
                            const std::vector<arena::interval>& reserved, memory_plan_parts& parts) {
    std::uint64_t first = 0, sum = 0;
    for (const auto capacity : options.capacities) {
        const auto end = checked_add(first, capacity);
        const auto rest = end ? *end % options.align : 0;
        const auto next = end ? checked_add(*end, rest ? options.align - rest : 0) : std::nullopt;
        if (!next)
            throw error({}, "capacities", "together do not fit in 64 bits",
                        "give what the arenas really have");
        parts.arenas.push_back({.first = first, .capacity = capacity});
        sum += capacity;
        first = *next;
    }
    const auto placed =
        arena::place_capped(reserved, options.capacities, {.align = options.align, .limit = options.limit});
    const memory_block* largest = nullptr;
    for (std::size_t i = 0; i < reserved.size(); ++i) {
        memory_block& block = parts.blocks[i];
        block.arena = placed.arenas[i];
        if (block.arena == arena::capped_placement::nowhere) {
            if (!largest || block.bytes > largest->bytes) largest = &block;
            continue;
        }
        memory_arena& home = parts.arenas[block.arena];
        block.offset = home.first + placed.offsets[i];
        home.bytes = std::max(home.bytes, placed.offsets[i] + block.bytes);
        parts.bytes = std::max(parts.bytes, block.offset + block.bytes);
    }
    if (!largest) return;
    const copy_id c = largest->maker;
    throw error(s.name(steps[c.step].node), "capacities",
                "no room for the " + std::to_string(largest->bytes) + " bytes that step " +
                    std::to_string(c.step.index()) + " makes as output " + std::to_string(c.output) +
                    ": the arenas hold " + std::to_string(sum) + " bytes, and up to " +
                    std::to_string(parts.lower_bound) + " are live at once",
                "give larger capacities or a longer limit, or plan for a smaller peak");
}

} // namespace detail

ECHO_INLINE memory_plan plan_memory(const snapshot& s, const schedule& steps, const memory_options& options) {
    if (!options.granularity) throw error({}, "granularity", "is 0", "give 1 or more");
    if (!options.align) throw error({}, "align", "is 0", "give 1 or more");
    if (options.pool && !options.capacities.empty())
        throw error({}, "pool", "has no capacities", "give a pool or capacities");
    liveness_analysis analyse;
    const liveness& live = analyse(s, steps);

    std::vector<arena::interval> reserved;
    memory_plan_parts parts{.align = options.align};
    parts.lower_bound = detail::largest_load(live, steps.size());
    id_vector<storage_id, std::uint64_t> of_storage(live.storage_count(), 0);
    std::vector<storage_id> placed;
    for (const auto i : live.storages()) { // numbered in the order of their makers
        const storage_record& storage = live[i];
        if (storage.resident) of_storage[i] = memory_plan_parts::no_offset;
        if (storage.resident || !storage.bytes) continue;
        const std::uint64_t bytes = detail::whole_granules(storage.bytes, options.granularity);
        reserved.push_back({storage.first.index(), storage.last.index(), bytes});
        parts.blocks.push_back({.maker = storage.maker, .bytes = bytes});
        placed.push_back(i);
    }
    if (options.capacities.empty()) {
        const auto made = options.pool
                              ? arena::place_in_pool(reserved, *options.pool, options.align)
                              : arena::place(reserved, {.align = options.align, .limit = options.limit});
        for (std::size_t i = 0; i < placed.size(); ++i) parts.blocks[i].offset = made.offsets[i];
        parts.bytes = made.bytes;
    } else {
        detail::place_in_arenas(s, steps, options, reserved, parts);
    }
    for (std::size_t i = 0; i < placed.size(); ++i) of_storage[placed[i]] = parts.blocks[i].offset;
    detail::lay_copies(s, steps, live, of_storage, parts);
    return memory_plan(std::move(parts));
}

ECHO_INLINE memory_plan plan_memory(const snapshot& s, const plan& p, const memory_options& options) {
    return plan_memory(s, p.steps(), options);
}

} // namespace echo
