// SPDX-License-Identifier: BSL-1.0
// Budgets: what evictions, retained copies and passes do to a plan, what they find, and what they promise.
#include "support/laws.hpp"
#include "support/numbered_graph.hpp"
#include "support/properties.hpp"
#include "support/random_graph.hpp"
#include "support/toy_graph.hpp"

#include <echo/analysis/plan/budget/budget.hpp>
#include <echo/analysis/plan/budget/cut_prices.hpp>
#include <echo/analysis/schedule/load_profile.hpp>
#include <echo/analysis/schedule/room_under.hpp>
#include <echo/graph/ranking.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

using support::toy_graph;
using value = toy_graph::value;

/// Node numbers in order; `'` behind what is a recompute.
std::string text(const echo::schedule& steps) {
    std::string all;
    for (const auto t : steps.steps()) {
        all += (all.empty() ? "" : " ") + std::to_string(steps[t].node.index());
        if (steps[t].kind == echo::step_kind::recompute) all += "'";
    }
    return all;
}

/// A heavy op, a light one whose map `a` two gradients read that lie far apart, and the peak between them.
struct far_apart {
    echo::snapshot s;
    value x, a, d1, d2, d3;
    echo::node_id at(value v) const { return s[v].producer; }

    far_apart() {
        toy_graph g;
        const auto data = g.input(1);                            // 0
        x = g.heavy({data}, 100);                                // 1
        a = g.light({x}, 100);                                   // 2
        const auto loss = g.light({a}, 0);                       // 3
        d1 = g.backward({g.seed(), a, x}, 8);                    // 4 5
        d2 = g.heavy_backward({g.heavy_backward({d1}, 400)}, 8); // 6 7
        d3 = g.backward({d2, a, x}, 8);                          // 8
        s = g.finish({loss, d3});
    }
};

/// Of two plans of the same steps.
bool have_same_history(const echo::detail::evaluator& one, const echo::detail::evaluated_plan& a,
                       const echo::detail::evaluator& other, const echo::detail::evaluated_plan& b) {
    const echo::detail::copy_history &known = one.history_of(a), &made = other.history_of(b);
    for (const auto t : a.steps().steps())
        if (known.earlier(t) != made.earlier(t)) return false;
    for (const auto i : a.live().storages())
        if (!std::ranges::equal(known.reads(i), made.reads(i), [](const auto& x, const auto& y) {
                return x.by == y.by && x.content == y.content;
            }))
            return false;
    return true;
}

} // namespace

TEST_CASE("a copy is there until it is forgotten", "[budget]") {
    const far_apart m;
    const auto c = echo::detail::find_candidates(m.s);
    echo::detail::schedule_builder lay(m.s, c);
    auto decided = echo::detail::decision::nothing(m.s);
    CHECK(text(lay(decided)) == "0 1 2 3 4 5 6 7 8");
    decided.forget(m.at(m.a), m.at(m.d2));
    CHECK(text(lay(decided)) == "0 1 2 3 4 5 6 7 2' 8");
    decided.again.insert(m.at(m.a));
    CHECK(text(lay(decided)) == "0 1 2 3 4 2' 5 6 7 2' 8"); // twice
    decided.remember(m.at(m.a), m.at(m.d1), m.at(m.d3));
    CHECK(decided.forgets.empty());
    CHECK(text(lay(decided)) == "0 1 2 3 4 2' 5 6 7 8");
    decided.forget(m.at(m.x), m.at(m.d2)); // heavy: only if allowed
    CHECK(text(lay(decided)) == "0 1 2 3 4 2' 5 6 7 8");
    decided.heavy = true;
    CHECK(text(lay(decided)) == "0 1 2 3 4 2' 5 6 7 1' 8");
}

TEST_CASE("what will be needed can be made early", "[budget]") {
    const far_apart m;
    const auto c = echo::detail::find_candidates(m.s);
    echo::detail::schedule_builder lay(m.s, c);
    auto decided = echo::detail::decision::nothing(m.s);
    decided.forget(m.at(m.a), m.at(m.d1));
    decided.make_early(m.at(m.a), echo::node_id(4));
    CHECK(text(lay(decided)) == "0 1 2 3 4 2' 5 6 7 8"); // there was a copy then: nothing to make
    decided.again.insert(m.at(m.a));
    decided.forgets.clear();
    CHECK(text(lay(decided)) == "0 1 2 3 2' 4 5 6 7 8");
    decided.early.clear();
    decided.make_early(m.at(m.a), echo::node_id(1)); // before its own place it cannot be
    CHECK(text(lay(decided)) == "0 1 2 3 4 2' 5 6 7 8");
}

TEST_CASE("what is forgotten before anybody reads it is not made", "[budget]") {
    const far_apart m;
    const auto c = echo::detail::find_candidates(m.s);
    echo::detail::schedule_builder lay(m.s, c);
    auto decided = echo::detail::decision::nothing(m.s);
    decided.again.insert(m.at(m.a));
    decided.make_early(m.at(m.a), echo::node_id(4));
    decided.forget(m.at(m.a), m.at(m.d1)); // the copy made early; another is made for d1
    CHECK(text(lay(decided)) == "0 1 2 3 4 2' 5 6 7 8");

    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 100), mask = g.light({x}, 100), loss = g.light({x}, 0); // 0 1 2 3
    const auto d = g.backward({g.backward({loss}, 8), x, mask}, 8);                              // 4 5
    const auto s = g.finish({loss, d});
    const auto facts = echo::detail::find_candidates(s),
               bound = echo::detail::find_candidates(s, {.move = false});
    auto late = echo::detail::decision::nothing(s);
    late.forget(s[mask].producer, s[d].producer);
    const auto steps = echo::detail::schedule_builder(s, facts)(
        late); // only gradients read the mask: its first run is the late one
    CHECK(text(steps) == "0 1 3 4 2 5");
    CHECK(steps[echo::step_id(4)].kind == echo::step_kind::run);
    CHECK(text(echo::detail::schedule_builder(s, bound)(late)) == "0 1 2 3 4 2' 5");
}

