// SPDX-License-Identifier: BSL-1.0
// Joins an op that Echo does not know: Mish, y = x · tanh(log(1 + exp(x))) (Misra, 2019). Its two lambdas and
// one line are all; Echo reads from them what its gradient needs, what it costs and how it is computed.
#include <echo/op_traits.hpp>

#include <cmath>
#include <iostream>
#include <vector>

struct mish_op {
    static constexpr auto forward = [](auto x) { return x * tanh(log(1 + exp(x))); };
    static constexpr auto gradient = [](auto dy, auto x, auto /*y*/) {
        const auto t = tanh(log(1 + exp(x)));
        return dy * (t + x * (1 - t * t) * sigmoid(x));
    };
};
template <>
struct echo::op_traits<mish_op> : echo::elementwise<mish_op> {};

// The gradient reads x and not y: a graph must stash Mish's input, or make it again.
static_assert(echo::facts_of<mish_op>().gradient_reads == echo::reads{.inputs = {0}});

int main() {
    constexpr auto facts = echo::facts_of<mish_op>();
    const std::vector<echo::tensor> x{{.shape = {32, 128}, .type = echo::dtype::f32}};
    std::cout << facts.name << ": " << name_of(facts.kind) << ", " << name_of(facts.rerun) << "\n"
              << "  its gradient reads x: " << std::boolalpha << facts.gradient_reads.inputs.contains(0)
              << ", y: " << facts.gradient_reads.outputs.contains(0) << "\n"
              << "  runs in place: " << !facts.inplace.empty() << "\n"
              << "  FLOPs for 32 × 128 elements: " << facts.flops(x, x) << "\n";

    const std::vector<float> values{-1, 0, 1}, ones{1, 1, 1};
    std::vector<float> y(3), dx(3);
    echo::apply_elementwise<mish_op, float>({y}, {values});
    echo::apply_gradient<mish_op, float>({dx}, {ones, values, y});
    std::cout << "  mish(1) = " << y[2] << ", mish'(1) = " << dx[2] << "\n";
    return std::abs(y[2] - 0.865098F) < 1e-5F && std::abs(dx[2] - 1.049004F) < 1e-4F ? 0 : 1;
}
