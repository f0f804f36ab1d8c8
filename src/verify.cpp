// SPDX-License-Identifier: BSL-1.0
// verify, for echo::core.
#include <echo/analysis/detail/verify_impl.hpp>