TEST_CASE("views are forgotten with what they look at", "[budget]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 100), a = g.light({x}, 100), seen = g.view(a); // 0 1 2 3
    const auto loss = g.light({seen}, 0);                                               // 4
    const auto d1 = g.backward({g.seed(), seen, x}, 8);                                 // 5 6
    const auto d2 = g.backward({d1, seen, x}, 8);                                       // 7
    const auto s = g.finish({loss, d2});
    const auto c = echo::detail::find_candidates(s);
    auto decided = echo::detail::decision::nothing(s);
    decided.forget(s[a].producer, s[d2].producer);
    CHECK(text(echo::detail::schedule_builder(s, c)(decided)) == "0 1 2 3 4 5 6 2' 3' 7");
}

TEST_CASE("between two readers far apart a map is made twice where that pays", "[budget]") {
    const far_apart m;
    const auto before = echo::footprint(m.s, echo::baseline_schedule(m.s)).peak_bytes;
    REQUIRE(before == 608); // x, a, 400 and 8
    const auto p = echo::make_plan(m.s, {.budget = 508});
    CHECK(p.met());
    // Kept for the first reader, made again for the second: of the two maps the one that is made from less.
    CHECK(text(p.steps()) == "0 1 2 3 4 5 6 7 1' 8");
    const auto least = echo::make_plan(m.s, {.budget = 409}); // the input of 1 is resident, so x goes as well
    CHECK(least.met());
    CHECK(echo::make_plan(m.s, {.budget = 407}).met() == false);
    CHECK(echo::make_plan(m.s, {.budget = before}).steps() == echo::baseline_schedule(m.s));
}

TEST_CASE("where a budget is not met, what is largest at the peak is named", "[budget]") {
    const std::uint64_t workspace = GENERATE(0U, 199U, 201U);
    toy_graph g;
    const auto data = g.input(5000); // resident: no plan can give it up
    const auto small = g.heavy({data}, 90), large = g.heavy({small}, 200), other = g.heavy({large}, 100);
    const auto loss = g.light({small, large, other}, 0);
    const auto d = g.add({.phase = echo::phase::backward, .workspace = workspace},
                         {loss, small, large, other}, {{.bytes = 80}});
    const auto later = g.heavy_backward({d}, 300); // behind the peak
    const auto s = g.finish({g.heavy_backward({later}, 1)});
    const auto report = [&](std::uint64_t budget) {
        return echo::make_plan(s, {.how = echo::strategy::baseline, .budget = budget}).report();
    };
    const std::uint64_t peak = 90 + 200 + 100 + 80 + workspace;
    REQUIRE(report(1).peak_bytes == peak);
    CHECK(report(1).blocker == s[workspace > 200 ? d : large].producer);
    CHECK(report(1).blocker_bytes == std::max<std::uint64_t>(200, workspace));
    CHECK(report(peak - 1).blocker.valid());
    CHECK_FALSE(report(peak).blocker.valid()); // nothing stands in its way
}

namespace {

/// An evaluator, and moves.
struct moves_of {
    moves_of(const echo::snapshot& s, const echo::detail::candidates& c) : evaluate(s, c) {}

    echo::detail::evaluator evaluate;
    echo::detail::evictor evict{evaluate};
    echo::detail::retainer retain{evaluate};
};

} // namespace

TEST_CASE("a pass keeps the plans that it is given or finds better ones", "[budget][law]") {
    std::map<std::string, std::size_t> improved;
    support::check(0.3, [&] {
        const bool large = *support::numbers(4) == 0; // no whole front is searched there
        const auto s = large ? support::numbered_graph(*support::numbers(1000), 450)
                             : support::build(*support::recipes());
        const auto c = echo::detail::find_candidates(s);
        const echo::detail::anchor_finder anchors(s, c);
        echo::detail::evaluator evaluate(s, c);
        echo::detail::search_moves m(evaluate, {}, {}, echo::detail::tuning::most_work);
        echo::detail::search_state state;
        state.start_from(evaluate(echo::detail::decision::nothing(s)).rated());
        const auto least_peak = [](const echo::detail::search_state& of) {
            return of.known.lowest().footprint.peak_bytes;
        };
        const auto pass = [&](const char* name, const auto& run) {
            const auto before = state.known.all();
            state = run(std::move(state));
            for (const auto& plan : before)
                support::require(state.meets(plan.footprint.peak_bytes, plan.recompute), "a plan is lost");
            bool is_same = before.size() == state.known.all().size();
            for (std::size_t i = 0; is_same && i < before.size(); ++i)
                is_same = before[i].decided == state.known.all()[i].decided;
            improved[name] += !is_same;
        };
        using echo::detail::search_state;
        pass("cuts", [&](search_state given) {
            return echo::detail::start_from_cuts(m, std::move(given), anchors, true);
        });
        const std::uint64_t high = state.known.all().front().footprint.peak_bytes;
        const std::uint64_t limit = high - (high - least_peak(state)) / 2;
        const auto most = c.times.at_most(0.1);
        pass("starts",
             [&](search_state given) { return echo::detail::bring_starts(m, std::move(given), limit); });
        pass("nearest", [&](search_state given) {
            return echo::detail::bring_nearest(m, std::move(given), limit - limit / 64);
        });
        pass("recreate",
             [&](search_state given) { return echo::detail::recreate(m, std::move(given), limit); });
        pass("exchange",
             [&](search_state given) { return echo::detail::exchange(m, std::move(given), limit); });
        pass("retain", [&](search_state given) {
            return echo::detail::retain_below(m, std::move(given), limit + limit / 8);
        });
        pass("lower",
             [&](search_state given) { return echo::detail::lower_within(m, std::move(given), most); });
        pass("polish",
             [&](search_state given) { return echo::detail::polish(m, std::move(given), most, 0); });
        pass("descend", [&](search_state given) { return echo::detail::descend(m, std::move(given), 0); });
        pass("front",
             [&](search_state given) { return echo::detail::follow_front(m, std::move(given), limit, 10); });
        pass("neighbours",
             [&](search_state given) { return echo::detail::learn_from_neighbours(m, std::move(given)); });
        for (const auto& plan : state.known.all()) {
            const auto again = evaluate(plan.decided);
            support::require(again.peak_bytes() == plan.footprint.peak_bytes &&
                                 again.recompute() == plan.recompute,
                             "a known plan has other figures");
        }
    });
    CHECK(improved.size() == 11);
    for (const auto& [name, count] : improved) {
        CAPTURE(name);
        CHECK(count > 0);
    }
}

