// SPDX-License-Identifier: BSL-1.0
/// @file
/// ggml's ops by the name that `ggml_op_desc` gives: `echo::ggml.find("MUL_MAT")`. That name stays where the numbers of
/// `enum ggml_op` move from version to version. Facts are those of ggml's CPU backend and of
/// `ggml_build_backward_expand`.
///
/// Positions count `src[]`. The gradient of a view makes zeros of the shape of its input by scaling that input, so it
/// reads it. Ops whose gradient ggml does not know are said to read everything. Rows state what is true of an op in
/// every graph; what hangs on the node (which of the inputs dies with it, that it writes into a view) the host says.
#pragma once

#include <echo/vocabulary/vocabulary.hpp>

namespace echo {
namespace detail::ggml {

using enum op_kind;
using enum rerun_kind;

constexpr op_facts op(op_kind kind, reads gradient = {}, bool inplace = false) {
    op_facts f{.kind = kind, .rerun = pure, .gradient_reads = gradient};
    if (kind == view) f.views = {{0, 0}};
    if (inplace) f.inplace = {{0, 0}, {0, 1}, {0, 2}};
    return f;
}
/// ggml's allocator lets the op take over the storage of an input that dies with it.
constexpr bool over = true;

inline constexpr vocabulary_row rows[] = {
    {op(view), "RESHAPE PERMUTE TRANSPOSE"},
    {op(view, {.inputs = {0}}), "VIEW"},
    {op(heavy, {.inputs = {0, 1}}), "MUL_MAT"},
    {op(heavy, reads::everything()),
     "MUL_MAT_ID OUT_PROD FLASH_ATTN_EXT FLASH_ATTN_BACK CONV_2D CONV_3D CONV_2D_DW CONV_TRANSPOSE_1D "
     "CONV_TRANSPOSE_2D SSM_CONV SSM_SCAN RWKV_WKV6 RWKV_WKV7 GATED_LINEAR_ATTN GATED_DELTA_NET SOLVE_TRI"},
    {op(light), "DUP CPY CONT SUM SUM_ROWS MEAN REPEAT REPEAT_BACK ACC SET"},
    {op(light, {}, over), "ADD ADD1 SUB SCALE DIAG_MASK_INF DIAG_MASK_ZERO NEG SGN STEP"},
    {op(light, {.inputs = {0, 1}}, over), "MUL"},
    {op(light, {.inputs = {1}, .outputs = {0}}, over), "DIV"},
    {op(light, {.inputs = {0}}, over), "SQR LOG RMS_NORM ABS RELU SILU EXPM1 SOFTPLUS"},
    {op(light, {.outputs = {0}}, over), "SQRT EXP SOFT_MAX"},
    {op(light, {.inputs = {0}}), "SIN COS IM2COL POOL_2D"},
    {op(light, {.inputs = {1}}), "GET_ROWS"},
    {op(light, {.inputs = {1, 2}}, over), "ROPE"},
    {op(light, {.inputs = {0, 1}}), "CROSS_ENTROPY_LOSS SWIGLU"},
    {op(light, reads::everything(), over), "ADD_ID FILL SILU_BACK RMS_NORM_BACK SOFT_MAX_BACK "
                                           "ROPE_BACK TANH ELU SIGMOID GELU GELU_QUICK GELU_ERF "
                                           "HARDSWISH HARDSIGMOID XIELU FLOOR CEIL ROUND TRUNC"},
    {op(light, reads::everything()), "CROSS_ENTROPY_LOSS_BACK GET_ROWS_BACK IM2COL_BACK IM2COL_3D "
                                     "COL2IM_1D POOL_1D POOL_2D_BACK CONCAT NORM GROUP_NORM "
                                     "L2_NORM ARGMAX COUNT_EQUAL CUMSUM UPSCALE PAD PAD_REFLECT_1D "
                                     "ROLL ARANGE TIMESTEP_EMBEDDING ARGSORT TOP_K "
                                     "LEAKY_RELU TRI DIAG WIN_PART WIN_UNPART GET_REL_POS ADD_REL_POS "
                                     "REGLU GEGLU SWIGLU_OAI GEGLU_ERF GEGLU_QUICK "
                                     "SWIGLU_CLAMP SET_ROWS CLAMP"},
    {{.rerun = never}, "OPT_STEP_ADAMW OPT_STEP_SGD"},
};
} // namespace detail::ggml

/// ggml's ops by the names that `ggml_op_desc` gives.
inline constexpr auto ggml = make_vocabulary<detail::ggml::rows>();

} // namespace echo
