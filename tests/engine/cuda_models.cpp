// SPDX-License-Identifier: BSL-1.0
/// @file
/// The four models, tiny, trained by the kernels of the CUDA back end on the CPU: the same bits of losses, parameters
/// and states for every strategy, and the CPU backend's losses but for rounding.
#include "engine/cpu/backend.hpp"
#include "engine/cuda/host_backend.hpp"
#include "engine/models/model.hpp"
#include "engine/session.hpp"
#include "support/model_check.hpp"
#include "support/tiny_models.hpp"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

using namespace models;
using namespace support::tiny;

namespace {

/// What a run leaves behind.
struct outcome {
    std::vector<float> losses;
    std::vector<std::vector<float>> values; ///< of each step gradients and parameters; states
    std::size_t gradients = 0;              ///< of a step
    engine::step_counts counts{};
    std::uint64_t peak = 0;
};

template <class Backend>
outcome train(const subject& what, Backend& on, const echo::plan_options& plan) {
    engine::graph g;
    const model m = what.build(g);
    const auto trained = engine::train(g, m.loss, m.optimizer);
    engine::session<Backend> s(g, on, {.plan = plan, .memory = {.align = 4}, .execution = {.check = true}});
    outcome made;
    made.gradients = trained.size();
    const auto keep = [&](const engine::value& v) {
        const auto data = s.outside().f32(v);
        made.values.emplace_back(data.begin(), data.end());
    };
    for (std::uint64_t i = 1; i <= 3; ++i) {
        m.fill(s.outside(), i);
        made.losses.push_back(s.step());
        for (const auto& t : trained) keep(t.gradient);
        for (const auto& t : trained) keep(t.parameter);
    }
    for (const auto& v : g.inputs(engine::role::state)) keep(v);
    made.counts = s.execution().counts();
    made.peak = s.plan().report().peak_bytes;
    return made;
}

bool same_bits(const outcome& a, const outcome& b) {
    if (!support::same_bits(a.losses, b.losses) || a.values.size() != b.values.size()) return false;
    for (std::size_t i = 0; i < a.values.size(); ++i)
        if (!support::same_bits(a.values[i], b.values[i])) return false;
    return true;
}

double norm(const std::vector<float>& x) {
    double sum = 0;
    for (const float each : x) sum += static_cast<double>(each) * static_cast<double>(each);
    return std::sqrt(sum);
}

/// The difference of the gradients of the first step, all together, relative to their norm.
double difference(const outcome& a, const outcome& b) {
    double off = 0, all = 0;
    for (std::size_t i = 0; i < a.gradients; ++i) {
        std::vector<float> d = a.values[i];
        for (std::size_t k = 0; k < d.size(); ++k) d[k] -= b.values[i][k];
        off = std::hypot(off, norm(d)), all = std::hypot(all, norm(b.values[i]));
    }
    return off / all;
}

} // namespace

TEST_CASE("the kernels train the four models to the same bits under every strategy, and to the CPU backend's "
          "losses") {
    const auto* const what = GENERATE(&tiny_nmt, &tiny_transformer, &tiny_deepspeech2, &tiny_resnet);
    INFO(what->name);
    engine::cuda::host_backend kernels(1);
    const outcome plain = train(*what, kernels, {.how = echo::strategy::baseline});
    CHECK(plain.counts.inplace > 0);
    CHECK(plain.losses.back() != plain.losses.front());
    const auto check = [&](const echo::plan_options& plan) {
        INFO(echo::name_of(plan.how));
        const outcome o = train(*what, kernels, plan);
        CHECK(same_bits(o, plain));
        return o;
    };
    for (const auto how : {echo::strategy::echo, echo::strategy::min_cut}) {
        const outcome o = check({.how = how});
        if (what->recomputes) CHECK(o.counts.recomputed > 0);
    }
    const outcome lowest = check({.how = echo::strategy::budget, .budget = 1});
    CHECK(lowest.counts.recomputed > 0);
    CHECK(lowest.peak < plain.peak);

    engine::cpu::backend processor(1);
    const outcome expected = train(*what, processor, {.how = echo::strategy::baseline});
    CHECK(difference(plain, expected) < 1e-4);
    for (std::size_t i = 0; i < plain.losses.size(); ++i) {
        INFO("step " << i + 1);
        CHECK(plain.losses[i] == Approx(expected.losses[i]).epsilon(1e-4));
    }
}
