// SPDX-License-Identifier: BSL-1.0
/// @file
/// Fused kernels: a chain or small DAG of ops, with broadcasts and reductions of rows, as one kernel made from the ops'
/// lambdas. A recompute that is fused into the gradient that reads it has no storage and no traffic of its own: the map
/// is made again in registers, from operands that are usually smaller (kernel/fused_traffic.hpp counts it).
///
/// ```cpp
/// namespace fused = echo::cuda::fused;
/// using z  = fused::apply<echo::tanh_op, fused::apply<echo::add_op, fused::arg<0>, fused::arg<1>>>;
/// using dz = fused::fuse<fused::gradient_of<z, 0, fused::arg<2>>>;    // dy · (1 − tanh(q + k)²)
/// const fused::extents e{batch, time, hidden};
/// fused::run<dz>(fused::results(fused::whole(dx, e)),
///                fused::operands(fused::spread(q, {batch, 1, hidden}, e), fused::whole(k, e), fused::whole(dy, e)),
///                e, stream);
/// ```
/// What expressions there are: kernel/fused_expression.hpp. How operands are laid over the extents: fused_operand.hpp.
#pragma once

#include <echo/config.hpp>

#if !defined(__CUDACC__)
#error                                                                                                       \
    "echo/cuda/fused.cuh needs a CUDA compiler: compile the file as .cu with nvcc; bodies are in echo/cuda/kernel"
#elif !defined(__CUDACC_RELAXED_CONSTEXPR__)
#error "echo/cuda/fused.cuh needs constexpr functions on the device: compile with --expt-relaxed-constexpr"
#endif

#include <echo/cuda/kernel/fused_call.hpp>
#include <echo/cuda/launch.cuh>
#include <echo/cuda/stream_ref.hpp>

#include <tuple>

namespace echo::cuda::fused {

/// Computes `F`, a `fuse<…>`, over the extents `e` on the stream. Values are computed in float; a result of 16 bits is
/// rounded once, at the end (`rounded` keeps the roundings of an unfused sequence). A result may lie on an operand
/// whose elements have the very same places. Nothing is allocated and nothing is waited for; it can be captured.
/// Errors: `argument_error` for what cannot be run (`lay_out` lists it) and for fewer than 1,024 rows of which
/// each has more than 2^14 elements and more than 256 for each row; `error` if the launch is refused.
template <class F, class... R, class... A>
void run(const std::tuple<operand<R>...>& to, const std::tuple<operand<A>...>& from, const extents& e,
         stream_ref stream) {
    const auto body = body_of<F>(to, from, e);
    if constexpr (F::by_row) check_row_count(body.shape);
    launch("fused::run", body, stream);
}

} // namespace echo::cuda::fused
