// SPDX-License-Identifier: BSL-1.0
/// @file
/// Second reading of an expression: the shapes of its results and its floating-point operations, for given
/// inputs. Each distinct subexpression counts once.
#pragma once

#include <echo/symbol/program.hpp>
#include <echo/symbol/shape_rules.hpp>
#include <echo/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace echo::symbol {

/// Shapes of a program's results (unknown for `no_gradient`) and its FLOPs, 0 if a shape they need is
/// unknown.
struct inference {
    std::vector<shape> results; ///< Of each result, in their order.
    double flops = 0;           ///< Floating-point operations of one evaluation.
};

namespace detail {

inline double count(const shape& s) { return static_cast<double>(element_count(s)); }

/// One FLOP per element of the result and weight behind it.
inline double convolution_flops(const shape& result, const shape& w) {
    if (w.rank() < 2) shape_error("convolution weights need [o, c, kernel]");
    return w[0] == 0 ? 0 : 2 * count(result) * (count(w) / static_cast<double>(w[0]));
}

struct evaluation {
    const program_view& p;
    std::span<const tensor> inputs, outputs;
    std::vector<shape> shapes;
    double flops = 0;
    bool known = true; ///< false once a shape that FLOPs need is missing

    const shape& operand(const step& s, std::size_t k) const { return shapes[s.operands[k]]; }

    static const shape& at(std::span<const tensor> tensors, std::size_t index, const char* what) {
        if (index >= tensors.size()) throw error({}, what, "fewer than the op reads", "give every tensor");
        return tensors[index].shape;
    }

    shape leaf_shape(const step& s) const {
        switch (s.op) {
        case operation::input:
            return at(inputs, s.operands[0], "inputs");
        case operation::output:
        case operation::output_gradient:
            return at(outputs, s.operands[0], "outputs");
        case operation::seed: // one draw for each element of the first input
            return at(inputs, 0, "inputs");
        default:
            return shape::scalar();
        }
    }

    shape shape_of_window(const step& s) const {
        const auto& g = s.parameter.window;
        const auto& x = operand(s, 0);
        if (!g.stated) return outputs.empty() ? shape{} : outputs[0].shape;
        if (s.op != operation::convolution)
            return slid_shape(x, x.rank() > 1 ? x[1] : 0, g, pooled(g, x.rank()));
        const auto& w = operand(s, 1);
        if (w.rank() < 3) shape_error("convolution weights need [o, c, kernel]");
        return slid_shape(x, w[0], g, w.extents().subspan(2));
    }

    /// The shape of one step, all its operands' shapes being known.
    shape result(const step& s) const {
        switch (s.op) {
        case operation::matmul:
            return matmul_shape(operand(s, 0), operand(s, 1), s.parameter);
        case operation::transpose:
            return transposed_shape(operand(s, 0));
        case operation::rows:
            return shape_of_rows(operand(s, 0));
        case operation::broadcast:
        case operation::broadcast_mean:
        case operation::one_hot:
        case operation::max_pool_gradient:
        case operation::mean_pool_gradient:
            return operand(s, 1);
        case operation::scatter_rows:
        case operation::convolution_data_gradient:
        case operation::convolution_weight_gradient:
            return operand(s, 2);
        case operation::along_axis:
            return shape_along_axis(operand(s, 0), operand(s, 1),
                                    static_cast<std::size_t>(s.parameter.number));
        case operation::gather_rows:
            return gathered_shape(operand(s, 0), operand(s, 1));
        case operation::sum:
        case operation::mean:
        case operation::max_over:
            return reduced_shape(operand(s, 0), s.parameter.axes);
        case operation::max_pool:
        case operation::mean_pool:
        case operation::convolution:
            return shape_of_window(s);
        default: // element-wise, and shape_of
            return broadcast_operands(s);
        }
    }

    shape broadcast_operands(const step& s) const {
        shape all = operand(s, 0);
        for (std::size_t k = 1; k < s.arity; ++k) all = broadcast_shapes(all, operand(s, k));
        return all;
    }

    double cost(const step& s, const shape& made) const {
        const auto& g = s.parameter.window;
        const double kernel = static_cast<double>(g.kernel[0]) * g.kernel[1] * g.kernel[2];
        switch (s.op) {
        case operation::matmul: {
            const auto& a = operand(s, 0);
            return 2 * count(made) * static_cast<double>(a[a.rank() - (s.parameter.transposed[0] ? 2 : 1)]);
        }
        case operation::convolution:
            return convolution_flops(made, operand(s, 1));
        case operation::convolution_data_gradient:
            return convolution_flops(operand(s, 0), operand(s, 1));
        case operation::convolution_weight_gradient:
            return convolution_flops(operand(s, 0), operand(s, 2));
        case operation::max_pool:
        case operation::mean_pool:
            return count(made) * kernel;
        case operation::max_pool_gradient:
        case operation::mean_pool_gradient:
            return count(operand(s, 0)) * kernel;
        case operation::sum:
        case operation::max_over:
        case operation::scatter_rows:
            return count(operand(s, 0));
        case operation::mean:
            return count(operand(s, 0)) + count(made);
        case operation::broadcast_mean:
            return count(made);
        default:
            return is_elementwise(s.op) && s.op != operation::select ? count(made) : 0;
        }
    }

    void run() {
        shapes.reserve(p.steps.size());
        for (const auto& s : p.steps) {
            if (is_leaf(s.op)) {
                shapes.push_back(leaf_shape(s));
                continue;
            }
            bool complete = true;
            for (std::size_t k = 0; k < s.arity; ++k) complete = complete && operand(s, k).known();
            shapes.push_back(complete ? result(s) : shape{});
            if (complete && shapes.back().known())
                flops += cost(s, shapes.back());
            else
                known = false;
        }
    }
};

} // namespace detail

/// Evaluates shapes and FLOPs. A gradient's leaves dy_k and y_k have the shape of `outputs[k]`; a forward
/// expression needs `outputs` only for windows that are not stated. Errors: `echo::error` (no node, key
/// "shape", "inputs" or "outputs") if shapes contradict each other or tensors are missing. O(steps · rank).
inline inference infer(const program_view& p, std::span<const tensor> inputs,
                       std::span<const tensor> outputs = {}) {
    detail::evaluation run{p, inputs, outputs, {}};
    run.run();
    inference result;
    for (const auto number : p.results)
        result.results.push_back(number == program_view::none ? shape{} : run.shapes[number]);
    result.flops = run.known ? run.flops : 0;
    return result;
}

} // namespace echo::symbol
