// expect: apply<Op, …> takes one argument per parameter of Op::forward
// SPDX-License-Identifier: BSL-1.0
#include <echo/cuda/kernel/fused_type.hpp>
#include <echo/ops/arithmetic.hpp>

using namespace echo::cuda::fused;

#ifdef REJECT
using kernel = fuse<apply<echo::add_op, arg<0>>>;
#else
using kernel = fuse<apply<echo::add_op, arg<0>, arg<1>>>;
#endif
static_assert(kernel::outputs == 1);
