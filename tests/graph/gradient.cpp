// SPDX-License-Identifier: BSL-1.0
/// @file
/// Reverse mode over a host graph: the derivatives are right, sums are made as promised, copies stand late, and what a
/// gradient reads can be recorded.
#include "hosts/formula_host.hpp"

#include <echo/graph/dead_nodes.hpp>
#include <echo/graph/gradient.hpp>

#include <catch2/catch.hpp>

#include <random>

using hosts::formula_op;
using value = hosts::formula_host::value;
static_assert(echo::differentiable_graph<hosts::formula_host>);
static_assert(!echo::can_accumulate<hosts::formula_host>);
static_assert(echo::can_accumulate<hosts::copying_formula_host>);

namespace {

template <class G>
std::vector<std::optional<value>> gradients(G& g, value y, const std::vector<value>& xs,
                                            const echo::gradient_options<G>& options = {}) {
    const value ys[] = {y};
    return echo::gradient<G>(g, ys, xs, options);
}

/// A formula of every op but those that let nothing through.
template <class G>
value random_formula(G& g, std::vector<value>& xs, unsigned seed) {
    std::mt19937 draw(seed);
    std::vector<value> all;
    for (int i = 0; i < 3; ++i) xs.push_back(g.add(formula_op::input));
    all = xs;
    const auto any = [&] { return all[draw() % all.size()]; };
    for (int i = 0; i < 12; ++i) {
        const value a = any(), b = any();
        switch (draw() % 4) {
        case 0:
            all.push_back(g.add(formula_op::add, {a, b}));
            break;
        case 1:
            all.push_back(g.add(formula_op::multiply, {a, b}));
            break;
        case 2:
            all.push_back(g.add(formula_op::tanh, {a}));
            break;
        default:
            all.push_back(g.add(formula_op::halves, {a}));
            all.push_back({all.back().producer, 1});
        }
    }
    return g.add(formula_op::tanh,
                 {g.add(formula_op::add, {all[all.size() - 1], all[all.size() - 2], xs[0]})});
}

std::map<int, double> at(const std::vector<value>& xs, double shift = 0, std::size_t which = 0) {
    std::map<int, double> given;
    for (std::size_t i = 0; i < xs.size(); ++i)
        given[xs[i].producer] = 0.3 + 0.2 * static_cast<double>(i) + (i == which ? shift : 0);
    return given;
}

} // namespace

TEST_CASE("gradients are derivatives, with copies and without") {
    std::size_t flowed = 0, copied = 0;
    for (unsigned seed = 0; seed < 300; ++seed) {
        hosts::copying_formula_host g;
        std::vector<value> xs;
        const value y = random_formula(g, xs, seed);
        echo::gradient_options<hosts::copying_formula_host> options;
        if (seed % 2) options.mirror = [&](int n) { return (static_cast<unsigned>(n) + seed) % 3 != 0; };
        const std::size_t before = g.order.size();
        const auto dx = gradients(g, y, xs, options);
        for (std::size_t i = before; i < g.order.size(); ++i)
            copied += g.all.at(g.order[i]).phase == echo::phase::forward;
        for (std::size_t i = 0; i < xs.size(); ++i) {
            constexpr double h = 1e-6;
            const double slope = (g.evaluate(at(xs, h, i), y) - g.evaluate(at(xs, -h, i), y)) / (2 * h);
            if (!dx[i]) {
                CHECK(slope == Approx(0).margin(1e-9));
                continue;
            }
            ++flowed;
            CHECK(g.evaluate(at(xs), *dx[i]) == Approx(slope).epsilon(1e-5).margin(1e-7));
        }
    }
    CHECK(flowed > 500);
    CHECK(copied > 100);
}

TEST_CASE("fewer than eight gradients are summed at once, eight or more one by one") {
    for (const std::size_t readers : {1u, 2u, 7u, 8u, 9u}) {
        const auto build = [&](auto& g) {
            const value x = g.add(formula_op::input);
            std::vector<value> parts;
            for (std::size_t i = 0; i < readers; ++i) parts.push_back(g.add(formula_op::tanh, {x}));
            const value y = g.add(formula_op::add, parts);
            const auto dx = gradients(g, y, {x});
            const double t = std::tanh(0.5);
            CHECK(g.evaluate({{x.producer, 0.5}}, *dx[0]) ==
                  Approx(static_cast<double>(readers) * (1 - t * t)));
        };
        hosts::copying_formula_host chains;
        build(chains);
        CHECK(chains.sums == (readers > 1 && readers < 8));
        CHECK(chains.chained == (readers < 8 ? 0 : readers - 1));
        hosts::formula_host sums; // cannot accumulate: sums of two
        build(sums);
        CHECK(sums.sums == (readers < 2 ? 0u : readers < 8 ? 1u : readers - 1));
    }
}

TEST_CASE("the same value twice, the result itself, and nothing at all") {
    hosts::formula_host g;
    const value x = g.add(formula_op::input), unused = g.add(formula_op::input);
    const value y = g.add(formula_op::multiply, {x, x});
    const auto dx = gradients(g, y, {x, unused, y, x});
    REQUIRE(dx[0]);
    CHECK(g.evaluate({{x.producer, 3}, {unused.producer, 0}}, *dx[0]) == Approx(6));
    CHECK_FALSE(dx[1]);
    REQUIRE(dx[2]);
    CHECK(g.evaluate({{x.producer, 3}, {unused.producer, 0}}, *dx[2]) == 1);
    CHECK(dx[3] == dx[0]);
    CHECK(g.sums == 1); // for whoever asks
}