TEST_CASE("one run takes the place of two that are cheaper by the byte", "[budget]") {
    toy_graph g;
    const auto data = g.input(1);
    const auto made = [&](double time, std::uint64_t bytes) {
        return g.add({.kind = echo::op_kind::heavy, .rerun = echo::rerun_kind::pure, .time_us = time}, {data},
                     {{.bytes = bytes}});
    };
    const auto a = made(20, 4000), b = made(20, 4000), c = made(33, 6000);
    const auto loss = g.light({a, b, c}, 0);
    const auto peak = g.backward({g.backward({loss}, 10000)}, 10);
    const auto s = g.finish({loss, g.backward({g.backward({g.backward({peak, a}, 10), b}, 10), c}, 10)});
    const auto facts = echo::detail::find_candidates(s);
    const auto time_of = [&](value v) { return facts.times.of_node[s[v].producer]; };
    echo::detail::evaluator evaluate(s, facts);
    echo::detail::search_moves m(evaluate, {}, {}, echo::detail::tuning::most_work);
    const auto nothing = m.with_heavy(echo::detail::decision::nothing(s));
    const std::uint64_t limit = nothing.footprint.peak_bytes - 6000;

    echo::detail::search_state state;
    state.start_from(nothing);
    state.known.add(m.bring_down(nothing, limit, echo::detail::any_time).rated());
    CHECK(state.known.within(limit)->recompute == time_of(a) + time_of(b));
    state = echo::detail::exchange(m, std::move(state), limit);
    CHECK(state.known.within(limit)->recompute == time_of(c));

    const auto others = m.evict(evaluate(nothing.decided), limit, {.settled = s[a].producer});
    CHECK(others.met);
    CHECK(others.plan.recompute() == time_of(b) + time_of(c)); // `a` is left alone
}

TEST_CASE("what is read in one bit from the peak on is encoded, which takes no time", "[budget]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 3200), y = g.light({x}, 3200), z = g.heavy({y}, 32);
    const auto loss = g.light({z}, 0);
    const auto of_weights = g.heavy_backward({g.seed(), y}, 32);
    const auto of_y = g.heavy_backward({of_weights}, 6400); // the peak
    const auto left = g.backward({of_y}, 32);
    bool others = false;
    SECTION("by those who need not read more of it") {}
    SECTION("not if one of them does") { others = true; }
    const auto of_bits = g.backward({left, y, x}, 0, {1});
    const auto s = g.finish({loss, others ? g.backward({of_bits, y}, 0) : of_bits});
    const auto c = echo::detail::find_candidates(s);
    moves_of m(s, c);
    const auto nothing = echo::detail::decision::nothing(s);
    const auto plain = m.evaluate(nothing).peak_bytes();
    const auto led = m.evict(m.evaluate(nothing), plain - 3000, {});
    CHECK(led.met);
    CHECK((led.plan.recompute() > 0) == others);
    CHECK((led.plan.decided().encoded[y] != 0) == !others);
    if (others) return;
    CHECK(led.plan.peak_bytes() == plain - 3200 + 100);
    CHECK(echo::make_plan(s, {.budget = plain - 3000}).report().recomputed_nodes == 0);
    CHECK(echo::make_plan(s, {.budget = plain - 3000, .encode = false}).report().recomputed_nodes > 0);
}

TEST_CASE("the least peak within some recomputation", "[budget]") {
    const far_apart m;
    const auto c = echo::detail::find_candidates(m.s);
    const double one = c.times.part(c.times.of_node[m.at(m.a)]);
    const auto at = [&](double overhead) {
        return echo::make_plan(m.s, {.how = echo::strategy::budget, .max_overhead = overhead}).report();
    };
    CHECK(at(0).peak_bytes == 608);
    CHECK(at(0).recompute_time_ratio == 0);
    CHECK(at(one * 1.001).peak_bytes == 508);
    CHECK(at(1).peak_bytes == 408);
    CHECK_THROWS_WITH(at(-0.5), Catch::Contains("max_overhead: is no number of 0 or more; give a part"));
    CHECK_THROWS_WITH(at(std::nan("")), Catch::Contains("max_overhead: is "));
}

