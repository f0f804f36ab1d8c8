// SPDX-License-Identifier: BSL-1.0
// Symbols on their own: shapes and FLOPs against known formulas, numbers against the standard library, and
// all readings of one lambda changing with it.
#include <echo/op_traits.hpp>
#include <echo/symbol.hpp>

#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <initializer_list>
#include <span>
#include <tuple>
#include <type_traits>
#include <vector>

namespace {

using echo::real;
using echo::shape;
using echo::tensor;
namespace symbol = echo::symbol;
using symbol::input;
using symbol::output;
using symbol::output_gradient;

constexpr input<0> a;
constexpr input<1> b;
constexpr input<2> c;

std::vector<tensor> tensors(std::initializer_list<shape> shapes) {
    std::vector<tensor> result;
    for (const auto& s : shapes) result.push_back({.shape = s});
    return result;
}

template <class E>
symbol::inference infer(const E& e, std::initializer_list<shape> in, std::initializer_list<shape> out = {}) {
    const auto program = symbol::flatten(e);
    return symbol::infer(program.view(), tensors(in), tensors(out));
}
template <class E>
shape shape_of_result(const E& e, std::initializer_list<shape> in) {
    return infer(e, in).results.at(0);
}
template <class E>
double flops(const E& e, std::initializer_list<shape> in) {
    return infer(e, in).flops;
}

} // namespace

TEST_CASE("shapes broadcast from the last axis") {
    CHECK(shape_of_result(a + b, {{2, 3}, {2, 3}}) == shape{2, 3});
    CHECK(shape_of_result(a + b, {{8, 1, 5}, {7, 5}}) == shape{8, 7, 5});
    CHECK(shape_of_result(a + b, {{3}, shape::scalar()}) == shape{3});
    CHECK(shape_of_result(a * 2, {{0, 4}}) == shape{0, 4});
    CHECK_THROWS_AS(shape_of_result(a + b, {{2, 3}, {2, 4}}), echo::error);
    CHECK_THROWS_AS(shape_of_result(a + b, {{2}}), echo::error); // the second input is missing
    CHECK_FALSE(shape_of_result(a + b, {shape{}, {2}}).known());
}

TEST_CASE("matrix products") {
    CHECK(shape_of_result(matmul(a, b), {{5, 7}, {7, 3}}) == shape{5, 3});
    CHECK(shape_of_result(matmul_nt(a, b), {{5, 7}, {3, 7}}) == shape{5, 3});
    CHECK(shape_of_result(matmul_tn(a, b), {{7, 5}, {7, 3}}) == shape{5, 3});
    CHECK(shape_of_result(matmul(a, transpose(b)), {{5, 7}, {3, 7}}) == shape{5, 3});
    CHECK(shape_of_result(matmul(a, b), {{9, 5, 7}, {9, 7, 3}}) == shape{9, 5, 3});
    CHECK(shape_of_result(matmul(a, b), {{9, 5, 7}, {7, 3}}) == shape{9, 5, 3});
    CHECK(shape_of_result(rows(a), {{4, 5, 6}}) == shape{20, 6});
    for (const double f : {flops(matmul(a, b), {{5, 7}, {7, 3}}), flops(matmul_nt(a, b), {{5, 7}, {3, 7}}),
                           flops(matmul_tn(a, b), {{7, 5}, {7, 3}})})
        CHECK(f == 2 * 5 * 7 * 3);
    CHECK(flops(matmul(a, b), {{9, 5, 7}, {9, 7, 3}}) == 9 * 2 * 5 * 7 * 3);
    CHECK(flops(matmul(a, b), {{5, 0}, {0, 3}}) == 0);
    CHECK_THROWS_AS(flops(matmul(a, b), {{5, 7}, {6, 3}}), echo::error);
    CHECK_THROWS_AS(flops(matmul(a, b), {{7}, {7, 3}}), echo::error);
}

