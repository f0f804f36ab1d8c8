// SPDX-License-Identifier: BSL-1.0
#include "engine/cuda/recording.hpp"
#include "plan/unmet.hpp"
#include "train/places.hpp"
#include "train/prepare.hpp"

namespace train {

status print_calls(const options& asked) {
    engine::cuda::recording_backend on;
    std::optional<echo::format::progress> line(std::in_place);
    prepared p = prepare(
        asked, [&](engine::graph& g) { engine::complete(g, on); },
        [](prepared&) { return echo::link_model{}; }, *line);
    line.reset();
    if (!p.plans.plan.met())
        return complain(asked.model + ": ", echo::format::why_unmet(p.plans.graph, p.plans.plan.report()),
                        budget_unmet);
    engine::session<engine::cuda::recording_backend> s(*p.graph, on, {.seed = asked.seed},
                                                       std::move(p.plans));
    s.step();
    std::string text;
    for (const auto& step : on.steps()) text += to_string(step, on.pieces()) + '\n';
    echo::format::print(text);
    return success;
}

} // namespace train