TEST_CASE("a load profile is what its changes sum to", "[budget]") {
    support::check(1, [] {
        const auto count = 1 + *support::numbers(40);
        std::vector<std::uint64_t> load(count);
        for (auto& bytes : load) bytes = 1000 + *support::numbers(1000);
        echo::detail::load_profile profile(load);
        std::vector<std::int64_t> now(load.begin(), load.end());
        for (int i = 0; i < 12; ++i) {
            const auto first = *support::numbers(count), last = *support::numbers(count);
            const auto bytes = static_cast<std::int64_t>(*support::numbers(200)) - 100;
            profile.add(first, last, bytes);
            for (std::size_t t = first; t <= last && t < now.size(); ++t) now[t] += bytes;
            const auto highest = std::max_element(now.begin(), now.end());
            RC_ASSERT(profile.most() == *highest);
            RC_ASSERT(profile.peak() == static_cast<std::size_t>(highest - now.begin()));
            if (first <= last)
                RC_ASSERT(profile.most(first, last) ==
                          *std::max_element(now.begin() + static_cast<std::ptrdiff_t>(first),
                                            now.begin() + static_cast<std::ptrdiff_t>(last) + 1));
        }
    });
}

TEST_CASE("room under a limit is what the loads leave", "[budget]") {
    support::check(1, [] {
        const auto count = 1 + *support::numbers(40), limit = 1000 + *support::numbers(1200);
        std::vector<std::uint64_t> load(count);
        for (auto& bytes : load) bytes = 1000 + *support::numbers(1000);
        echo::detail::room_under room(limit, load);
        for (int i = 0; i < 12; ++i) {
            const auto first = *support::numbers(count);
            const auto last = first + *support::numbers(count - first);
            const auto bytes = static_cast<std::int64_t>(*support::numbers(400)) - 200;
            const auto from = load.begin() + static_cast<std::ptrdiff_t>(first),
                       to = load.begin() + static_cast<std::ptrdiff_t>(last) + 1;
            const auto highest = static_cast<std::int64_t>(*std::max_element(from, to));
            RC_ASSERT(room.has(first, last, bytes) == (highest + bytes <= static_cast<std::int64_t>(limit)));
            room.take(first, last, bytes);
            for (auto at = from; at != to; ++at) *at += static_cast<std::uint64_t>(bytes);
        }
    });
}

TEST_CASE("who takes some of a ranking takes what is first in all of it", "[budget]") {
    support::check(1, [] {
        echo::detail::ranking all, some;
        const auto count = static_cast<std::uint32_t>(*support::numbers(40));
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::uint64_t key = *support::numbers(6), second = *support::numbers(2);
            all.add(i, key, second);
            some.add(i, key, second);
        }
        some.begin_taking();
        for (const auto i : all.descending()) {
            RC_ASSERT(!some.empty());
            RC_ASSERT(some.take() == i);
        }
        RC_ASSERT(some.empty());
    });
}

TEST_CASE("a front falls and rises, and each of its points is a budget that can be met", "[budget]") {
    support::check(0.05, [] {
        const auto s = support::build(*support::recipes());
        const auto found = echo::front(s, {}, 6);
        const auto& points = found.points;
        support::require(!points.empty(), "a front without points");
        support::require(points.front().recompute_time_ratio == 0, "the front begins with recomputation");
        support::require(points.front().peak_bytes <= found.baseline_peak_bytes,
                         "it begins above the baseline");
        support::require(found.lower_bound_bytes <= points.back().peak_bytes, "it ends below the bound");
        for (std::size_t i = 1; i < points.size(); ++i) {
            support::require(points[i].peak_bytes < points[i - 1].peak_bytes, "a peak does not fall");
            support::require(points[i].recompute_time_ratio > points[i - 1].recompute_time_ratio,
                             "a time does not rise");
        }
        for (const auto& point : points)
            support::require(echo::make_plan(s, {.budget = point.peak_bytes}).report().recompute_time_ratio <=
                                 10 * point.recompute_time_ratio + 1,
                             "a point of the front is out of reach of a budget");
    });
}

namespace {

/// Whether there was anything to compare: that `min_cut` recomputes something.
bool costs_no_more_than_min_cut(const echo::snapshot& s) {
    const auto cut = echo::make_plan(s, {.how = echo::strategy::min_cut}).report();
    if (cut.recompute_time_ratio <= 0) return false;
    const auto cheapest = echo::make_plan(s, {.budget = cut.peak_bytes}).report();
    support::require(cheapest.peak_bytes <= cut.peak_bytes, "the budget is not met");
    support::require(cheapest.recompute_time_ratio <= cut.recompute_time_ratio * (1 + 1e-12),
                     "the budget costs more than min_cut");
    const auto lowest = echo::make_plan(s, {.how = echo::strategy::budget,
                                            .max_overhead = cut.recompute_time_ratio * (1 + 1e-12)})
                            .report();
    support::require(lowest.peak_bytes <= cut.peak_bytes, "min_cut's peak is lower for the same time");
    return true;
}

} // namespace

TEST_CASE("a budget never costs more than min_cut does for that peak, nor reaches less for that time",
          "[budget]") {
    std::size_t counted = 0;
    support::check(1, [&] { counted += costs_no_more_than_min_cut(support::build(*support::recipes())); });
    CHECK(counted > 0);
}

TEST_CASE("what is left of a cut that is rolled back is known to budgets", "[budget]") {
    const auto op = [](std::initializer_list<std::pair<support::trait, std::uint8_t>> traits) {
        support::op_recipe made;
        for (const auto& [which, number] : traits) made[which] = number;
        return made;
    };
    using enum support::trait;
    // What the second op needs to run again would raise the peak: of the cut, only the first op is made again.
    CHECK(costs_no_more_than_min_cut(
        support::build({.ops = {op({{reads_made, 1}}), op({{support::trait::bytes, 1}}),
                                op({{workspace, 6}, {role, 1}}), op({{reads, 9}})},
                        .parameters = 0})));
}

