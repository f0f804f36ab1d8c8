// SPDX-License-Identifier: BSL-1.0
// The certified bound against every choice there is, on graphs small enough to try them all.
#include "support/every_schedule.hpp"
#include "support/exhaustive.hpp"
#include "support/properties.hpp"
#include "support/random_graph.hpp"
#include "support/toy_graph.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan/bound/budget_bound.hpp>
#include <echo/analysis/plan/bound/lower_bound.hpp>
#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/verify.hpp>
#include <echo/analysis/verify/checked_replay.hpp>

namespace {

support::coverage seen;

std::vector<echo::node_id> gradients(const echo::snapshot& s) {
    std::vector<echo::node_id> at;
    for (const auto n : s.nodes())
        if (echo::runs_after_forward(s[n].phase)) at.push_back(n);
    return at;
}

/// The bound with cuts at every backward node.
std::uint64_t full_bound(const echo::snapshot& s, const echo::detail::candidates& c, bool encode,
                         bool heavy = false) {
    return echo::detail::lower_bound(s, c, encode, heavy)(gradients(s));
}

/// Whether all its schedules can be searched.
bool is_tiny(const echo::snapshot& s) {
    const auto live = echo::detail::live_nodes(s);
    std::size_t steps = 0;
    for (const auto n : s.nodes()) steps += live[n] && s[n].phase != echo::phase::input;
    return support::every_schedule::can_search(s) && steps <= 12;
}

} // namespace

TEST_CASE("no schedule at all lies below the bound", "[lower_bound]") {
    support::coverage tiny;
    support::check(20, [&](bool no_encode, bool heavy) {
        const auto s = support::build(*support::recipes(5));
        if (!is_tiny(s)) return;
        const auto c = echo::detail::find_candidates(s);
        const auto bound = full_bound(s, c, !no_encode, heavy);
        support::every_schedule all(s, {.encode = !no_encode, .heavy = heavy});
        const bool below = bound > 0 && all.least_time(bound - 1).has_value();
        tiny.of("every state was seen", !all.gave_up());
        RC_LOG() << "bound " << bound << '\n';
        RC_ASSERT(!below);
        tiny.of("tight", all.least_time(bound).has_value());
        // The same search must find fault with bounds that know of less.
        const auto is_beaten = [&](std::uint64_t other) {
            return other > bound && all.least_time(other - 1).has_value();
        };
        const auto at_once = echo::detail::find_candidates(s, {.move = false});
        tiny.of("beaten: nothing runs late", is_beaten(full_bound(s, at_once, !no_encode, heavy)));
        if (!no_encode) tiny.of("beaten: no encodings", is_beaten(full_bound(s, c, false, heavy)));
        if (heavy)
            tiny.of("beaten: only light nodes run again", is_beaten(full_bound(s, c, !no_encode, false)));
        if (const auto peak = echo::footprint(s, echo::baseline_schedule(s)).peak_bytes; peak > bound) {
            const std::uint64_t middle = bound + (peak - bound) / 2;
            if (!all.least_time(middle)) return;
            const auto found = all.steps();
            echo::detail::checked_replay(s, found);
            tiny.of("the replay agrees", echo::footprint(s, found).peak_bytes <= middle);
        }
    });
    tiny.print();
    tiny.require({{"tight", 0.2},
                  {"every state was seen", 0.9},
                  {"the replay agrees", 0.9},
                  {"beaten: nothing runs late", 0.002},
                  {"beaten: no encodings", 0.02},
                  {"beaten: only light nodes run again", 0.003}});
}

TEST_CASE("no schedule within a budget of time lies below its bound", "[lower_bound]") {
    support::coverage timed;
    support::check(20, [&](bool no_encode) {
        const auto s = support::build(*support::recipes(5));
        if (!is_tiny(s)) return;
        const auto c = echo::detail::find_candidates(s);
        echo::ticks most = 0;
        for (const auto n : s.nodes())
            if (s[n].phase == echo::phase::forward) most += c.times.of_node[n];
        most = most / 8 * static_cast<echo::ticks>(*support::numbers(5));
        echo::detail::budget_bound bounds(s, c, !no_encode);
        const auto at = gradients(s);
        const auto bound = bounds.within(most, at);
        support::every_schedule all(s, {.encode = !no_encode, .heavy = true});
        RC_LOG() << "bound " << bound << " for " << most << " ticks\n";
        RC_ASSERT(bound == 0 || !all.least_time(bound - 1, most));
        timed.of("every state was seen", !all.gave_up());
        const auto untimed = full_bound(s, c, !no_encode, true);
        timed.of("above the bound of all schedules", bound > untimed);
        // The same search must find fault with the bound of a shorter time.
        const auto shorter = bounds.within(0, at);
        timed.of("beaten: the bound of no time", shorter > bound && all.least_time(shorter - 1, most));
    });
    timed.print();
    timed.require({{"every state was seen", 0.9},
                   {"above the bound of all schedules", 0.03},
                   {"beaten: the bound of no time", 0.02}});
}

