// SPDX-License-Identifier: BSL-1.0
// The paper's pass in both readings, and the minimum cut, on the graphs of the paper and on those where its
// print goes wrong: stashed units, by hand.
#include "hosts/random_graph.hpp"
#include "support/toy_graph.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/plan/plan_progress.hpp>
#include <echo/analysis/plan/strategies.hpp>
#include <echo/analysis/plan/strategies/echo.hpp>
#include <echo/analysis/plan/strategies/min_cut.hpp>
#include <echo/analysis/plan/strategies/mirror.hpp>
#include <echo/analysis/schedule/footprint.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace {

using support::toy_graph;
using value = toy_graph::value;

struct stashes {
    std::uint64_t baseline, printed, echo, min_cut;
    std::size_t echo_again, cut_again;     ///< steps that recompute
    std::size_t echo_encoded, heavy_again; ///< encode steps; recomputed heavy ops, of all
};

stashes stashes_of(const echo::snapshot& s, bool encode = true) {
    const auto c = echo::detail::find_candidates(s);
    echo::detail::schedule_builder lay_out(s, c);
    echo::replay judge;
    stashes found{};
    const auto of = [&](const echo::detail::decision& chosen, std::size_t* again, std::size_t* encoded) {
        const auto& steps = lay_out(chosen);
        for (const auto t : steps.steps()) {
            const bool recompute = steps[t].kind == echo::step_kind::recompute;
            if (again) *again += recompute && s[steps[t].node].kind != echo::op_kind::view;
            if (encoded) *encoded += steps[t].kind == echo::step_kind::encode;
            found.heavy_again += recompute && s[steps[t].node].kind == echo::op_kind::heavy;
        }
        return judge(s, steps).footprint.stash_bytes;
    };
    const echo::detail::gradient_needs needs(s, c, encode);
    const auto when = echo::detail::anchor_finder(s, c)(echo::detail::no_anchor);
    auto cut = echo::detail::decision::nothing(s);
    echo::detail::min_cut(s, c)(when, {.encode = encode}, cut);
    found.baseline = judge(s, echo::baseline_schedule(s)).footprint.stash_bytes;
    found.printed = of(echo::detail::echo_as_printed(s, c, needs), nullptr, nullptr);
    found.echo = of(echo::detail::echo_pass(s, c, needs, when), &found.echo_again, &found.echo_encoded);
    found.min_cut = of(cut, &found.cut_again, nullptr);
    return found;
}

void check_row(const stashes& found, std::uint64_t baseline, std::uint64_t printed, std::uint64_t best) {
    CHECK(found.baseline == baseline);
    CHECK(found.printed == printed);
    CHECK(found.echo == best);
    CHECK(found.min_cut == best);
    CHECK(found.heavy_again == 0);
}

/// `times` tensors of `n` bytes, each added to one of `times` × `n` and activated; gradients read what the
/// activations made.
echo::snapshot attention(std::uint64_t times, std::uint64_t n) {
    toy_graph g;
    const auto data = g.input(1);
    const auto keys = g.heavy({data}, times * n);
    std::vector<value> activated;
    for (std::uint64_t t = 0; t < times; ++t) {
        const auto query = g.heavy({data}, n);
        activated.push_back(g.light({g.light({query, keys}, times * n)}, times * n));
    }
    const auto loss = g.light(activated, 0);
    auto dy = g.seed();
    for (std::size_t t = activated.size(); t-- > 0;) dy = g.backward({dy, activated[t]}, 1);
    return g.finish({loss, dy});
}

/// Ends a graph: the loss reads `z`, and one gradient reads `read`.
echo::snapshot end(toy_graph& g, value z, std::vector<value> read, echo::positions one_bit = {}) {
    const auto loss = g.light({z}, 0);
    read.insert(read.begin(), g.seed());
    return g.finish({loss, g.backward(read, 1, one_bit)});
}

} // namespace

