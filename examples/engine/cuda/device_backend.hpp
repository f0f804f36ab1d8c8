// SPDX-License-Identifier: BSL-1.0
/// @file
/// `device_backend`: the engine's ops on a CUDA device. Needs no header of CUDA's: what uses it is compiled as any
/// other code is, and linked with the library echo-engine-cuda.
#pragma once

#include "engine/call.hpp"
#include "engine/memory.hpp"
#include "engine/mover.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace engine::cuda {

struct device_options {
    int device = 0;
    bool tf32 = false; ///< products and convolutions in TF32: faster, and other bits
};

/// A backend (call.hpp) with memory of its own, whose steps can be recorded. All work is in one stream. Tensors begin
/// at multiples of `alignment`, which plans keep to with `memory_options{.align = device_backend::alignment}`: then a
/// step has the same bits in every plan.
class device_backend {
public:
    static constexpr std::uint64_t alignment = 256;

    /// Errors: `echo::cuda::error`: no device, no driver or one that is too old, no code for the card, a library that
    /// does not start, no memory for its workspace.
    explicit device_backend(const device_options& options = {});
    ~device_backend();
    device_backend(device_backend&&) noexcept;
    device_backend& operator=(device_backend&&) noexcept;

    void run(const op& o, const call& c);
    std::uint64_t scratch(const op& o, tensor_span in, tensor_span out);
    /// Runs the op and waits; microseconds on the device, by events.
    double timed(const op& o, const call& c);

    /// Whether generated kernels take the op in (fused_graph.hpp).
    bool in_parts(const op& o) const;
    /// Ops as one generated kernel; compiled, and kept on disk, the first time, which may not be while recording. No
    /// sum and product are rounded together in it, nor in the kernels of single ops, so that both make the same bits.
    void run(std::span<const op_call> together);
    double timed(std::span<const op_call> together);

    tensor_memory& memory() noexcept;
    /// Carries what a plan offloads to pinned memory of the host and back (`executor_options::moves`).
    mover& moves() noexcept;

    /// A recording is a CUDA graph.
    bool records() const noexcept { return true; }
    void begin_recording();
    std::size_t end_recording();
    void replay(std::size_t which);

    /// The card, the driver, and the libraries.
    const std::string& description() const noexcept;
    /// Bytes of the device that nobody uses.
    std::uint64_t free_bytes() const;
    /// Bytes of the device that have been taken since the backend was made, its workspaces among them and its context
    /// not: what the driver says, of all processes.
    std::uint64_t driver_bytes() const;

private:
    class implementation;
    std::unique_ptr<implementation> all_;
};

} // namespace engine::cuda