TEST_CASE("no schedule within a budget of bytes takes less time than its bound", "[lower_bound]") {
    support::coverage met;
    support::check(20, [&](bool no_encode) {
        const auto s = support::build(*support::recipes(5));
        if (!is_tiny(s)) return;
        const auto c = echo::detail::find_candidates(s);
        const auto peak = echo::footprint(s, echo::baseline_schedule(s)).peak_bytes;
        const auto least = full_bound(s, c, !no_encode, true);
        const auto limit = least + (peak - least) / 8 * *support::numbers(8);
        echo::detail::budget_bound bounds(s, c, !no_encode);
        const auto at = gradients(s);
        const auto bound = bounds.least_time(limit, at);
        support::every_schedule all(s, {.encode = !no_encode, .heavy = true});
        const auto found = all.least_time(limit);
        RC_LOG() << "bound " << bound << " ticks below " << limit << " bytes\n";
        met.of("every state was seen", !all.gave_up());
        if (all.gave_up()) return;
        const bool too_long = found && bound > *found;
        RC_ASSERT(!too_long);
        // What takes less time than that has no peak as low, but for what the search leaves out.
        const auto shorter = bound > 0 ? bounds.within(bound - 1, at) : limit;
        RC_ASSERT(shorter + shorter / 512 + 1 >= limit);
        met.of("takes time", bound > 0 && found);
        met.of("tight", found && bound > 0 && bound >= *found - *found / 16);
        // The same search must find fault with the bound of a lower limit.
        met.of("beaten: the bound of a lower limit", found && bounds.least_time(least, at) > *found);
    });
    met.print();
    met.require({{"every state was seen", 0.9},
                 {"takes time", 0.03},
                 {"tight", 0.01},
                 {"beaten: the bound of a lower limit", 0.02}});
}

TEST_CASE("no choice at all lies below the bound", "[lower_bound]") {
    support::check(20, [](bool no_encode) {
        const auto s = support::build(*support::recipes(9));
        const auto c = echo::detail::find_candidates(s);
        const support::choices all(s, c, !no_encode);
        if (all.size() > 10) return;
        const auto bound = full_bound(s, c, !no_encode);
        echo::detail::schedule_builder lay_out(s, c);
        echo::replay judge;
        std::uint64_t least = ~std::uint64_t{0};
        all.for_each(s, false, [&](const echo::detail::decision& chosen) {
            least = std::min(least, judge(s, lay_out(chosen)).footprint.peak_bytes);
        });
        seen.of("tight", bound == least);
        seen.of("within a tenth", bound * 10 >= least * 9);
        seen.of("more than the largest working set", bound > echo::detail::lower_bound(s, c, !no_encode)({}));
        RC_LOG() << "bound " << bound << ", least peak " << least << '\n';
        RC_ASSERT(bound <= least);
    });
    seen.print();
    seen.require({{"tight", 0.2}, {"more than the largest working set", 0.2}});
}

namespace {

/// The least peak of these steps with any of their recomputes fused that `verify` lets pass.
std::uint64_t least_fused(const echo::snapshot& s, echo::schedule steps) {
    std::vector<echo::step_id> again;
    for (const auto t : steps.steps())
        if (steps[t].kind == echo::step_kind::recompute && again.size() < 6) again.push_back(t);
    std::uint64_t least = ~std::uint64_t{0};
    for (std::size_t bits = 0; bits < std::size_t{1} << again.size(); ++bits) {
        for (std::size_t i = 0; i < again.size(); ++i) steps.fuse(again[i], bits >> i & 1U);
        try {
            least = std::min(least, echo::detail::checked_replay(s, steps, {.fuse = true}).after.peak_bytes);
        } catch (const echo::error&) { // not all of them may be fused
        }
    }
    return least;
}

} // namespace

