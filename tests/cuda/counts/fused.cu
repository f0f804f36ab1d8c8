// SPDX-License-Identifier: BSL-1.0
/// @file
/// Fused kernels as they are counted. Each has a name of its own, by which its machine code is found.
#include <echo/cuda/fused.cuh>
#include <echo/ops/activations.hpp>
#include <echo/ops/arithmetic.hpp>
#include <echo/ops/softmax.hpp>

namespace counted {

using namespace echo::cuda::fused;

// NMT's attention: the map, its gradient from the stashed map, and from the two operands of which it is made.
using map = apply<echo::tanh_op, apply<echo::add_op, arg<0>, arg<1>>>;
struct tanh_forward : fuse<map> {};
struct tanh_stashed : fuse<gradient<echo::tanh_op, 0, arg<0>, unused, arg<1>>> {};
struct tanh_recomputed : fuse<gradient_of<map, 0, arg<2>>> {};
struct softmax : fuse<apply<echo::softmax_op<>, arg<0>>> {};

template <class T>
void all(T* to, const T* from, const extents& e, echo::cuda::stream_ref s) {
    const auto y = whole(to, e);
    const auto x = whole(from, e);
    run<tanh_forward>(results(y), operands(x, x), e, s);
    run<tanh_stashed>(results(y), operands(x, x), e, s);
    run<tanh_recomputed>(results(y), operands(x, x, x), e, s);
    run<softmax>(results(y), operands(x), e, s);
}

} // namespace counted

void all_counted(void* to, const void* from, const echo::cuda::fused::extents& e, echo::cuda::stream_ref s) {
    counted::all(static_cast<float*>(to), static_cast<const float*>(from), e, s);
    counted::all(static_cast<__half*>(to), static_cast<const __half*>(from), e, s);
    counted::all(static_cast<__nv_bfloat16*>(to), static_cast<const __nv_bfloat16*>(from), e, s);
}