TEST_CASE("no regret: no plan that is known keeps to a budget with less recomputation", "[budget]") {
    support::check(0.1, [] {
        const auto s = support::build(*support::recipes());
        struct known_plan {
            std::uint64_t peak_bytes;
            double overhead;
        };
        std::vector<known_plan> known;
        std::vector<std::uint64_t> limits;
        for (const auto& point : echo::front(s).points) {
            known.push_back({point.peak_bytes, point.recompute_time_ratio});
            limits.push_back(point.peak_bytes);
        }
        const auto plan = [&](const echo::plan_options& asked) {
            const auto r = echo::make_plan(s, asked).report();
            known.push_back({r.peak_bytes, r.recompute_time_ratio});
            return r;
        };
        for (const auto how : echo::all_strategies) plan({.how = how});
        for (const double most : {0.01, 0.05, 0.2}) plan({.max_overhead = most});
        for (std::uint64_t i = 1; i <= 5; ++i)
            limits.push_back(limits.back() + (limits.front() - limits.back()) * i / 6);
        for (const std::uint64_t limit : limits) {
            const auto r = plan({.budget = limit});
            double least = r.recompute_time_ratio;
            for (const auto& p : known)
                if (p.peak_bytes <= limit) least = std::min(least, p.overhead);
            support::require(r.peak_bytes <= limit, "a limit that a known plan keeps to is missed");
            support::require(r.recompute_time_ratio <= least + 0.02,
                             "a known plan's step is shorter by a fiftieth");
        }
    });
}

TEST_CASE("progress rises from 0 and stays below 1", "[budget]") {
    const far_apart m;
    std::vector<double> told;
    const auto tell = [&](double part) { told.push_back(part); };
    for (const std::uint64_t budget : {std::uint64_t{409}, std::uint64_t{1}, echo::any_peak}) {
        told.clear();
        static_cast<void>(echo::make_plan(
            m.s, {.how = echo::strategy::budget, .budget = budget, .max_overhead = 0.5, .progress = tell}));
        REQUIRE(told.size() > 1);
        CHECK(told.front() == 0);
        CHECK(std::adjacent_find(told.begin(), told.end(), std::greater_equal<>()) == told.end());
        CHECK(told.back() < 1);
    }
    told.clear(); // a plan without fusion, and one with it: each is half of the whole
    static_cast<void>(
        echo::make_plan(m.s, {.how = echo::strategy::min_cut, .host = {.fuse = true}, .progress = tell}));
    REQUIRE(told.size() > 1);
    CHECK(told.front() == 0);
    CHECK(std::find(told.begin(), told.end(), 0.5) != told.end());
    CHECK(std::adjacent_find(told.begin(), told.end(), std::greater<>()) == told.end());
    CHECK(told.back() <= 1);
}

TEST_CASE("planning ends where it is told to stop, and asks no more") {
    const far_apart m;
    int asked = 0, last = 3;
    const auto stop = [&] { return ++asked == last; };
    for (const auto how : {echo::strategy::min_cut, echo::strategy::budget})
        for (const bool fuse : {false, true}) {
            asked = 0;
            try {
                static_cast<void>(echo::make_plan(m.s, {.how = how, .host = {.fuse = fuse}, .stop = stop}));
                FAIL("planned");
            } catch (const echo::error& e) {
                CHECK(e.key() == "stop");
            }
            CHECK(asked == last);
        }
    asked = 0;
    CHECK_THROWS_AS(echo::front(m.s, {.stop = stop}), echo::error);
    last = -1; // never
    CHECK(echo::make_plan(m.s, {.stop = stop}).report().replays == echo::make_plan(m.s).report().replays);
}

TEST_CASE("a plan that comes back is the plan that was made, whatever was made in between", "[budget][law]") {
    std::size_t fusing = 0;
    support::check(1, [&] {
        const auto s = support::numbered_graph(*rc::gen::inRange(0u, 1000u), 450);
        const bool fuse = *rc::gen::arbitrary<bool>();
        const auto c = echo::detail::find_candidates(s, {.fuse = fuse});
        fusing += fuse;
        echo::detail::evaluator evaluate(s, c);
        echo::detail::retainer retain(evaluate);
        // Of more decisions than are kept, so that some come back, and some of the memory is used again.
        for (int i = 0; i < 100; ++i) {
            auto decided = echo::detail::decision::nothing(s);
            const auto number = *rc::gen::inRange<std::size_t>(0, 64);
            std::size_t bit = 0;
            for (const auto n : s.nodes())
                if (c.rerunnable[n]) decided.again[n] = number >> (bit++ % 6) & 1;
            echo::detail::evaluator fresh(s, c);
            const auto known = evaluate(decided), made = fresh(decided);
            RC_ASSERT(known.decided() == decided);
            RC_ASSERT(known.steps() == made.steps());
            RC_ASSERT(known.homes() == made.homes());
            RC_ASSERT(known.footprint().peak_bytes == made.footprint().peak_bytes);
            RC_ASSERT(known.recompute() == made.recompute());
            RC_ASSERT(have_same_history(evaluate, known, fresh, made));
            // What is known of the room in a plan is of that plan and of that limit.
            const auto limit = known.peak_bytes() + *rc::gen::inRange<std::uint64_t>(0, 3) * 100;
            echo::detail::retainer again(fresh);
            const auto more = retain(evaluate(decided), limit), as_much = again(fresh(decided), limit);
            RC_ASSERT(more.decided() == as_much.decided());
        }
    });
    CHECK(fusing > 0);
}

