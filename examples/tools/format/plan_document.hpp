// SPDX-License-Identifier: BSL-1.0
/// @file
/// `plan_document`: what an `echo-plan/1` file holds beside its report, as a value. Made from a plan to be
/// written (write_plan.hpp), or read from a file to be checked (read_plan.hpp).
#pragma once

#include <echo/analysis/memory/memory_plan.hpp>
#include <echo/analysis/plan/plan.hpp>
#include <echo/analysis/schedule/footprint.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace echo::format {

struct plan_document {
    std::string graph{}, strategy{};
    schedule steps{};
    link_model link{};            ///< on which its steps move values; none where they move nothing
    std::vector<copy_id> stash{}; ///< one per storage that the backward pass needs from before
    std::uint64_t arena_bytes = 0, align = 1;
    std::vector<memory_block> blocks{};

    friend bool operator==(const plan_document&, const plan_document&) = default;
};

/// The makers of the storages that `footprint_result::stash_bytes` sums. O(steps + copies).
inline std::vector<copy_id> stash_of(const snapshot& s, const schedule& steps) {
    liveness_analysis analyse;
    const liveness& live = analyse(s, steps);
    const step_id boundary = first_backward_step(s, steps);
    std::vector<copy_id> stash;
    for (const auto i : live.storages())
        if (!live[i].resident && live[i].first < boundary && live[i].last_read.valid() &&
            live[i].last_read >= boundary)
            stash.push_back(live[i].maker);
    return stash;
}

inline plan_document document(const snapshot& s, const plan& p, const memory_plan& arena, std::string graph) {
    return {.graph = std::move(graph),
            .strategy = std::string(name_of(p.chosen_by())),
            .steps = p.steps(),
            .link = p.report().link,
            .stash = stash_of(s, p.steps()),
            .arena_bytes = arena.bytes(),
            .align = arena.align(),
            .blocks = {arena.blocks().begin(), arena.blocks().end()}};
}

/// The memory plan that a document states; a block may be named by any value on its storage. What the file
/// leaves out has no offset, which is for `verify` to find. O(steps + copies + blocks log blocks).
inline memory_plan memory_plan_of(const snapshot& s, const plan_document& d) {
    liveness_analysis analyse;
    const liveness& live = analyse(s, d.steps);
    memory_plan_parts parts{.bytes = d.arena_bytes, .align = d.align};
    std::vector<std::uint64_t> offset_of(live.storage_count(), memory_plan_parts::no_offset);
    for (const auto i : live.storages())
        if (!live[i].resident && live[i].bytes == 0) offset_of[i.index()] = 0;
    for (auto block : d.blocks) {
        const storage_id on = live.storage(block.maker);
        if (!on.valid())
            throw error(s.name(d.steps[block.maker.step].node), "blocks",
                        d.steps[block.maker.step].fused ? "a fused step has no storage"
                                                        : "what lies in the host's memory has no block",
                        "give blocks to other steps only");
        block.maker = live[on].maker;
        parts.blocks.push_back(block);
        offset_of[on.index()] = block.offset;
    }
    std::ranges::stable_sort(parts.blocks, {}, &memory_block::maker);
    for (const auto t : d.steps.steps()) {
        const auto count = static_cast<std::uint32_t>(copy_count(s, d.steps[t]));
        for (std::uint32_t k = 0; k < count; ++k) {
            const storage_id on = live.storage({t, k});
            parts.offsets.push_back(on.valid() ? offset_of[on.index()] : memory_plan_parts::no_offset);
        }
        parts.first_copy.push_back(parts.first_copy.back() + count);
    }
    std::vector<std::uint64_t> change(d.steps.size() + 1, 0);
    for (const auto i : live.storages()) {
        if (live[i].resident) continue;
        change[live[i].first.index()] += live[i].bytes;
        change[live[i].last.index() + 1] -= live[i].bytes; // wraps; the running sum does not
    }
    for (std::uint64_t now = 0; const auto bytes : change) {
        now += bytes;
        parts.lower_bound = std::max(parts.lower_bound, now);
    }
    return memory_plan(std::move(parts));
}

} // namespace echo::format
