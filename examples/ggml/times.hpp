// SPDX-License-Identifier: BSL-1.0
/// @file
/// How long ggml's ops take on a CPU, to weigh recomputation by. Only the proportions matter. They are constants, so that
/// the same graph gets the same plan on every machine; `examples/ggml/run --times` measures them.
#pragma once

#include <ggml.h>

#include <algorithm>
#include <string_view>

namespace echo_ggml {

/// Microseconds of one run. O(1).
inline double time_us(const ggml_tensor* t) {
    const std::string_view op = ggml_op_desc(t);
    const auto elements = static_cast<double>(ggml_nelements(t));
    double bytes = static_cast<double>(ggml_nbytes(t)), widest = elements;
    for (const ggml_tensor* const s : t->src)
        if (s) {
            bytes += static_cast<double>(ggml_nbytes(s));
            widest = std::max(widest, static_cast<double>(ggml_nelements(s)));
        }
    if (op == "NONE" || op == "RESHAPE" || op == "VIEW" || op == "PERMUTE" || op == "TRANSPOSE") return 0;
    constexpr double launch = 1.5, bytes_per_us = 16e3, products_per_us = 60e3, slow_products_per_us = 12e3;
    double us = launch + bytes / bytes_per_us;
    if (op == "MUL_MAT" || op == "MUL_MAT_ID") us += elements * static_cast<double>(t->src[0]->ne[0]) / products_per_us;
    if (op == "OUT_PROD") us += elements * static_cast<double>(t->src[0]->ne[1]) / slow_products_per_us;
    if (op == "FLASH_ATTN_EXT")
        us += 2 * static_cast<double>(ggml_nelements(t->src[0])) * static_cast<double>(t->src[1]->ne[1]) / products_per_us;
    if (op == "SOFT_MAX" || op == "CROSS_ENTROPY_LOSS" || op == "CROSS_ENTROPY_LOSS_BACK" || op == "SILU" ||
        op == "SILU_BACK" || op == "SWIGLU" || op == "EXP" || op == "TANH" || op == "SIGMOID" || op == "ROPE" ||
        op == "ROPE_BACK")
        us += widest / 1e3;
    return us;
}

} // namespace echo_ggml