TEST_CASE("nothing flows through integers, nor where the host says so") {
    for (const auto op : {formula_op::index, formula_op::stop}) {
        hosts::formula_host g;
        const value x = g.add(formula_op::input);
        const value y = g.add(formula_op::tanh, {g.add(op, {x})});
        CHECK_FALSE(gradients(g, y, {x})[0]);
        CHECK(g.count(formula_op::tanh_gradient) == (op == formula_op::stop));
    }
}

TEST_CASE("nodes that lead to no x are not differentiated") {
    hosts::formula_host g;
    const value x = g.add(formula_op::input), other = g.add(formula_op::input);
    const value side = g.add(formula_op::tanh, {other});
    const value y = g.add(formula_op::add, {g.add(formula_op::tanh, {x}), side});
    gradients(g, y, {x});
    CHECK(g.count(formula_op::tanh_gradient) == 1);
}

TEST_CASE("copies stand just before their first reader, and only those that are read") {
    hosts::copying_formula_host g;
    const value x = g.add(formula_op::input);
    const value a = g.add(formula_op::tanh, {x}), b = g.add(formula_op::tanh, {a});
    const value c = g.add(formula_op::tanh, {b}), y = g.add(formula_op::tanh, {c});
    gradients(g, y, {x}, {.mirror = [&](int n) { return n == a.producer || n == b.producer; }});
    // The gradient of y and of c read y and c; then b is made again, from a made again, which then is there.
    std::vector<formula_op> behind;
    for (auto at = g.place(y.producer) + 1; at != g.order.end(); ++at) behind.push_back(g.all.at(*at).op);
    CHECK(behind == std::vector{formula_op::one, formula_op::tanh_gradient, formula_op::tanh_gradient,
                                formula_op::tanh, formula_op::tanh, formula_op::tanh_gradient,
                                formula_op::tanh_gradient});

    hosts::copying_formula_host unread;
    const value u = unread.add(formula_op::input), v = unread.add(formula_op::add, {u, u});
    gradients(unread, v, {u}, {.mirror = [](int) { return true; }});
    CHECK(unread.count(formula_op::add) == 2); // the node and the sum of the gradients; the copy is gone
}

TEST_CASE("what a gradient reads is recorded, and the graph left as it was") {
    hosts::copying_formula_host g;
    const value x = g.add(formula_op::input), w = g.add(formula_op::input);
    const value t = g.add(formula_op::tanh, {x}), m = g.add(formula_op::multiply, {t, w});
    const value s = g.add(formula_op::add, {m, x}), h = g.add(formula_op::halves, {s});
    const auto order = g.order;
    using echo::reads;
    const auto recorded = [&](value v) { return echo::record_gradient_reads(g, v.producer); };
    CHECK(recorded(t) == echo::recorded_reads{reads{{}, {0}}, reads{{}, {0}}});
    CHECK(recorded(m) == echo::recorded_reads{reads{{0, 1}, {}}, {}});
    CHECK(recorded(s) == echo::recorded_reads{});
    CHECK(recorded(h) == echo::recorded_reads{reads{{0}, {}}, {}});
    CHECK(g.order == order);
}

TEST_CASE("of each of the positions that can be named it is recorded whether one bit is read") {
    hosts::formula_host g;
    std::vector<value> xs;
    for (int i = 0; i < 63; ++i) xs.push_back(g.add(formula_op::input));
    const value y = g.add(formula_op::add, xs);
    for (std::size_t i = 0; i < 63; ++i) {
        echo::detail::read_notes<hosts::formula_host> notes(g, y.producer);
        notes.add(xs[i], true);
        notes.add({y.producer, i}, true);
        CHECK(notes.found() == echo::recorded_reads{echo::reads{{i}, {i}}, echo::reads{{i}, {i}}});
        notes.add(xs[i], false);
        CHECK(notes.found() == echo::recorded_reads{echo::reads{{i}, {i}}, echo::reads{{}, {i}}});
    }
}

TEST_CASE("bad input is refused by name") {
    const auto message = [](auto&& run) -> std::string {
        try {
            run();
        } catch (const echo::error& e) {
            return e.what();
        }
        return {};
    };
    hosts::formula_host g;
    const value x = g.add(formula_op::input), y = g.add(formula_op::wrong, {x});
    CHECK(message([&] { gradients(g, y, {x}); }).find("gives 0 gradients for 1 inputs") != std::string::npos);
    CHECK(message([&] { gradients(g, {y.producer, 5}, {x}); }).find("ys") == 0);
    CHECK(message([&] { gradients(g, y, {value{99, 0}}); }).find("xs") == 0);
    hosts::formula_host plain;
    const value p = plain.add(formula_op::input), q = plain.add(formula_op::tanh, {p});
    CHECK(message([&] {
              gradients(plain, q, {p}, {.mirror = [](int) { return true; }});
          }).find("cannot make copies") != std::string::npos);
}

TEST_CASE("readers that lead to no result do not count among the gradients that are summed") {
    hosts::copying_formula_host g;
    const value x = g.add(formula_op::input);
    std::vector<value> parts;
    for (int i = 0; i < 7; ++i) parts.push_back(g.add(formula_op::tanh, {x}));
    const value y = g.add(formula_op::add, parts);
    g.add(formula_op::tanh, {x});
    const auto dx = gradients(g, y, {x});
    CHECK(g.sums == 1);
    CHECK(g.chained == 0);
    const double t = std::tanh(0.5);
    CHECK(g.evaluate({{x.producer, 0.5}}, *dx[0]) == Approx(7 * (1 - t * t)));
}
