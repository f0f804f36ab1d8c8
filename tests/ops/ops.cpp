// SPDX-License-Identifier: BSL-1.0
// The mathematics of ops/: every element-wise gradient against finite differences, every op's shapes and
// FLOPs against the known formulas.
#include <echo/ops/activations.hpp>
#include <echo/ops/arithmetic.hpp>
#include <echo/ops/attention.hpp>
#include <echo/ops/batch_norm.hpp>
#include <echo/ops/convolution.hpp>
#include <echo/ops/dropout.hpp>
#include <echo/ops/embedding.hpp>
#include <echo/ops/layer_norm.hpp>
#include <echo/ops/matmul.hpp>
#include <echo/ops/pooling.hpp>
#include <echo/ops/reductions.hpp>
#include <echo/ops/softmax.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using echo::shape;
using echo::tensor;

/// Where an op is tried: inside its domain, and away from its kinks.
struct domain {
    double low = -3, high = 3;
    std::vector<double> kinks{};
};

template <class Op, std::size_t N>
double scalar(const std::array<double, N>& x, const std::vector<double>& dy) {
    constexpr std::size_t outputs = echo::output_count<Op>;
    std::array<double, outputs> y{};
    std::array<std::span<double>, outputs> to;
    std::array<std::span<const double>, N> from;
    for (std::size_t k = 0; k < outputs; ++k) to[k] = {&y[k], 1};
    for (std::size_t i = 0; i < N; ++i) from[i] = {&x[i], 1};
    echo::apply_elementwise<Op, double>(to, from);
    double sum = 0;
    for (std::size_t k = 0; k < dy.size(); ++k) sum += dy[k] * y[k];
    return sum;
}

/// Compares the gradient lambda with central differences of the forward lambda at 500 points, in double.
/// `skipped` inputs have no gradient.
template <class Op>
void check_gradient(const domain& d = {}, echo::positions skipped = {}) {
    INFO(std::string(echo::facts_of<Op>().name));
    constexpr std::size_t inputs = echo::input_count<Op>, outputs = echo::output_count<Op>;
    constexpr std::size_t draws = echo::is_random<Op> ? 1 : 0;
    constexpr std::size_t gradients = echo::symbol::detail::gradient_call<Op>::gradients;
    std::mt19937_64 engine(7);
    std::uniform_real_distribution<double> point(d.low, d.high), unit(0, 1);
    for (int trial = 0; trial < 500; ++trial) {
        std::array<double, inputs + draws> x{};
        bool smooth = true;
        for (std::size_t i = 0; i < inputs; ++i) {
            x[i] = point(engine);
            for (const double kink : d.kinks) smooth = smooth && std::abs(x[i] - kink) > 1e-3;
            for (std::size_t j = 0; j < i; ++j) smooth = smooth && std::abs(x[i] - x[j]) > 1e-3;
        }
        if (draws == 1) x[inputs] = unit(engine);
        if (!smooth) continue;

        std::vector<double> dy(gradients);
        for (auto& value : dy) value = unit(engine) - 0.5;
        std::array<double, outputs> y{};
        std::array<std::span<double>, outputs> to;
        std::array<std::span<const double>, inputs + draws> from;
        for (std::size_t k = 0; k < outputs; ++k) to[k] = {&y[k], 1};
        for (std::size_t i = 0; i < inputs + draws; ++i) from[i] = {&x[i], 1};
        echo::apply_elementwise<Op, double>(to, from);

        std::array<double, inputs> dx{};
        std::array<std::span<double>, inputs> dx_to;
        std::array<std::span<const double>, gradients + inputs + outputs> read;
        for (std::size_t i = 0; i < inputs; ++i) dx_to[i] = {&dx[i], 1};
        for (std::size_t k = 0; k < gradients; ++k) read[k] = {&dy[k], 1};
        for (std::size_t i = 0; i < inputs; ++i) read[gradients + i] = {&x[i], 1};
        for (std::size_t k = 0; k < outputs; ++k) read[gradients + inputs + k] = {&y[k], 1};
        echo::apply_gradient<Op, double>(dx_to, read);

        for (std::size_t i = 0; i < inputs; ++i) {
            if (skipped.contains(i)) continue;
            const double h = 1e-5;
            auto above = x, below = x;
            above[i] += h;
            below[i] -= h;
            const double expected = (scalar<Op>(above, dy) - scalar<Op>(below, dy)) / (2 * h);
            CAPTURE(i, x[i]);
            REQUIRE(dx[i] == Approx(expected).epsilon(1e-6).margin(1e-7));
        }
    }
}