TEST_CASE("the toy graphs on which the printed algorithm goes wrong", "[echo_pass]") {
    SECTION("x + y, tanh: nothing to gain") {
        toy_graph g;
        const auto data = g.input(1);
        const auto x = g.heavy({data}, 10), y = g.heavy({data}, 10);
        const auto z = g.light({g.light({x, y}, 10)}, 10);
        const auto found = stashes_of(end(g, z, {z}));
        check_row(found, 10, 10, 10);
        CHECK(found.echo_again == 0); // the whole path is trimmed away
        CHECK(found.cut_again == 0);
    }
    SECTION("attention, four steps") {
        const auto found = stashes_of(attention(4, 10));
        check_row(found, 160, 160, 80);
    }
    SECTION("FC 10, tile 20, sum 5, tanh 5") {
        toy_graph g;
        const auto fc = g.heavy({g.input(1)}, 10);
        const auto z = g.light({g.light({g.light({fc}, 20)}, 5)}, 5);
        check_row(stashes_of(end(g, z, {z})), 5, 5, 5);
    }
    SECTION("10, 20, 15: only the whole chain gains") {
        toy_graph g;
        const auto z = g.light({g.light({g.heavy({g.input(1)}, 10)}, 20)}, 15);
        check_row(stashes_of(end(g, z, {z})), 15, 15, 10);
    }
    SECTION("a shared operand, and a big sibling that no gradient reads") {
        toy_graph g;
        const auto shared = g.heavy({g.input(1)}, 11);
        const auto z = g.light({shared}, 5), big = g.light({shared}, 100);
        check_row(stashes_of(end(g, g.light({z, big}, 1), {z})), 5, 11, 5);
    }
}

TEST_CASE("a path is trimmed from its ends, not where it is narrow", "[echo_pass]") {
    // To keep the middle of the chain would be best, as the minimum cut does; but neither end can be trimmed.
    toy_graph g;
    const auto wide = g.light({g.heavy({g.input(1)}, 100)}, 1000), narrow = g.light({wide}, 10);
    const auto z = g.light({narrow}, 1000);
    const auto found = stashes_of(end(g, z, {z}));
    CHECK(found.baseline == 1000);
    CHECK(found.echo == 100);
    CHECK(found.echo_again == 3);
    CHECK(found.min_cut == 10);
    CHECK(found.cut_again == 1);
}

TEST_CASE("the worked examples of the paper", "[echo_pass]") {
    SECTION("a chain of four tanh nodes: the outputs of three are made again") {
        toy_graph g;
        std::vector<value> made{g.heavy({g.input(1)}, 10)};
        for (int i = 0; i < 4; ++i) made.push_back(g.light({made.back()}, 10));
        const auto loss = g.light({made[4]}, 0);
        auto dy = g.seed();
        for (std::size_t i = 4; i > 0; --i) dy = g.backward({dy, made[i]}, 1);
        const auto found = stashes_of(g.finish({loss, dy}));
        CHECK(found.baseline == 40);
        CHECK(found.echo == 10);
        CHECK(found.min_cut == 10);
        CHECK(found.cut_again <= 4);
        CHECK(found.heavy_again == 0);
    }
    SECTION("T tensors broadcast-added to [T x N]: from T x T x N to 2 x T x N") {
        for (const std::uint64_t times : {4U, 64U}) {
            const auto found = stashes_of(attention(times, 10));
            CHECK(found.baseline == times * times * 10);
            CHECK(found.echo == 2 * times * 10);
            CHECK(found.min_cut == 2 * times * 10);
            CHECK(found.echo_again == 2 * times);
            CHECK(found.cut_again == 2 * times);
        }
    }
    SECTION("a fully-connected layer is not run again, its input feature map is") {
        toy_graph g;
        const auto w = g.input(7);
        const auto below = g.heavy({g.input(1)}, 10);
        const auto x = g.light({g.light({below}, 20)}, 40); // what the gradient of the layer reads
        const auto y = g.heavy({x, w}, 30);
        const auto z = g.light({y}, 30);
        const auto loss = g.light({z}, 0);
        auto dy = g.backward({g.seed(), z}, 30);
        dy = g.heavy_backward({dy, x, w}, 40);
        const auto found = stashes_of(g.finish({loss, dy}));
        CHECK(found.baseline == 70);
        CHECK(found.echo == 40); // 10 for x, 30 for z: y is as large as z, so neither is made again
        CHECK(found.min_cut == 40);
        CHECK(found.echo_again == 2);
        CHECK(found.cut_again == 2);
        CHECK(found.heavy_again == 0);
    }
    SECTION("ReLU and dropout keep one bit per element") {
        toy_graph g;
        const auto x = g.heavy({g.input(1)}, 128);
        const auto relu = g.light({x}, 128);
        const auto y = g.heavy({relu}, 256);
        const auto dropped = g.add({.kind = echo::op_kind::light, .rerun = echo::rerun_kind::never}, {y},
                                   {{.bytes = 256}, {.bytes = 256}});
        const auto mask = toy_graph::output(dropped, 1);
        const auto loss = g.light({dropped}, 0);
        auto dy = g.seed();
        dy = g.backward({dy, mask}, 256, {1});
        dy = g.backward({dy, relu}, 128, {1});
        const auto s = g.finish({loss, dy});
        const auto found = stashes_of(s);
        CHECK(found.baseline == 128 + 256);
        CHECK(found.echo == 4 + 8); // 32 and 64 elements
        CHECK(found.min_cut == 4 + 8);
        CHECK(found.echo_encoded == 2);
        CHECK(found.echo_again == 0);
        const auto whole = stashes_of(s, false);
        CHECK(whole.echo == 128 + 256);
        CHECK(whole.min_cut == 128 + 256);
    }
    SECTION("what a gradient of a fully-connected layer needs in full is not packed for ReLU") {
        toy_graph g;
        const auto relu = g.light({g.heavy({g.input(1)}, 128)}, 128);
        const auto y = g.heavy({relu}, 8);
        const auto loss = g.light({y}, 0);
        auto dy = g.heavy_backward({g.seed(), relu}, 128);
        dy = g.backward({dy, relu}, 128, {1});
        const auto found = stashes_of(g.finish({loss, dy}));
        CHECK(found.echo == 128);
        CHECK(found.min_cut == 128);
        CHECK(found.echo_encoded == 0);
    }
}

