// SPDX-License-Identifier: BSL-1.0
/// @file
/// `recording_backend`: what the CUDA back end would issue, written down instead of done. It needs no device, and takes
/// no memory: its addresses lie nowhere.
#pragma once

#include "engine/call.hpp"
#include "engine/memory.hpp"
#include "engine/mover.hpp"

#include <echo/analysis/schedule/schedule.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace engine::cuda {

/// Bytes of a piece of memory.
struct memory_range {
    std::size_t piece = 0; ///< number in the order of allocation
    std::uint64_t offset = 0, bytes = 0;
    bool packed = false; ///< one bit per element
    friend bool operator==(const memory_range&, const memory_range&) = default;
};

/// A kernel that would be started, or a library function that would be called.
struct recorded_call {
    std::string what{};
    std::int64_t tiles = 0; ///< what the warps of a kernel share out; 0 of a library's
    bool library = false;
};

struct recorded_step {
    std::size_t step = 0; ///< of the plan
    echo::step_kind kind{};
    const node* at = nullptr;
    std::string op{};
    std::vector<recorded_call> calls{};
    std::vector<memory_range> in{}, out{};
    memory_range scratch{}; ///< of 0 bytes where there is none
};

/// A copy to the host's memory or back that would be issued.
struct recorded_copy {
    bool leaves = false;
    memory_range of{};       ///< on the device
    std::uint64_t place = 0; ///< offset in the host's memory
    std::size_t behind = 0;  ///< so many steps had been issued
};

/// A piece of memory that was asked for.
struct recorded_piece {
    std::uint64_t address = 0, bytes = 0;
    std::string what{};
};

/// As `device_backend`, but for what only a device can say: cuDNN's scratch memory, of which it asks none. What it
/// reads is zeros.
class recording_backend {
public:
    recording_backend();
    ~recording_backend();
    recording_backend(const recording_backend&) = delete;
    recording_backend& operator=(const recording_backend&) = delete;

    /// Errors: those of the back end; an address that no piece of memory has.
    void run(const op& o, const call& c);
    std::uint64_t scratch(const op& o, tensor_span in, tensor_span out);
    /// Steps that run together are one kernel, named after its ops; what it reads and writes is listed op by op, in
    /// their order, but for values in slots.
    bool in_parts(const op& o) const;
    void run(std::span<const op_call> together);
    tensor_memory& memory() noexcept;
    mover& moves() noexcept;
    void at_step(std::size_t step, echo::step_kind kind, const node& at);

    /// Of all runs so far.
    std::span<const recorded_step> steps() const noexcept;
    std::span<const recorded_copy> copies() const noexcept;
    std::span<const recorded_piece> pieces() const noexcept;
    void clear();

private:
    class implementation;
    std::unique_ptr<implementation> all_;
};

/// "12 run tanh rnn.t0.h: kernel tanh | in 0+8192 | out 8192+8192 | scratch -". A range is OFFSET+BYTES in the arena,
/// [NAME]+BYTES of what stays from step to step, with "bits" behind it where it is packed.
std::string to_string(const recorded_step& s, std::span<const recorded_piece> pieces);

} // namespace engine::cuda
