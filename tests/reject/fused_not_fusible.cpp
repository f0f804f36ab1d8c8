// expect: an op of a fused kernel is neither element-wise nor a reduction of rows
// SPDX-License-Identifier: BSL-1.0
#include <echo/cuda/kernel/fused_type.hpp>
#include <echo/ops/arithmetic.hpp>
#include <echo/ops/matmul.hpp>

using namespace echo::cuda::fused;

#ifdef REJECT
using kernel = fuse<apply<echo::batch_dot_op, arg<0>, arg<1>>>;
#else
using kernel = fuse<apply<echo::multiply_op, arg<0>, arg<1>>>;
#endif
static_assert(kernel::outputs == 1);
