// SPDX-License-Identifier: BSL-1.0
/// @file
/// FLOPs of compute-heavy ONNX ops from the shapes of what they read and make. Counted in floating point, where nothing
/// overflows; 0 where the shapes do not fit the op.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace echo::format {

using onnx_extents = std::vector<std::int64_t>;

/// A missing optional input, or output, is nullptr.
struct onnx_shapes {
    std::vector<const onnx_extents*> inputs{}, outputs{};

    const onnx_extents* input(std::size_t i) const { return i < inputs.size() ? inputs[i] : nullptr; }
    const onnx_extents* output(std::size_t i) const { return i < outputs.size() ? outputs[i] : nullptr; }
};

inline double elements_of(const onnx_extents& extents) {
    double count = 1;
    for (const auto extent : extents) count *= static_cast<double>(extent);
    return count;
}

/// Of a convolution that makes as many elements as `made` by weights [out, in / groups, ..]: each takes one product per
/// weight of its channel.
inline double convolution_flops(const onnx_extents& made, const onnx_extents& weights) {
    if (weights.empty() || weights[0] < 1) return 0;
    return 2 * elements_of(made) * elements_of(weights) / static_cast<double>(weights[0]);
}

/// Every index of every operand runs once through the product of all extents.
inline double einsum_flops(const onnx_shapes& s, std::string_view equation) {
    std::map<char, double> extent_of;
    std::size_t operand = 0, axis = 0;
    for (const char c : equation) {
        if (c == '-' || c == '.') break;
        if (c == ',') {
            ++operand, axis = 0;
        } else if (c != ' ') {
            const auto* shape = s.input(operand);
            if (shape == nullptr || axis >= shape->size()) return 0;
            extent_of[c] = static_cast<double>((*shape)[axis++]);
        }
    }
    double count = extent_of.empty() ? 0 : 2;
    for (const auto& [letter, extent] : extent_of) count *= extent;
    return count;
}

/// `op` without its domain; `equation` is Einsum's. O(rank).
inline double onnx_flops(std::string_view op, const onnx_shapes& s, std::string_view equation,
                         bool first_is_transposed) {
    const auto *a = s.input(0), *b = s.input(1), *c = s.input(2), *y = s.output(0);
    if (a == nullptr || b == nullptr) return 0;
    const auto names = [op](std::string_view part) { return op.find(part) != op.npos; };
    if (names("MatMul") || names("Gemm")) {
        if (y == nullptr || a->empty()) return 0;
        const bool transposed = first_is_transposed && a->size() > 1;
        return 2 * elements_of(*y) * static_cast<double>(transposed ? (*a)[a->size() - 2] : a->back());
    }
    if (op == "ConvTranspose") return convolution_flops(*a, *b);
    if (op == "ConvGrad" || op == "ConvTransposeGrad") { // of x, of w: each as much as the convolution
        if (c == nullptr) return 0;
        const double once = convolution_flops(op == "ConvGrad" ? *a : *b, *c);
        return once * ((y != nullptr ? 1 : 0) + (s.output(1) != nullptr ? 1 : 0));
    }
    if (op == "QLinearConv" || names("Conv")) {
        const auto* weights = op == "QLinearConv" ? s.input(3) : b;
        return y != nullptr && weights != nullptr ? convolution_flops(*y, *weights) : 0;
    }
    if (op == "Einsum") return einsum_flops(s, equation);
    if (op == "LSTM" || op == "GRU" ||
        op == "RNN") { // x [length, batch, in], weights of all gates and directions
        if (a->size() != 3 || c == nullptr) return 0;
        return 2 * static_cast<double>((*a)[0]) * static_cast<double>((*a)[1]) *
               (elements_of(*b) + elements_of(*c));
    }
    return 0;
}

} // namespace echo::format