TEST_CASE("convolutions and their gradients") {
    constexpr echo::window same{.stated = true, .padding = {1, 1, 0}};
    constexpr echo::window stem{.stated = true, .stride = {2, 2, 1}, .padding = {3, 3, 0}};
    constexpr echo::window wide{.stated = true, .dilation = {2, 2, 1}};
    CHECK(shape_of_result(convolution(a, b, same), {{32, 64, 56, 56}, {128, 64, 3, 3}}) ==
          shape{32, 128, 56, 56});
    CHECK(shape_of_result(convolution(a, b, stem), {{2, 3, 224, 224}, {64, 3, 7, 7}}) ==
          shape{2, 64, 112, 112});
    CHECK(shape_of_result(convolution(a, b, wide), {{1, 1, 9, 9}, {1, 1, 3, 3}}) == shape{1, 1, 5, 5});
    CHECK(shape_of_result(convolution(a, b, {.stated = true}), {{2, 3, 10}, {4, 3, 5}}) == shape{2, 4, 6});
    const double expected = 2.0 * 2 * 64 * 112 * 112 * 3 * 7 * 7;
    CHECK(flops(convolution(a, b, stem), {{2, 3, 224, 224}, {64, 3, 7, 7}}) == expected);
    // A grouped convolution's weights have c / groups channels.
    CHECK(flops(convolution(a, b, same), {{1, 8, 4, 4}, {8, 1, 3, 3}}) == 2.0 * 8 * 4 * 4 * 9);

    const auto dx = convolution_data_gradient(output_gradient<0>{}, b, shape_of(a), stem);
    const auto dw = convolution_weight_gradient(output_gradient<0>{}, a, shape_of(b), stem);
    const auto both = infer(std::tuple{dx, dw}, {{2, 3, 224, 224}, {64, 3, 7, 7}}, {{2, 64, 112, 112}});
    CHECK(both.results.at(0) == shape{2, 3, 224, 224});
    CHECK(both.results.at(1) == shape{64, 3, 7, 7});
    CHECK(both.flops == 2 * expected);

    // A window that is not stated takes the output that the host states, and counts nothing without it.
    const auto unstated = convolution(a, b);
    CHECK(infer(unstated, {{2, 3, 224, 224}, {64, 3, 7, 7}}, {{2, 64, 112, 112}}).flops == expected);
    CHECK(infer(unstated, {{2, 3, 224, 224}, {64, 3, 7, 7}}).flops == 0);
    CHECK_THROWS_AS(shape_of_result(convolution(a, b, same), {{1, 1, 1, 1}, {1, 1, 7, 7}}), echo::error);
    CHECK_THROWS_AS(shape_of_result(convolution(a, b, same), {{1, 1, 9}, {1, 1, 3, 3}}), echo::error);
}

TEST_CASE("reductions, broadcasts and movement") {
    CHECK(shape_of_result(sum(a, echo::over(-1)), {{4, 5, 6}}) == shape{4, 5});
    CHECK(shape_of_result(sum(a, echo::over(-1).keep()), {{4, 5, 6}}) == shape{4, 5, 1});
    CHECK(shape_of_result(mean(a, echo::over(0, 2)), {{4, 5, 6}}) == shape{5});
    CHECK(shape_of_result(max(a, echo::all_but(1)), {{4, 5, 6}}) == shape{5});
    CHECK(shape_of_result(max(a, echo::all_but(1).keep()), {{4, 5, 6}}) == shape{1, 5, 1});
    CHECK(shape_of_result(sum(a, echo::all_but()), {{4, 5, 6}}) == shape::scalar());
    CHECK(flops(sum(a, echo::over(-1)), {{4, 5, 6}}) == 120);
    CHECK(flops(mean(a, echo::over(-1)), {{4, 5, 6}}) == 140);
    CHECK(shape_of_result(broadcast(b, shape_of(a)), {{4, 5}, {4}}) == shape{4, 5});
    CHECK(shape_of_result(along_axis(b, 1, shape_of(a)), {{4, 5, 6}, {5}}) == shape{1, 5, 1});
    CHECK_THROWS_AS(shape_of_result(along_axis(b, 1, shape_of(a)), {{4, 5, 6}, {4}}), echo::error);
    CHECK(shape_of_result(gather_rows(a, b), {{100, 8}, {3, 2}}) == shape{3, 2, 8});
    CHECK(shape_of_result(scatter_rows(c, b, shape_of(a)), {{100, 8}, {3, 2}, {3, 2, 8}}) == shape{100, 8});
    CHECK(flops(scatter_rows(c, b, shape_of(a)), {{100, 8}, {3, 2}, {3, 2, 8}}) == 48);
    CHECK(flops(gather_rows(a, b), {{100, 8}, {3, 2}}) == 0);
    CHECK(shape_of_result(one_hot(b, shape_of(a)), {{4, 10}, {4}}) == shape{4, 10});
}

