// SPDX-License-Identifier: BSL-1.0
/// @file
/// The CPU backend. A kernel is a function `run(const ops::X&, const call&, context&)` in `engine::cpu`; one that
/// wants scratch memory has `scratch(const ops::X&, tensor_span in, tensor_span out, context&) -> bytes` beside it.
#pragma once

#include "engine/call.hpp"
#include "engine/cpu/context.hpp"
#include "engine/op.hpp"

namespace engine::cpu {

class backend {
public:
    /// 0 threads: as many as OpenMP offers.
    explicit backend(int threads = 0) : context_(threads) {}

    int threads() const noexcept { return context_.threads(); }
    /// Errors: `echo::error` where an op has no kernel, or cannot run on what it is given.
    void run(const op& o, const call& c);
    std::uint64_t scratch(const op& o, tensor_span in, tensor_span out);

private:
    context context_;
};

} // namespace engine::cpu
