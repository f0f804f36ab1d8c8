// SPDX-License-Identifier: BSL-1.0
// plan_memory, for echo::core.
#include <echo/analysis/detail/plan_memory_impl.hpp>