std::vector<tensor> tensors(std::initializer_list<shape> shapes) {
    std::vector<tensor> result;
    for (const auto& s : shapes) result.push_back({.shape = s});
    return result;
}

template <class Op>
double flops(std::initializer_list<shape> inputs, std::initializer_list<shape> outputs = {}) {
    const auto function = echo::facts_of<Op>().flops;
    REQUIRE(function != nullptr);
    return function(tensors(inputs), tensors(outputs));
}
template <class Op>
std::vector<shape> results(std::initializer_list<shape> inputs, std::initializer_list<shape> outputs = {}) {
    return echo::symbol::infer(echo::forward_program<Op>.view(), tensors(inputs), tensors(outputs)).results;
}
template <class Op>
echo::symbol::inference gradient(std::initializer_list<shape> inputs, std::initializer_list<shape> outputs) {
    return echo::symbol::infer(echo::gradient_program<Op>.view(), tensors(inputs), tensors(outputs));
}

} // namespace

TEST_CASE("arithmetic gradients are the derivatives") {
    const domain positive{0.3, 4};
    check_gradient<echo::add_op>();
    check_gradient<echo::subtract_op>();
    check_gradient<echo::multiply_op>();
    check_gradient<echo::divide_op>(positive);
    check_gradient<echo::negate_op>();
    check_gradient<echo::reciprocal_op>(positive);
    check_gradient<echo::reciprocal_op>({-4, -0.3});
    check_gradient<echo::abs_op>({.kinks = {0}});
    check_gradient<echo::square_op>();
    check_gradient<echo::sqrt_op>(positive);
    check_gradient<echo::rsqrt_op>(positive);
    check_gradient<echo::pow_op>({0.5, 3});
    check_gradient<echo::exp_op>();
    check_gradient<echo::log_op>(positive);
    check_gradient<echo::sin_op>();
    check_gradient<echo::cos_op>();
    check_gradient<echo::erf_op>();
    check_gradient<echo::maximum_op>();
    check_gradient<echo::minimum_op>();
    check_gradient<echo::where_op>({.kinks = {0}}, {0});
}

TEST_CASE("activation gradients are the derivatives") {
    check_gradient<echo::tanh_op>();
    check_gradient<echo::sigmoid_op>();
    check_gradient<echo::relu_op>({.kinks = {0}});
    check_gradient<echo::leaky_relu_op>({.kinks = {0}});
    check_gradient<echo::relu6_op>({-3, 9, {0, 6}});
    check_gradient<echo::elu_op>({.kinks = {0}});
    check_gradient<echo::gelu_op>();
    check_gradient<echo::gelu_tanh_op>();
    check_gradient<echo::silu_op>();
    check_gradient<echo::softplus_op>({.kinks = {0}});
    check_gradient<echo::hard_swish_op>({-5, 5, {-3, 3}});
}

TEST_CASE("dropout's gradient is the derivative for the same draws") {
    check_gradient<echo::dropout_op<>>();
    check_gradient<echo::dropout_op<std::ratio<1, 2>>>();
}

TEST_CASE("element-wise values are the functions they are named after") {
    std::mt19937_64 engine(3);
    std::uniform_real_distribution<double> point(-4, 4);
    for (int trial = 0; trial < 200; ++trial) {
        const std::array<double, 1> x{point(engine)};
        const auto value = [&]<class Op>(Op) { return scalar<Op>(x, {1}); };
        const double v = x[0];
        CHECK(value(echo::tanh_op{}) == Approx(std::tanh(v)));
        CHECK(value(echo::sigmoid_op{}) == Approx(1 / (1 + std::exp(-v))));
        CHECK(value(echo::relu_op{}) == std::max(v, 0.0));
        CHECK(value(echo::gelu_op{}) == Approx(v * 0.5 * std::erfc(-v / std::sqrt(2.0))).margin(1e-12));
        CHECK(value(echo::gelu_tanh_op{}) == Approx(value(echo::gelu_op{})).margin(1e-3));
        CHECK(value(echo::silu_op{}) == Approx(v / (1 + std::exp(-v))));
        CHECK(value(echo::softplus_op{}) == Approx(std::log1p(std::exp(v))));
        CHECK(value(echo::elu_op{}) == Approx(v > 0 ? v : std::expm1(v)));
        CHECK(value(echo::hard_swish_op{}) == Approx(v * std::clamp(v + 3, 0.0, 6.0) / 6).margin(1e-15));
        CHECK(scalar<echo::relu_gradient_op>(std::array<double, 2>{v, -v}, {1}) == (v < 0 ? v : 0));
        CHECK(scalar<echo::greater_op>(std::array<double, 2>{v, 0}, {1}) == (v > 0 ? 1 : 0));
    }
    CHECK(scalar<echo::softplus_op>(std::array<double, 1>{1000}, {1}) == 1000);
    // Dropout at rate 0.1: draws below it drop.
    CHECK(scalar<echo::dropout_op<>>(std::array<double, 2>{9, 0.05}, {1, 100}) == 0);
    CHECK(scalar<echo::dropout_op<>>(std::array<double, 2>{9, 0.15}, {1, 100}) == Approx(110));
    CHECK(scalar<echo::dropout_gradient_op<>>(std::array<double, 2>{9, 1}, {1}) == Approx(10));
}

