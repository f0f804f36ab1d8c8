// SPDX-License-Identifier: BSL-1.0
// The paper's partition: subgraphs between compute-heavy ops.
#include "support/properties.hpp"
#include "support/random_graph.hpp"
#include "support/toy_graph.hpp"

#include <echo/analysis/plan/roll_back.hpp>
#include <echo/analysis/plan/strategies/partition.hpp>

#include <set>

namespace {

using support::toy_graph;

echo::detail::node_groups groups_of(const echo::snapshot& s) {
    return echo::detail::partition(s, echo::detail::find_candidates(s));
}

} // namespace

TEST_CASE("heavy ops separate", "[partition]") {
    toy_graph g;
    const auto data = g.input(1);
    const auto a = g.light({g.light({data}, 8)}, 8);
    const auto b = g.light({g.heavy({a}, 8)}, 8);
    const auto c = g.view(g.heavy({b}, 8)), d = g.light({c}, 8);
    const auto s = g.finish({g.backward({g.seed(), d}, 8)});
    // What nothing needs in the forward pass counts as well: it is live.
    const auto groups = groups_of(s);
    REQUIRE(groups.size() == 3);
    CHECK(groups.members(0).size() == 2);
    CHECK(groups.members(1).size() == 1);
    CHECK(groups.members(2).size() == 2);
    CHECK(groups.largest() == 2);
    CHECK(groups.of(s[c].producer) == groups.of(s[d].producer));
    CHECK(groups.of(s[data].producer) == echo::detail::node_groups::none);
}

TEST_CASE("a residual connection joins, a shared heavy input does not", "[partition]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 8);
    SECTION("shared") {
        const auto a = g.light({x}, 8), b = g.light({x}, 8);
        const auto s = g.finish({g.backward({g.seed(), a, b}, 8)});
        CHECK(groups_of(s).size() == 2);
    }
    SECTION("residual") {
        const auto a = g.light({x}, 8);
        const auto sum = g.light({g.heavy({a}, 8), a}, 8);
        const auto s = g.finish({g.backward({g.seed(), sum}, 8)});
        CHECK(groups_of(s).size() == 1);
        CHECK(groups_of(s).largest() == 2);
    }
}

TEST_CASE("one subgraph for each of many layers, and none of an empty graph", "[partition]") {
    toy_graph g;
    auto x = g.heavy({g.input(1)}, 8);
    for (int layer = 0; layer < 100; ++layer) {
        for (int i = 0; i < 5; ++i) x = g.light({x}, 8);
        x = g.heavy({x}, 8);
    }
    const auto s = g.finish({g.backward({g.seed(), x}, 8)});
    CHECK(groups_of(s).size() == 100);
    CHECK(groups_of(s).largest() == 5);
    CHECK(groups_of(toy_graph().finish({})).size() == 0);
    CHECK(groups_of(toy_graph().finish({})).largest() == 0);
}

TEST_CASE("groups are disjoint, connected and complete", "[partition]") {
    support::check(10, [] {
        const auto s = support::build(*support::recipes(20));
        const auto c = echo::detail::find_candidates(s);
        const auto groups = echo::detail::partition(s, c);
        std::size_t members = 0;
        std::set<echo::node_id> first;
        for (std::uint32_t g = 0; g < groups.size(); ++g) {
            RC_ASSERT(!groups.members(g).empty());
            RC_ASSERT(std::is_sorted(groups.members(g).begin(), groups.members(g).end()));
            RC_ASSERT((g == 0 || groups.members(g - 1)[0] <
                                     groups.members(g)[0])); // in parentheses: the macro has no short cut
            for (const auto n : groups.members(g)) RC_ASSERT(groups.of(n) == g);
            members += groups.members(g).size();
            // From the first member all others are reached.
            std::set<echo::node_id> reached{groups.members(g)[0]};
            for (bool changed = true; changed;) {
                changed = false;
                for (const auto n : groups.members(g))
                    for (const auto v : s.inputs(n)) {
                        const auto maker = s[v].producer;
                        if (groups.of(maker) != g || reached.count(n) == reached.count(maker)) continue;
                        reached.insert(n);
                        reached.insert(maker);
                        changed = true;
                    }
            }
            RC_ASSERT(reached.size() == groups.members(g).size());
        }
        std::size_t expected = 0;
        for (const auto n : s.nodes())
            expected += c.live[n] && s[n].phase == echo::phase::forward && s[n].kind != echo::op_kind::heavy;
        RC_ASSERT(members == expected);
    });
}

TEST_CASE("as many subgraphs are rolled back at once as hold what is too much, and no more", "[partition]") {
    toy_graph g;
    const auto data = g.input(1);
    std::vector<toy_graph::value> made;
    for (const std::uint64_t read :
         {1000U, 1000U, 1000U, 1000U, 10U}) // kept over the peak, to make 100 again of it
        made.push_back(g.light({g.heavy({data}, read)}, 100));
    const auto loss = g.light(made, 0);
    std::vector<toy_graph::value> read{g.heavy_backward({g.heavy_backward({g.seed()}, 5000)}, 8)};
    read.insert(read.end(), made.begin(), made.end());
    const auto s = g.finish({loss, g.backward(read, 8)});
    const auto c = echo::detail::find_candidates(s);
    echo::detail::evaluator evaluate(s, c);
    const auto limit = echo::footprint(s, echo::baseline_schedule(s)).peak_bytes;
    auto decided = echo::detail::decision::nothing(s);
    for (const auto v : made) decided.again.insert(s[v].producer);
    auto plan = evaluate(decided);
    REQUIRE(plan.peak_bytes() == limit + 4 * 900 - 90);
    const auto before = evaluate.count();
    const auto kept = echo::detail::roll_back(evaluate, std::move(plan), limit);
    CHECK(evaluate.count() == before + 1);
    CHECK(kept.subgraphs == 4);
    CHECK(kept.plan.peak_bytes() == limit - 90);
    for (const auto v : made) CHECK(kept.plan.decided().again[s[v].producer] == (v == made.back()));
}
