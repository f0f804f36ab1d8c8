// SPDX-License-Identifier: BSL-1.0
/// @file
/// Random executable graphs, trained with and without Echo: the same bits for every strategy and budget. What the runs
/// executed is counted, so that a generator that exercises nothing fails.
#include "engine/cpu/backend.hpp"
#include "engine/session.hpp"
#include "support/sanitized.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

using namespace engine;

namespace {

struct random_task {
    std::unique_ptr<engine::graph> graph;
    value x;
    std::vector<trained> parameters;
};

constexpr std::int64_t batch = 4, width = 24;

constexpr std::size_t graphs = support::sanitized ? 40 : 500;

/// Layers of light ops between products; some values only gradients read.
random_task draw_task(unsigned seed) {
    std::mt19937 draw(seed);
    const auto below = [&](std::size_t n) { return draw() % n; };
    random_task t{std::make_unique<engine::graph>(below(2) ? baseline::paper : baseline::modern), {}, {}};
    graph& g = *t.graph;
    t.x = data(g, "x", f32({batch, width}));
    std::vector<value> all{t.x};
    const auto any = [&] { return all[all.size() - 1 - below(std::min<std::size_t>(all.size(), 5))]; };
    std::vector<value> late;
    std::size_t weights = 0;
    const auto product = [&](value v) {
        const std::string name = "w" + std::to_string(weights++);
        const value w = parameter(g, name, {width, width}, {initial::uniform, 0.3});
        const value b = parameter(g, name + ".b", {width}, {initial::uniform, 0.1});
        all.push_back(fully_connected(g, v, w, b));
    };
    product(t.x);
    const std::size_t count = 8 + below(25);
    for (std::size_t i = 0; i < count; ++i) {
        const value a = any(), b = any();
        switch (below(14)) {
        case 0:
            product(a);
            break;
        case 1:
            all.push_back(tanh(g, a));
            break;
        case 2:
            all.push_back(sigmoid(g, a));
            break;
        case 3:
            all.push_back(relu(g, a));
            break;
        case 4:
            all.push_back(dropout(g, a, 0.25));
            break;
        case 5:
            all.push_back(add(g, a, b));
            break;
        case 6: {
            const value small = tanh(g, a);
            all.push_back(multiply(g, small, b));
            break;
        }
        case 7: {
            const value row = mean(g, a, {0}, true);
            all.push_back(broadcast_subtract(g, b, row));
            break;
        }
        case 8: {
            const value view = reshape(g, a, {width, batch});
            const value turned = swap_axes(g, view, 0, 1);
            all.push_back(tanh(g, turned));
            break;
        }
        case 9: {
            const auto parts = slice_channel(g, a, 2);
            all.push_back(concat(g, {parts[1], parts[0]}, 1));
            break;
        }
        case 10: { // a square map: [batch, batch] weights of rows
            const value scores = batch_dot(g, a, b, false, true);
            const value bounded = sigmoid(g, scores);
            all.push_back(batch_dot(g, bounded, b));
            break;
        }
        case 11:
            late.push_back(square(g, a));
            break;
        case 12: {
            const value dropped = dropout(g, a, 0.5);
            all.push_back(relu(g, dropped));
            break;
        }
        default: {
            const value pair = stack(g, {a, b}, 0);
            const value halved = scale(g, pair, 0.5);
            all.push_back(sum(g, halved, {0}));
        }
        }
    }
    const value both = add(g, all.back(), all[1]); // all[1] has parameters
    const value bounded = tanh(g, both);
    const value squares = square(g, bounded);
    const value flat = reshape(g, squares, {batch * width});
    const value loss = mean(g, flat, {0});
    t.parameters = train(g, loss, {.clip = 1});
    // A measure of the forward pass that the backward pass alone asks for.
    for (const value& v : late) {
        const graph::in_phase backward(g, echo::phase::backward);
        g.results().push_back(mean(g, v, {0, 1}));
    }
    // Updates come last.
    std::vector<node*> updates;
    for (node* n : g.nodes())
        if (n->phase == echo::phase::update) updates.push_back(n);
    for (node* n : updates) g.move(n, nullptr);
    return t;
}

struct outcome {
    std::vector<float> bits;
    step_counts counts;
    std::size_t chained = 0;
    std::uint64_t peak = 0;
};

/// Step by step, and each looks at what it reads; or in chains, a few elements of each step at a time.
enum class running { checked, chained };

outcome run(unsigned seed, const echo::plan_options& how, running in) {
    random_task t = draw_task(seed);
    cpu::backend on(seed % 5 < 2 ? 2 : 1, 32); // strategies take turns of four
    session<cpu::backend> s(
        *t.graph, on,
        {.plan = how, .memory = {.align = 64, .limit = 0}, .execution = {.check = in == running::checked}});
    std::mt19937 draw(seed);
    for (float& x : s.outside().f32(t.x)) x = static_cast<float>(draw() % 2001) / 1000.0f - 1;
    outcome made;
    for (int i = 0; i < 2; ++i) made.bits.push_back(s.step());
    for (const trained& p : t.parameters)
        for (const value& v : {p.parameter, p.gradient}) {
            const auto data = s.outside().f32(v);
            made.bits.insert(made.bits.end(), data.begin(), data.end());
        }
    for (const value& v : t.graph->results()) { // the loss, and what the late nodes lead to
        float is;
        std::memcpy(&is, s.execution().latest(v), sizeof is);
        made.bits.push_back(is);
    }
    made.counts = s.execution().counts();
    made.chained = s.execution().chained();
    made.peak = s.plan().report().peak_bytes;
    CHECK(s.memory().bytes() == s.execution().arena_bytes());
    CHECK(s.execution().high_water() <= s.execution().arena_bytes());
    return made;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

} // namespace

TEST_CASE("a thousand random graphs give the same bits with every strategy") {
    step_counts all;
    std::size_t smaller = 0, chained = 0;
    for (unsigned seed = 0; seed < graphs; ++seed) {
        INFO("seed " << seed);
        const outcome plain = run(seed, {.how = echo::strategy::baseline}, running::checked);
        echo::plan_options options{.how =
                                       std::array{echo::strategy::mirror, echo::strategy::echo,
                                                  echo::strategy::min_cut, echo::strategy::budget}[seed % 4]};
        if (options.how == echo::strategy::budget) options.budget = plain.peak * (5 + seed / 4 % 5) / 10;
        const outcome o = run(seed, options, running::checked), c = run(seed, options, running::chained);
        CHECK(same_bits(o.bits, plain.bits));
        CHECK(same_bits(c.bits, plain.bits));
        CHECK(c.counts == o.counts);
        if (seed / 4 % 4 == 0) {
            options.host.fuse = true;
            const outcome f = run(seed, options, seed % 3 ? running::chained : running::checked);
            CHECK(same_bits(f.bits, plain.bits));
            CHECK(f.peak <=
                  (options.how == echo::strategy::budget ? std::max(o.peak, options.budget) : o.peak));
            all.fused += f.counts.fused;
        }
        chained += c.chained;
        CHECK(o.peak <= plain.peak);
        smaller += o.peak < plain.peak;
        all.recomputed += o.counts.recomputed, all.seeded += o.counts.seeded;
        all.encoded += o.counts.encoded, all.late += o.counts.late, all.inplace += o.counts.inplace;
    }
    WARN("smaller " << smaller << ", recomputed " << all.recomputed << ", fused " << all.fused << ", seeded "
                    << all.seeded << ", encoded " << all.encoded << ", late " << all.late << ", in place "
                    << all.inplace << ", in chains " << chained);
    CHECK(chained > graphs);
    CHECK(smaller > graphs * 3 / 10);
    CHECK(all.recomputed > graphs / 2);
    CHECK(all.fused > 0);
    CHECK(all.seeded > graphs / 20);
    CHECK(all.encoded > graphs / 10);
    CHECK(all.late > graphs / 20);
    CHECK(all.inplace > graphs);
}
