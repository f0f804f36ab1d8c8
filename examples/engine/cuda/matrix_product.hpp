// SPDX-License-Identifier: BSL-1.0
/// @file
/// `matrix_product`: what a library is asked for where an op is a product of matrices. Needs no header of CUDA's.
#pragma once

#include "engine/call.hpp"
#include "engine/ops/matmul.hpp"

#include <algorithm>
#include <string>

namespace engine::cuda {

/// c [batch, m, n] = a [batch, m, k] · b [batch, k, n], all of them rows one behind the other. Either factor is read
/// transposed; a bias [n], or what was there before, may be added.
struct matrix_product {
    std::int64_t batch = 1, m = 0, n = 0, k = 0;
    bool ta = false, tb = false, bias = false, adds = false;
    auto operator<=>(const matrix_product&) const = default;
};

inline matrix_product product_of(const ops::fully_connected& op, const call& c) {
    const echo::shape& w = c.inputs[1].shape();
    const auto rows = static_cast<std::int64_t>(c.outputs[0].size()) / std::max<std::int64_t>(w[0], 1);
    return {.m = rows, .n = w[0], .k = w[1], .tb = true, .bias = op.bias};
}
inline matrix_product product_of(const ops::fully_connected_data_gradient&, const call& c) {
    const echo::shape& w = c.inputs[1].shape();
    const auto rows = static_cast<std::int64_t>(c.inputs[0].size()) / std::max<std::int64_t>(w[0], 1);
    return {.m = rows, .n = w[1], .k = w[0]};
}
inline matrix_product product_of(const ops::fully_connected_weight_gradient& op, const call& c) {
    const auto rows = static_cast<std::int64_t>(c.inputs[0].size()) / std::max<std::int64_t>(op.shape[0], 1);
    return {.m = op.shape[0], .n = op.shape[1], .k = rows, .ta = true, .adds = op.adds};
}
inline matrix_product product_of(const ops::batch_dot& op, const call& c) {
    const echo::shape &a = c.inputs[0].shape(), &y = c.outputs[0].shape();
    const std::size_t rank = y.rank();
    std::int64_t batch = 1;
    for (std::size_t i = 0; i + 2 < rank; ++i) batch *= y[i];
    return {.batch = batch,
            .m = y[rank - 2],
            .n = y[rank - 1],
            .k = a[rank - (op.transpose_a ? 2 : 1)],
            .ta = op.transpose_a,
            .tb = op.transpose_b};
}

/// "32x256x64 b^T +bias", "8 of 16x16x32".
inline std::string to_string(const matrix_product& p) {
    std::string text;
    if (p.batch != 1) text.append(std::to_string(p.batch)).append(" of ");
    text.append(std::to_string(p.m))
        .append("x")
        .append(std::to_string(p.n))
        .append("x")
        .append(std::to_string(p.k));
    return text.append(p.ta ? " a^T" : "")
        .append(p.tb ? " b^T" : "")
        .append(p.bias ? " +bias" : "")
        .append(p.adds ? " +sum" : "");
}

} // namespace engine::cuda
