// SPDX-License-Identifier: BSL-1.0
/// @file
/// Second reading of an expression: the shapes of its results and its floating-point operations, for given
/// inputs. Each distinct subexpression counts once.
#pragma once

#include <echo/symbol/program.hpp>
#include <echo/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace echo::symbol {

/// Shapes of a program's results (unknown for `no_gradient`) and its FLOPs, 0 if a shape they need is
/// unknown.
struct inference {
    std::vector<shape> results; ///< Of each result, in their order.
    double flops = 0;           ///< Floating-point operations of one evaluation.
};

namespace detail {

[[noreturn]] inline void shape_error(const char* problem) {
    throw error({}, "shape", problem, "check the shapes of the op's inputs");
}

inline double count(const shape& s) { return static_cast<double>(element_count(s)); }

inline shape broadcast_shapes(const shape& a, const shape& b) {
    std::vector<std::int64_t> result(a.rank() > b.rank() ? a.rank() : b.rank());
    for (std::size_t i = 0; i < result.size(); ++i) { // i counts from the last axis
        const auto x = i < a.rank() ? a[a.rank() - 1 - i] : 1;
        const auto y = i < b.rank() ? b[b.rank() - 1 - i] : 1;
        if (x != y && x != 1 && y != 1) shape_error("two shapes do not broadcast");
        result[result.size() - 1 - i] = x == 1 ? y : x;
    }
    return shape(std::move(result));
}

inline shape matmul_shape(const shape& a, const shape& b, const parameters& p) {
    if (a.rank() < 2 || b.rank() < 2) shape_error("a matrix product needs two axes");
    const auto m = a[a.rank() - (p.transposed[0] ? 1 : 2)];
    const auto k = a[a.rank() - (p.transposed[0] ? 2 : 1)];
    const auto n = b[b.rank() - (p.transposed[1] ? 2 : 1)];
    if (k != b[b.rank() - (p.transposed[1] ? 1 : 2)])
        shape_error("the inner extents of a matrix product differ");
    const auto x = a.extents(), y = b.extents();
    const auto batch = broadcast_shapes(shape({x.begin(), x.end() - 2}), shape({y.begin(), y.end() - 2}));
    std::vector<std::int64_t> result(batch.extents().begin(), batch.extents().end());
    result.push_back(m);
    result.push_back(n);
    return shape(std::move(result));
}

inline shape reduced_shape(const shape& a, const axes& over) {
    std::vector<std::int64_t> result;
    for (std::size_t i = 0; i < a.rank(); ++i) {
        if (!over.contains(i, a.rank()))
            result.push_back(a[i]);
        else if (over.kept)
            result.push_back(1);
    }
    return shape(std::move(result));
}

/// [n, c, space..] → [n, channels, space'..].
inline shape slid_shape(const shape& x, std::int64_t channels, const window& g,
                        std::span<const std::int64_t> kernel) {
    if (x.rank() < 2 || x.rank() != kernel.size() + 2 || kernel.size() > 3)
        shape_error("a sliding window needs [n, c] and one to three spatial axes");
    std::vector<std::int64_t> result{x[0], channels};
    for (std::size_t i = 0; i < kernel.size(); ++i) {
        const auto reach = std::int64_t{g.dilation[i]} * (kernel[i] - 1) + 1;
        const auto room = x[i + 2] + 2 * std::int64_t{g.padding[i]} - reach;
        if (g.stride[i] < 1 || room < 0) shape_error("a window is larger than what it slides over");
        result.push_back(room / g.stride[i] + 1);
    }
    return shape(std::move(result));
}

inline std::vector<std::int64_t> pooled(const window& g, std::size_t rank) {
    std::vector<std::int64_t> kernel;
    for (std::size_t i = 0; i + 2 < rank && i < g.kernel.size(); ++i) kernel.push_back(g.kernel[i]);
    return kernel;
}

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
        const auto rank = s.arity ? operand(s, 0).rank() : 0;
        const auto extents = s.arity ? operand(s, 0).extents() : std::span<const std::int64_t>{};
        std::vector<std::int64_t> made(extents.begin(), extents.end());
        switch (s.op) {
        case operation::matmul:
            return matmul_shape(operand(s, 0), operand(s, 1), s.parameter);
        case operation::transpose:
            if (rank < 2) shape_error("a transpose needs two axes");
            std::swap(made[rank - 1], made[rank - 2]);
            return shape(std::move(made));
        case operation::rows:
            if (rank < 1) shape_error("rows need an axis");
            return {static_cast<std::int64_t>(element_count(shape({extents.begin(), extents.end() - 1}))),
                    extents.back()};
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
        case operation::along_axis: {
            const auto& like = operand(s, 1);
            const auto axis = static_cast<std::size_t>(s.parameter.number);
            if (rank != 1 || axis >= like.rank() || like[axis] != extents[0])
                shape_error("a value per channel needs one axis of as many elements");
            made.assign(like.rank(), 1);
            made[axis] = extents[0];
            return shape(std::move(made));
        }
        case operation::gather_rows: {
            if (rank < 1) shape_error("a table needs an axis");
            const auto index = operand(s, 1).extents();
            made.erase(made.begin());
            made.insert(made.begin(), index.begin(), index.end());
            return shape(std::move(made));
        }
        case operation::sum:
        case operation::mean:
        case operation::max_over:
            return reduced_shape(operand(s, 0), s.parameter.axes);
        case operation::max_pool:
        case operation::mean_pool:
        case operation::convolution:
            return shape_of_window(s);
        default:
            break;
        }
        shape all = operand(s, 0); // element-wise, and shape_of
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