TEST_CASE("no fused plan lies below the bound for hosts that fuse", "[lower_bound][fused]") {
    support::coverage fused;
    support::check(10, [&](bool no_encode) {
        const auto s = support::build(*support::recipes(9));
        const auto c = echo::detail::find_candidates(s, {.fuse = true});
        const support::choices all(s, c, !no_encode);
        if (all.size() > 7) return;
        const auto bound = full_bound(s, c, !no_encode);
        echo::detail::schedule_builder lay_out(s, c);
        echo::detail::evaluator evaluate(s, c);
        std::uint64_t least = ~std::uint64_t{0}, plain = least;
        all.for_each(s, false, [&](const echo::detail::decision& chosen) {
            const auto plan = evaluate(chosen);
            const auto& steps = lay_out(chosen);
            least = std::min({least, plan.peak_bytes(), least_fused(s, steps)});
            plain = std::min(plain, echo::footprint(s, steps).peak_bytes);
        });
        fused.of("tight", bound == least);
        fused.of("a lower peak than without fusion", least < plain);
        RC_LOG() << "bound " << bound << ", least peak " << least << '\n';
        RC_ASSERT(bound <= least);
    });
    fused.print();
    fused.require({{"tight", 0.2}, {"a lower peak than without fusion", 0.02}});
}

namespace {

using support::toy_graph;

std::uint64_t bound_of(const echo::snapshot& s) {
    return full_bound(s, echo::detail::find_candidates(s), true);
}
std::uint64_t best_of(const echo::snapshot& s) {
    return echo::make_plan(s, {.how = echo::strategy::min_cut}).report().peak_bytes;
}

} // namespace

TEST_CASE("one storage is counted once, however it is read", "[lower_bound]") {
    toy_graph g;
    const auto y = g.light({g.heavy({g.input(1)}, 8)}, 2000);
    const auto v = g.view(y);
    const auto loss = g.light({v}, 0);
    SECTION("one bit and all of it") {
        const auto s = g.finish({loss, g.backward({g.seed(), y, v}, 1, {1})});
        CHECK(bound_of(s) <= best_of(s));
    }
    SECTION("one bit, twice") {
        const auto s = g.finish({loss, g.backward({g.seed(), y, y, v}, 5000, {1, 2, 3})});
        CHECK(bound_of(s) <= best_of(s));
    }
}

TEST_CASE("a view of the backward pass that may run early holds no gradients", "[lower_bound]") {
    toy_graph g;
    const auto y = g.light({g.input(1)}, 256);
    const auto loss = g.light({y}, 0);
    const auto dy = g.backward({}, 64);
    const auto s = g.finish({loss, g.backward({dy, g.backward_view(y)}, 128, {1})});
    CHECK(bound_of(s) <= best_of(s));
}

TEST_CASE("what the forward pass makes later is not there yet", "[lower_bound]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 64);
    const auto d1 = g.backward({g.seed(), x}, 64);
    const auto inside = g.add({.rerun = echo::rerun_kind::never}, {d1}, {{.bytes = 512}}); // of phase forward
    const auto s = g.finish({g.backward({d1, inside}, 8)});
    CHECK(bound_of(s) <= best_of(s));
}

TEST_CASE("few cuts find what cuts everywhere find", "[lower_bound]") {
    support::coverage found;
    support::check(2, [&](bool heavy) {
        const auto s = support::build(*support::recipes(30));
        const auto c = echo::detail::find_candidates(s);
        const auto all = full_bound(s, c, true, heavy);
        echo::detail::lower_bound bound(s, c, true, heavy);
        const auto few = bound({}, 8);
        RC_ASSERT(few <= all);
        RC_ASSERT(bound({}, s.node_count()) <= all);
        found.of("as much", few == all);
    });
    found.print();
    found.require({{"as much", 0.8}});
}

TEST_CASE("a cut is taken at the gradient that is named, the first of all too, and one is enough for a bound",
          "[lower_bound]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 100), y = g.heavy({x}, 100), z = g.heavy({y}, 100);
    const auto d_loss = g.backward({g.light({z}, 0)}, 1); // while it is made, all three are held
    auto d = d_loss;
    for (const auto v : {z, y, x}) d = g.heavy_backward({d, v}, 10);
    const auto s = g.finish({d});
    const auto c = echo::detail::find_candidates(s);
    const std::vector<echo::node_id> first{s[d_loss].producer};
    echo::detail::lower_bound bound(s, c, true);
    CHECK(bound.working_sets() < 300);
    CHECK(bound(first) == 301);
    CHECK(bound(first, 0) == 301);
    echo::detail::budget_bound in_time(s, c, true);
    CHECK(in_time.within(0, first, 0) == 0);
    CHECK(in_time.within(0, first, 1) > 0);
    CHECK(in_time.within(0, first) >= 300); // but for a thousandth
}

