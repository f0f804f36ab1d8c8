// expect: deleted
// SPDX-License-Identifier: BSL-1.0
#include <echo/analysis/make_plan.hpp>

int main() {
    const auto tell = [](double) {};
    echo::plan_options options;
#ifdef REJECT
    options.progress = [](double) {};
#else
    options.progress = tell;
#endif
    return options.progress ? 0 : 1;
}
