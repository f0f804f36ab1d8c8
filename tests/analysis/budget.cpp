// SPDX-License-Identifier: BSL-1.0
// Budgets: what evictions, retained copies and swaps do to a plan, what they find, and what they promise.
#include "support/laws.hpp"
#include "support/properties.hpp"
#include "support/random_graph.hpp"
#include "support/toy_graph.hpp"

#include <echo/analysis/plan/moves/exchange.hpp>
#include <echo/analysis/plan/moves/ruin_and_recreate.hpp>
#include <echo/analysis/schedule/load_profile.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

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

} // namespace

TEST_CASE("a copy is there until it is forgotten", "[budget]") {
    const far_apart m;
    const auto c = echo::find_candidates(m.s);
    echo::schedule_builder<> lay(m.s, c);
    auto decided = echo::decision::nothing(m.s);
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
    const auto c = echo::find_candidates(m.s);
    echo::schedule_builder<> lay(m.s, c);
    auto decided = echo::decision::nothing(m.s);
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
    const auto c = echo::find_candidates(m.s);
    echo::schedule_builder<> lay(m.s, c);
    auto decided = echo::decision::nothing(m.s);
    decided.again.insert(m.at(m.a));
    decided.make_early(m.at(m.a), echo::node_id(4));
    decided.forget(m.at(m.a), m.at(m.d1)); // the copy made early; another is made for d1
    CHECK(text(lay(decided)) == "0 1 2 3 4 2' 5 6 7 8");

    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 100), mask = g.light({x}, 100), loss = g.light({x}, 0); // 0 1 2 3
    const auto d = g.backward({g.backward({loss}, 8), x, mask}, 8);                              // 4 5
    const auto s = g.finish({loss, d});
    const auto facts = echo::find_candidates(s), bound = echo::find_candidates(s, {.move = false});
    auto late = echo::decision::nothing(s);
    late.forget(s[mask].producer, s[d].producer);
    const auto steps =
        echo::schedule_builder(s, facts)(late); // only gradients read the mask: its first run is the late one
    CHECK(text(steps) == "0 1 3 4 2 5");
    CHECK(steps[echo::step_id(4)].kind == echo::step_kind::run);
    CHECK(text(echo::schedule_builder(s, bound)(late)) == "0 1 2 3 4 2' 5");
}

