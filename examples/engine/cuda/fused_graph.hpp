// SPDX-License-Identifier: BSL-1.0
/// @file
/// A step and the fused steps inside it as one generated kernel: the ops' own lambdas, linked at run time. What has a
/// slot (call.hpp) becomes a register.
#pragma once

#include "engine/call.hpp"

#include <echo/cuda/jit.hpp>

#include <span>
#include <vector>

namespace engine::cuda {

/// A kernel to generate, and what it is called with: `compiler.compile(graph)(results, operands, extents, stream)`.
struct fused_kernel {
    echo::cuda::jit::graph graph;
    std::vector<echo::cuda::jit::any_operand> results{}, operands{};
    echo::cuda::fused::extents extents{};
};

/// Whether generated kernels take the op in: all of it is in its lambdas.
bool in_fused_kernels(const op& o);

/// The ops in order; the last one's result has as many elements as anything else that is made. Errors: an op that
/// `in_fused_kernels` refuses, a slot read before it is written, more than 16 tensors.
fused_kernel fuse(std::span<const op_call> ops);

} // namespace engine::cuda