TEST_CASE("a bound on time is what must run again, but for a tick of those that it counts in",
          "[lower_bound]") {
    constexpr std::uint64_t map = std::uint64_t{1} << 40; // bytes: one is worth less than a tick then
    toy_graph g;
    const auto timed = [&](double time, std::vector<toy_graph::value> in, std::uint64_t bytes) {
        return g.add({.kind = echo::op_kind::light, .rerun = echo::rerun_kind::pure, .time_us = time}, in,
                     {{.bytes = bytes}});
    };
    const auto data = g.input(1);
    const auto a = timed(1, {data}, map), b = timed(1, {data}, map);
    const auto loss = timed(50, {a, b}, 0);
    const auto d = g.heavy_backward({g.heavy_backward({g.seed(), loss}, 2 * map)}, 8);
    const auto s = g.finish({g.backward({g.backward({d, a}, 8), b}, 8)});
    const auto c = echo::detail::find_candidates(s);
    const auto one = c.times.of_node[s[a].producer];
    const auto peak = echo::footprint(s, echo::baseline_schedule(s)).peak_bytes; // with both maps
    const echo::ticks tick = (c.times.total >> 32) + 1;
    REQUIRE(tick > 1);
    const auto least = [&](std::uint64_t limit) {
        return echo::detail::budget_bound(s, c, true).least_time(limit, gradients(s));
    };
    CHECK(least(peak) == 0);
    CHECK(least(peak - 1) == one);
    for (const echo::ticks runs : {1, 2})
        for (const std::uint64_t room : {0U, 1U, 2U}) {
            const auto bound = least(peak - static_cast<std::uint64_t>(runs) * map + room);
            CAPTURE(runs, room, bound, one, tick);
            CHECK(bound <= runs * one);
            CHECK(bound > runs * (one - tick) - tick);
        }
}

TEST_CASE("one cut more is taken where most is held, however often it is asked for", "[lower_bound]") {
    toy_graph g;
    const auto data = g.input(1);
    const auto held = g.heavy({data}, 1000); // up to the second gradient
    const auto loss = g.light({held}, 0);
    const auto d0 = g.backward({g.seed(), held}, 8);
    const auto peak = g.heavy_backward({d0}, 300); // while it is held
    const auto d1 = g.heavy_backward({peak}, 8);
    const auto d2 = g.heavy_backward({d1, held}, 8); // no more from here on
    const auto d3 = g.heavy_backward({g.heavy_backward({d2}, 400)}, 8);
    static_cast<void>(g.backward({d3, held}, 8)); // no one needs it, so it is not run
    const auto s = g.finish({loss, d3});
    const auto c = echo::detail::find_candidates(s);
    echo::detail::lower_bound bound(s, c, true);
    REQUIRE(full_bound(s, c, true) > 1300);
    for (int i = 0; i < 3; ++i) CHECK(bound({}, 1) == full_bound(s, c, true));
}

TEST_CASE("the same bound is found every time", "[lower_bound]") {
    support::check(1, [] {
        const auto s = support::build(*support::recipes(30));
        const auto c = echo::detail::find_candidates(s);
        echo::detail::lower_bound bound(s, c, true);
        for (const std::size_t cuts : {1U, 2U, 3U}) {
            const auto once = bound({}, cuts), again = bound({}, cuts);
            RC_ASSERT(once == again);
        }
    });
}

TEST_CASE("the bound is met where nothing can be made again", "[lower_bound]") {
    toy_graph g;
    auto x = g.heavy({g.input(1)}, 100);
    std::vector<toy_graph::value> made{x};
    for (int i = 0; i < 5; ++i) made.push_back(x = g.heavy({x}, 100));
    const auto loss = g.heavy({x}, 1);
    const auto end = g.light({loss}, 0);
    auto dy = g.seed();
    for (std::size_t i = made.size(); i-- > 0;) dy = g.heavy_backward({dy, made[i]}, 10);
    const auto s = g.finish({end, dy});
    CHECK(bound_of(s) == best_of(s));
}
