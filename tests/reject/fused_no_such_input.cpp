// expect: the op has fewer inputs
// SPDX-License-Identifier: BSL-1.0
#include <echo/cuda/kernel/fused_type.hpp>
#include <echo/ops/activations.hpp>

using namespace echo::cuda::fused;

#ifdef REJECT
using kernel = fuse<gradient_of<apply<echo::tanh_op, arg<0>>, 1, arg<1>>>;
#else
using kernel = fuse<gradient_of<apply<echo::tanh_op, arg<0>>, 0, arg<1>>>;
#endif
static_assert(kernel::outputs == 1);