TEST_CASE("matrix products: 2mnk, and twice that backward") {
    CHECK(flops<echo::fully_connected_op>({{128, 512}, {2048, 512}}) == 2.0 * 128 * 2048 * 512);
    CHECK(results<echo::fully_connected_op>({{128, 512}, {2048, 512}})[0] == shape{128, 2048});
    CHECK(results<echo::fully_connected_op>({{8, 100, 512}, {64, 512}})[0] == shape{8, 100, 64});
    const auto back = gradient<echo::fully_connected_op>({{8, 100, 512}, {64, 512}}, {{8, 100, 64}});
    CHECK(back.results[0] == shape{8, 100, 512});
    CHECK(back.results[1] == shape{64, 512});
    CHECK(back.flops == 2 * 2.0 * 800 * 64 * 512);

    CHECK(flops<echo::biased_fully_connected_op>({{4, 5}, {6, 5}, {6}}) == 2 * 4 * 5 * 6 + 4 * 6);
    const auto with_bias = gradient<echo::biased_fully_connected_op>({{4, 5}, {6, 5}, {6}}, {{4, 6}});
    CHECK(with_bias.results[2] == shape{6});
    CHECK(with_bias.flops == 2 * 2 * 4 * 5 * 6 + 4 * 6);

    CHECK(flops<echo::batch_dot_op>({{16, 10, 64}, {16, 64, 20}}) == 16 * 2.0 * 10 * 64 * 20);
    const auto batched = gradient<echo::batch_dot_op>({{16, 10, 64}, {16, 64, 20}}, {{16, 10, 20}});
    CHECK(batched.results[0] == shape{16, 10, 64});
    CHECK(batched.results[1] == shape{16, 64, 20});
    CHECK(batched.flops == 2 * 16 * 2.0 * 10 * 64 * 20);
    CHECK(flops<echo::add_matmul_op>({{7}, {3, 5}, {5, 7}}) == 2 * 3 * 5 * 7 + 3 * 7);
}

TEST_CASE("convolution: 2 · output · channels · kernel") {
    constexpr echo::window g{.stated = true, .stride = {2, 2, 1}, .padding = {1, 1, 0}};
    const double expected = 2.0 * 32 * 128 * 28 * 28 * 64 * 9;
    CHECK(flops<echo::convolution_op<g>>({{32, 64, 56, 56}, {128, 64, 3, 3}}) == expected);
    CHECK(flops<echo::convolution_op<>>({{32, 64, 56, 56}, {128, 64, 3, 3}}, {{32, 128, 28, 28}}) ==
          expected);
    CHECK(flops<echo::biased_convolution_op<>>({{32, 64, 56, 56}, {128, 64, 3, 3}, {128}},
                                               {{32, 128, 28, 28}}) == expected + 32.0 * 128 * 28 * 28);
    const auto back = gradient<echo::biased_convolution_op<g>>({{32, 64, 56, 56}, {128, 64, 3, 3}, {128}},
                                                               {{32, 128, 28, 28}});
    CHECK(back.results[0] == shape{32, 64, 56, 56});
    CHECK(back.results[1] == shape{128, 64, 3, 3});
    CHECK(back.results[2] == shape{128});
    CHECK(back.flops == 2 * expected + 32.0 * 128 * 28 * 28);
}

TEST_CASE("softmax counts its exponential once") {
    const double n = 6 * 50;
    CHECK(flops<echo::softmax_op<>>({{6, 50}}) == 5 * n); // max, subtract, exp, sum, divide
    CHECK(flops<echo::softmax_op<0>>({{6, 50}}) == 5 * n);
    CHECK(results<echo::softmax_op<>>({{6, 50}})[0] == shape{6, 50});
    CHECK(gradient<echo::softmax_op<>>({{6, 50}}, {{6, 50}}).flops == 4 * n);
    CHECK(flops<echo::log_softmax_op<>>({{6, 50}}) == 5 * n + 6); // … and one logarithm per row
    const auto loss = results<echo::softmax_cross_entropy_op>({{6, 50}, {6}});
    CHECK(loss[0] == shape{6});
    CHECK(loss[1] == shape{6, 50});
    CHECK(gradient<echo::softmax_cross_entropy_op>({{6, 50}, {6}}, {{6}, {6, 50}}).results[0] ==
          shape{6, 50});
}

