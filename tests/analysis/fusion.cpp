// SPDX-License-Identifier: BSL-1.0
// What is fused and what is not, on graphs small enough to follow by hand: the paper's attention, chains, views, and
// one case for each reason to leave a recompute alone.
#include "support/laws.hpp"
#include "support/numbered_graph.hpp"
#include "support/toy_graph.hpp"

#include <echo/analysis/fused_profile.hpp>
#include <echo/analysis/plan/decision/fusion.hpp>
#include <echo/analysis/plan/join_fronts.hpp>
#include <echo/analysis/plan/plan_outcome.hpp>
#include <echo/analysis/verify/checked_replay.hpp>

#include <catch2/catch.hpp>

namespace {

using support::toy_graph;
using value = toy_graph::value;

constexpr echo::host_abilities fuses{.fuse = true};

/// Node numbers in execution order; `'`: again, `~`: again and fused, `"`: packed.
std::string shown(const echo::schedule& steps) {
    std::string all;
    for (const auto t : steps.steps()) {
        all += (all.empty() ? "" : " ") + std::to_string(steps[t].node.index());
        if (steps[t].kind == echo::step_kind::encode) all += "\"";
        if (steps[t].kind == echo::step_kind::recompute) all += steps[t].fused ? "~" : "'";
    }
    return all;
}

/// Nodes in the order in which they stand, `n` for a first run and `-n` for another; each reads the latest copies.
echo::schedule steps_of(const echo::snapshot& s, const std::vector<int>& nodes) {
    echo::schedule steps;
    std::vector<echo::step_id> latest(s.node_count());
    for (const int number : nodes) {
        const echo::node_id n(static_cast<std::size_t>(number < 0 ? -number : number));
        const auto kind = number < 0 ? echo::step_kind::recompute : echo::step_kind::run;
        const auto t = steps.add({.node = n, .kind = kind});
        for (const auto v : s.inputs(n)) steps.read({latest[s[v].producer.index()], s.output_index(v)});
        latest[n.index()] = t;
    }
    return steps;
}

/// The steps, fused; both replays and the definition agree on what is left, and nothing is worse.
echo::schedule fused(const echo::snapshot& s, const std::vector<int>& nodes,
                     echo::detail::fusion_limits limits = {}) {
    const auto c = echo::detail::find_candidates(s, fuses);
    auto steps = steps_of(s, nodes);
    const auto judged = echo::replay{}(s, steps);
    const auto before = judged.footprint;
    echo::detail::fuser(s, c, limits)(steps, judged);
    const auto after = support::require_sound(s, steps);
    CHECK(after.peak_bytes <= before.peak_bytes);
    CHECK(echo::detail::checked_replay(s, steps, fuses).after.peak_bytes == after.peak_bytes);
    return steps;
}

/// The paper's attention, so many decoder steps: a query is added to each of ten keys, tanh, and a sum with weights.
/// The gradient of tanh reads tanh.
struct attention {
    toy_graph g;
    std::vector<value> tanh, score;
    echo::snapshot s;

    explicit attention(std::size_t steps) {
        const auto x = g.input(8);           // 0
        const auto keys = g.heavy({x}, 400); // 1
        std::vector<value> query, results;
        for (std::size_t i = 0; i < steps; ++i) {
            query.push_back(g.heavy({i ? score.back() : x}, 40));           // 2
            tanh.push_back(g.light({g.light({query[i], keys}, 400)}, 400)); // 3, 4
            score.push_back(g.light({tanh[i]}, 40));                        // 5
        }
        results.push_back(g.heavy({score.back()}, 4)); // 6
        auto dy = g.seed();                            // 7
        for (std::size_t i = steps; i-- > 0;) {
            const auto d_tanh = g.backward({g.heavy_backward({dy}, 400), tanh[i]}, 400); // 8, 9
            results.push_back(g.heavy_backward({d_tanh, keys}, 4));                      // 10
            results.push_back(dy = g.heavy_backward({d_tanh, query[i]}, 40));            // 11
        }
        s = g.finish(results);
    }
};

} // namespace

