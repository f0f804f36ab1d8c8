// SPDX-License-Identifier: BSL-1.0
/// @file
/// How long ggml's ops take on a CPU, to weigh recomputation by. Only the proportions matter. They are constants, so
/// that the same graph gets the same plan on every machine; `train --times` prints them beside what is measured.
#pragma once

#include <ggml.h>

#include <algorithm>
#include <string_view>

namespace echo_ggml {

/// Nanoseconds that an op takes for each element beyond reading and writing it; elements are those of its largest
/// tensor.
inline double element_ns(std::string_view op) {
    constexpr struct {
        std::string_view op;
        double ns;
    } table[] = {
        {"SOFT_MAX", 1},
        {"SOFT_MAX_BACK", 0.2},
        {"SILU", 0.2},
        {"SILU_BACK", 3.4},
        {"SWIGLU", 0.9},
        {"EXP", 1},
        {"TANH", 1},
        {"SIGMOID", 1},
        {"GELU", 1},
        {"ROPE", 1},
        {"ROPE_BACK", 1},
        {"CONT", 1.3},
        {"CPY", 1.3},
        {"RMS_NORM", 1.4},
        {"RMS_NORM_BACK", 0.8},
        {"IM2COL", 1.7},
        {"IM2COL_BACK", 6},
        {"POOL_2D", 1.5},
        {"POOL_2D_BACK", 2},
        {"REPEAT_BACK", 1},
        {"GET_ROWS", 0.5},
        {"CROSS_ENTROPY_LOSS", 3},
        {"ARGMAX", 1},
    };
    for (const auto& row : table)
        if (row.op == op) return row.ns;
    return 0;
}

/// Nanoseconds of one dot product, or one scaled addition, of so many elements: eight at a time in whole blocks of 32,
/// and slow where rows of a permuted tensor fall into the same sets of the cache.
inline double run_ns(const ggml_tensor* rows, std::int64_t length) {
    const double ns = 2 + 0.04 * static_cast<double>(length) + 0.45 * static_cast<double>(length % 32);
    return ggml_is_contiguous(rows) ? ns : 3.5 * ns;
}

/// Nanoseconds to turn one element of a row from one type into another: ggml makes floats of a quantised row anew for
/// each run of an outer product, and a matrix product quantises its second factor first.
constexpr double convert_ns = 0.18;

/// Microseconds of one run. O(1).
inline double time_us(const ggml_tensor* t) {
    const std::string_view op = ggml_op_desc(t);
    if (op == "NONE" || op == "RESHAPE" || op == "VIEW" || op == "PERMUTE" || op == "TRANSPOSE") return 0;
    const auto elements = [](const ggml_tensor* of) { return static_cast<double>(ggml_nelements(of)); };
    double bytes = static_cast<double>(ggml_nbytes(t)), widest = elements(t);
    for (const ggml_tensor* const s : t->src)
        if (s) {
            bytes += static_cast<double>(ggml_nbytes(s));
            widest = std::max(widest, elements(s));
        }
    constexpr double launch = 1.5, bytes_per_us = 25e3, products_per_us = 20e3;
    double us = launch + bytes / bytes_per_us + widest * element_ns(op) / 1e3;
    const bool converts = t->src[0] && t->src[0]->type != GGML_TYPE_F32;
    if (op == "MUL_MAT" || op == "MUL_MAT_ID")
        us += (elements(t) * run_ns(t->src[0], t->src[0]->ne[0]) +
               (converts ? convert_ns * elements(t->src[1]) : 0)) /
              1e3;
    if (op == "OUT_PROD") {
        const double row =
            run_ns(t->src[0], t->ne[0]) + (converts ? convert_ns * static_cast<double>(t->ne[0]) : 0);
        us += elements(t) / static_cast<double>(std::max<std::int64_t>(t->ne[0], 1)) *
              static_cast<double>(t->src[0]->ne[1]) * row / 1e3;
    }
    if (op == "FLASH_ATTN_EXT")
        us += 2 * elements(t->src[0]) * static_cast<double>(t->src[1]->ne[1]) / products_per_us;
    return us;
}

} // namespace echo_ggml
