// SPDX-License-Identifier: BSL-1.0
/// @file
/// The engine's element-wise, broadcasting, moving, summing and multiplying ops: forward against direct loops,
/// gradients against finite differences, and bits that depend on nothing but an element's inputs.
#include "engine/cpu/philox.hpp"
#include "engine/graph_traits.hpp"
#include "support/engine_check.hpp"

#include <cmath>
#include <cstring>

using namespace engine;
using support::argument;
using support::check_gradients;
using support::numbers;

namespace {

tensor_data drawn(echo::shape shape, unsigned seed, double low = -1, double high = 1) {
    const auto n = echo::element_count(shape);
    return {f32(std::move(shape)), numbers(n, seed, low, high)};
}
double at(const tensor_data& t, std::size_t i) { return static_cast<double>(t.f32[i]); }

template <class Op>
void check_unary(double (*f)(double), double low, double high, ops::numbers<Op> scalars = {}) {
    INFO(ops::elementwise<Op>::name);
    const auto x = drawn({7, 41}, 1, low, high);
    std::vector<double> expected;
    for (std::size_t i = 0; i < x.f32.size(); ++i) expected.push_back(f(at(x, i)));
    support::check_values(ops::elementwise<Op>{scalars}, {x}, expected);
    for (const auto habits : {baseline::modern, baseline::paper})
        check_gradients({.arguments = {{{3, 5}, low, high}},
                         .build =
                             [&](graph& g, const auto& in) {
                                 return engine::apply<Op>(g, in, scalars, g.habits() == baseline::paper);
                             },
                         .habits = habits});
}

template <class Op>
void check_binary(double (*f)(double, double)) {
    const auto a = drawn({300}, 1, 0.5, 2), b = drawn({300}, 2, 0.5, 2);
    std::vector<double> expected;
    for (std::size_t i = 0; i < a.f32.size(); ++i) expected.push_back(f(at(a, i), at(b, i)));
    support::check_values(ops::elementwise<Op>{}, {a, b}, expected);
    check_gradients({.arguments = {{{2, 9}, 0.5, 2}, {{2, 9}, 0.5, 2}},
                     .build = [](graph& g, const auto& in) { return engine::apply<Op>(g, in); }});
    // Shapes that broadcast in every way: leading, trailing, in the middle, both at once.
    const std::pair<echo::shape, echo::shape> shapes[] = {
        {{3, 4, 5}, {5}}, {{3, 4, 5}, {3, 1, 5}}, {{3, 4, 5}, {3, 4, 1}},       {{3, 1, 5}, {1, 4, 5}},
        {{2, 3}, {1}},    {{4}, {3, 4}},          {{2, 1, 3, 1}, {1, 2, 1, 3}}, {{2, 3}, {2, 3}}};
    for (const auto& [left, right] : shapes) {
        INFO(to_string(left) << " and " << to_string(right));
        check_gradients(
            {.arguments = {{left, 0.5, 2}, {right, 0.5, 2}}, .build = [](graph& g, const auto& in) {
                 return g.add(ops::broadcast<Op>{}, {in[0], in[1]});
             }});
    }
    const auto map = drawn({3, 4, 300}, 3, 0.5, 2), row = drawn({3, 1, 300}, 4, 0.5, 2);
    expected.clear();
    for (std::size_t i = 0; i < map.f32.size(); ++i)
        expected.push_back(f(at(map, i), at(row, i / 1200 * 300 + i % 300)));
    support::check_values(ops::broadcast<Op>{}, {map, row}, expected);
}

} // namespace

TEST_CASE("element-wise ops of one tensor") {
    check_unary<echo::tanh_op>([](double x) { return std::tanh(x); }, -2, 2);
    check_unary<echo::sigmoid_op>([](double x) { return 1 / (1 + std::exp(-x)); }, -3, 3);
    check_unary<echo::relu_op>([](double x) { return x > 0 ? x : 0; }, 0.1, 2);
    check_unary<echo::relu_op>([](double x) { return x > 0 ? x : 0; }, -2, -0.1);
    check_unary<echo::square_op>([](double x) { return x * x; }, -2, 2);
    check_unary<echo::sqrt_op>([](double x) { return std::sqrt(x); }, 0.5, 2);
    check_unary<echo::rsqrt_op>([](double x) { return 1 / std::sqrt(x); }, 0.5, 2);
    check_unary<echo::exp_op>([](double x) { return std::exp(x); }, -2, 2);
    check_unary<echo::log_op>([](double x) { return std::log(x); }, 0.5, 2);
    check_unary<echo::negate_op>([](double x) { return -x; }, -2, 2);
    check_unary<ops::copy_op>([](double x) { return x; }, -2, 2);
    check_unary<ops::scale_op>([](double x) { return 3 * x; }, -2, 2, {3});
    check_unary<ops::shift_op>([](double x) { return x + 0.5; }, -2, 2, {0.5});
}