TEST_CASE("attention: the big map is rebuilt inside the gradient that reads it", "[fusion]") {
    const attention one(1);
    const auto plain = echo::make_plan(one.s, {.how = echo::strategy::min_cut}),
               p = echo::make_plan(one.s, {.how = echo::strategy::min_cut, .host = fuses});
    CHECK(shown(plain.steps()) == "0 1 2 3 4 5 6 7 8 9 10 11");
    CHECK(shown(p.steps()) == "0 1 2 3 4 5 6 7 8 3~ 4~ 9 10 11");
    CHECK(p.report().fused_nodes == 2);
    CHECK(p.report().recomputed_nodes == 2);
    CHECK(p.report().recompute_time_ratio == 0);
    // Query, keys and loss are 444. To make tanh again takes a second map beside it, so it is no use; inside its
    // gradient it takes none, and there are the gradients before and behind it only. The sum and tanh themselves,
    // with query and keys, are 1,240 in the forward pass.
    CHECK(plain.report().peak_bytes == 444 + 1200);
    CHECK(p.report().peak_bytes == 444 + 800);
    CHECK(plain.report().stash_bytes == 840);
    CHECK(p.report().stash_bytes == 440);
    echo::verify(one.s, p, echo::plan_memory(one.s, p));

    const attention six(6);
    const auto apart = echo::make_plan(six.s, {.how = echo::strategy::min_cut}),
               inside = echo::make_plan(six.s, {.how = echo::strategy::min_cut, .host = fuses});
    CHECK(apart.report().recomputed_nodes >= 10);
    CHECK(inside.report().fused_nodes == inside.report().recomputed_nodes);
    CHECK(inside.report().fused_nodes == 12);
    CHECK(inside.report().recompute_time_ratio == 0);
    CHECK(inside.report().peak_bytes < apart.report().peak_bytes);
}

TEST_CASE("what fused steps are, and the traffic that they save", "[fusion]") {
    const attention one(1);
    const auto p = echo::make_plan(one.s, {.how = echo::strategy::min_cut, .host = fuses});
    const echo::fused_profile found = echo::profile_fused(one.s, p.steps());
    // The sum reads query and keys and writes 400, tanh reads that and writes 400; its gradient reads that and 400 more
    // and writes 400. Inside the gradient: query, keys, 400 more, and what it writes.
    CHECK(found.bytes_apart == (40 + 400 + 400) + (400 + 400) + (400 + 400 + 400));
    CHECK(found.bytes_inside == 40 + 400 + 400 + 400);
    CHECK(found.bytes_saved() == 1600);
    std::size_t steps = 0;
    for (const auto& row : found.by_op) steps += row.steps;
    CHECK(steps == 2);
    const auto apart =
        echo::profile_fused(one.s, echo::make_plan(one.s, {.how = echo::strategy::min_cut}).steps());
    CHECK(apart.by_op.empty());
    CHECK((apart.bytes_apart == 0 && apart.bytes_inside == 0));
}

TEST_CASE("fused steps are counted by the names of their ops, most steps first", "[fusion]") {
    toy_graph g;
    auto y = g.heavy({g.input(8)}, 400); // 0 1
    const auto op = [&](std::string_view name) {
        y = g.add({.op = name, .kind = echo::op_kind::light, .rerun = echo::rerun_kind::pure}, {y},
                  {{.bytes = 400}});
    };
    for (const auto name : {"tanh", "relu", "relu"}) op(name); // 2 3 4
    const auto s = g.finish({g.backward({g.seed(), y}, 400)}); // 5 6
    const auto found = echo::profile_fused(s, fused(s, {0, 1, 2, 3, 4, 5, -2, -3, -4, 6}));
    CHECK(found.by_op == std::vector<echo::fused_profile::op_row>{{"relu", 2}, {"tanh", 1}});
}

