// SPDX-License-Identifier: BSL-1.0
/// @file
/// Fused kernels as they are counted: the typical ones, under the names that they have where they are run.
#include "../typical_fused.hpp"

#include <echo/cuda/fused.cuh>

namespace counted {

using namespace typical;

template <class T>
void all(T* to, const T* from, const extents& e, echo::cuda::stream_ref s) {
    const auto y = whole(to, e);
    const auto x = whole(from, e);
    const auto row = per_row(to, e);
    run<forward>(results(y), operands(x, x), e, s);
    run<stashed>(results(y), operands(x, x), e, s);
    run<recomputed>(results(y), operands(x, x, x), e, s);
    run<cell>(results(y), operands(x, x, x, x), e, s);
    run<gates>(results(y, y, y), operands(x, x, x, x, x), e, s);
    run<gelu>(results(y), operands(x, x, x), e, s);
    run<gelu_tanh>(results(y), operands(x, x, x), e, s);
    run<normed>(results(y, row, row), operands(x, x, x, x), e, s);
    run<norm_gradient>(results(y), operands(x, x, x, x, x), e, s);
    run<soft>(results(y), operands(x), e, s);
    run<soft_gradient>(results(y), operands(x, x), e, s);
    run<bias>(results(row), operands(x, x), e, s);
}

} // namespace counted

void all_counted(void* to, const void* from, const echo::cuda::fused::extents& e, echo::cuda::stream_ref s) {
    counted::all(static_cast<float*>(to), static_cast<const float*>(from), e, s);
    counted::all(static_cast<__half*>(to), static_cast<const __half*>(from), e, s);
    counted::all(static_cast<__nv_bfloat16*>(to), static_cast<const __nv_bfloat16*>(from), e, s);
}
