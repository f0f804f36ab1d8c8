// expect: output<K, apply<Op, …>>: the op has fewer outputs
// SPDX-License-Identifier: BSL-1.0
#include <echo/cuda/kernel/fused_type.hpp>
#include <echo/ops/activations.hpp>

using namespace echo::cuda::fused;

#ifdef REJECT
using kernel = fuse<output<1, apply<echo::tanh_op, arg<0>>>>;
#else
using kernel = fuse<output<0, apply<echo::tanh_op, arg<0>>>>;
#endif
static_assert(kernel::outputs == 1);