TEST_CASE("nothing is fused for a host that does not fuse", "[fusion]") {
    const attention a(2);
    for (const auto how : echo::all_strategies)
        CHECK(echo::make_plan(a.s, {.how = how}).report().fused_nodes == 0);
    const auto c = echo::detail::find_candidates(a.s);
    CHECK(c.fusion.fusable == echo::id_set<echo::node_id>(a.s.node_count()));
    CHECK(c.rerun == c.times.of_node);
    const auto able = echo::detail::find_candidates(a.s, fuses);
    CHECK(able.fusion.fusable[a.s[a.tanh[0]].producer]);
    CHECK(able.fusion.folds[a.s[a.tanh[0]].producer]);
    CHECK_FALSE(able.fusion.fusable[a.s[a.score[0]].producer]); // it shrinks what it reads
}

TEST_CASE("what a view shows folds only if the readers of the view may take it in", "[fusion]") {
    for (const bool heavy : {false, true}) {
        toy_graph g;
        const auto a = g.light({g.heavy({g.input(8)}, 400)}, 400), seen = g.view(a), seed = g.seed();
        const auto d = heavy ? g.heavy_backward({seed, seen}, 400) : g.backward({seed, seen}, 400);
        const auto s = g.finish({d});
        const auto c = echo::detail::find_candidates(s, fuses);
        for (const auto v : {a, seen}) {
            CHECK(c.fusion.fusable[s[v].producer]);
            CHECK(c.fusion.folds[s[v].producer] == !heavy);
        }
        CHECK((c.rerun[s[a].producer] == 0) == !heavy); // what folds takes no time
    }
}

TEST_CASE("with fusion and without it, a budget is met first, and then time counts", "[fusion]") {
    echo::plan_options options{.budget = 100};
    const auto outcome = [](std::uint64_t peak, echo::ticks time) {
        echo::detail::plan_outcome of;
        of.figures.footprint.peak_bytes = peak;
        of.figures.recompute = time;
        return of;
    };
    const echo::detail::fusion_comparison compare(options);
    const auto low = outcome(90, 5), quick = outcome(95, 3), beyond = outcome(101, 0);
    CHECK(compare.takes(low, quick, 3));
    CHECK_FALSE(compare.takes(quick, low, 5));
    CHECK_FALSE(compare.takes(low, beyond, 0));
    CHECK(compare.takes(beyond, low, 5));
    options.budget = echo::any_peak; // then the peak counts
    CHECK_FALSE(compare.takes(low, quick, 3));
}

TEST_CASE("of two fronts those points are left that no other beats", "[fusion]") {
    std::vector<echo::front_point> points{{100, 0}, {60, 0.2}, {50, 0.5}};
    echo::detail::join(points, {{90, 0}, {60, 0.1}, {55, 0.5}, {40, 0.6}});
    std::vector<std::pair<std::uint64_t, double>> left;
    for (const auto& p : points) left.emplace_back(p.peak_bytes, p.recompute_time_ratio);
    CHECK(left == std::vector<std::pair<std::uint64_t, double>>{{90, 0}, {60, 0.1}, {50, 0.5}, {40, 0.6}});
}

TEST_CASE("the front with fusion is nowhere above the one without", "[fusion]") {
    const attention a(2);
    const auto plain = echo::front(a.s), with = echo::front(a.s, {.host = fuses});
    for (const auto& p : plain.points) {
        bool reached = false;
        for (const auto& q : with.points)
            reached |= q.peak_bytes <= p.peak_bytes && q.recompute_time_ratio <= p.recompute_time_ratio;
        CHECK(reached);
    }
    CHECK(with.lower_bound_bytes <= with.points.back().peak_bytes);
    CHECK(with.points.back().peak_bytes <= plain.points.back().peak_bytes);
}

namespace {

/// x → a → b, light and of `bytes`, and what the gradient reads of them.
struct pair {
    toy_graph g;
    value x, a, b;
    explicit pair(echo::node_description of_b = {.kind = echo::op_kind::light,
                                                 .rerun = echo::rerun_kind::pure},
                  std::uint64_t bytes = 400)
        : x(g.heavy({g.input(8)}, 400)), a(g.light({x}, 400)), b(g.add(of_b, {a}, {{.bytes = bytes}})) {}
    /// What stands of it when the gradient of `b` is such a node: x is 1, a 2, b 3, the seed 4.
    std::string with(value d_b) {
        const auto s = g.finish({d_b});
        return shown(fused(s, {0, 1, 2, 3, 4, -2, -3, static_cast<int>(g_size(s)) - 1}));
    }
    static std::size_t g_size(const echo::snapshot& s) { return s.node_count(); }
};

} // namespace

