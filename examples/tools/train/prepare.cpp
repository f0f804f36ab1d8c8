// SPDX-License-Identifier: BSL-1.0
#include "train/memory.hpp"
#include "train/prepare.hpp"

#include <echo/analysis/schedule/footprint.hpp>
#include <echo/analysis/verify.hpp>
#include <echo/graph/read.hpp>

#include <chrono>

namespace train {
namespace {

/// Aligned for vectors; on the CPU only where that takes no byte more than the plan's peak.
echo::memory_plan place(const echo::snapshot& s, const echo::plan& plan, const options& asked) {
    echo::memory_options wanted{.align = alignment(asked.on)};
    if (asked.habits == engine::baseline::paper &&
        (asked.how == echo::strategy::baseline || asked.how == echo::strategy::mirror)) {
        wanted.pool.emplace();
        return echo::plan_memory(s, plan, wanted);
    }
    auto aligned = echo::plan_memory(s, plan, wanted);
    if (asked.on == device::cuda || aligned.bytes() <= plan.report().peak_bytes) return aligned;
    wanted.align = 4;
    auto dense = echo::plan_memory(s, plan, wanted);
    return dense.bytes() < aligned.bytes() ? dense : aligned;
}

} // namespace

prepared prepare(const options& asked, const std::function<void(engine::graph&)>& complete,
                 const std::function<echo::link_model(prepared&)>& link_of, echo::format::progress& line) {
    line.stage("building");
    prepared made;
    made.graph = std::make_unique<engine::graph>(asked.habits);
    engine::graph& g = *made.graph;
    made.built = build(g, {.name = asked.model,
                           .preset = asked.preset,
                           .batch = asked.batch,
                           .data = asked.data,
                           .seed = asked.seed});
    engine::training how = made.built.model.optimizer;
    if (asked.rate) how.with_sgd.rate = how.with_adam.rate = *asked.rate;
    engine::train(g, made.built.model.loss, how);
    complete(g);
    for (const engine::value& v : g.inputs(engine::role::parameter))
        made.parameters += engine::elements(g[v]);
    echo::link_model link;
    if (asked.offload) {
        line.stage("measuring");
        link = link_of(made);
        forget_most_resident_bytes(); // of steps that nobody asked for
    }

    line.stage("planning");
    const auto start = std::chrono::steady_clock::now();
    echo::snapshot s = echo::read(g);
    const auto baseline = echo::baseline_schedule(s);
    const bool plain = asked.how == echo::strategy::baseline || asked.how == echo::strategy::mirror;
    echo::plan_options wanted{
        .how = asked.how, .host = {.fuse = !plain, .offload = bool{link}}, .link = link};
    if (asked.budget) wanted.budget = asked.budget->bytes(echo::footprint(s, baseline).peak_bytes);
    wanted.max_overhead = max_overhead_of(asked);
    const auto show = [&](double part) { line.part_done(part); };
    wanted.progress = show;
    echo::plan plan = echo::make_plan(s, wanted);
    line.stage("placing");
    echo::memory_plan memory = place(s, plan, asked);
    line.stage("verifying");
    echo::verify(s, plan, memory);
    made.pass_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (asked.profile) {
        made.before = echo::profile(s, baseline);
        made.after = echo::profile(s, plan.steps());
    }
    made.plans = {std::move(s), std::move(plan), std::move(memory)};
    return made;
}

void expect_room(const engine::planned& p) {
    constexpr std::uint64_t besides = 64 << 20; // code, threads, compiled kernels
    const std::uint64_t needed = needed_bytes(p) + besides, free = available_bytes();
    if (needed <= free) return;
    throw echo::error({}, "memory",
                      fmt::format("{} bytes are needed ({} for the arena, {} for parameters, optimizer state "
                                  "and data, {} besides), {} are available",
                                  needed, p.memory.bytes(), p.plan.report().resident_bytes, besides, free),
                      "give a smaller --batch or --preset, or a --budget");
}

} // namespace train
