// SPDX-License-Identifier: BSL-1.0
/// @file
/// `bound_plan`: the offsets of a memory plan as pointers into memory of the host's. Needs no CUDA header.
#pragma once

#include <echo/analysis/memory/memory_plan.hpp>
#include <echo/cuda/kernel/arguments.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace echo::cuda {

/// Where every copy of a plan's steps lies, settled once: `at` is a look-up then. Owns none of the memory.
///
/// A plan may come from a file, so nothing is taken on trust: a base that is null or not aligned as the plan
/// asks, a block or a copy beyond the end of its arena, and a wrong number of arenas throw `argument_error`.
class bound_plan {
public:
    bound_plan() = default;

    /// `bases` has the address of each arena of the plan, of one where it names none. An arena of 0 bytes may
    /// be null. O(blocks + copies), in time and memory.
    bound_plan(const memory_plan& plan, std::span<void* const> bases) {
        check_bases(plan, bases);
        const auto& parts = plan.parts();
        first_ = parts.first_copy;
        places_.resize(parts.offsets.size());
        // Of all blocks that begin at an offset, the one made last is alive when a copy is made there: what
        // had to be dead before lies under it. So a view and a result in place have the extent of the block
        // that they lie on.
        std::unordered_map<std::uint64_t, std::uint64_t> latest;
        auto block = plan.blocks().begin();
        for (std::size_t t = 0; t + 1 < first_.size(); ++t) {
            for (; block != plan.blocks().end() && block->maker.step.index() <= t; ++block) {
                static_cast<void>(address(plan, bases, block->offset, block->bytes, block->maker));
                latest[block->offset] = block->bytes;
            }
            for (std::size_t i = first_[t]; i < first_[t + 1]; ++i) {
                const std::uint64_t offset = parts.offsets[i];
                if (offset == memory_plan_parts::no_offset) continue;
                const auto found = latest.find(offset);
                const std::uint64_t bytes = found == latest.end() ? 0 : found->second;
                const copy_id copy{step_id(t), static_cast<std::uint32_t>(i - first_[t])};
                places_[i] = {true, address(plan, bases, offset, bytes, copy), bytes};
            }
        }
        if (block != plan.blocks().end())
            throw argument_error("plan", "has a block that none of its steps makes", "read or make it again");
    }

    /// Whether the copy lies in an arena: not if it is resident, and not if the schedule does not have it.
    bool holds(copy_id copy) const noexcept {
        const place* p = find(copy);
        return p && p->held;
    }

    /// The first byte of the copy: its base's for a view and a result in place; an arena's start if the
    /// storage has no bytes. Throws `argument_error` where `holds` is false. O(1).
    void* at(copy_id copy) const { return held(copy).data; }
    /// Where that output of a step lies. Errors: as of a copy.
    void* at(step_id step, std::uint32_t output = 0) const { return at(copy_id{step, output}); }

    /// Bytes reserved at the copy: at least those of the storage that it lies on.
    std::uint64_t bytes(copy_id copy) const { return held(copy).bytes; }

    /// The copy as `count` elements. Throws `argument_error` if they do not fit in what is reserved, or if
    /// the place is not aligned for them.
    template <class T>
    std::span<T> elements(copy_id copy, std::uint64_t count) const {
        const place& p = held(copy);
        if (count > p.bytes / sizeof(T))
            throw argument_error(words(copy), "has " + std::to_string(p.bytes) + " bytes, too few for " +
                                                  std::to_string(count) + " elements of " +
                                                  std::to_string(sizeof(T)));
        if (reinterpret_cast<std::uintptr_t>(p.data) % alignof(T) != 0)
            throw argument_error(words(copy), "is not aligned for its elements",
                                 "plan with memory_options::align");
        return {static_cast<T*>(p.data), static_cast<std::size_t>(count)};
    }

private:
    struct place {
        bool held = false;
        void* data = nullptr;
        std::uint64_t bytes = 0;
    };

    static std::string words(copy_id copy) {
        return "output " + std::to_string(copy.output) + " of step " + std::to_string(copy.step.index());
    }

    static void check_bases(const memory_plan& plan, std::span<void* const> bases) {
        const std::size_t arenas = std::max<std::size_t>(plan.arenas().size(), 1);
        if (bases.size() != arenas)
            throw argument_error("bases", "has " + std::to_string(bases.size()) + " addresses for " +
                                              std::to_string(arenas) + " arenas");
        const std::uint64_t align = std::max<std::uint64_t>(plan.align(), 1);
        for (std::size_t i = 0; i < arenas; ++i) {
            const std::string name = "base " + std::to_string(i);
            if (!bases[i] && extent(plan, i).bytes != 0) throw argument_error(name, "is null");
            if (reinterpret_cast<std::uintptr_t>(bases[i]) % align != 0)
                throw argument_error(name, "is no multiple of " + std::to_string(align),
                                     "allocate it with the plan's alignment");
        }
    }

    static memory_arena extent(const memory_plan& plan, std::size_t arena) {
        return plan.arenas().empty() ? memory_arena{0, plan.bytes(), plan.bytes()} : plan.arenas()[arena];
    }

    /// The address of `bytes` at an offset, all of them inside its arena.
    static void* address(const memory_plan& plan, std::span<void* const> bases, std::uint64_t offset,
                         std::uint64_t bytes, copy_id copy) {
        std::size_t arena = 0;
        while (arena + 1 < plan.arenas().size() && plan.arenas()[arena + 1].first <= offset) ++arena;
        const memory_arena in = extent(plan, arena);
        if (offset < in.first || offset - in.first > in.bytes || bytes > in.bytes - (offset - in.first))
            throw argument_error(words(copy), "lies beyond the end of arena " + std::to_string(arena),
                                 "verify the memory plan");
        return static_cast<std::byte*>(bases[arena]) + (offset - in.first);
    }

    const place* find(copy_id copy) const noexcept {
        const auto position = echo::detail::position_of(first_, copy);
        return position ? &places_[*position] : nullptr;
    }

    const place& held(copy_id copy) const {
        const place* p = find(copy);
        if (!p) throw argument_error(words(copy), "is none of the plan's");
        if (!p->held)
            throw argument_error(words(copy), "is resident", "the host has its address, the arena has not");
        return *p;
    }

    std::vector<std::uint32_t> first_{0};
    std::vector<place> places_;
};

} // namespace echo::cuda
