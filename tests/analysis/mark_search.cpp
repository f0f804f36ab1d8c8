// SPDX-License-Identifier: BSL-1.0
// Marks for an engine that makes the rest itself: what it is asked, and what it never gets.
#include "support/properties.hpp"
#include "support/toy_graph.hpp"

#include <echo/analysis/mark_search.hpp>

#include <algorithm>
#include <cstddef>
#include <set>

namespace {

using echo::mark_verdict, echo::marks;

/// A chain of products and light ops behind them; each light op may be marked, in a group of its own or all in one.
struct chain {
    echo::snapshot s;
    echo::markable_graph graph;

    chain(std::size_t length, bool one_group) : s(made(length)), graph{.s = s} {
        const std::size_t nodes = 1 + 2 * length;
        graph.may_be_marked.assign(nodes, false);
        graph.gradient_reads.resize(nodes);
        graph.mirrored.assign(nodes, false);
        for (std::size_t n = 0; n < nodes; ++n) {
            graph.kinds.push_back(one_group ? "op" : std::to_string(n));
            if (n > 0 && n % 2 == 0) {
                graph.may_be_marked[n] = true;
                graph.gradient_reads[n] = {static_cast<std::uint32_t>(n - 1)};
            }
        }
    }

private:
    static echo::snapshot made(std::size_t length) {
        support::toy_graph g;
        auto x = g.input(1000);
        std::vector<support::toy_graph::value> forward;
        for (std::size_t i = 0; i < length; ++i) {
            x = g.heavy({x}, 1000);
            forward.push_back(x = g.light({x}, 1000));
        }
        auto dx = g.seed();
        for (auto y = forward.rbegin(); y != forward.rend(); ++y) dx = g.backward({dx, *y}, 1000);
        return g.finish({x, dx});
    }
};

/// Answers by `how`, and remembers that no set was asked about twice.
template <class How>
struct judge {
    How how;
    std::set<marks>* asked;
    mark_verdict operator()(const marks& marked) const {
        CHECK(asked->insert(marked).second);
        return how(marked);
    }
};
template <class How>
judge(How, std::set<marks>*) -> judge<How>;

std::size_t marked_in(const marks& all) {
    return static_cast<std::size_t>(std::count(all.begin(), all.end(), true));
}

} // namespace

TEST_CASE("no default takes more than the engine's own marks, however slow those are", "[mark_search]") {
    chain c(4, false);
    c.graph.mirrored[2] = c.graph.mirrored[4] = true;
    const auto how = [&](const marks& marked) { // whatever lies next to those marks is worse than none
        if (marked == c.graph.mirrored) return mark_verdict{.bytes = 50, .copies_us = 1e9, .copies = 2};
        return mark_verdict{.bytes = 100 + marked_in(marked), .copies = marked_in(marked)};
    };
    std::set<marks> asked;
    const auto found = echo::mark_search(c.graph, {}, judge{how, &asked}).run();
    CHECK(found.got.bytes == 50);
    CHECK(found.marked == c.graph.mirrored);
    asked.clear();
    const auto kept = echo::mark_search(c.graph, {.names_overhead = true}, judge{how, &asked}).run();
    CHECK(kept.got.bytes == 100); // a user who names an overhead gets no more
    CHECK(kept.got.copies_us == 0);
}

TEST_CASE("a mark search finds the one good set, group by group", "[mark_search]") {
    const chain c(6, false);
    const auto how = [](const marks& marked) {
        return mark_verdict{.bytes = 100 - 10 * marked_in(marked), .copies = marked_in(marked)};
    };
    std::set<marks> asked;
    const auto found = echo::mark_search(c.graph, {}, judge{how, &asked}).run();
    CHECK(found.got.bytes == 40);
    CHECK(found.marked == c.graph.may_be_marked);
    CHECK(found.trials == asked.size());
}

TEST_CASE("nodes of one kind are marked together", "[mark_search]") {
    const chain c(6, true);
    const auto how = [](const marks& marked) { return mark_verdict{.bytes = 100 - marked_in(marked)}; };
    std::set<marks> asked;
    CHECK(echo::mark_search(c.graph, {}, judge{how, &asked}).run().got.bytes == 94);
    for (const marks& one : asked) // the ends of the chain have other neighbours than what lies between them
        CHECK((one[4] == one[6] && one[6] == one[8] && one[8] == one[10]));
}

