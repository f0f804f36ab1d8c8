// SPDX-License-Identifier: BSL-1.0
/// @file
/// `mover`: carries copies to the host's store and back while ops run, for the steps of a plan that offload and reload
/// (docs/formats.md, "Offload"). On the CPU the store is a file (cpu/file_mover.hpp), on a device it is pinned memory
/// (cuda/stream_mover.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace engine {

/// One copy that travels, either way.
struct transfer {
    std::byte* at = nullptr; ///< where ops find it
    std::uint64_t bytes = 0; ///< of its storage, which travels as a whole
    std::uint64_t place = 0; ///< where it lies in the store; a multiple of `mover::place_alignment`
    std::string name{};      ///< of the node whose value it is, for people
};

/// All copies of a training step: those that leave in the order of the offload steps, those that come back in the order
/// of the reload steps.
struct transfers {
    std::vector<transfer> out{}, in{};
    std::uint64_t store_bytes = 0; ///< where the last place ends
};

/// Copies of either direction travel one after the other, in their order, and beside those of the other direction.
/// Numbers are positions in `transfers`. Of one executor at a time.
class mover {
public:
    static constexpr std::uint64_t place_alignment = 4096;

    virtual ~mover() = default;

    /// Makes the store. Nothing travels before `begin_step`. Errors: there is not so much room.
    virtual void prepare(transfers all) = 0;
    /// A training step begins: no copy has left yet, and none travels.
    virtual void begin_step() = 0;
    /// Copy `k` is made, and may leave when those before it have left.
    virtual void begin_out(std::size_t k) = 0;
    /// What is run from now on may write where copy `k` lay. Errors: it cannot be stored.
    virtual void wait_out(std::size_t k) = 0;
    /// What has been run until now was the last to use the memory that copy `k` comes back to. What it was made from
    /// has left.
    virtual void begin_in(std::size_t k) = 0;
    /// What is run from now on finds copy `k`. Errors: it cannot be brought back.
    virtual void wait_in(std::size_t k) = 0;
    /// A step has failed. Afterwards nothing travels, and nothing of the executor's memory is touched.
    virtual void give_up() noexcept = 0;
};

} // namespace engine