TEST_CASE("what could be kept runs for a node behind the forward pass, and only there is it looked for",
          "[budget][law]") {
    std::size_t found = 0, left_out = 0;
    support::check(1, [&] {
        const auto s = support::build(*support::recipes());
        const auto c = echo::detail::find_candidates(s, {.fuse = *rc::gen::arbitrary<bool>()});
        echo::detail::evaluator evaluate(s, c);
        auto decided = echo::detail::decision::nothing(s);
        for (const auto n : s.nodes()) {
            decided.again[n] = c.rerunnable[n] && *rc::gen::arbitrary<bool>();
            if (c.rerunnable[n] && c.first_late.index() < s.node_count() && *rc::gen::inRange(0, 4) == 0)
                decided.forget(
                    n, echo::node_id(*rc::gen::inRange<std::size_t>(c.first_late.index(), s.node_count())));
        }
        for (const auto v : s.values()) decided.encoded[v] = c.packable[v] && *rc::gen::arbitrary<bool>();
        for (const auto& f : std::vector(decided.forgets))
            if (*rc::gen::arbitrary<bool>())
                decided.make_early(
                    f.node, echo::node_id(*rc::gen::inRange<std::size_t>(f.at.index(), s.node_count())));
        const auto plan = evaluate(decided);
        const auto late = echo::detail::late_steps(c, plan);
        RC_ASSERT(plan.homes().size() == plan.steps().size());
        RC_ASSERT(std::ranges::is_sorted(plan.homes().values()));
        for (const auto t : plan.steps().steps())
            if (echo::detail::can_be_retained(s, plan, t)) {
                ++found;
                RC_ASSERT(!late.empty() && t >= late[0]);
            }
        left_out += plan.steps().size() - late.size();
    });
    CHECK(found > 0);
    CHECK(left_out > 0);
}

