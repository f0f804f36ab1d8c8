// expect: a result of a fused kernel is const
// SPDX-License-Identifier: BSL-1.0
#include <echo/cuda/kernel/fused_call.hpp>
#include <echo/ops/activations.hpp>

using namespace echo::cuda::fused;
using kernel = fuse<apply<echo::tanh_op, arg<0>>>;

#ifdef REJECT
using result = const float;
#else
using result = float;
#endif

auto call(result* y, const float* x, const extents& e) {
    return body_of<kernel>(results(whole(y, e)), operands(whole(x, e)), e);
}
