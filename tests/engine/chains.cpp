// SPDX-License-Identifier: BSL-1.0
/// What may stand in one chain of element-wise steps, and what may not.
#include "engine/chains.hpp"
#include "engine/cpu/backend.hpp"
#include "engine/ops/movement.hpp"

#include <catch2/catch.hpp>

#include <cstring>
#include <numeric>

using namespace engine;

namespace {

constexpr std::size_t n = 5000; // more than two tiles, and no multiple of 32

/// Tensors in one arena, by their first element.
struct memory {
    std::vector<float> at = std::vector<float>(8 * n);
    echo::tensor whole = f32({static_cast<std::int64_t>(n)}), one = f32({1});
    echo::tensor words = i32({static_cast<std::int64_t>((n + 31) / 32)});

    memory() { std::iota(at.begin(), at.end(), 0.25f); }
    input_view in(std::size_t first) const { return {at.data() + first, &whole}; }
    input_view single(std::size_t first) const { return {at.data() + first, &one}; }
    input_view bits(std::size_t first) const { return {at.data() + first, &whole, true}; }
    output_view out(std::size_t first) { return {at.data() + first, &whole}; }
    output_view packed(std::size_t first) { return {at.data() + first, &words}; }
};

struct step {
    op what;
    std::vector<input_view> in;
    std::vector<output_view> out;
    call with() const { return {.inputs = in, .outputs = out}; }
};

/// How many of the steps the chain that starts with the first one takes.
std::size_t taken(const std::vector<step>& steps) {
    chain_builder chain;
    std::size_t count = 0;
    while (count < steps.size() && chain.add(steps[count].with())) ++count;
    return count;
}

const op negate = ops::elementwise<echo::negate_op>{}, add = ops::elementwise<echo::add_op>{};
const op spread = ops::broadcast<echo::add_op>{}, encode = ops::encode{};

} // namespace

TEST_CASE("steps that read and write the same elements chain") {
    memory m;
    CHECK(taken({{negate, {m.in(0)}, {m.out(n)}}, {negate, {m.in(n)}, {m.out(2 * n)}}}) == 2);
    CHECK(taken({{negate, {m.in(0)}, {m.out(n)}}, {negate, {m.in(n)}, {m.out(n)}}}) == 2);
    CHECK(taken({{negate, {m.in(0)}, {m.out(n)}}, {negate, {m.in(2 * n)}, {m.out(0)}}}) == 2);
    CHECK(taken({{encode, {m.in(0)}, {m.packed(n)}}, {add, {m.in(0), m.bits(n)}, {m.out(2 * n)}}}) == 2);
    CHECK(taken({{spread, {m.in(0), m.single(7 * n)}, {m.out(n)}}, {negate, {m.in(n)}, {m.out(0)}}}) == 2);
}

TEST_CASE("a step that would write what an earlier one has yet to read ends the chain") {
    memory m;
    const step first{negate, {m.in(0)}, {m.out(n)}};
    CHECK(taken({first, {negate, {m.in(n)}, {m.out(32)}}}) == 1);         // ahead of what is read
    CHECK(taken({first, {negate, {m.in(n - 32)}, {m.out(3 * n)}}}) == 1); // reads what is yet to be written
    CHECK(taken({first, {negate, {m.in(3 * n)}, {m.out(n + 1)}}}) == 1);  // written by both
    CHECK(taken({first, {encode, {m.in(n)}, {m.packed(0)}}}) == 1);       // words over elements
    CHECK(taken({first, {spread, {m.in(n), m.single(n + 9)}, {m.out(3 * n)}}}) == 1); // one element for all
    CHECK(taken({{spread, {m.in(0), m.single(3 * n)}, {m.out(n)}}, {negate, {m.in(n)}, {m.out(3 * n)}}}) ==
          1);
    // As many numbers as an encoding has words, read by all elements: not in step with the words.
    memory k;
    const echo::tensor few = f32({static_cast<std::int64_t>((n + 31) / 32)});
    CHECK(taken({{spread, {k.in(0), {k.at.data() + n, &few}}, {k.out(2 * n)}},
                 {encode, {k.in(2 * n)}, {k.packed(n)}}}) == 1);
}

TEST_CASE("steps of other sizes end a chain") {
    memory m;
    const echo::tensor half = f32({static_cast<std::int64_t>(n / 2)});
    CHECK(taken({{negate, {m.in(0)}, {m.out(n)}},
                 {negate, {{m.at.data() + 3 * n, &half}}, {{m.at.data() + 4 * n, &half}}}}) == 1);
}

TEST_CASE("a chain computes what its steps do one after the other") {
    for (const int threads : {1, 2})
        for (const std::size_t tile : {std::size_t{32}, cpu::backend::usual_tile}) {
            cpu::backend on(threads, tile);
            memory one, other;
            const auto steps = [](memory& m) {
                return std::vector<step>{{spread, {m.in(0), m.single(7 * n)}, {m.out(n)}},
                                         {ops::elementwise<echo::tanh_op>{}, {m.in(n)}, {m.out(n)}},
                                         {encode, {m.in(n)}, {m.packed(5 * n)}},
                                         {add, {m.in(n), m.in(2 * n)}, {m.out(0)}},
                                         {ops::elementwise_gradient<echo::relu_op, 0>{},
                                          {m.in(0), m.bits(5 * n)},
                                          {m.out(3 * n)}}};
            };
            const auto apart = steps(one), together = steps(other);
            for (const step& s : apart) on.run(s.what, s.with());
            REQUIRE(taken(together) == together.size());
            std::vector<op_call> chain;
            for (const step& s : together) {
                CHECK(on.in_parts(s.what));
                chain.push_back({&s.what, s.with()});
            }
            on.run(std::span<const op_call>(chain));
            CHECK(std::memcmp(one.at.data(), other.at.data(), one.at.size() * sizeof(float)) == 0);
        }
}
