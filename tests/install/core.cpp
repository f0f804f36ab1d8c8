// SPDX-License-Identifier: BSL-1.0
// A project of two files that links echo::core: what plans, places and verifies is compiled in neither.
#include "core.hpp"

#include <echo/echo.hpp>

int main() {
    const auto s = chain();
    const auto plan = echo::make_plan(s);
    const auto memory = echo::plan_memory(s, plan);
    echo::verify(s, plan, memory);
    const auto points = echo::front(s).points;
    return memory.bytes() <= peak_elsewhere(s) && !points.empty() ? 0 : 1;
}