TEST_CASE("a chain is fused from its start to its reader", "[fusion]") {
    pair p;
    CHECK(p.with(p.g.backward({p.g.seed(), p.b}, 400)) == "0 1 2 3 4 2~ 3~ 5");
}

TEST_CASE("what stays as it is", "[fusion]") {
    const auto light = echo::op_kind::light;
    const auto pure = echo::rerun_kind::pure;
    SECTION("what a heavy op reads") {
        pair p;
        CHECK(p.with(p.g.heavy_backward({p.g.seed(), p.b}, 400)) == "0 1 2 3 4 2~ 3' 5");
    }
    SECTION("a reduction; but what it reads is fused into it") {
        pair p({.kind = light, .rerun = pure}, 40);
        CHECK(p.with(p.g.backward({p.g.seed(), p.b}, 40)) == "0 1 2 3 4 2~ 3' 5");
    }
    SECTION("what a larger op reads, which would recompute each element many times") {
        pair p;
        CHECK(p.with(p.g.backward({p.g.seed(), p.b}, 800)) == "0 1 2 3 4 2~ 3' 5");
    }
    SECTION("random ops, and what needs workspace") {
        pair seeded({.kind = light, .rerun = echo::rerun_kind::seeded});
        CHECK(seeded.with(seeded.g.backward({seeded.g.seed(), seeded.b}, 400)) == "0 1 2 3 4 2~ 3' 5");
        // Where the numbers hang on the element alone, the reader draws the same.
        pair counted({.kind = light, .rerun = echo::rerun_kind::seeded, .draws_by_element = true});
        CHECK(counted.with(counted.g.backward({counted.g.seed(), counted.b}, 400)) == "0 1 2 3 4 2~ 3~ 5");
        pair working({.kind = light, .rerun = pure, .workspace = 16});
        CHECK(working.with(working.g.backward({working.g.seed(), working.b}, 400)) == "0 1 2 3 4 2~ 3' 5");
    }
    SECTION("what an update reads") {
        pair p;
        p.g.seed();
        const auto d =
            p.g.add({.phase = echo::phase::update, .kind = light, .rerun = pure}, {p.b}, {{.bytes = 400}});
        CHECK(p.with(d) == "0 1 2 3 4 2~ 3' 5");
    }
}

TEST_CASE("a graph output is not fused", "[fusion]") {
    pair p;
    const auto d = p.g.backward({p.g.seed(), p.b}, 400);
    const auto s = p.g.finish({d, p.b});
    CHECK(shown(fused(s, {0, 1, 2, 3, 4, -2, -3, 5})) == "0 1 2 3 4 2~ 3' 5");
}

TEST_CASE("what is packed is not fused", "[fusion]") {
    pair p;
    const auto d = p.g.backward({p.g.seed(), p.b}, 400, {1});
    const auto s = p.g.finish({d});
    auto steps = steps_of(s, {0, 1, 2, 3, 4, -2, -3});
    steps.add({.node = echo::node_id(3), .kind = echo::step_kind::encode, .bytes = 16});
    steps.read({echo::step_id(6), 0});
    steps.add({.node = echo::node_id(5)});
    steps.read({echo::step_id(4), 0});
    steps.read({echo::step_id(7), 0});
    const auto c = echo::detail::find_candidates(s, fuses);
    echo::detail::fuser(s, c)(steps, echo::replay{}(s, steps));
    CHECK(shown(steps) == "0 1 2 3 4 2~ 3' 3\" 5");
}

