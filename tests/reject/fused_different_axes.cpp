// expect: the ops of a fused kernel reduce over different axes
// SPDX-License-Identifier: BSL-1.0
#include <echo/cuda/kernel/fused_type.hpp>
#include <echo/ops/softmax.hpp>

using namespace echo::cuda::fused;

#ifdef REJECT
using kernel = fuse<apply<echo::softmax_op<0>, apply<echo::log_softmax_op<-1>, arg<0>>>>;
#else
using kernel = fuse<apply<echo::softmax_op<-1>, apply<echo::log_softmax_op<-1>, arg<0>>>>;
#endif
static_assert(kernel::outputs == 1);