TEST_CASE("views are forgotten with what they look at", "[budget]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 100), a = g.light({x}, 100), seen = g.view(a); // 0 1 2 3
    const auto loss = g.light({seen}, 0);                                               // 4
    const auto d1 = g.backward({g.seed(), seen, x}, 8);                                 // 5 6
    const auto d2 = g.backward({d1, seen, x}, 8);                                       // 7
    const auto s = g.finish({loss, d2});
    const auto c = echo::find_candidates(s);
    auto decided = echo::decision::nothing(s);
    decided.forget(s[a].producer, s[d2].producer);
    CHECK(text(echo::schedule_builder(s, c)(decided)) == "0 1 2 3 4 5 6 2' 3' 7");
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

TEST_CASE("what takes long to make again is swapped for what does not", "[budget]") {
    toy_graph g;
    const auto small = g.input(1), big = g.input(4000); // 0 1
    const auto dear = g.light({big}, 100);              // 2
    const auto cheap = g.light({small}, 100);           // 3
    const auto loss = g.light({dear, cheap}, 0);        // 4
    const auto d = g.heavy_backward({g.heavy_backward({g.seed()}, 400)}, 8);
    const auto s = g.finish({loss, g.backward({d, dear, cheap}, 8)});
    const auto c = echo::find_candidates(s);
    echo::evaluator<> evaluate(s, c);
    echo::evictor evict(evaluate);
    echo::retainer retain(evaluate);
    echo::exchanger exchange(evaluate, evict, retain);
    auto decided = echo::decision::nothing(s), other = decided;
    decided.again.insert(s[dear].producer);
    other.again.insert(s[cheap].producer);
    const auto before = evaluate(decided);
    REQUIRE(retain(evaluate(decided), before.peak_bytes()).recompute() ==
            before.recompute()); // there is no room
    CHECK(exchange(evaluate(decided), before.peak_bytes(), 3).decided() == other);
    CHECK(exchange(evaluate(other), before.peak_bytes(), 3).decided() == other);
    CHECK(exchange(evaluate(decided), before.peak_bytes(), 0).decided() == decided);
}

TEST_CASE("many runs are left out where something larger can go in their place", "[budget]") {
    toy_graph g;
    const auto cheap = g.light({g.input(1)}, 300'000); // 0 1
    std::vector<value> small;
    for (int i = 0; i < 3; ++i) small.push_back(g.light({g.input(4000)}, 100'000));
    const auto loss = g.light({cheap, small[0], small[1], small[2]}, 0);
    const auto d = g.heavy_backward({g.heavy_backward({g.seed()}, 400'000)}, 8);
    const auto s = g.finish({loss, g.backward({d, cheap, small[0], small[1], small[2]}, 8)});
    const auto c = echo::find_candidates(s);
    echo::evaluator<> evaluate(s, c);
    echo::evictor evict(evaluate);
    echo::retainer retain(evaluate);
    auto decided = echo::decision::nothing(s), other = decided;
    for (const auto v : small) decided.again.insert(s[v].producer);
    other.again.insert(s[cheap].producer);
    const auto limit = evaluate(decided).peak_bytes();
    REQUIRE(evaluate(other).peak_bytes() == limit);
    REQUIRE(retain(evaluate(decided), limit).decided() == decided); // there is no room
    CHECK(echo::ruin_and_recreate(evaluate, evict, retain, evaluate(decided), limit).decided() == other);
    CHECK(echo::ruin_and_recreate(evaluate, evict, retain, evaluate(other), limit).decided() == other);
}

namespace {

/// `make_move` of an evaluator and its moves gives a move: from a plan and the limit that its peak keeps to, another plan.
/// How many plans of random graphs it has made cheaper.
template <class MakeMove>
std::size_t count_improved(const MakeMove& make_move) {
    std::size_t improved = 0;
    support::check(1, [&] {
        const auto s = support::build(*support::recipes());
        const auto c = echo::find_candidates(s);
        echo::evaluator<> evaluate(s, c);
        echo::evictor evict(evaluate);
        echo::retainer retain(evaluate);
        auto move = make_move(evaluate, evict, retain);
        auto nothing = echo::decision::nothing(s);
        nothing.heavy = true;
        const std::uint64_t least = evict(evaluate(nothing), 0, {}).plan.peak_bytes();
        for (const std::uint64_t part : {1, 2, 3}) {
            const std::uint64_t limit = least + (evaluate(nothing).peak_bytes() - least) * part / 4;
            auto found = evict(evaluate(nothing), limit, {});
            if (!found.met) continue;
            const auto before = found.plan.recompute();
            const auto after = move(std::move(found.plan), limit);
            support::require(after.peak_bytes() <= limit, "the limit is not kept");
            support::require(after.recompute() <= before, "it takes longer");
            improved += after.recompute() < before;
        }
    });
    return improved;
}

} // namespace

TEST_CASE("swaps keep to the limit and never take longer", "[budget]") {
    CHECK(count_improved([](auto& evaluate, auto& evict, auto& retain) {
              return [&, exchange = echo::exchanger(evaluate, evict, retain)](echo::evaluated_plan plan,
                                                                              std::uint64_t limit) mutable {
                  return exchange(std::move(plan), limit, 10);
              };
          }) > 0);
}

TEST_CASE("a way below the limit and back keeps to it and never takes longer", "[budget]") {
    CHECK(count_improved([](auto& evaluate, auto& evict, auto& retain) {
              return [&](echo::evaluated_plan plan, std::uint64_t limit) {
                  return echo::ruin_and_recreate(evaluate, evict, retain, std::move(plan), limit);
              };
          }) > 0);
}

TEST_CASE("the least peak within some recomputation", "[budget]") {
    const far_apart m;
    const auto c = echo::find_candidates(m.s);
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
        echo::load_profile profile(load);
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

TEST_CASE("a front falls and rises, and each of its points is a budget that can be met", "[budget]") {
    support::check(0.05, [] {
        const auto s = support::build(*support::recipes());
        const auto found = echo::front(s, {.local_search_replays = 100}, 6);
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
    // Without exchanges, which find better plans in graphs as small as these.
    const auto cheapest = echo::make_plan(s, {.budget = cut.peak_bytes, .local_search_replays = 0}).report();
    support::require(cheapest.peak_bytes <= cut.peak_bytes, "the budget is not met");
    support::require(cheapest.recompute_time_ratio <= cut.recompute_time_ratio * (1 + 1e-12),
                     "the budget costs more than min_cut");
    const auto lowest = echo::make_plan(s, {.how = echo::strategy::budget,
                                            .max_overhead = cut.recompute_time_ratio * (1 + 1e-12),
                                            .local_search_replays = 0})
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
        const echo::plan_options options{.local_search_replays = 25};
        struct known_plan {
            std::uint64_t peak_bytes;
            double overhead;
        };
        std::vector<known_plan> known;
        std::vector<std::uint64_t> limits;
        for (const auto& point : echo::front(s, options).points) {
            known.push_back({point.peak_bytes, point.recompute_time_ratio});
            limits.push_back(point.peak_bytes);
        }
        const auto plan = [&](echo::plan_options asked) {
            asked.local_search_replays = options.local_search_replays;
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
            support::require(r.recompute_time_ratio <= 1.02 * least + 1e-9, "a known plan needs less");
        }
    });
}

TEST_CASE("progress rises from 0 and stays below 1", "[budget]") {
    const far_apart m;
    for (const std::uint64_t budget : {std::uint64_t{409}, std::uint64_t{1}, echo::any_peak}) {
        std::vector<double> told;
        const auto tell = [&](double part) { told.push_back(part); };
        echo::make_plan(
            m.s, {.how = echo::strategy::budget, .budget = budget, .max_overhead = 0.5, .progress = tell});
        REQUIRE(told.size() > 1);
        CHECK(told.front() == 0);
        CHECK(std::adjacent_find(told.begin(), told.end(), std::greater_equal<>()) == told.end());
        CHECK(told.back() < 1);
    }
}
