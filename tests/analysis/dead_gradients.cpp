// SPDX-License-Identifier: BSL-1.0
// A host that forgets gradients among its results is told so first, in numbers.
#include <echo/analysis/make_plan.hpp>
#include <echo/graph/snapshot_builder.hpp>

#include <catch2/catch.hpp>

#include <optional>
#include <string>
#include <vector>

namespace {

/// A chain of `layers` ops with a weight each, and the gradients of chain and weights. `forgotten`: a layer whose
/// weight's gradient is no result. Without `all` no gradient is one.
echo::plan_report report_of(std::size_t layers, std::optional<std::size_t> forgotten, bool all = true) {
    echo::snapshot_builder b;
    const std::vector<echo::tensor> out{{.bytes = 64}};
    const auto add = [&](std::string_view name, echo::phase phase, std::vector<echo::value_id> in) {
        return b.output(b.add({.name = name,
                               .op = "op",
                               .phase = phase,
                               .kind = echo::op_kind::light,
                               .rerun = echo::rerun_kind::pure,
                               .inputs = in,
                               .outputs = out}),
                        0);
    };
    std::vector<echo::value_id> y{add("data", echo::phase::input, {})}, dw;
    for (std::size_t i = 0; i < layers; ++i)
        y.push_back(add("", echo::phase::forward, {y.back(), add("weight", echo::phase::input, {})}));
    echo::value_id dy = y.back();
    for (std::size_t i = layers; i-- > 0;) {
        const auto w = add("", echo::phase::backward, {dy, y[i]});
        if (all && i != forgotten) dw.push_back(w);
        if (i > 0) dy = add("", echo::phase::backward, {dy, y[i + 1]});
    }
    b.add_result(y.back());
    for (const auto w : dw) b.add_result(w);
    return echo::make_plan(std::move(b).finish()).report();
}

} // namespace

TEST_CASE("no result is a gradient", "[dead_gradients]") {
    const auto r = report_of(8, std::nullopt, false);
    CHECK(r.backward_nodes == 15);
    CHECK(r.dead_backward_nodes == 15);
    REQUIRE(r.inputs_of_dead_nodes.size() == 1);
    CHECK(r.inputs_of_dead_nodes[0] == echo::node_id(0));
    REQUIRE_FALSE(r.notes.empty());
    CHECK(r.notes[0] ==
          "15 of 15 backward nodes are left out: no result needs them; among them all that read 'data'; "
          "gradients that the step must give belong to the results");
}

TEST_CASE("one gradient of many is forgotten", "[dead_gradients]") {
    const auto first = report_of(8, 0);    // the only one that reads the data
    CHECK(first.dead_backward_nodes == 2); // with what it alone reads
    CHECK(first.inputs_of_dead_nodes.size() == 1);
    CHECK_FALSE(first.notes.empty());
    const auto inner = report_of(8, 4);
    CHECK(inner.dead_backward_nodes == 1);
    CHECK(inner.inputs_of_dead_nodes.empty());
    CHECK(inner.notes.empty()); // 1 of 15 may be meant
}

TEST_CASE("the gradient of the data is no result", "[dead_gradients]") {
    // The dead gradient of the data is all that reads the weight.
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
    const auto data = add(echo::phase::input, {}), weight = add(echo::phase::input, {});
    auto y = add(echo::phase::forward, {data, weight});
    std::vector<echo::value_id> after{y};
    for (int i = 0; i < 12; ++i) after.push_back(y = add(echo::phase::forward, {y}));
    auto dy = y;
    for (std::size_t i = 12; i > 0; --i) dy = add(echo::phase::backward, {dy, after[i]});
    b.add_result(add(echo::phase::backward, {dy, data})); // of the weight
    add(echo::phase::backward, {dy, weight});             // of the data
    const auto r = echo::make_plan(std::move(b).finish()).report();
    CHECK(r.dead_backward_nodes == 1);
    CHECK(r.inputs_of_dead_nodes.empty());
    CHECK(r.notes.empty());
}

TEST_CASE("all gradients are results", "[dead_gradients]") {
    const auto r = report_of(8, std::nullopt);
    CHECK(r.backward_nodes == 15);
    CHECK(r.dead_backward_nodes == 0);
    CHECK(r.inputs_of_dead_nodes.empty());
    CHECK(r.notes.empty());
}
