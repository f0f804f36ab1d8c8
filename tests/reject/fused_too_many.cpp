// expect: a fused kernel has at most 16 operands and results
// SPDX-License-Identifier: BSL-1.0
#include <echo/cuda/kernel/fused_type.hpp>
#include <echo/ops/activations.hpp>

using namespace echo::cuda::fused;

#ifdef REJECT
using kernel = fuse<apply<echo::tanh_op, arg<15>>>;
#else
using kernel = fuse<apply<echo::tanh_op, arg<14>>>;
#endif
static_assert(kernel::outputs == 1);
