// SPDX-License-Identifier: BSL-1.0
#include "unit.hpp"

unit there() { return {&echo::version, &typeid(echo::error), &echo::detail::printable}; }

void fail_there() { throw echo::error("node", "key", "problem", "advice"); }