TEST_CASE("element-wise ops of two tensors, with broadcasting and without") {
    check_binary<echo::add_op>([](double a, double b) { return a + b; });
    check_binary<echo::subtract_op>([](double a, double b) { return a - b; });
    check_binary<echo::multiply_op>([](double a, double b) { return a * b; });
    check_binary<echo::divide_op>([](double a, double b) { return a / b; });
}

TEST_CASE("an element's bits depend on its inputs alone: not on its place, its tensor's, nor the threads") {
    const auto x = numbers(5000, 5, -4, 4);
    cpu::backend one(1), two(2);
    const op tanh = ops::elementwise<echo::tanh_op>{};
    const auto whole = run_op(two, tanh, {tensor_data(f32({5000}), x)})[0].f32;
    for (const std::size_t first : {1u, 3u, 64u, 255u, 4999u}) {
        const std::vector<float> rest(x.begin() + static_cast<std::ptrdiff_t>(first), x.end());
        const auto made =
            run_op(one, tanh, {tensor_data(f32({static_cast<std::int64_t>(rest.size())}), rest)})[0].f32;
        CHECK(std::memcmp(made.data(), whole.data() + first, made.size() * 4) == 0);
    }
    // In place, at an odd address.
    std::vector<float> memory(5001);
    std::memcpy(memory.data() + 1, x.data(), 5000 * 4);
    const echo::tensor t = f32({5000});
    const input_view in[] = {{memory.data() + 1, &t, false}};
    const output_view out[] = {{memory.data() + 1, &t}};
    two.run(tanh, {.inputs = in, .outputs = out});
    CHECK(std::memcmp(memory.data() + 1, whole.data(), 5000 * 4) == 0);
}

TEST_CASE(
    "dropout keeps its share, by element index and seed; one bit of the mask is enough for its gradient") {
    cpu::backend one(1), two(2);
    const op drop = ops::elementwise<ops::dropout_op>{{0.25}};
    const auto x = drawn({100, 1000}, 1, 0.5, 2);
    const auto a = run_op(two, drop, {x}, 7), b = run_op(one, drop, {x}, 7), c = run_op(two, drop, {x}, 8);
    CHECK(a[0].f32 == b[0].f32);
    CHECK(a[1].f32 != c[1].f32);
    std::size_t kept = 0, runs = 0;
    for (std::size_t i = 0; i < x.f32.size(); ++i) {
        kept += a[1].f32[i] == 1;
        runs += i && a[1].f32[i] != a[1].f32[i - 1];
        REQUIRE((a[1].f32[i] == 1 || a[1].f32[i] == 0));
        REQUIRE(at(a[0], i) == Approx(at(a[1], i) * at(x, i) / 0.75));
    }
    CHECK(static_cast<double>(kept) == Approx(75000).margin(600)); // 4 standard deviations
    CHECK(static_cast<double>(runs) == Approx(37500).margin(800)); // neighbours are independent

    const auto dy = drawn({100, 1000}, 2);
    const op back = ops::elementwise_gradient<ops::dropout_op, 0>{{0.25}};
    const auto plain = run_op(two, back, {dy, a[1]});
    const auto packed = run_op(two, ops::encode{}, {a[1]});
    tensor_data made(f32({100, 1000}));
    const input_view in[] = {{dy.data(), &dy.what, false}, {packed[0].data(), &a[1].what, true}};
    const output_view out[] = {{made.data(), &made.what}};
    two.run(back, {.inputs = in, .outputs = out});
    CHECK(made.f32 == plain[0].f32);
}

