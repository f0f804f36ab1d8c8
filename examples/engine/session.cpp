// SPDX-License-Identifier: BSL-1.0
#include "engine/session.hpp"

#include <echo/analysis/verify.hpp>
#include <echo/graph/dead_nodes.hpp>
#include <echo/graph/infer.hpp>
#include <echo/graph/read.hpp>

namespace engine {

void complete(graph& g) {
    echo::infer(g);
    echo::erase_dead_nodes(g);
}

planned make_plans(const graph& g, const session_options& options) {
    echo::snapshot s = echo::read(g);
    echo::plan plan = echo::make_plan(s, options.plan);
    echo::memory_plan memory = echo::plan_memory(s, plan, options.memory);
    echo::verify(s, plan, memory, options.plan.device);
    return {std::move(s), std::move(plan), std::move(memory)};
}

} // namespace engine