namespace {

/// A recurrence whose cell state flows through light ops only, with a heavy gate at every step.
echo::snapshot recurrence(std::size_t steps) {
    toy_graph g;
    const auto w = g.input(1000);
    auto hidden = g.heavy({g.input(8)}, 1000), cell = g.heavy({g.input(8)}, 1000);
    struct made {
        value hidden, gates, in, forget, cell, out;
    };
    std::vector<made> all;
    for (std::size_t t = 0; t < steps; ++t) {
        made m;
        m.hidden = hidden;
        m.gates = g.heavy({hidden, w}, 2000);
        m.in = g.light({m.gates}, 1000);
        m.forget = g.light({m.gates}, 1000);
        m.cell = cell = g.light({g.light({cell, m.forget}, 1000), m.in}, 1000);
        m.out = g.light({cell}, 1000);
        hidden = g.light({m.out, m.in}, 1000);
        all.push_back(m);
    }
    const auto loss = g.light({hidden}, 0);
    auto dy = g.backward({g.seed()}, 1000);
    for (std::size_t t = steps; t-- > 0;) {
        const made& m = all[t];
        dy = g.backward({dy, m.out, m.in}, 1000);
        dy = g.backward({dy, m.cell, m.forget, m.in, t ? all[t - 1].cell : m.cell}, 2000);
        dy = g.heavy_backward({dy, m.hidden, w}, 1000);
    }
    return g.finish({loss, dy});
}

} // namespace

namespace {

/// Lines 12 to 28 of Algorithm 1 for one node, letter by letter, whatever it costs.
bool releases_less(const echo::snapshot& s, const echo::detail::node_groups& subgraphs, echo::node_id n) {
    std::set<value> allocated, released;
    for (const auto e : s.inputs(n))
        for (const auto& u : s.uses(e)) {
            if (subgraphs.of(u.reader) == subgraphs.of(n)) {
                for (const auto v : s.outputs(u.reader)) allocated.insert(v);
                for (const auto v : s.inputs(u.reader)) released.insert(v);
            } else if (echo::runs_after_forward(s[u.reader].phase)) {
                allocated.insert(e);
            }
        }
    const auto bytes = [&](const std::set<value>& all) {
        std::uint64_t sum = 0;
        for (const auto v : all) sum += s[v].bytes;
        return sum;
    };
    return bytes(released) < bytes(allocated);
}

/// Edges that the comparison looks at for all nodes of the graph's subgraphs, per edge of the graph.
double visited_per_edge(const echo::snapshot& s) {
    const auto c = echo::detail::find_candidates(s);
    const auto subgraphs = echo::detail::partition(s, c);
    echo::detail::printed_comparison compare(s, subgraphs);
    for (std::size_t g = 0; g < subgraphs.size(); ++g)
        for (const auto n : subgraphs.members(g)) static_cast<void>(compare.releases_less(n));
    return static_cast<double>(compare.visited()) / static_cast<double>(s.edge_count());
}

} // namespace