TEST_CASE("normalisations: shapes of outputs and gradients") {
    const auto y = results<echo::layer_norm_op>({{4, 10, 64}, {64}, {64}});
    CHECK(y[0] == shape{4, 10, 64});
    CHECK(y[1] == shape{4, 10, 1});
    CHECK(y[2] == shape{4, 10, 1});
    const auto dx =
        gradient<echo::layer_norm_op>({{4, 10, 64}, {64}, {64}}, {{4, 10, 64}, {4, 10, 1}, {4, 10, 1}});
    CHECK(dx.results[0] == shape{4, 10, 64});
    CHECK(dx.results[1] == shape{64});
    CHECK(dx.results[2] == shape{64});
    const auto rms = gradient<echo::rms_norm_op>({{4, 64}, {64}}, {{4, 64}, {4, 1}});
    CHECK(rms.results[0] == shape{4, 64});
    CHECK(rms.results[1] == shape{64});

    const auto z = results<echo::batch_norm_op>({{8, 3, 5, 5}, {3}, {3}});
    CHECK(z[0] == shape{8, 3, 5, 5});
    CHECK(z[1] == shape{3});
    CHECK(z[2] == shape{3});
    const auto dz = gradient<echo::batch_norm_op>({{8, 3, 5, 5}, {3}, {3}}, {{8, 3, 5, 5}, {3}, {3}});
    CHECK(dz.results[0] == shape{8, 3, 5, 5});
    CHECK(dz.results[1] == shape{3});
    CHECK(dz.results[2] == shape{3});
}

TEST_CASE("attention, embedding, pooling, reductions, dropout") {
    const double scores = 8.0 * 100 * 120;
    const auto attended = flops<echo::attention_op>({{8, 100, 64}, {8, 120, 64}, {8, 120, 32}});
    CHECK(attended == Approx(2 * scores * (64 + 32)).epsilon(0.05)); // and the softmax
    CHECK(attended > 2 * scores * (64 + 32));
    const auto back =
        gradient<echo::attention_op>({{8, 100, 64}, {8, 120, 64}, {8, 120, 32}}, {{8, 100, 32}, {8, 100, 1}});
    CHECK(back.results[0] == shape{8, 100, 64});
    CHECK(back.results[1] == shape{8, 120, 64});
    CHECK(back.results[2] == shape{8, 120, 32});

    CHECK(results<echo::embedding_op>({{1000, 16}, {4, 7}})[0] == shape{4, 7, 16});
    CHECK(flops<echo::embedding_op>({{1000, 16}, {4, 7}}) == 0);
    CHECK(gradient<echo::embedding_op>({{1000, 16}, {4, 7}}, {{4, 7, 16}}).results[0] == shape{1000, 16});

    constexpr echo::window g{.stated = true, .kernel = {2, 2, 1}, .stride = {2, 2, 1}};
    CHECK(flops<echo::max_pool_op<g>>({{1, 3, 8, 8}}) == 3 * 16 * 4);
    CHECK(gradient<echo::max_pool_op<g>>({{1, 3, 8, 8}}, {{1, 3, 4, 4}}).results[0] == shape{1, 3, 8, 8});
    CHECK(gradient<echo::mean_pool_op<>>({{1, 3, 8, 8}}, {{1, 3, 4, 4}}).results[0] == shape{1, 3, 8, 8});

    CHECK(results<echo::sum_op<echo::over(0)>>({{4, 7}})[0] == shape{7});
    CHECK(gradient<echo::mean_op<echo::over(0)>>({{4, 7}}, {{7}}).results[0] == shape{4, 7});
    CHECK(gradient<echo::max_op<>>({{4, 7}}, {shape::scalar()}).results[0] == shape{4, 7});

    const auto dropped = results<echo::dropout_op<>>({{4, 7}});
    CHECK(dropped[0] == shape{4, 7});
    CHECK(dropped[1] == shape{4, 7});
    CHECK(flops<echo::tanh_op>({{4, 7}}) == 28);
    CHECK(flops<echo::add_op>({{4, 7}, {7}}) == 28);
}
