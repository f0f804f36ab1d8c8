// expect: gradient<Op, I, …> takes one argument per parameter of Op::gradient
// SPDX-License-Identifier: BSL-1.0
#include <echo/cuda/kernel/fused_type.hpp>
#include <echo/ops/activations.hpp>

using namespace echo::cuda::fused;

#ifdef REJECT
using kernel = fuse<gradient<echo::tanh_op, 0, arg<0>, arg<1>>>;
#else
using kernel = fuse<gradient<echo::tanh_op, 0, arg<0>, unused, arg<1>>>;
#endif
static_assert(kernel::outputs == 1);
