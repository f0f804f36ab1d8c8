// SPDX-License-Identifier: BSL-1.0
/// @file
/// Typical fused kernels: what every_fused.cuh launches and ptx/fused_cases.cu runs. Each has a
/// name of its own, by which its code is found.
#pragma once

#include <echo/cuda/kernel/fused_call.hpp>
#include <echo/ops/activations.hpp>
#include <echo/ops/arithmetic.hpp>
#include <echo/ops/layer_norm.hpp>
#include <echo/ops/reductions.hpp>
#include <echo/ops/softmax.hpp>

namespace typical {

using namespace echo::cuda::fused;

// NMT's attention: the map, its gradient from the stashed map, and from the two operands.
using map = apply<echo::tanh_op, apply<echo::add_op, arg<0>, arg<1>>>;
struct forward : fuse<map> {};
struct stashed : fuse<gradient<echo::tanh_op, 0, arg<0>, unused, arg<1>>> {};
struct recomputed : fuse<gradient_of<map, 0, arg<2>>> {};
// An LSTM's cell, c' = σ(f) · c + σ(i) · tanh(g), and the gradients of its gates.
using kept = apply<echo::multiply_op, apply<echo::sigmoid_op, arg<0>>, arg<1>>;
using added = apply<echo::multiply_op, apply<echo::sigmoid_op, arg<2>>, apply<echo::tanh_op, arg<3>>>;
struct cell : fuse<apply<echo::add_op, kept, added>> {};
struct gates : fuse<gradient_of<apply<echo::sigmoid_op, arg<0>>, 0, gradient_of<kept, 0, arg<4>>>,
                    gradient_of<apply<echo::sigmoid_op, arg<2>>, 0, gradient_of<added, 0, arg<4>>>,
                    gradient_of<apply<echo::tanh_op, arg<3>>, 0, gradient_of<added, 1, arg<4>>>> {};
// A transformer's pointwise parts: bias, GELU and its gradient; a residual's layer normalisation.
struct gelu : fuse<gradient_of<apply<echo::gelu_op, apply<echo::add_op, arg<0>, arg<1>>>, 0, arg<2>>> {};
struct gelu_tanh
    : fuse<gradient_of<apply<echo::gelu_tanh_op, apply<echo::add_op, arg<0>, arg<1>>>, 0, arg<2>>> {};
using norm = apply<echo::layer_norm_op, apply<echo::add_op, arg<0>, arg<1>>, arg<2>, arg<3>>;
struct normed : fuse<norm, output<1, norm>, output<2, norm>> {};
struct norm_gradient : fuse<gradient_of<norm, 0, arg<4>>> {};
struct soft : fuse<apply<echo::softmax_op<>, arg<0>>> {};
struct soft_gradient : fuse<gradient<echo::softmax_op<>, 0, arg<0>, unused, arg<1>>> {};
struct bias : fuse<apply<echo::sum_op<echo::over(-1)>, gradient<echo::relu_op, 0, arg<0>, unused, arg<1>>>> {
};

} // namespace typical
