// SPDX-License-Identifier: BSL-1.0
// The minimum cut stashes no more than any choice there is, and no more than any other strategy's.
#include "support/exhaustive.hpp"
#include "support/processor_time.hpp"
#include "support/properties.hpp"
#include "support/random_graph.hpp"
#include "support/toy_graph.hpp"

#include <echo/analysis/plan/strategies/echo.hpp>
#include <echo/analysis/plan/strategies/min_cut.hpp>
#include <echo/analysis/plan/strategies/mirror.hpp>

namespace {

using support::recipe;
using support::trait;

support::coverage seen;

/// Of the random graphs, those whose stash is what the cut counts: no storage changes hands, the first
/// backward node needs nothing made again, a node makes either views or storages, views read what they look
/// at and nothing else, and no graph output of the forward pass is there in any case.
recipe countable(recipe r) {
    r.seed_first = true;
    for (auto& op : r.ops) {
        op[trait::inplace] = op[trait::second_lies] = op[trait::gradient_in_place] = op[trait::result] = 0;
        if (op[trait::role] % 4 == 3) op[trait::role] = 0;
        if (op[trait::kind] % 3 == 2) op[trait::from_too] = op[trait::from_third] = 0;
    }
    return r;
}

struct stash_of {
    const echo::snapshot& s;
    echo::detail::schedule_builder lay_out;
    echo::replay judge{};
    stash_of(const echo::snapshot& graph, const echo::detail::candidates& c) : s(graph), lay_out(graph, c) {}
    std::uint64_t operator()(const echo::detail::decision& chosen) {
        return judge(s, lay_out(chosen)).footprint.stash_bytes;
    }
};

echo::detail::decision cut(const echo::snapshot& s, const echo::detail::candidates& c, bool encode) {
    auto chosen = echo::detail::decision::nothing(s);
    echo::detail::min_cut(s, c)(echo::detail::anchor_finder(s, c)(echo::detail::no_anchor),
                                {.encode = encode}, chosen);
    return chosen;
}

/// No node that makes a graph output is made again: the cut counts what holds one as there in any case.
constexpr echo::host_abilities host{.recompute_results = false};

} // namespace

TEST_CASE("no choice at all stashes less than the cut", "[min_cut]") {
    support::check(20, [](bool no_encode) {
        const bool encode = !no_encode;
        const auto s = support::build(countable(*support::recipes(10)));
        const auto c = echo::detail::find_candidates(s, host);
        const support::choices all(s, c, encode);
        if (all.size() > 10) return;
        stash_of stash(s, c);
        std::uint64_t least = ~std::uint64_t{0};
        all.for_each(s, false,
                     [&](const echo::detail::decision& chosen) { least = std::min(least, stash(chosen)); });
        const auto found = stash(cut(s, c, encode)), nothing = stash(echo::detail::decision::nothing(s));
        seen.of("less than keeping everything", found < nothing);
        seen.of("six choices or more", all.size() >= 6);
        RC_LOG() << "cut " << found << ", least " << least << ", nothing made again " << nothing << '\n';
        RC_ASSERT(found == least);
    });
    seen.print();
    seen.require({{"less than keeping everything", 0.3}, {"six choices or more", 0.1}});
}

TEST_CASE("no other strategy stashes less than the cut", "[min_cut]") {
    support::check(50, [](bool no_encode) {
        const bool encode = !no_encode;
        const auto s = support::build(countable(*support::recipes(30)));
        const auto c = echo::detail::find_candidates(s, host);
        stash_of stash(s, c);
        const auto found = stash(cut(s, c, encode));
        const echo::detail::gradient_needs needs(s, c, encode);
        const auto when = echo::detail::anchor_finder(s, c)(echo::detail::no_anchor);
        RC_ASSERT(found <= stash(echo::detail::decision::nothing(s)));
        RC_ASSERT(found <= stash(echo::detail::mirror(s, c)));
        RC_ASSERT(found <= stash(echo::detail::echo_as_printed(s, c, needs)));
        RC_ASSERT(found <= stash(echo::detail::echo_pass(s, c, needs, when)));
    });
}

namespace {

using support::toy_graph;
using value = toy_graph::value;

struct solved {
    echo::detail::decision chosen;
    std::uint64_t stash;
    std::size_t recomputes = 0, encodes = 0;
    double cost_bytes;
};

solved solve(const echo::snapshot& s, bool encode = true) {
    const auto c = echo::detail::find_candidates(s);
    solved found{.chosen = echo::detail::decision::nothing(s), .stash = 0, .cost_bytes = 0};
    echo::detail::min_cut solver(s, c);
    solver(echo::detail::anchor_finder(s, c)(echo::detail::no_anchor), {.encode = encode}, found.chosen);
    found.cost_bytes = solver.cost_bytes();
    echo::detail::schedule_builder lay_out(s, c);
    const auto& steps = lay_out(found.chosen);
    for (const auto t : steps.steps()) {
        found.recomputes += steps[t].kind == echo::step_kind::recompute;
        found.encodes += steps[t].kind == echo::step_kind::encode;
    }
    found.stash = echo::footprint(s, steps).stash_bytes;
    return found;
}

} // namespace

