// SPDX-License-Identifier: BSL-1.0
/// @file
/// Executes kernels: block after block, the warps of a block in turn up to the next barrier, the lanes of a warp in
/// lockstep. Lanes that go different ways run one way after the other and meet again where all ways meet.
#pragma once

#include "fault.hpp"
#include "memory.hpp"
#include "module.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ptx {

inline constexpr int warp_lanes = 32;
inline constexpr std::uint32_t all_lanes = ~0u;

/// A register of a warp.
struct alignas(64) lanes {
    std::uint64_t of[warp_lanes];
};

/// Lanes on their way: at `next`, until they are at `until`, where others wait.
struct path {
    std::int32_t next, until;
    std::uint32_t mask;
};

struct block_state;

struct warp {
    const function* code = nullptr;
    block_state* block = nullptr;
    std::vector<lanes> registers;
    std::vector<std::uint32_t> defined; ///< of each register the lanes that have a value
    std::vector<path> paths;            ///< the last one runs
    std::uint32_t index = 0;            ///< in its block
    std::uint32_t number = 0;           ///< in its launch
    std::uint32_t present = 0;          ///< lanes that have not left
    std::uint32_t phase = 0;
    std::uint64_t steps = 0;
    bool waits = false; ///< at a barrier
    std::unique_ptr<byte_facts[]> local_facts;
    std::unique_ptr<std::byte[]> local;
};

struct extent3 {
    std::uint32_t x = 1, y = 1, z = 1;
};

struct block_state {
    extent3 index;
    std::uint32_t number = 0;
    std::uint32_t barriers = 0; ///< how many it has passed
    region shared;
    std::vector<std::byte> shared_bytes;
};

/// What was counted of a kernel over all its launches.
struct counts {
    std::uint64_t launches = 0, warps = 0;
    std::uint64_t warp_instructions = 0, lane_instructions = 0;
    std::uint64_t loads = 0, stores = 0;                  ///< instructions that touch global memory
    std::uint64_t sectors_loaded = 0, sectors_stored = 0; ///< of 32 bytes, as the instructions ask for them
    std::vector<std::uint32_t> lines;                     ///< of its instructions
    std::vector<std::uint64_t> executed;                  ///< how often each was
};

/// How far a function that the specification leaves open is from the exact result: in units of the last place, of
/// the most that it allows, from -1 to 1.
struct options {
    double approximation = 0;
    std::uint64_t most_steps = 200'000'000; ///< of a warp; then it is said not to end
};

class machine {
public:
    memory global;
    options how;
    std::map<std::string, counts> counted;

    /// Runs a kernel to its end. Throws `fault`.
    void launch(module& from, const function& f, extent3 grid, extent3 block,
                std::uint32_t dynamic_shared_bytes, const void* const* arguments,
                const std::string& counted_as);
    /// Who of the last launch wrote the byte: words.
    std::string writer_of(std::uint64_t address);

    /// What the instruction's handlers need.
    [[noreturn]] void stop(const warp& w, const instruction& i, std::uint32_t lanes,
                           const std::string& why) const;
    const lanes& read(warp& w, const instruction& i, std::int32_t reg, std::uint32_t mask) const {
        const std::uint32_t defined = w.defined[static_cast<std::size_t>(reg)];
        if ((defined & mask) != mask)
            stop(w, i, mask & ~defined,
                 "reads " + w.code->register_names[static_cast<std::size_t>(reg)] +
                     ", which was never written");
        return w.registers[static_cast<std::size_t>(reg)];
    }
    lanes& write(warp& w, std::int32_t reg, std::uint32_t mask) const {
        w.defined[static_cast<std::size_t>(reg)] |= mask;
        return w.registers[static_cast<std::size_t>(reg)];
    }
    /// The lanes of the mask wait for each other, and see what each has written.
    void synchronise(warp& w);
    /// Bytes at an address of a space, for one lane, after all checks.
    std::byte* load(warp& w, const instruction& i, int lane, std::uint64_t address, std::uint32_t bytes);
    std::byte* store(warp& w, const instruction& i, int lane, std::uint64_t address, std::uint32_t bytes,
                     bool atomic = false);
    void count_sectors(warp& w, const instruction& i, const std::uint64_t* addresses, std::uint32_t mask,
                       std::uint32_t bytes, bool stores);

    /// Addresses of the other spaces, as a generic address has them.
    static constexpr std::uint64_t shared_window = 0xe000'0000'0000'0000,
                                   local_window = 0xe100'0000'0000'0000,
                                   parameter_window = 0xe200'0000'0000'0000;
    static std::uint64_t window(space s) {
        return s == space::shared      ? shared_window
               : s == space::local     ? local_window
               : s == space::parameter ? parameter_window
                                       : 0;
    }

private:
    struct owner {
        std::uint32_t warp, block, barriers;
    };
    const function* code_ = nullptr;
    const module* module_ = nullptr;
    extent3 grid_, block_;
    std::vector<std::byte> parameters_;
    counts* counts_ = nullptr;
    region* last_ = nullptr; ///< where the last access was
    std::uint32_t next_phase_ = 2, first_phase_ = 2;
    std::vector<owner> owners_; ///< of the launch's phases

    void start(warp& w, block_state& b, std::uint32_t index, std::uint32_t count);
    void run_until_barrier(warp& w);
    void begin_phase(warp& w);
    bool ordered(const warp& w, std::uint32_t earlier, std::uint32_t lane) const;
    std::string words_for(std::uint32_t who, const warp& w) const;
    struct found {
        std::byte* data;
        byte_facts* facts;
        const std::string* name;
    };
    found locate(warp& w, const instruction& i, int lane, std::uint64_t address, std::uint32_t bytes,
                 bool stores);
};

} // namespace ptx
