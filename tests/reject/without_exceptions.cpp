// expect: Echo reports errors by throwing echo::error: compile without -fno-exceptions
// options: -fno-exceptions
// SPDX-License-Identifier: BSL-1.0
#include <echo/error.hpp>

const echo::error none{{}, {}, "nothing is wrong"};
