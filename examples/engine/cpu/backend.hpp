// SPDX-License-Identifier: BSL-1.0
/// @file
/// The CPU backend. A kernel is a function `run(const ops::X&, const call&, context&)` in `engine::cpu`; one that wants
/// scratch memory has `scratch(const ops::X&, tensor_span in, tensor_span out, context&) -> bytes` beside it. One that
/// computes element by element is `part(const ops::X&, const call&)` instead, which gives a function of the elements
/// [first, last).
#pragma once

#include "engine/call.hpp"
#include "engine/cpu/context.hpp"
#include "engine/op.hpp"

namespace engine::cpu {

class backend {
public:
    /// Elements that a chain takes at once: what its tensors have of them fits into a cache.
    static constexpr std::size_t usual_tile = 2048;

    /// 0 threads: as many as OpenMP offers. `tile`: a multiple of 32.
    explicit backend(int threads = 0, std::size_t tile = usual_tile) : context_(threads), tile_(tile) {}

    int threads() const noexcept { return context_.threads(); }
    /// Errors: `echo::error` where an op has no kernel, or cannot run on what it is given.
    void run(const op& o, const call& c);
    /// Whether ops like this one may stand in a chain.
    bool in_parts(const op& o) const;
    void run(std::span<const op_call> chain);
    std::uint64_t scratch(const op& o, tensor_span in, tensor_span out);

private:
    context context_;
    std::size_t tile_;
};

} // namespace engine::cpu