TEST_CASE("what is written over before the last reader has run is not read inside it", "[fusion]") {
    toy_graph g;
    const auto w = g.input(400);
    const auto a = g.light({w}, 400);        // 1
    const auto dy = g.seed();                // 2
    const auto d = g.backward({dy, a}, 400); // 3
    const auto u = g.add({.phase = echo::phase::update, .rerun = echo::rerun_kind::never}, {w, dy},
                         {{.bytes = 400, .inplace = 0}}); // 4
    const auto s = g.finish({u, d});
    CHECK(shown(fused(s, {0, 1, 2, -1, 3, 4})) == "0 1 2 1~ 3 4");
    CHECK(shown(fused(s, {0, 1, 2, -1, 4, 3})) == "0 1 2 1' 4 3");
}

TEST_CASE("the peak does not rise for the sake of time", "[fusion]") {
    // b is made of two values as large as itself. Both would live until its gradient, which is the peak.
    toy_graph g;
    const auto x = g.input(8);
    const auto a = g.heavy({x}, 400), c = g.heavy({x}, 400); // 1, 2
    const auto b = g.light({a, c}, 400);                     // 3
    const auto dy = g.backward({g.seed()}, 400);             // 4, 5
    SECTION("at the peak") {
        const auto big = g.heavy_backward({dy}, 400); // 6
        const auto d = g.backward({big, dy, b}, 400); // 7
        const auto s = g.finish({d});
        // The gradient reads three of 400 and makes one. With a and c in place of b, that is one more.
        CHECK(shown(fused(s, {0, 1, 2, 3, 4, 5, -3, 6, 7})) == "0 1 2 3 4 5 3' 6 7");
    }
    SECTION("below it") {
        const auto d = g.backward({dy, b}, 400);    // 6
        const auto e = g.heavy_backward({d}, 3000); // 7
        const auto s = g.finish({e});
        CHECK(shown(fused(s, {0, 1, 2, 3, 4, 5, -3, 6, 7})) == "0 1 2 3 4 5 3~ 6 7");
    }
}

TEST_CASE("what is fused makes room for more to be fused, also before it", "[fusion]") {
    // Fused, a and b each need two values at a peak, in place of one. At the first peak there is room for those of a
    // once b is fused, at the second for those of b once c is.
    toy_graph g;
    const auto x = g.input(8);                                             // 0
    const auto a1 = g.heavy({x}, 400), a2 = g.heavy({x}, 400);             // 1 2
    const auto a = g.light({a1, a2}, 400);                                 // 3
    const auto b1 = g.heavy({x}, 400), b2 = g.heavy({x}, 400);             // 4 5
    const auto b = g.light({b1, b2}, 400);                                 // 6
    const auto c = g.light({g.input(400)}, 400);                           // 7 8
    const auto first_peak = g.heavy_backward({g.seed()}, 4000);            // 9 10
    const auto d1 = g.heavy_backward({first_peak}, 8);                     // 11
    const auto d2 = g.heavy_backward({d1, b1, b2}, 8);                     // 12
    const auto d3 = g.backward({d2, a}, 8);                                // 13
    const auto second_peak = g.heavy_backward({d3}, 4800);                 // 14
    const auto d4 = g.heavy_backward({second_peak}, 8);                    // 15
    const auto s = g.finish({g.backward({g.backward({d4, b}, 8), c}, 8)}); // 16 17
    CHECK(shown(fused(s, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -3, -6, 10, 11, 12, 13, -8, 14, 15, 16, 17})) ==
          "0 1 2 3 4 5 6 7 8 9 3~ 6~ 10 11 12 13 8~ 14 15 16 17");
}

TEST_CASE("work is not repeated in many readers", "[fusion]") {
    const auto with = [](std::size_t operands, int readers) {
        toy_graph g;
        const auto x = g.input(8);
        std::vector<value> from;
        for (std::size_t i = 0; i < operands; ++i) from.push_back(g.heavy({x}, 400));
        const auto b = g.light(from, 400);
        std::vector<int> order;
        const int made = static_cast<int>(operands) + 1;
        for (int n = 0; n <= made; ++n) order.push_back(n);
        std::vector<value> gradients{g.seed()};
        order.push_back(made + 1);
        order.push_back(-made);
        for (int i = 0; i < readers; ++i) {
            gradients.push_back(g.backward({gradients[0], b}, 400));
            order.push_back(made + 2 + i);
        }
        const auto loss = g.heavy_backward(gradients, 4000);
        order.push_back(made + 2 + readers);
        const auto s = g.finish({loss});
        return fused(s, order).fused_count() == 1;
    };
    CHECK(with(1, 4));
    CHECK_FALSE(with(1, 5));
    // Two operands: two readers read four, instead of two, one write and two. Four would read eight instead of seven.
    CHECK(with(2, 3));
    CHECK_FALSE(with(2, 4));
    CHECK(with(14, 1)); // and the gradient that comes in, and the one that is made
    CHECK_FALSE(with(15, 1));
}

