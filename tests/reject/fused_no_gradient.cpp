// expect: an op has no gradient for that input
// SPDX-License-Identifier: BSL-1.0
#include <echo/cuda/kernel/fused_type.hpp>
#include <echo/ops/arithmetic.hpp>

using namespace echo::cuda::fused;

#ifdef REJECT
using kernel = fuse<gradient<echo::where_op, 0, arg<0>, arg<1>, unused, unused, unused>>;
#else
using kernel = fuse<gradient<echo::where_op, 1, arg<0>, arg<1>, unused, unused, unused>>;
#endif
static_assert(kernel::outputs == 1);