TEST_CASE("Philox gives the numbers of its authors' test vectors") {
    // Salmon et al., Random123 kat_vectors: philox4x32 10, counter and key 0.
    cpu::block u;
    cpu::uniform(0, 0, 16, u);
    const std::uint32_t words[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    for (std::size_t i = 0; i < 4; ++i) CHECK(u.at[i] == static_cast<float>(words[i] >> 8) / 16777216.0f);
}

TEST_CASE("packing keeps whether an element is above 0, whatever the number of elements") {
    for (const std::int64_t n : {1, 31, 32, 33, 255, 256, 257, 5000}) {
        const auto x = drawn({n}, static_cast<unsigned>(n));
        cpu::backend on(2);
        const auto words = run_op(on, ops::encode{}, {x})[0].i32;
        CHECK(words.size() * 4 == echo::encoded_bytes(static_cast<std::uint64_t>(n)));
        for (std::size_t i = 0; i < x.f32.size(); ++i)
            REQUIRE(((static_cast<std::uint32_t>(words[i / 32]) >> (i % 32)) & 1) == (x.f32[i] > 0));
    }
}

TEST_CASE("products") {
    const auto x = drawn({2, 3, 4}, 1), w = drawn({5, 4}, 2), b = drawn({5}, 3);
    std::vector<double> plain, biased;
    for (std::size_t r = 0; r < 6; ++r)
        for (std::size_t o = 0; o < 5; ++o) {
            double sum = 0;
            for (std::size_t k = 0; k < 4; ++k) sum += at(x, r * 4 + k) * at(w, o * 4 + k);
            plain.push_back(sum);
            biased.push_back(sum + at(b, o));
        }
    support::check_values(ops::fully_connected{false}, {x, w}, plain);
    support::check_values(ops::fully_connected{true}, {x, w, b}, biased);
    check_gradients({.arguments = {{{2, 3, 4}}, {{5, 4}}, {{5}}}, .build = [](graph& g, const auto& in) {
                         return fully_connected(g, in[0], in[1], in[2]);
                     }});
    check_gradients({.arguments = {{{2, 3, 4}}, {{5, 12}}}, .build = [](graph& g, const auto& in) {
                         return fully_connected(g, in[0], in[1], true);
                     }});
    for (const bool ta : {false, true})
        for (const bool tb : {false, true}) {
            const echo::shape sa = ta ? echo::shape{2, 4, 3} : echo::shape{2, 3, 4};
            const echo::shape sb = tb ? echo::shape{2, 5, 4} : echo::shape{2, 4, 5};
            const auto a = drawn(sa, 4), c = drawn(sb, 5);
            std::vector<double> expected;
            for (std::size_t n = 0; n < 2; ++n)
                for (std::size_t i = 0; i < 3; ++i)
                    for (std::size_t j = 0; j < 5; ++j) {
                        double sum = 0;
                        for (std::size_t k = 0; k < 4; ++k)
                            sum += at(a, n * 12 + (ta ? k * 3 + i : i * 4 + k)) *
                                   at(c, n * 20 + (tb ? j * 4 + k : k * 5 + j));
                        expected.push_back(sum);
                    }
            support::check_values(ops::batch_dot{ta, tb}, {a, c}, expected);
            check_gradients({.arguments = {{sa}, {sb}}, .build = [&](graph& g, const auto& in) {
                                 return batch_dot(g, in[0], in[1], ta, tb);
                             }});
        }
}

TEST_CASE("sums and means") {
    const auto x = drawn({3, 4, 5}, 1);
    std::vector<double> middle(15), all(1), outer(4);
    for (std::size_t i = 0; i < 60; ++i) {
        middle[i / 20 * 5 + i % 5] += at(x, i);
        outer[i / 5 % 4] += at(x, i) / 15;
        all[0] += at(x, i);
    }
    support::check_values(ops::reduce{ops::reduce::sum, {1}, false}, {x}, middle);
    support::check_values(ops::reduce{ops::reduce::mean, {0, 2}, true}, {x}, outer);
    support::check_values(ops::reduce{ops::reduce::sum, {0, 1, 2}, false}, {x}, all);
    const std::vector<std::int64_t> cases[] = {{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}};
    for (const auto& axes : cases)
        for (const bool keep : {false, true}) {
            check_gradients({.arguments = {{{3, 4, 5}}},
                             .build = [&](graph& g, const auto& in) { return sum(g, in[0], axes, keep); }});
            check_gradients({.arguments = {{{3, 4, 5}}},
                             .build = [&](graph& g, const auto& in) { return mean(g, in[0], axes, keep); }});
        }
    support::check_values(ops::add_n{}, {x, x, x}, [&] {
        std::vector<double> tripled;
        for (std::size_t i = 0; i < 60; ++i) tripled.push_back(3 * at(x, i));
        return tripled;
    }());
}

TEST_CASE("large sums are right on any number of threads, and the same bits") {
    for (const auto& axes : std::vector<std::vector<std::int64_t>>{{0}, {1}, {0, 1}, {2}, {0, 2}, {1, 2}}) {
        const auto x = drawn({20, 30, 400}, 1);
        cpu::backend one(1), two(2);
        const op sum = ops::reduce{ops::reduce::sum, axes, false};
        const auto a = run_op(one, sum, {x}), b = run_op(two, sum, {x});
        CHECK(a[0].f32 == b[0].f32);
        double total = 0, expected = 0;
        for (const float v : a[0].f32) total += static_cast<double>(v);
        for (const float v : x.f32) expected += static_cast<double>(v);
        CHECK(total == Approx(expected).epsilon(1e-4));
    }
}

TEST_CASE("movement") {
    const auto x = drawn({3, 4, 5}, 1);
    for (const auto& order : std::vector<std::vector<std::int64_t>>{
             {0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
        const std::size_t extents[] = {3, 4, 5}, strides[] = {20, 5, 1};
        std::vector<double> expected;
        const auto axis = [&](std::size_t i) { return static_cast<std::size_t>(order[i]); };
        for (std::size_t i = 0; i < extents[axis(0)]; ++i)
            for (std::size_t j = 0; j < extents[axis(1)]; ++j)
                for (std::size_t k = 0; k < extents[axis(2)]; ++k)
                    expected.push_back(
                        at(x, i * strides[axis(0)] + j * strides[axis(1)] + k * strides[axis(2)]));
        support::check_values(ops::transpose{order}, {x}, expected, 0, 0);
        check_gradients({.arguments = {{{3, 4, 5}}},
                         .build = [&](graph& g, const auto& in) { return transpose(g, in[0], order); }});
    }
    for (const std::int64_t axis : {0, 1, 2})
        check_gradients({.arguments = {{{2, 3, 4}}, {{2, 3, 4}}}, .build = [&](graph& g, const auto& in) {
                             const value both = concat(g, {in[0], in[1], in[0]}, axis);
                             const auto extent = g[both].shape[static_cast<std::size_t>(axis)];
                             const auto parts = split(g, both, {1, extent - 1}, axis);
                             const value other = scale(g, parts[1], 2); // part 0 gets no gradient of its own
                             return other;
                         }});
    for (const std::int64_t axis : {0, 1, 2})
        check_gradients({.arguments = {{{2, 3}}, {{2, 3}}}, .build = [&](graph& g, const auto& in) {
                             const value both = stack(g, {in[0], in[1]}, axis);
                             return slice_channel(g, both, 2, axis, true)[1];
                         }});
    check_gradients({.arguments = {{{2, 3}}}, .build = [](graph& g, const auto& in) {
                         return tile(g, in[0], {2, 3});
                     }});
    const auto small = drawn({2, 2}, 3);
    support::check_values(ops::tile{{1, 2}}, {small},
                          {at(small, 0), at(small, 1), at(small, 0), at(small, 1), at(small, 2), at(small, 3),
                           at(small, 2), at(small, 3)});
    check_gradients({.arguments = {{{2, 3}}}, .build = [](graph& g, const auto& in) {
                         return square(g, reshape(g, square(g, in[0]), {3, 2}));
                     }});
    support::check_values(ops::causal_bias{3}, {}, {0, -1e9, -1e9, 0, 0, -1e9, 0, 0, 0});
}

TEST_CASE("layer normalisation out of light ops") {
    check_gradients({.arguments = {{{4, 6}}, {{6}, 0.5, 1.5}, {{6}}},
                     .build = [](graph& g, const auto& in) { return layer_norm(g, in[0], in[1], in[2]); },
                     .tolerance = 1e-2});
}

TEST_CASE("what an op cannot take is refused in one line with node, op, expected and found") {
    graph g;
    const value x = data(g, "x", f32({4, 8})), w = parameter(g, "w", {16, 9}, {});
    const graph::scope s(g, "encoder");
    try {
        fully_connected(g, x, w);
        FAIL("accepted");
    } catch (const echo::error& e) {
        CHECK(std::string(e.what()) == "node 'encoder.fully_connected', shape: fully_connected expected "
                                       "weights [out, 8], found [16, 9] of f32; "
                                       "check what the op is given");
    }
    CHECK_THROWS_AS(add(g, x, w), echo::error);
    CHECK_THROWS_AS(reshape(g, x, {33}), echo::error);
    CHECK_THROWS_AS(broadcast_add(g, x, w), echo::error);
    CHECK_THROWS_AS(dropout(g, x, 1), echo::error);
    CHECK_THROWS_AS(concat(g, {x, w}, 0), echo::error);
    CHECK_THROWS_AS(transpose(g, x, {0, 2}), echo::error);
}

TEST_CASE("facts say what the gradient functions build") {
    graph g;
    const value x = parameter(g, "x", {4, 4}, {}), w = parameter(g, "w", {4, 4}, {});
    std::vector<value> all{tanh(g, x),
                           sigmoid(g, x),
                           relu(g, x),
                           square(g, x),
                           exp(g, x),
                           multiply(g, x, w),
                           add(g, x, w),
                           subtract(g, x, w),
                           divide(g, x, w),
                           dropout(g, x, 0.5),
                           broadcast_multiply(g, x, w),
                           broadcast_add(g, x, w),
                           fully_connected(g, x, w),
                           batch_dot(g, x, w),
                           softmax(g, x),
                           swap_axes(g, x, 0, 1),
                           reshape(g, x, {16}),
                           sum(g, x, {0}),
                           tile(g, x, {1, 2}),
                           concat(g, {x, w}, 0)};
    for (const value& v : all) {
        INFO(v.producer->name);
        const auto facts = engine::facts(v.producer->op);
        const auto seen = echo::record_gradient_reads(g, v.producer);
        CHECK(seen.gradient_reads == facts.gradient_reads);
        CHECK(seen.gradient_one_bit == facts.gradient_one_bit);
    }
}