TEST_CASE("a plan of a large graph that comes back has its own history", "[budget]") {
    toy_graph g;
    value last = g.input(1);
    std::vector<value> maps;
    for (int i = 0; i < 35'000; ++i) maps.push_back(last = g.light({last}, 8));
    value gradient = g.seed();
    for (std::size_t i = maps.size(); i-- > 0;) gradient = g.backward({gradient, maps[i]}, 8);
    const auto s = g.finish({last, gradient});
    const auto c = echo::detail::find_candidates(s);
    const auto nothing = echo::detail::decision::nothing(s);
    auto all = nothing;
    for (const auto n : s.nodes()) all.again[n] = c.rerunnable[n];
    echo::detail::evaluator evaluate(s, c), fresh(s, c);
    const auto kept = evaluate(all);
    static_cast<void>(evaluate.history_of(kept));
    for (const bool again : {false, false, true, false})
        CHECK(have_same_history(evaluate, evaluate(again ? all : nothing), fresh,
                                fresh(again ? all : nothing)));
    CHECK(have_same_history(evaluate, kept, fresh, fresh(all)));
}

TEST_CASE("a limit that costs nothing is not searched for", "[budget]") {
    const far_apart m;
    const auto c = echo::detail::find_candidates(m.s);
    const echo::detail::anchor_finder anchors(m.s, c);
    const auto replays_for = [&](std::uint64_t limit) {
        echo::detail::evaluator evaluate(m.s, c);
        echo::detail::budget_search search(evaluate, anchors, {});
        CHECK(search.cheapest(limit).peak_bytes() <= limit);
        return evaluate.count();
    };
    CHECK(replays_for(608) < replays_for(607) / 4); // 608 is the peak of the graph's own order
}

TEST_CASE(
    "where a limit is out of reach, the lowest plan takes no longer than if its peak had been asked for",
    "[budget]") {
    for (const std::uint64_t number : {12U, 13U, 17U, 21U, 22U}) {
        const auto s = support::numbered_graph(number, 450);
        const auto c = echo::detail::find_candidates(s);
        const echo::detail::anchor_finder anchors(s, c);
        echo::detail::evaluator evaluate(s, c);
        const auto lowest = echo::detail::budget_search(evaluate, anchors, {}).cheapest(1);
        REQUIRE(lowest.peak_bytes() > 1);
        const auto asked = echo::detail::budget_search(evaluate, anchors, {}).cheapest(lowest.peak_bytes());
        CAPTURE(number);
        CHECK(lowest.recompute() <= asked.recompute() + std::max(asked.recompute(), c.times.total) / 50);
    }
}

TEST_CASE("a part of no time is 0, and no time is a part of it", "[budget]") {
    echo::run_times one, none;
    one.total = 1;
    CHECK(one.part(1) == 1);
    CHECK(one.at_most(1) == 1);
    CHECK(one.at_most(0) == 0);
    CHECK(none.part(1) == 0);
    CHECK(none.at_most(0.5) == 0);
}

TEST_CASE("times of days and sums of them fit", "[budget]") {
    toy_graph g;
    auto x = g.input(8);
    for (const double time : {1e12, 2e12, 3e12})
        x = g.add({.kind = echo::op_kind::light, .time_us = time}, {x}, {{.bytes = 8}});
    const auto s = g.finish({x});
    const auto times = echo::times_of(s);
    CHECK(times.microseconds(times.total) == Approx(6e12));
    CHECK(times.microseconds(times.of_node[s[x].producer]) == Approx(3e12));
    CHECK(times.part(times.of_node[s[x].producer]) == Approx(0.5));
}

TEST_CASE("prices of time fall, whatever the ops make in their time", "[budget]") {
    for (const double time : {1e-3, 1.0, 1e6}) { // microseconds for a byte
        toy_graph g;
        auto x = g.heavy({g.input(8)}, 8);
        for (const double times : {1, 10, 100})
            x = g.add(
                {.kind = echo::op_kind::light, .rerun = echo::rerun_kind::pure, .time_us = times * time}, {x},
                {{.bytes = 1}});
        const auto s = g.finish({x, g.backward({g.seed(), x}, 8)});
        const auto prices = echo::detail::cut_prices(s, echo::detail::find_candidates(s), 4);
        REQUIRE(prices.size() == 4);
        const auto rate = [](const echo::detail::time_price& p) {
            return static_cast<double>(p.bytes) / static_cast<double>(p.time);
        };
        for (std::size_t i = 0; i < prices.size(); ++i) {
            CHECK(prices[i].bytes > 0);
            CHECK(prices[i].time > 0);
            if (i > 0) CHECK(rate(prices[i]) <= rate(prices[i - 1]));
        }
    }
}

TEST_CASE("a gap relieves all steps above the limit by what goes, even those a byte above it", "[budget]") {
    echo::detail::excess_sums sums;
    sums.read(std::vector<std::uint64_t>{30, 11, 11, 10}, 30, 10);
    const echo::detail::evicted_copy gap{{}, {}, echo::step_id(0), echo::step_id(3)};
    CHECK(sums.relieved(gap, 1) == 2);
    CHECK(sums.relieved(gap, 100) == 2); // no more than lies above
}

namespace {

/// A map that is made again from a larger one behind the peak, so that the larger one is live there.
struct small_of_large {
    echo::snapshot s;
    value x, a;
    echo::step_id peak{6};
    echo::node_id at(value v) const { return s[v].producer; }

    explicit small_of_large(std::uint64_t large) {
        toy_graph g;
        x = g.heavy({g.input(1)}, large);                                        // 0 1
        a = g.light({x}, 100);                                                   // 2
        const auto loss = g.light({a}, 0);                                       // 3
        const auto d = g.heavy_backward({g.heavy_backward({g.seed()}, 300)}, 8); // 4 5 6
        s = g.finish({loss, g.backward({d, a}, 8)});                             // 7
    }
};

} // namespace

TEST_CASE("what is there only to make something smaller of it need not be there", "[budget]") {
    const small_of_large m(400);
    const auto c = echo::detail::find_candidates(m.s);
    echo::detail::evaluator evaluate(m.s, c);
    echo::detail::evictor evict(evaluate);
    auto decided = echo::detail::decision::nothing(m.s);
    decided.again.insert(m.at(m.a));
    REQUIRE(text(evaluate(decided).steps()) == "0 1 2 3 4 5 6 2' 7");
    const auto found = evict(evaluate(decided), 600, {});
    CHECK(found.met);
    CHECK(text(found.plan.steps()) == "0 1 2 3 4 5 6 7");
}

namespace {

/// What a heavy op makes is scaled, and the scaled map is written over in place; the backward pass reads the first and
/// the last of the three.
struct written_over {
    toy_graph g;
    echo::value_id source, scaled, kept, peak;
    echo::snapshot s;
    echo::detail::candidates c;

    written_over() {
        source = g.heavy({g.input(1)}, 100);
        scaled = g.light({source}, 100);
        kept = g.add({.kind = echo::op_kind::light, .rerun = echo::rerun_kind::pure}, {scaled},
                     {{.bytes = 100, .inplace = 0}});
        const auto next = g.heavy({kept}, 10);
        peak = g.heavy({next}, 500);
        const auto loss = g.heavy({peak}, 1), d = g.backward({loss}, 10);
        const auto end = g.backward({g.backward({d, kept}, 10), source}, 10);
        s = g.finish({loss, end});
        c = echo::detail::find_candidates(s);
    }
    echo::node_id at(echo::value_id v) const { return s[v].producer; }
};

} // namespace

TEST_CASE("what is written over in place has to be kept or made again with what is written on it",
          "[budget]") {
    const written_over m;
    echo::detail::evaluator evaluate(m.s, m.c);
    auto nothing = evaluate(echo::detail::decision::nothing(m.s));
    const std::uint64_t limit = nothing.peak_bytes() - 100;
    const auto found = echo::detail::evictor(evaluate)(std::move(nothing), limit, {.rounds = 1});
    CHECK(found.met); // both at once: the one alone would keep the other in its place
    CHECK(found.plan.decided().again[m.at(m.kept)]);
    CHECK(found.plan.decided().again[m.at(m.scaled)]);
}

TEST_CASE("a copy has the storage until another is written over it", "[budget]") {
    const written_over m;
    const echo::schedule steps = echo::baseline_schedule(m.s);
    const auto live = echo::liveness_analysis{}(m.s, steps);
    const auto copy = [&](echo::value_id v) { return echo::copy_id{echo::step_id(m.at(v).index()), 0}; };
    REQUIRE(live.storage(copy(m.scaled)) == live.storage(copy(m.kept)));
    CHECK(live.last_held(copy(m.scaled)) == echo::step_id(m.at(m.kept).index()));
    CHECK(live.last_held(copy(m.kept)) == live[live.storage(copy(m.kept))].last);
    CHECK(live.last_held(copy(m.kept)) > echo::step_id(m.at(m.peak).index()));
    CHECK(live.last_held(copy(m.source)) == live[live.storage(copy(m.source))].last);
}

TEST_CASE("what would be written over takes room of its own where it is kept", "[budget]") {
    toy_graph g;
    const auto source = g.heavy({g.input(1)}, 100), scaled = g.light({source}, 100);
    const auto kept = g.add({.kind = echo::op_kind::light, .rerun = echo::rerun_kind::pure}, {scaled},
                            {{.bytes = 100, .inplace = 0}});
    const auto loss = g.heavy({g.heavy({kept}, 500)}, 1);
    const auto end = g.backward({g.backward({g.backward({loss}, 10), kept}, 10), scaled}, 10);
    const auto s = g.finish({loss, g.backward({end, source}, 10)});
    const auto c = echo::detail::find_candidates(s);
    echo::detail::evaluator evaluate(s, c);
    auto again = echo::detail::decision::nothing(s);
    again.again.insert(s[scaled].producer);
    auto plan = evaluate(again);
    REQUIRE(plan.peak_bytes() < evaluate(echo::detail::decision::nothing(s)).peak_bytes());
    echo::detail::retainer retain(evaluate);
    const std::uint64_t limit = plan.peak_bytes();
    const auto replays = evaluate.count();
    CHECK(retain(std::move(plan), limit).recompute() > 0);
    CHECK(evaluate.count() == replays); // it is known without a try
}

TEST_CASE("what the backward pass writes over can be given up before", "[budget]") {
    toy_graph g;
    const auto kept = g.light({g.input(1)}, 100), peak = g.heavy({g.heavy({kept}, 10)}, 500);
    const auto loss = g.heavy({peak}, 1), d = g.backward({loss}, 10);
    const auto over =
        g.add({.phase = echo::phase::backward, .kind = echo::op_kind::light, .rerun = echo::rerun_kind::pure},
              {kept, d}, {{.bytes = 100, .inplace = 0}});
    const auto s = g.finish({loss, g.backward({over}, 10)});
    const auto c = echo::detail::find_candidates(s);
    echo::detail::evaluator evaluate(s, c);
    auto nothing = evaluate(echo::detail::decision::nothing(s));
    const std::uint64_t limit = nothing.peak_bytes() - 100;
    CHECK(echo::detail::evictor(evaluate)(std::move(nothing), limit, {}).met);
}

namespace {

/// So many layers of a heavy op and a light one, and their gradients.
echo::snapshot layers(std::size_t count) {
    toy_graph g;
    auto x = g.input(100);
    std::vector<value> made;
    for (std::size_t i = 0; i < count; ++i) {
        x = g.heavy({x}, 100 + i % 7);
        made.push_back(x = g.light({x}, 200 + i % 5));
    }
    auto dx = g.backward({g.seed(), g.light({x}, 0)}, 100);
    while (!made.empty()) {
        dx = g.heavy_backward({dx, made.back()}, 100);
        made.pop_back();
    }
    return g.finish({dx});
}

} // namespace

TEST_CASE("what is decided of many at once is what is decided of each in turn", "[budget][law]") {
    const auto s = layers(4);
    std::vector<echo::node_id> forward, backward;
    for (const auto n : s.nodes()) (echo::runs_after_forward(s[n].phase) ? backward : forward).push_back(n);
    support::check(1, [&] {
        auto one = echo::detail::decision::nothing(s), all = one;
        const auto drawn = [](const auto& from) {
            return from[*support::numbers(static_cast<unsigned>(from.size()))];
        };
        for (int round = 0; round < 3; ++round) {
            std::vector<echo::detail::turn> forgotten;
            for (std::size_t i = *support::numbers(12); i > 0; --i)
                forgotten.push_back({drawn(forward), drawn(backward)});
            for (const echo::detail::turn& t : forgotten) one.forget(t.node, t.at);
            all.forget_all(forgotten);
            RC_ASSERT(all == one);
            std::vector<echo::detail::kept_copy> kept; // of each node one gap at most, in any order
            for (const auto n : forward) {
                const auto from = *support::numbers(2) ? n : drawn(backward), to = drawn(backward);
                if (*support::numbers(2) == 0 || from >= to) continue;
                const auto place = *support::numbers(static_cast<unsigned>(kept.size() + 1));
                kept.insert(kept.begin() + static_cast<std::ptrdiff_t>(place), {n, from, to});
                one.again.insert(n);
                all.again.insert(n);
            }
            for (const auto& copy : kept) echo::detail::keep_copy(s, one, copy);
            echo::detail::keep_copies(s, all, kept);
            RC_ASSERT(all == one);
        }
    });
}

TEST_CASE("of a large graph no more is tried once its nodes times the replays come to so many", "[budget]") {
    const auto s = layers(2800);
    REQUIRE(echo::detail::search_effort::of(s).is_reduced);
    const auto c = echo::detail::find_candidates(s);
    const echo::detail::anchor_finder anchors(s, c);
    const auto most = c.times.total / 50;
    struct done {
        std::uint64_t peak;
        std::size_t replays;
        bool spent;
    };
    const auto lowest = [&](std::size_t work) {
        echo::detail::evaluator evaluate(s, c);
        echo::detail::budget_search search(evaluate, anchors, {.most_work = work});
        const auto found = search.lowest(most);
        CHECK(found.recompute() <= most);
        return done{found.peak_bytes(), evaluate.count(), search.is_spent()};
    };
    const done whole = lowest(echo::detail::tuning::most_work), little = lowest(1);
    CHECK(!whole.spent);
    CHECK(little.spent);
    CHECK(little.peak >= whole.peak);
    // As much work as lies half-way between the two leads part of the way.
    const done half = lowest((whole.replays + little.replays) / 2 * echo::detail::search_effort::of(s).size);
    CHECK(half.spent);
    CHECK(little.replays < half.replays);
    CHECK(half.replays < whole.replays);
    CHECK(half.peak <= little.peak);
    CHECK(half.peak >= whole.peak);
}
