// SPDX-License-Identifier: BSL-1.0
// A host that frees what it is told to has the peak that the plan promises, and reads nothing that it has freed.
#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/schedule/released_copies.hpp>
#include <echo/graph/snapshot_builder.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <set>
#include <vector>

TEST_CASE("copies are released behind their last reader", "[released_copies]") {
    echo::snapshot_builder b;
    const std::vector<echo::tensor> out{{.bytes = 64}};
    const auto add = [&](echo::phase phase, std::vector<echo::value_id> in) {
        return b.output(b.add({.op = "op",
                               .phase = phase,
                               .kind = echo::op_kind::light,
                               .rerun = echo::rerun_kind::pure,
                               .inputs = in,
                               .outputs = out}),
                        0);
    };
    std::vector<echo::value_id> y{add(echo::phase::forward, {})};
    for (int i = 0; i < 8; ++i) y.push_back(add(echo::phase::forward, {y.back()}));
    auto dy = y.back();
    for (std::size_t i = 8; i > 0; --i) dy = add(echo::phase::backward, {dy, y[i]});
    b.add_result(dy);
    const auto s = std::move(b).finish();
    const auto p = echo::make_plan(s, {.max_overhead = 1});
    REQUIRE(p.report().recomputed_nodes > 0);

    const auto released = echo::released_copies(s, p.steps());
    std::set<echo::copy_id> held;
    std::size_t most = 0;
    for (const auto t : p.steps().steps()) {
        for (const auto c : p.steps().inputs(t)) CHECK(held.count(c) == 1);
        held.insert({t, 0});
        most = std::max(most, held.size());
        for (const auto c : released[t]) CHECK(held.erase(c) == 1);
    }
    CHECK(64 * most == p.best());
    CHECK(held.size() == 1); // the result
}
