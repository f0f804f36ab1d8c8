// SPDX-License-Identifier: BSL-1.0
/// @file
/// The profile of the peak: every way of cutting it sums to the same, and the rows name what is really there.
#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/profile.hpp>
#include <echo/graph/snapshot_builder.hpp>

#include <catch2/catch.hpp>

namespace {

/// data → fc (100) → tanh (100) → its gradient (100), which needs a workspace of 7.
echo::snapshot small_graph() {
    echo::snapshot_builder b;
    const auto add = [&](std::string_view op, std::string_view layer, echo::phase phase, echo::op_kind kind,
                         std::vector<echo::value_id> inputs, std::uint64_t bytes,
                         std::uint64_t workspace = 0) {
        const echo::tensor out{.bytes = bytes};
        echo::node_description d{.name = op, .op = op, .layer = layer, .phase = phase};
        d.kind = kind;
        d.rerun = echo::rerun_kind::pure;
        d.inputs = inputs;
        d.outputs = {&out, 1};
        d.workspace = workspace;
        return b.output(b.add(d), 0);
    };
    using enum echo::phase;
    using enum echo::op_kind;
    const auto data = add("data", "in", input, light, {}, 50);
    const auto y = add("fc", "hidden", forward, heavy, {data}, 100);
    const auto z = add("tanh", "hidden", forward, light, {y}, 100);
    const auto g = add("tanh_gradient", "hidden", backward, light, {z}, 100, 7);
    b.add_result(g);
    return std::move(b).finish();
}

std::uint64_t sum(const std::vector<echo::profile_row>& rows) {
    std::uint64_t bytes = 0;
    for (const auto& row : rows) bytes += row.bytes;
    return bytes;
}

} // namespace

TEST_CASE("the profile says what lives at the peak") {
    const auto s = small_graph();
    const auto p = echo::profile(s, echo::baseline_schedule(s));
    CHECK(p.peak_bytes == 207);
    CHECK(p.at == "tanh_gradient");
    CHECK(sum(p.by_structure) == 207 + 50);
    CHECK(sum(p.by_layer) == 207 + 50);
    CHECK(sum(p.by_op) == 207 + 50);
    CHECK(echo::bytes_of(p.by_structure, "feature maps") == 100);
    CHECK(echo::bytes_of(p.by_structure, "gradients") == 100);
    CHECK(echo::bytes_of(p.by_structure, "resident") == 50);
    CHECK(echo::bytes_of(p.by_structure, "workspace") == 7);
    CHECK(echo::bytes_of(p.by_structure, "encodings") == 0);
    CHECK(echo::bytes_of(p.by_op, "tanh") == 100);
    CHECK(echo::bytes_of(p.by_op, "fc") == 0); // dead by then
    CHECK(echo::bytes_of(p.by_layer, "hidden") == 207);
    CHECK(p.by_op.front().bytes >= p.by_op.back().bytes);
}

TEST_CASE("an empty schedule has an empty profile") {
    echo::snapshot_builder b;
    const auto s = std::move(b).finish();
    CHECK(echo::profile(s, echo::baseline_schedule(s)).peak_bytes == 0);
}