TEST_CASE("pooling") {
    constexpr echo::window g{.stated = true, .kernel = {3, 3, 1}, .stride = {2, 2, 1}, .padding = {1, 1, 0}};
    CHECK(shape_of_result(max_pool(a, g), {{2, 64, 112, 112}}) == shape{2, 64, 56, 56});
    CHECK(flops(mean_pool(a, g), {{2, 64, 112, 112}}) == 9.0 * 2 * 64 * 56 * 56);
    const auto back = infer(max_pool_gradient(output_gradient<0>{}, a, output<0>{}, g), {{2, 64, 112, 112}},
                            {{2, 64, 56, 56}});
    CHECK(back.results.at(0) == shape{2, 64, 112, 112});
    CHECK(back.flops == 9.0 * 2 * 64 * 56 * 56);
}

TEST_CASE("a subexpression counts once, however often it is written") {
    const shape s{10};
    CHECK(flops(exp(a) + exp(a), {s}) == 20);        // exp, add
    CHECK(flops(exp(a) + exp(b), {s, s}) == 30);     // exp, exp, add
    CHECK(flops((a + 1) * (a + 1), {s}) == 20);      // add, multiply
    CHECK(flops((a + 1) * (a + 2), {s}) == 30);      // two literals, two sums
    CHECK(flops(select(a > 0, b, 0), {s, s}) == 10); // the comparison; a choice is free
    CHECK(flops(select(a > b, a, b), {s, s}) == 10);
    CHECK(flops(select(a > b, a, 0) + select(b < a, b, 0), {s, s}) == 20); // one comparison, one add
    CHECK(infer(std::tuple{exp(a) * b, exp(a)}, {s, s}).flops == 20);      // shared between outputs
}

TEST_CASE("series agree with the standard library") {
    namespace series = symbol::math::series;
    const auto close = [](double x, double y) { return Approx(y).epsilon(1e-13).margin(1e-300) == x; };
    for (double x = -30; x <= 30; x += 0.0173) {
        CAPTURE(x);
        CHECK(close(series::exp(x), std::exp(x)));
        CHECK(close(series::tanh(x), std::tanh(x)));
        CHECK(close(series::erf(x), std::erf(x)));
        CHECK(series::sin(x) == Approx(std::sin(x)).margin(1e-13));
        CHECK(close(series::log(std::exp(x)), std::log(std::exp(x))));
        CHECK(close(series::sqrt(std::exp(x)), std::sqrt(std::exp(x))));
        CHECK(close(series::pow(std::exp(x / 10), 1.7), std::pow(std::exp(x / 10), 1.7)));
        CHECK(close(series::pow(x, 3), std::pow(x, 3)));
        CHECK(close(series::pow(x, -2), std::pow(x, -2)));
    }
    CHECK(series::exp(1000) == std::exp(1000.0));
    CHECK(series::exp(-1000) == 0);
    CHECK(series::log(0) == std::log(0.0));
    CHECK(std::isnan(series::log(-1)));
    CHECK(std::isnan(series::sqrt(-1)));
    CHECK(series::sqrt(0) == 0);
    CHECK(series::pow(0, 2) == 0);
    CHECK(std::isnan(series::pow(-2, 0.5)));
}

namespace {

/// Two bytes that convert to float and back: enough of a half type.
struct half {
    float kept = 0;
    explicit half(float value) : kept(std::round(value * 64) / 64) {}
    explicit operator float() const { return kept; }
};

} // namespace

TEST_CASE("real<T> computes halves in float and doubles in double") {
    CHECK(real<float>::value_type{} == 0.0F);
    CHECK((std::is_same_v<real<half>::value_type, float>));
    CHECK((std::is_same_v<real<double>::value_type, double>));
    CHECK(static_cast<float>(static_cast<half>(real<half>(half(0.5F)) * 0.5)) == 0.25F);
    CHECK((real<double>(1) / 3).value() == 1.0 / 3);
    CHECK((1 / real<float>(3)).value() == 1.0F / 3);
    CHECK(sigmoid(real<double>(0.3)).value() == Approx(1 / (1 + std::exp(-0.3))).epsilon(1e-14));
    CHECK(sigmoid(real<float>(-200)).value() == 0);
    CHECK(select(real<float>(1) < 2 && !(real<float>(1) == 2), real<float>(3), 4).value() == 3);
    CHECK(select(real<float>(1) >= 2 || real<float>(1) != 1, 3, 4).value() == 4);
    CHECK(min(real<float>(1), 2).value() == 1);
    CHECK(abs(real<float>(-2)).value() == 2);
    CHECK(pow(real<double>(2), 10).value() == 1024);
    CHECK(rsqrt(real<double>(4)).value() == 0.5);
    CHECK(cos(real<double>(0)).value() == 1);
}