TEST_CASE("a mark search asks no more than it may", "[mark_search]") {
    const chain c(12, false);
    const auto how = [](const marks& marked) { // ever better, by ever other sets
        return mark_verdict{.bytes = 1 + std::hash<marks>{}(marked) % 1000, .copies_us = 1};
    };
    for (const std::uint64_t budget : {echo::any_peak, std::uint64_t{0}})
        for (const std::size_t most : {40U, 400U}) {
            std::set<marks> asked;
            const auto found =
                echo::mark_search(c.graph, {.budget = budget, .trials = most}, judge{how, &asked}).run();
            CHECK(found.trials == asked.size());
            CHECK(asked.size() <= most + most / 10 + 8);
        }
}

TEST_CASE("a set with an unsound place is taken for none without", "[mark_search]") {
    const chain c(3, false);
    const auto how = [](const marks& marked) {
        return mark_verdict{.bytes = 100 - marked_in(marked), .unsound = marked[2] ? 1U : 0U};
    };
    std::set<marks> asked;
    const auto found = echo::mark_search(c.graph, {}, judge{how, &asked}).run();
    CHECK_FALSE(found.marked[2]);
    CHECK(found.got.bytes == 98);
}

TEST_CASE("what pays only together is found by a mark and the marks of those whose gradients read it",
          "[mark_search]") {
    chain c(4, false);
    c.graph.gradient_reads[4] = {2};
    const auto how =
        [](const marks& marked) { // without 4, 2 costs more than it saves, and so does 4 without 2
            const std::size_t others = marked[6] + marked[8];
            if (marked[2] != marked[4]) return mark_verdict{.bytes = 200 + others};
            if (!marked[2]) return mark_verdict{.bytes = 100 + others};
            return mark_verdict{.bytes = others > 0 ? 300U : 50U};
        };
    std::set<marks> asked;
    const auto found = echo::mark_search(c.graph, {}, judge{how, &asked}).run();
    CHECK(found.got.bytes == 50);
}

TEST_CASE("a part of the time is given for a part of the bytes on the way to what is asked for",
          "[mark_search]") {
    const chain c(4, false);
    // Marking 2 saves much, but takes longer than is allowed; with 4 it takes less, and 4 alone costs bytes.
    const double step =
        echo::mark_search(c.graph, {}, [](const marks&) { return mark_verdict{.bytes = 1}; }).run().step_us;
    const auto how = [&](const marks& marked) {
        const std::size_t others = marked[6] + marked[8];
        const double slow = 0.03 * static_cast<double>(others);
        if (!marked[2])
            return mark_verdict{.bytes = 1000 + (marked[4] ? 50U : 0U) + 10 * others,
                                .copies_us = slow * step};
        if (!marked[4]) return mark_verdict{.bytes = 700 + 10 * others, .copies_us = (0.1 + slow) * step};
        return mark_verdict{.bytes = 600 + 10 * others, .copies_us = (0.04 + slow) * step};
    };
    std::set<marks> asked;
    const auto found = echo::mark_search(c.graph, {}, judge{how, &asked}).run();
    CHECK(found.got.bytes == 600);
    CHECK(found.overhead() == Approx(0.04));
}

TEST_CASE("the best marks are improved by the wish alone at last", "[mark_search]") {
    const chain c(8, false);
    const double step =
        echo::mark_search(c.graph, {}, [](const marks&) { return mark_verdict{.bytes = 1}; }).run().step_us;
    const auto how =
        [&](const marks& marked) { // each mark takes more than a part of the time for a part of the bytes
            std::uint64_t bytes = 1000;
            for (const std::size_t n : {2U, 6U, 12U}) bytes -= marked[n] ? 10 : 0;
            for (const std::size_t n : {4U, 8U, 10U, 14U, 16U}) bytes += marked[n] ? 10 : 0;
            return mark_verdict{.bytes = bytes,
                                .copies_us = 0.1 * step * static_cast<double>(marked_in(marked))};
        };
    std::set<marks> asked;
    const auto found =
        echo::mark_search(c.graph, {.max_overhead = 1, .names_overhead = true}, judge{how, &asked}).run();
    CHECK(found.got.bytes == 970); // all the marks that save bytes, and no other
}
