// SPDX-License-Identifier: BSL-1.0
// make_plan and front, for echo::core.
#include <echo/analysis/detail/make_plan_impl.hpp>
