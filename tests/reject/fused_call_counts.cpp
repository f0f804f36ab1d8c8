// expect: a fused kernel is given one operand for each of its arguments
// SPDX-License-Identifier: BSL-1.0
#include <echo/cuda/kernel/fused_call.hpp>
#include <echo/ops/arithmetic.hpp>

using namespace echo::cuda::fused;
using kernel = fuse<apply<echo::add_op, arg<0>, arg<1>>>;

auto call(float* y, const float* x, const extents& e) {
#ifdef REJECT
    return body_of<kernel>(results(whole(y, e)), operands(whole(x, e)), e);
#else
    return body_of<kernel>(results(whole(y, e)), operands(whole(x, e), whole(x, e)), e);
#endif
}
