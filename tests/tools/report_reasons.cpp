// SPDX-License-Identifier: BSL-1.0
/// @file
/// Why a value stays: each kind of reason on the smallest graph that has it, in the graph's own order.
#include "support/toy_graph.hpp"

#include <catch2/catch.hpp>
#include <report/reasons.hpp>

namespace {

using echo::report::reason;
using echo::report::reason_kind;
using support::toy_graph;

/// The reasons of a graph in its own order, by the node that made what is read.
std::vector<reason> reasons(const echo::snapshot& s) {
    const echo::schedule own = echo::baseline_schedule(s);
    return echo::report::reasons_of(s, own, echo::report::storages_of(s, own));
}

reason reason_of(const echo::snapshot& s, echo::value_id v) {
    for (const reason& why : reasons(s))
        if (why.value == s[v].producer) return why;
    FAIL("nothing is said of the value");
    return {};
}

} // namespace

TEST_CASE("what can be made again says by what and by whom it is read", "[report]") {
    toy_graph g;
    const auto x = g.input(1000);
    const auto a = g.heavy({x}, 3000);
    const auto b = g.light({a}, 3000);
    const auto c = g.light({b}, 3000);
    const auto d = g.seed();
    const auto e = g.backward({d, c}, 8);
    const auto s = g.finish({e});

    const reason why = reason_of(s, c);
    CHECK(why.kind == reason_kind::heavy); // through b, which is gone, to a, and x is resident
    CHECK(why.count == 3);
    CHECK(why.culprit == s[a].producer);
    CHECK(why.reader == s[e].producer);
    const auto times = echo::times_of(s);
    CHECK(why.time == times.of_node[echo::node_id(1)] + times.of_node[echo::node_id(2)] +
                          times.of_node[echo::node_id(3)]);
    CHECK(reasons(s).size() == 2); // and e, a result; a and b do not wait
    CHECK(reason_of(s, e).kind == reason_kind::result);
}

TEST_CASE("the way back ends at what is live then", "[report]") {
    toy_graph g;
    const auto x = g.input(1000);
    const auto a = g.heavy({x}, 3000);
    const auto b = g.light({a}, 3000);
    const auto d = g.seed();
    const auto e = g.backward({d, b}, 8);
    const auto s = g.finish({g.backward({e, a}, 8)});

    CHECK(reason_of(s, b).kind == reason_kind::light); // a still waits
    CHECK(reason_of(s, b).count == 1);
    CHECK(reason_of(s, a).kind == reason_kind::heavy);
}

TEST_CASE("what must not be made again says why", "[report]") {
    const auto with = [](echo::node_description how) {
        toy_graph g;
        const auto x = g.input(1000);
        const auto a = g.add(how, {x}, {{.bytes = 3000}});
        const auto b = g.light({a}, 3000);
        const auto d = g.seed();
        const auto s = g.finish({g.backward({d, b}, 8)});
        return reason_of(s, b);
    };
    using enum echo::rerun_kind;
    CHECK(with({.rerun = never}).kind == reason_kind::never);
    CHECK(with({.rerun = never, .unknown_op = true}).kind == reason_kind::unknown);
    CHECK(with({.kind = echo::op_kind::light, .rerun = pure, .keep = true}).kind == reason_kind::asked);
    CHECK(with({.kind = echo::op_kind::light, .rerun = pure}).kind == reason_kind::light);
    CHECK(with({.rerun = never}).culprit == echo::node_id(1));
}

TEST_CASE("long ways are not walked to their end", "[report]") {
    toy_graph g;
    auto v = g.input(1000);
    for (std::size_t i = 0; i <= echo::report::reason_finder::most; ++i) v = g.light({v}, 3000);
    const auto d = g.seed();
    const auto s = g.finish({g.backward({d, v}, 8)});
    CHECK(reason_of(s, v).kind == reason_kind::long_way);
}

TEST_CASE("what was written over is not there to begin from", "[report]") {
    toy_graph g;
    const auto x = g.input(1000);
    const auto a = g.heavy({x}, 3000);
    const auto b = g.light({a}, 3000);
    // a's storage is taken over by c, which waits: b would have to be made from a, and a from x.
    const auto c = g.add({.kind = echo::op_kind::light, .rerun = echo::rerun_kind::pure}, {a, b},
                         {{.bytes = 3000, .inplace = 0}});
    const auto d = g.seed();
    const auto e = g.backward({d, b}, 8);
    const auto s = g.finish({g.backward({e, c}, 8)});
    CHECK(reason_of(s, b).kind == reason_kind::heavy);
    CHECK(reason_of(s, b).count == 2);
}