TEST_CASE("a chain with one reader is cut at its narrowest place", "[min_cut]") {
    toy_graph g;
    auto x = g.heavy({g.input(1)}, 100);
    value narrow = x, last = x;
    for (const std::uint64_t bytes : {90U, 40U, 80U, 40U, 100U}) {
        last = g.light({last}, bytes);
        if (bytes == 40) narrow = last;
    }
    const auto loss = g.light({last}, 0);
    const auto s = g.finish({loss, g.backward({g.seed(), last}, 1)});
    const auto found = solve(s);
    CHECK(found.stash == 40);
    CHECK(found.cost_bytes == 40);
    // Of two places as narrow, the one that runs less again.
    CHECK(found.recomputes == 1);
    CHECK_FALSE(found.chosen.again[s[narrow].producer]);
}

TEST_CASE("what may never run again is kept", "[min_cut]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 1);
    const auto draw =
        g.add({.kind = echo::op_kind::light, .rerun = echo::rerun_kind::never}, {x}, {{.bytes = 50}});
    const auto wished = g.add({.kind = echo::op_kind::light, .rerun = echo::rerun_kind::pure, .keep = true},
                              {x}, {{.bytes = 30}});
    const auto y = g.light({draw}, 60), z = g.light({wished}, 60);
    const auto loss = g.light({y, z}, 0);
    const auto found = solve(g.finish({loss, g.backward({g.seed(), y, z}, 1)}));
    CHECK(found.stash == 50 + 30);
    CHECK(found.recomputes == 2);
}

TEST_CASE("what is resident costs nothing", "[min_cut]") {
    toy_graph g;
    const auto data = g.input(1000), weight = g.input(1000);
    const auto y = g.light({g.light({data}, 10), g.view(weight)}, 10);
    const auto loss = g.light({y}, 0);
    const auto found = solve(g.finish({loss, g.backward({g.seed(), y, data, weight}, 1)}));
    CHECK(found.stash == 0);
    CHECK(found.cost_bytes == 0);
    CHECK(found.recomputes == 2);
}

TEST_CASE("what only gradients read runs late, and is no recomputation", "[min_cut]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 100);
    const auto cast = g.light({x}, 50);
    const auto twice = g.light({cast}, 200);
    const auto loss = g.light({x}, 0);
    const auto s = g.finish({loss, g.backward({g.backward({g.backward({loss}, 1), twice}, 1), x}, 1)});
    const auto found = solve(s);
    CHECK(found.stash == 100);
    CHECK(found.recomputes == 0);
    CHECK(echo::footprint(s, echo::baseline_schedule(s)).stash_bytes == 300);
}

TEST_CASE("views cost their base, once", "[min_cut]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 100);
    const auto a = g.view(x), b = g.view(a);
    const auto wide = g.light({b}, 300);
    const auto loss = g.light({wide}, 0);
    const auto found = solve(g.finish({loss, g.backward({g.seed(), a, b, x, wide}, 1)}));
    CHECK(found.stash == 100);
    CHECK(found.cost_bytes == 100);
    CHECK(found.recomputes == 1); // the views lie on what is kept
}

TEST_CASE("one bit where one bit is enough, and only there", "[min_cut]") {
    const auto relu = [](bool other_reader, std::uint64_t source) {
        toy_graph g;
        const auto x = g.heavy({g.input(1)}, source);
        const auto y = g.light({x}, 1280);
        const auto loss = g.heavy({y}, 1);
        const auto end = g.light({loss}, 0);
        auto dy = g.backward({g.seed(), y}, 1, {1});
        if (other_reader) dy = g.backward({dy, y}, 1);
        return g.finish({end, dy});
    };
    CHECK(solve(relu(false, 2000)).stash == 40);
    CHECK(solve(relu(false, 2000)).encodes == 1);
    CHECK(solve(relu(false, 2000), false).stash == 1280);
    CHECK(solve(relu(true, 2000)).stash == 1280); // all of it is there anyway
    CHECK(solve(relu(true, 2000)).encodes == 0);
    CHECK(solve(relu(false, 20)).stash == 20); // made again from less than its bits
    CHECK(solve(relu(false, 20)).encodes == 0);
}

TEST_CASE("an all-light chain with one reader takes no quadratic time", "[min_cut]") {
    toy_graph g;
    auto x = g.heavy({g.input(1)}, 1000);
    for (std::size_t i = 0; i < 40000; ++i) x = g.light({x}, 1000 + i % 11);
    const auto loss = g.light({x}, 0);
    const auto s = g.finish({loss, g.backward({g.seed(), x}, 1)});
    const auto c = echo::detail::find_candidates(s);
    const auto needs = echo::detail::anchor_finder(s, c)(echo::detail::no_anchor);
    echo::detail::min_cut solver(s, c);
    auto chosen = echo::detail::decision::nothing(s);
    for (const echo::detail::time_price price : {echo::detail::time_price{},
                                                 {1, echo::ticks{1} << 50},
                                                 {1, echo::ticks{1} << 40},
                                                 {1, echo::ticks{1} << 30}}) {
        CAPTURE(price.bytes, price.time);
        CHECK(support::processor_seconds([&] { solver(needs, {.price = price}, chosen); }) < 1);
        CHECK(solver.cost_bytes() <= 1010);
    }
}