// One op, and the same op with one lambda changed: every reading follows.
namespace {

struct gate_op {
    static constexpr auto forward = [](auto x, auto g) { return x * sigmoid(g); };
    static constexpr auto gradient = [](auto dy, auto x, auto g, auto) {
        const auto s = sigmoid(g);
        return std::tuple{dy * s, dy * x * s * (1 - s)};
    };
};
struct changed_gate_op {
    static constexpr auto forward = [](auto x, auto) { return tanh(x); };
    static constexpr auto gradient = [](auto dy, auto, auto, auto y) {
        return std::tuple{dy * (1 - y * y), echo::no_gradient{}};
    };
};
struct summed_gate_op {
    static constexpr auto forward = [](auto x, auto g) { return sum(x * sigmoid(g), echo::over(-1)); };
    static constexpr auto gradient = gate_op::gradient;
};

} // namespace
template <>
struct echo::op_traits<gate_op> : echo::elementwise<gate_op> {};
template <>
struct echo::op_traits<changed_gate_op> : echo::elementwise<changed_gate_op> {};
template <>
struct echo::op_traits<summed_gate_op> : echo::reduction<summed_gate_op> {};

TEST_CASE("one lambda is changed and all readings change") {
    // Dependencies.
    constexpr auto before = echo::facts_of<gate_op>(), after = echo::facts_of<changed_gate_op>();
    CHECK(before.gradient_reads == echo::reads{.inputs = {0, 1}});
    CHECK(after.gradient_reads == echo::reads{.outputs = {0}});
    CHECK(echo::symbol::reads_of<decltype(echo::forward_expression<gate_op>()), symbol::operation::input,
                                 2>() == echo::positions{0, 1});
    CHECK(echo::symbol::reads_of<decltype(echo::forward_expression<changed_gate_op>()),
                                 symbol::operation::input, 2>() == echo::positions{0});
    CHECK(echo::facts_of<summed_gate_op>().gradient_reads == before.gradient_reads);
    // FLOPs and shapes.
    const auto in = tensors({{6, 5}, {6, 5}});
    CHECK(before.flops(in, {}) == 60);
    CHECK(after.flops(in, {}) == 30);
    CHECK(symbol::infer(echo::forward_program<gate_op>.view(), in).results.at(0) == shape{6, 5});
    CHECK(symbol::infer(echo::forward_program<summed_gate_op>.view(), in).results.at(0) == shape{6});
    // Values.
    const std::array<double, 2> x{0.5, -2}, g{0, 3}, dy{1, 10};
    std::array<double, 2> y{}, other{}, dx{}, dg{};
    echo::apply_elementwise<gate_op, double>({y}, {x, g});
    CHECK(y[0] == 0.25);
    CHECK(y[1] == Approx(-2 / (1 + std::exp(-3.0))));
    echo::apply_elementwise<changed_gate_op, double>({other}, {x, g});
    CHECK(other[1] == std::tanh(-2.0));
    echo::apply_gradient<gate_op, double>({dx, dg}, {dy, x, g, y});
    CHECK(dx[0] == 0.5);
    CHECK(dg[0] == 0.125);
    echo::apply_gradient<changed_gate_op, double>({dx, {}}, {dy, x, g, other});
    CHECK(dx[1] == Approx(10 * (1 - other[1] * other[1])));
}

TEST_CASE("loops run in place, and refuse spans of different sizes") {
    std::array<float, 3> x{1, -1, 2};
    const std::array<float, 3> g{0, 0, 0};
    echo::apply_elementwise<gate_op, float>({x}, {x, g});
    CHECK(x == std::array<float, 3>{0.5F, -0.5F, 1});
    const std::array<float, 2> too_short{};
    std::array<float, 2> small{};
    CHECK_THROWS_AS((echo::apply_elementwise<gate_op, float>({x}, {x, too_short})), echo::error);
    CHECK_THROWS_AS((echo::apply_elementwise<gate_op, float>({small}, {x, g})), echo::error);
    echo::apply_elementwise<gate_op, float>({std::span<float>{}}, {std::span<const float>{}, {}});
}
