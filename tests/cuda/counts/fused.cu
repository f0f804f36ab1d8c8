// SPDX-License-Identifier: BSL-1.0
/// @file
/// Fused kernels as they are counted: the typical ones, under the names that they have where they are run.
#include "../every_fused.cuh"

namespace {

template <class T>
void counted(void* to, const void* from, const echo::cuda::fused::extents& e, echo::cuda::stream_ref s) {
    every_fused(static_cast<T*>(to), static_cast<const T*>(from), static_cast<const T*>(from), e, s);
}

} // namespace

void all_counted(void* to, const void* from, const echo::cuda::fused::extents& e, echo::cuda::stream_ref s) {
    counted<float>(to, from, e, s);
    counted<__half>(to, from, e, s);
    counted<__nv_bfloat16>(to, from, e, s);
}
