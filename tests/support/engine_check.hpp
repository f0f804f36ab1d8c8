// SPDX-License-Identifier: BSL-1.0
/// @file
/// Ops of the engine against what they should do: forward values by a direct loop, gradients by finite differences.
#pragma once

#include "engine/cpu/backend.hpp"
#include "engine/run_op.hpp"
#include "engine/session.hpp"

#include <echo/graph/gradient.hpp>

#include <catch2/catch.hpp>

#include <functional>
#include <random>
#include <string>
#include <vector>

namespace support {

/// Numbers in [low, high], a multiple of 1/64 apart from one another at the least, so that none is a tie by accident.
inline std::vector<float> numbers(std::size_t n, unsigned seed, double low = -1, double high = 1) {
    std::mt19937 draw(seed);
    std::vector<float> made(n);
    for (float& x : made)
        x = static_cast<float>(low + (high - low) * static_cast<double>(draw() % 100003) / 100003.0);
    return made;
}

/// One differentiable input: its shape and the range it is drawn from.
struct argument {
    echo::shape shape;
    double low = -1, high = 1;
};

struct gradient_check {
    std::vector<argument> arguments;
    /// Builds what is differentiated from the arguments; other inputs it makes itself and fills through `fill`.
    std::function<engine::value(engine::graph&, const std::vector<engine::value>&)> build;
    std::function<void(engine::graph&, engine::residents&)> fill{};
    double step = 1e-2, tolerance = 3e-3;
    engine::baseline habits = engine::baseline::modern;
};

/// The gradient of Σ c·y, with c drawn once, against central differences of the forward pass.
inline void check_gradients(const gradient_check& check) {
    using namespace engine;
    graph g(check.habits);
    std::vector<value> xs;
    for (std::size_t i = 0; i < check.arguments.size(); ++i)
        xs.push_back(parameter(g, "x" + std::to_string(i), check.arguments[i].shape, {}));
    const value y = check.build(g, xs);
    const auto size = static_cast<std::int64_t>(elements(g[y]));
    const value c = data(g, "c", f32({size}));
    const value weighed = multiply(g, reshape(g, y, {size}), c);
    const value loss = sum(g, weighed, {0});
    const value ys[] = {loss};
    const auto dx = echo::gradient<graph>(g, ys, xs);
    g.results() = {loss};
    for (const auto& v : dx) {
        REQUIRE(v);
        g.results().push_back(*v);
    }
    cpu::backend on(2);
    complete(g, on);
    const planned p = make_plans(g, {.plan = {.how = echo::strategy::baseline}});
    residents outside;
    executor<cpu::backend> run(g, p.graph, p.plan.steps(), p.memory, outside, on, {.check = true});
    const auto weights = numbers(static_cast<std::size_t>(size), 99);
    std::copy(weights.begin(), weights.end(), outside.f32(c).begin());
    for (std::size_t i = 0; i < xs.size(); ++i) {
        const argument& a = check.arguments[i];
        const auto drawn = numbers(outside.f32(xs[i]).size(), 7 + static_cast<unsigned>(i), a.low, a.high);
        std::copy(drawn.begin(), drawn.end(), outside.f32(xs[i]).begin());
    }
    if (check.fill) check.fill(g, outside);
    run.run(1, 1);
    std::vector<std::vector<float>> found;
    for (std::size_t i = 0; i < xs.size(); ++i) {
        CHECK(g[*dx[i]].shape == check.arguments[i].shape);
        const auto* at = reinterpret_cast<const float*>(run.latest(*dx[i]));
        found.emplace_back(at, at + outside.f32(xs[i]).size());
    }
    for (std::size_t i = 0; i < xs.size(); ++i) {
        const auto x = outside.f32(xs[i]);
        for (std::size_t k = 0; k < x.size(); ++k) {
            const float was = x[k];
            x[k] = was + static_cast<float>(check.step);
            const double width = static_cast<double>(x[k]) - static_cast<double>(was);
            const double above = static_cast<double>(run.run(1, 1));
            x[k] = was - static_cast<float>(width);
            const double below = static_cast<double>(run.run(1, 1));
            x[k] = was;
            INFO("argument " << i << ", element " << k);
            CHECK(static_cast<double>(found[i][k]) ==
                  Approx((above - below) / (2 * width)).epsilon(check.tolerance).margin(check.tolerance));
        }
    }
}

/// Runs an op on f32 inputs drawn from [−1, 1] (or as given) and compares output `k` with a direct loop.
inline void check_values(const engine::op& o, const std::vector<engine::tensor_data>& in,
                         const std::vector<double>& expected, std::size_t k = 0, double tolerance = 1e-5) {
    engine::cpu::backend on(2);
    const auto out = engine::run_op(on, o, in);
    REQUIRE(out[k].f32.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        INFO("element " << i);
        CHECK(static_cast<double>(out[k].f32[i]) == Approx(expected[i]).epsilon(tolerance).margin(tolerance));
    }
}

} // namespace support