TEST_CASE("what the host writes no code for is not fused, and nothing inside it", "[fusion]") {
    const auto fused_with = [](bool maker, bool reader) {
        toy_graph g;
        const auto x = g.heavy({g.input(8)}, 400);
        const auto y =
            g.add({.kind = echo::op_kind::light, .rerun = echo::rerun_kind::pure, .may_fuse = maker}, {x},
                  {{.bytes = 400}});
        const auto dy = g.seed();
        const auto dx = g.add({.phase = echo::phase::backward,
                               .kind = echo::op_kind::light,
                               .rerun = echo::rerun_kind::pure,
                               .may_fuse = reader},
                              {dy, y}, {{.bytes = 400}});
        const auto s = g.finish({dx});
        return fused(s, {0, 1, 2, 3, -2, 4}).fused_count();
    };
    CHECK(fused_with(true, true) == 1);
    CHECK(fused_with(false, true) == 0);
    CHECK(fused_with(true, false) == 0);
}

TEST_CASE("few ops are recomputed inside one", "[fusion]") {
    toy_graph g;
    auto y = g.heavy({g.input(8)}, 400);
    std::vector<int> order{0, 1};
    for (int n = 2; n < 13; ++n) {
        y = g.light({y}, 400);
        order.push_back(n);
    }
    const auto dy = g.seed(); // 13
    order.push_back(13);
    for (int n = 2; n < 13; ++n) order.push_back(-n);
    const auto s = g.finish({g.backward({dy, y}, 400)});
    order.push_back(14);
    CHECK(shown(fused(s, order)) == "0 1 2 3 4 5 6 7 8 9 10 11 12 13 2~ 3~ 4~ 5~ 6~ 7~ 8~ 9~ 10' 11~ 12~ 14");
    CHECK(shown(fused(s, order, {.inside = 1})) ==
          "0 1 2 3 4 5 6 7 8 9 10 11 12 13 2~ 3' 4~ 5' 6~ 7' 8~ 9' 10~ 11' 12~ 14");
    CHECK(fused(s, order, {.inside = 0}).fused_count() == 0);
}

TEST_CASE("views go with what they are of", "[fusion]") {
    toy_graph g;
    const auto x = g.heavy({g.input(8)}, 400); // 1
    const auto a = g.light({x}, 400);          // 2
    SECTION("made again") {
        const auto v = g.view(a);                      // 3
        const auto d = g.backward({g.seed(), v}, 400); // 4, 5
        const auto s = g.finish({d});
        CHECK(shown(fused(s, {0, 1, 2, 3, 4, -2, -3, 5})) == "0 1 2 3 4 2~ 3~ 5");
    }
    SECTION("of the backward pass: they run early, and again inside their readers") {
        const auto seed = g.seed();                                // 3
        const auto v = g.backward_view(a), w = g.backward_view(v); // 4, 5
        const auto d = g.backward({seed, w}, 400);                 // 6
        const auto s = g.finish({d});
        const auto steps = fused(s, {0, 1, 2, 3, -2, 4, 5, 6});
        CHECK(shown(steps) == "0 1 2 4 5 3 2~ 4~ 5~ 6");
        CHECK(steps.inputs(echo::step_id(3))[0] == echo::copy_id{echo::step_id(2), 0});
        CHECK(steps.inputs(echo::step_id(4))[0] == echo::copy_id{echo::step_id(3), 0});
        CHECK(steps.inputs(echo::step_id(9))[1] == echo::copy_id{echo::step_id(8), 0});
        CHECK_NOTHROW(support::require_sound(s, steps));
        const auto p = echo::make_plan(s, {.how = echo::strategy::min_cut, .host = fuses});
        CHECK_NOTHROW(echo::verify(s, p));
    }
    SECTION("unless a heavy op reads them as well") {
        const auto seed = g.seed();                   // 3
        const auto v = g.backward_view(a);            // 4
        const auto d = g.backward({seed, v}, 400);    // 5
        const auto e = g.heavy_backward({d, v}, 400); // 6
        const auto s = g.finish({e});
        CHECK(shown(fused(s, {0, 1, 2, 3, -2, 4, 5, 6})) == "0 1 2 3 2' 4 5 6");
    }
    SECTION("or they are graph outputs") {
        const auto v = g.view(a);                      // 3
        const auto d = g.backward({g.seed(), v}, 400); // 4, 5
        const auto s = g.finish({d, v});
        CHECK(shown(fused(s, {0, 1, 2, 3, 4, -2, -3, 5})) == "0 1 2 3 4 2' 3' 5");
    }
}

