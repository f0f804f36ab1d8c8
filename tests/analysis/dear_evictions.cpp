// SPDX-License-Identifier: BSL-1.0
// What is known to be too dear is asked no more: it must be what asking would say.
#include "support/numbered_graph.hpp"
#include "support/toy_graph.hpp"

#include <echo/analysis/plan/moves/dear_evictions.hpp>
#include <echo/analysis/plan/moves/evict.hpp>
#include <echo/analysis/plan/moves/kept_copy.hpp>

#include <catch2/catch.hpp>

#include <optional>
#include <random>
#include <vector>

namespace {

/// What is decided about a node, as `dear_evictions` is told.
struct node_change {
    echo::node_id node;
    bool keeps;
    echo::node_id from, to;
};

/// What evictions at the peak of a plan cost where some changes have been decided.
struct evictions_of {
    /// Of a plan that must come down by that part of its peak.
    evictions_of(const echo::snapshot& graph, std::uint64_t part)
        : s(graph), c(echo::find_candidates(s, {.encode = false})), evaluate(s, c),
          plan(evaluate(echo::decision::nothing(s))) {
        const std::uint64_t peak = plan.peak_bytes();
        if (part > 0) plan = echo::evictor<>(evaluate)(std::move(plan), peak - peak / part, {}).plan;
        excess = 1 + static_cast<std::int64_t>(plan.peak_bytes() / 16);
    }

    /// The changes are decided, one after the other, and what they keep is locked.
    void decide(const std::vector<node_change>& changes) {
        next = plan.decided();
        locked.assign(s.node_count());
        for (const auto& change : changes) {
            if (change.keeps) {
                echo::keep_copy(s, next, {change.node, change.from, change.to});
                locked.insert(change.node);
            } else if (echo::runs_after_forward(s.phase_of(change.from)))
                next.forget(change.node, change.to);
            else
                next.again[change.node] = 1;
        }
        list.clear();
        find(view(), idle, list, false);
    }

    /// Of idle copy number `which`.
    echo::eviction_price price(std::size_t which, std::optional<std::uint64_t> below) {
        list.clear();
        return ask(view(), idle, sums, which, excess, list, below);
    }

    echo::eviction_view<> view() {
        const auto peak = plan.footprint().peak_step;
        return {s, c, plan, evaluate.history_of(plan), locked, next, peak};
    }

    echo::snapshot s;
    echo::candidates c;
    echo::evaluator<> evaluate;
    echo::evaluated_plan plan;
    std::int64_t excess = 0; ///< bytes above the limit
    echo::decision next;
    echo::id_set<echo::node_id> locked;
    echo::idle_copies idle;
    echo::eviction_list list;
    echo::eviction_finder<> find;
    echo::eviction_pricer<> ask;
    echo::excess_sums<> sums;
};

/// What is made again is kept, and what is idle is kept, or forgotten.
std::vector<node_change> possible_changes(evictions_of& of) {
    std::vector<node_change> all;
    for (const auto t : echo::late_steps(of.c, of.plan)) {
        if (!echo::can_be_retained(of.s, of.plan, t)) continue;
        const auto kept = echo::kept_instead(of.plan, of.evaluate.runs_of(of.plan), t);
        all.push_back({kept.node, true, kept.from, kept.to});
    }
    of.decide({});
    const auto view = of.view();
    for (const auto& copy : of.idle.all) {
        all.push_back({copy.node, false, view.home(copy.from), view.forgotten_at(copy)});
        all.push_back({copy.node, true, view.home(copy.from), view.home(copy.to)});
    }
    return all;
}

} // namespace

TEST_CASE("what is known to cost no less than a price does not", "[budget]") {
    std::size_t known = 0, asked = 0, cheaper = 0;
    for (std::uint64_t number = 0; number < 300; ++number) {
        evictions_of of(support::numbered_graph(number, 300), 4);
        const auto possible = possible_changes(of);
        if (of.idle.all.size() < 3) continue;
        std::mt19937 draw(static_cast<unsigned>(number));
        const auto below = [&](std::size_t most) { return draw() % most; };
        const std::int64_t excess = of.excess;
        echo::dear_evictions<> dear;
        std::vector<node_change> changes;
        for (int time = 0; time < 30; ++time) {
            const std::size_t unchanged = below(changes.size() + 1);
            changes.resize(unchanged);
            for (auto more = 1 + below(3); more > 0; --more)
                changes.push_back(possible[below(possible.size())]);
            of.decide(changes);
            of.excess = excess << below(2);
            dear.undo(unchanged);
            for (auto i = unchanged; i < changes.size(); ++i) {
                const auto& [node, keeps, from, to] = changes[i];
                keeps ? dear.keep(node, from, to) : dear.give_up(node, from, to);
            }
            auto answers = dear.ask(of.view().peak, of.excess);
            for (std::size_t i = 0; i < of.idle.all.size(); ++i) {
                CAPTURE(number, time, i);
                const auto price = of.price(i, {}).price;
                if (price == echo::detail::mul_div_most) continue; // or beyond that
                const std::uint64_t bound = price && below(3) > 0 ? *price + below(2) : draw();
                ++asked;
                if (answers.cost(of.idle.all[i].storage, bound)) {
                    ++known;
                    CHECK((!price || *price >= bound));
                    continue;
                }
                const auto found = of.price(i, bound);
                CHECK(found.price == (price && *price < bound ? price : std::nullopt));
                cheaper += found.price.has_value();
                answers.add(of.idle.all[i].storage, found.price.value_or(bound), found.rests_on);
            }
        }
    }
    CAPTURE(asked, known, cheaper);
    CHECK(known > asked / 10);
    CHECK(cheaper > 1000);
}

TEST_CASE("what a price rests on are all inputs of a node that has many, also those that are there",
          "[budget]") {
    support::toy_graph g;
    std::vector<support::toy_graph::value> maps;
    const auto x = g.input(1);
    for (int i = 0; i < 20; ++i) maps.push_back(g.light({x}, 10));
    const auto sum = g.light(maps, 1000);
    const auto loss = g.light({sum}, 0);
    const auto d = g.backward({g.heavy_backward({g.heavy_backward({g.seed()}, 400)}, 8), sum}, 8);
    auto read = maps;
    read.push_back(d);
    evictions_of of(g.finish({loss, g.backward(read, 8)}), 0);
    of.decide({});
    const auto at_sum = [&] { return of.idle.of[of.s[sum].producer]; };
    const auto there = of.price(at_sum(), {});
    REQUIRE(there.price);
    const echo::node_id first = of.s[maps[0]].producer;
    const auto& copy = of.idle.all.at(of.idle.of[first]);
    of.decide({node_change{first, false, of.view().home(copy.from), of.view().forgotten_at(copy)}});
    CHECK(of.price(at_sum(), {}).price > there.price);
    CHECK(there.rests_on.may_have(first));
}
