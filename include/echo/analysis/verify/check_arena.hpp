// SPDX-License-Identifier: BSL-1.0
/// @file
/// The part of `verify` that judges a memory plan: one block for each storage, sound by itself, and no two
/// that overlap in space while their storages overlap in time.
#pragma once

#include <echo/analysis/memory/memory_plan.hpp>
#include <echo/analysis/verify/checked_replay.hpp>
#include <echo/analysis/verify/neighbour_set.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace echo::detail {

class arena_check {
public:
    arena_check(const snapshot& s, const checked_schedule& c, const memory_plan& m)
        : s_(s), steps_(c.steps), figures_(c.after), m_(m) {}

    /// Errors name the node whose output lies in the block, and the block. O(copies + blocks log blocks).
    void operator()() {
        if (m_.align() == 0) throw error({}, "arena.align", "is 0", "give 1 or more");
        find_blocks();
        sweep();
        check_offsets();
        if (m_.lower_bound() != figures_.load_bytes)
            throw error({}, "report.arena_lower_bound_bytes",
                        "is " + std::to_string(m_.lower_bound()) + ", but the replay finds " +
                            std::to_string(figures_.load_bytes));
        if (m_.bytes() < figures_.load_bytes)
            throw error({}, "arena.bytes",
                        "is " + std::to_string(m_.bytes()) + ", less than the " +
                            std::to_string(figures_.load_bytes) + " that are live at once");
    }

private:
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    static std::string block_key(std::size_t b) { return "arena.blocks[" + std::to_string(b) + "]"; }

    [[noreturn]] void refuse(std::size_t b, const std::string& problem) const {
        const std::size_t maker = m_.blocks()[b].maker.step.index();
        std::string who;
        if (maker < steps_.size()) who = s_.name(steps_.steps[maker].node);
        throw error(who, block_key(b), problem, "make the memory plan again, for these very steps");
    }

    /// The block of each storage; every check that a block stands or fails with alone.
    void find_blocks() {
        block_of_.assign(figures_.storages.size(), none);
        for (std::size_t b = 0; b < m_.blocks().size(); ++b) {
            const memory_block& block = m_.blocks()[b];
            if (block.maker.step.index() >= steps_.size() ||
                block.maker.output >= steps_.copy_count(block.maker.step.index()))
                refuse(b, "names no output of any step");
            const std::uint32_t i = figures_.storage_of[steps_.copy_index(block.maker)];
            if (i == none) refuse(b, "is of what a fused step makes, which has no storage");
            const checked_storage& storage = figures_.storages[i];
            if (storage.resident) refuse(b, "is of resident storage, which lies outside the arena");
            if (storage.bytes == 0) refuse(b, "is of storage without any bytes");
            if (block_of_[i] != none) refuse(b, "is of the same storage as " + block_key(block_of_[i]));
            block_of_[i] = static_cast<std::uint32_t>(b);
            if (block.bytes < storage.bytes)
                refuse(b, "has " + std::to_string(block.bytes) + " bytes, its storage " +
                              std::to_string(storage.bytes));
            if (block.offset % m_.align() != 0)
                refuse(b, "lies at " + std::to_string(block.offset) + ", no multiple of " +
                              std::to_string(m_.align()));
            if (block.bytes > m_.bytes() || block.offset > m_.bytes() - block.bytes)
                refuse(b, "ends behind the arena's " + std::to_string(m_.bytes()) + " bytes");
        }
        for (std::uint32_t c = 0; c < figures_.storage_of.size(); ++c) {
            const std::uint32_t i = figures_.storage_of[c];
            if (i == none) continue; // fused
            const checked_storage& storage = figures_.storages[i];
            if (storage.resident || storage.bytes == 0 || block_of_[i] != none) continue;
            throw error(s_.name(s_[steps_.copies[c]].producer), "arena.blocks",
                        "the storage that step " + std::to_string(storage.first) + " makes has no block",
                        "make the memory plan again, for these very steps");
        }
    }

    /// Step by step, the blocks in use in order of offset. As those never overlap, a new one need only be
    /// compared with its neighbours.
    void sweep() {
        by_offset_.resize(m_.blocks().size());
        std::iota(by_offset_.begin(), by_offset_.end(), 0U);
        std::sort(by_offset_.begin(), by_offset_.end(), [this](std::uint32_t a, std::uint32_t b) {
            return m_.blocks()[a].offset < m_.blocks()[b].offset;
        });
        std::vector<std::uint32_t> rank(by_offset_.size());
        for (std::uint32_t i = 0; i < by_offset_.size(); ++i) rank[by_offset_[i]] = i;

        neighbour_set in_use(by_offset_.size());
        std::vector<std::uint32_t> next_freed(figures_.storages.size(), none);
        std::vector<std::uint32_t> freed_after(steps_.size(), none); // list of storages, per step
        std::size_t made = 0; // storages stand in the order of the steps that make them
        for (std::uint32_t t = 0; t < steps_.size(); ++t) {
            for (; made < figures_.storages.size() && figures_.storages[made].first == t; ++made) {
                if (block_of_[made] == none) continue;
                const std::size_t at = rank[block_of_[made]];
                compare(in_use.previous(at), at, at);
                compare(at, in_use.next(at), at);
                in_use.insert(at);
                const std::uint32_t last = figures_.storages[made].last;
                next_freed[made] = freed_after[last];
                freed_after[last] = static_cast<std::uint32_t>(made);
            }
            for (std::uint32_t i = freed_after[t]; i != none; i = next_freed[i])
                in_use.erase(rank[block_of_[i]]);
        }
    }

    /// Of two blocks by rank, if there are two, the first must end where the second starts or before.
    void compare(std::size_t first, std::size_t second, std::size_t added) const {
        if (first == neighbour_set::none || second == neighbour_set::none) return;
        const std::uint32_t a = by_offset_[first], b = by_offset_[second];
        if (m_.blocks()[b].offset - m_.blocks()[a].offset >= m_.blocks()[a].bytes) return;
        refuse(by_offset_[added],
               "overlaps " + block_key(added == first ? b : a) + ", which is in use at the same time");
    }

    /// What a host asks for, copy by copy, is what the blocks say.
    void check_offsets() const {
        const auto& parts = m_.parts();
        bool fits =
            parts.first_copy.size() == steps_.size() + 1 && parts.offsets.size() == steps_.copies.size();
        for (std::size_t t = 0; fits && t <= steps_.size(); ++t)
            fits = parts.first_copy[t] == steps_.steps[t].first_copy;
        if (!fits)
            throw error({}, "arena", "its offsets belong to other steps", "make the memory plan again");
        for (std::size_t c = 0; c < steps_.copies.size(); ++c) {
            const std::uint32_t i = figures_.storage_of[c];
            const std::uint64_t expected =
                i == none || figures_.storages[i].resident ? memory_plan_parts::no_offset
                : figures_.storages[i].bytes == 0          ? 0
                                                           : m_.blocks()[block_of_[i]].offset;
            if (parts.offsets[c] != expected)
                throw error(s_.name(s_[steps_.copies[c]].producer), "arena",
                            "the offset of one of its copies is not that of its block",
                            "make the memory plan again");
        }
    }

    const snapshot& s_;
    const resolved_steps& steps_;
    const checked_figures& figures_;
    const memory_plan& m_;
    std::vector<std::uint32_t> block_of_;  ///< by storage
    std::vector<std::uint32_t> by_offset_; ///< blocks
};

} // namespace echo::detail