TEST_CASE("a gradient that took over what it reads has storage of its own", "[fusion]") {
    toy_graph g;
    const auto x = g.heavy({g.input(8)}, 400); // 1
    const auto a = g.light({x}, 400);          // 2
    const auto seed = g.seed();                // 3
    const auto d =
        g.add({.phase = echo::phase::backward, .kind = echo::op_kind::light, .rerun = echo::rerun_kind::pure},
              {seed, a}, {{.bytes = 400, .inplace = 1}}); // 4
    const auto s = g.finish({d});
    const auto steps = fused(s, {0, 1, 2, 3, -2, 4});
    CHECK(shown(steps) == "0 1 2 3 2~ 4");
    CHECK(echo::footprint(s, steps).peak_bytes == 801); // x, the gradient and the seed; before, x and a
}

TEST_CASE("the same steps are fused every time", "[fusion]") {
    const attention a(2);
    const auto c = echo::detail::find_candidates(a.s, fuses);
    echo::detail::fuser fuse(a.s, c);
    const auto plain = echo::make_plan(a.s, {.how = echo::strategy::min_cut});
    echo::replay judge;
    std::vector<echo::schedule> all;
    for (int i = 0; i < 3; ++i) {
        all.push_back(plain.steps());
        fuse(all.back(), judge(a.s, all.back()));
    }
    CHECK(all[0] == all[1]);
    CHECK(all[0] == all[2]);
}

TEST_CASE("a dead view of the backward pass is no recompute of a host that cannot erase it", "[fusion]") {
    // What the gradient reads is recomputed inside it; the view that nobody reads looks at it as well.
    constexpr echo::host_abilities keeps{.erase = false, .fuse = true};
    for (const bool before : {false, true}) {
        toy_graph g;
        const auto x = g.input(4), a = g.heavy({x}, 100), b = g.light({a}, 100), c = g.heavy({b}, 4);
        const auto dy = g.heavy_backward({c}, 100);
        if (before) static_cast<void>(g.backward_view(b));
        const auto db = g.backward({dy, b}, 100);
        if (!before) static_cast<void>(g.backward_view(b));
        const auto s = g.finish({g.heavy_backward({db, a}, 4)});
        for (const auto how : {echo::strategy::min_cut, echo::strategy::echo, echo::strategy::echo_printed,
                               echo::strategy::mirror, echo::strategy::budget})
            CHECK_NOTHROW(echo::verify(s, echo::make_plan(s, {.how = how, .host = keeps})));
    }
}

TEST_CASE("an encoding has one output, however many the node has whose value is packed", "[fusion]") {
    // What may be run before the peak was looked for among all outputs of that node, and found what is fused.
    const auto s = support::numbered_graph(1407);
    const auto peak = echo::footprint(s, echo::baseline_schedule(s)).peak_bytes;
    const auto p = echo::make_plan(
        s, {.how = echo::strategy::budget, .budget = peak * 67 / 100, .host = {.move = false, .fuse = true}});
    CHECK_NOTHROW(echo::verify(s, p));
    CHECK(p.report().peak_bytes < peak);
}
