// expect: needs a CUDA compiler
// SPDX-License-Identifier: BSL-1.0
#include <echo/cuda/kernel/bitmask.hpp>
#ifdef REJECT
#include <echo/cuda/bitmask.cuh>
#endif

static_assert(echo::cuda::is_positive(1.0f));
