// SPDX-License-Identifier: BSL-1.0
/// @file
/// Edge use references: how often each side reads a value, and where first and last.
#include <echo/analysis/plan/decision/edge_uses.hpp>
#include <echo/graph/snapshot_builder.hpp>

#include <catch2/catch.hpp>

#include <vector>

TEST_CASE("every read of a value is counted on its side, position by position") {
    echo::snapshot_builder b;
    const auto add = [&](echo::phase phase, std::vector<echo::value_id> inputs,
                         echo::positions one_bit = {}) {
        const echo::tensor out{.bytes = 4};
        echo::node_description d{.op = "op", .phase = phase};
        d.inputs = inputs;
        d.one_bit_inputs = one_bit;
        d.outputs = {&out, 1};
        return b.output(b.add(d), 0);
    };
    const auto x = add(echo::phase::input, {});
    const auto square = add(echo::phase::forward, {x, x});
    const auto y = add(echo::phase::forward, {square});
    const auto first = add(echo::phase::backward, {y, x, square}, {2});
    const auto last = add(echo::phase::update, {first, x});
    const auto s = std::move(b).finish();
    const auto uses = echo::detail::edge_uses(s);

    const auto& of_x = uses[x];
    CHECK(of_x.forward == 2);
    CHECK(of_x.backward == 2);
    CHECK(of_x.one_bit == 0);
    CHECK(of_x.last_forward == s[square].producer);
    CHECK(of_x.first_backward == s[first].producer);
    CHECK(of_x.last_backward == s[last].producer);
    CHECK(uses[square].one_bit == 1);
    CHECK(uses[square].backward == 1);
    CHECK(uses[last].forward + uses[last].backward == 0);
    CHECK_FALSE(uses[last].first_backward.valid());
}