TEST_CASE("the printed comparison is that of the paper, whatever is wide", "[echo_pass]") {
    hosts::dice d(1);
    std::size_t less = 0, compared = 0;
    for (int graph = 0; graph < 300; ++graph) {
        const auto s = hosts::random_graph(d)(5 + d.below(40));
        const auto subgraphs = echo::detail::partition(s, echo::detail::find_candidates(s));
        echo::detail::printed_comparison by_default(s, subgraphs), narrow(s, subgraphs, 0),
            some(s, subgraphs, 3);
        for (std::size_t g = 0; g < subgraphs.size(); ++g)
            for (const auto n : subgraphs.members(g)) {
                const bool expected = releases_less(s, subgraphs, n);
                CHECK(by_default.releases_less(n) == expected);
                CHECK(narrow.releases_less(n) == expected);
                CHECK(some.releases_less(n) == expected);
                less += expected;
                ++compared;
            }
    }
    CHECK(less > 100);
    CHECK(compared - less > 100);
}

TEST_CASE("the printed comparison takes time in step with the edges", "[echo_pass]") {
    constexpr std::size_t many = 20000;
    SECTION("one node reads many values, each of which another node reads as well") {
        toy_graph g;
        std::vector<value> all{g.light({g.heavy({g.input(1)}, 10)}, 10)};
        for (std::size_t i = 1; i < many; ++i) all.push_back(g.light({all.back()}, 10));
        const auto loss = g.light(all, 1), other = g.light(all, 1);
        CHECK(visited_per_edge(g.finish({loss, other})) < 40);
    }
    SECTION("many nodes share one input, and each has another of its own") {
        toy_graph g;
        const auto shared = g.light({g.heavy({g.input(1)}, 10)}, 10);
        std::vector<value> all;
        for (std::size_t i = 0; i < many; ++i) all.push_back(g.light({shared, g.light({g.input(1)}, 5)}, 10));
        CHECK(visited_per_edge(g.finish({all.back()})) < 40);
    }
    SECTION("many subgraphs share one input") {
        toy_graph g;
        const auto shared = g.input(10);
        std::vector<value> all;
        for (std::size_t i = 0; i < many; ++i)
            all.push_back(g.heavy({g.light({shared, g.heavy({g.input(1)}, 5)}, 10)}, 1));
        const auto all_read = g.heavy(all, 1);
        CHECK(visited_per_edge(g.finish({all_read})) < 40);
    }
}

TEST_CASE("anchors keep a recurrence from being rebuilt at once", "[echo_pass]") {
    const auto s = recurrence(40);
    const auto c = echo::detail::find_candidates(s);
    echo::detail::evaluator evaluate(s, c);
    const auto before = echo::footprint(s, echo::baseline_schedule(s));
    const auto peak_at = [&](std::uint32_t distance) {
        auto decided = echo::detail::decision::nothing(s);
        echo::detail::min_cut(s, c)(echo::detail::anchor_finder(s, c)(distance), {}, decided);
        return evaluate(decided).peak_bytes();
    };
    std::uint64_t best = ~std::uint64_t{0};
    const auto spans = echo::detail::anchor_finder(s, c)(echo::detail::no_anchor).largest_span;
    REQUIRE(spans >= 39);
    for (const auto d : echo::detail::anchor_distances(spans, 10)) best = std::min(best, peak_at(d));
    CHECK(best < before.peak_bytes);
    CHECK(best < peak_at(echo::detail::no_anchor)); // the whole chain at once costs more than pieces of it
    for (const auto how : {echo::strategy::echo, echo::strategy::min_cut}) {
        const auto p = echo::make_plan(s, {.how = how});
        CHECK(p.report().peak_bytes <= best);
        CHECK(p.report().peak_bytes < before.peak_bytes);
    }
}

TEST_CASE("what all anchor distances decide alike is replayed once", "[echo_pass]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 100), y = g.heavy({x}, 100);
    auto d = g.backward({g.seed(), g.light({x, y}, 0)}, 8);
    for (const auto v : {y, x, y, x}) d = g.heavy_backward({d, v}, 8); // needed far apart, none of it light
    const auto s = g.finish({d});
    const auto c = echo::detail::find_candidates(s);
    const echo::plan_options options;
    REQUIRE(echo::detail::anchor_finder(s, c)(echo::detail::no_anchor).largest_span >
            0); // there are several distances
    echo::detail::evaluator evaluate(s, c);
    echo::detail::plan_progress progress({}, false);
    std::vector<std::string> notes;
    const auto plan =
        echo::detail::strategies(s, c, options, evaluate, progress).propose(echo::strategy::echo, notes);
    CHECK(plan.recompute() == 0);
    CHECK(evaluate.count() == 1);
}
