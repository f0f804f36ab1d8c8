// SPDX-License-Identifier: BSL-1.0
/// @file
/// What rows of a vocabulary start from: FLOPs where tensors fit an op of ops/, and facts that many ops share.
#pragma once

#include <echo/error.hpp>
#include <echo/ops/convolution.hpp>
#include <echo/vocabulary/vocabulary.hpp>

#include <span>

namespace echo::detail {

/// FLOPs of the op in ops/, or 0 where a node's tensors do not fit its plain form (grouped heads, vectors).
template <class Op>
double flops_if_plain(std::span<const tensor> inputs, std::span<const tensor> outputs) {
    try {
        return forward_flops<Op>(inputs, outputs);
    } catch (const error&) {
        return 0;
    }
}
/// Weights of a transposed convolution are [in, out / groups, ..]: the output's channels tell.
inline double convolution_flops_if_plain(std::span<const tensor> inputs, std::span<const tensor> outputs) {
    if (inputs.size() < 2 || outputs.empty()) return 0;
    const auto &w = inputs[1].shape, &y = outputs[0].shape;
    if (w.rank() < 3 || y.rank() != w.rank() || y[1] != w[0]) return 0;
    return flops_if_plain<convolution_op<>>(inputs, outputs);
}
inline double convolution_gradient_flops_if_plain(std::span<const tensor> inputs,
                                                  std::span<const tensor> outputs) {
    if (inputs.size() < 3) return 0;
    const auto &dy = inputs[0].shape, &w = inputs[2].shape;
    if (w.rank() < 3 || dy.rank() != w.rank() || dy[1] != w[0]) return 0;
    return flops_if_plain<convolution_gradient_op<>>(inputs, outputs);
}

/// Starting points of rows.
constexpr op_facts light_facts(reads gradient = reads::everything(), storage_pairs inplace = {}) {
    return {
        .kind = op_kind::light, .rerun = rerun_kind::pure, .gradient_reads = gradient, .inplace = inplace};
}
constexpr op_facts heavy_facts(flops_function flops = nullptr, reads gradient = reads::everything()) {
    return {.kind = op_kind::heavy, .rerun = rerun_kind::pure, .gradient_reads = gradient, .flops = flops};
}
constexpr op_facts with(op_facts facts, rerun_kind rerun) {
    facts.rerun = rerun;
    return facts;
}
constexpr op_facts with_one_bit(op_facts facts, positions inputs) {
    facts.one_bit_inputs = inputs;
    return facts;
}
constexpr op_facts with_views(storage_pairs views) {
    return {.kind = op_kind::view, .rerun = rerun_kind::pure, .gradient_reads = {}, .views = views};
}
/// An element-wise op of ops/. Its FLOPs are left out: ATen mixes tensors and numbers freely, and next to the
/// memory traffic they do not count.
template <class Op>
constexpr op_facts elementwise_facts() {
    op_facts facts = facts_of<Op>();
    facts.flops = nullptr;
    return facts;
}
template <class Op>
constexpr op_facts heavy_facts_of() {
    return heavy_facts(&flops_if_plain<Op>, facts_of<Op>().gradient_reads);
}

inline constexpr storage_pairs over_first{{0, 0}};
inline constexpr storage_pairs over_either{{0, 0}, {0, 1}};
inline constexpr reads reads_nothing{};
inline constexpr reads reads_input{.inputs = {0}};
inline constexpr reads reads_inputs{.inputs = positions::all()};
inline constexpr reads reads_output{.outputs = {0}};

} // namespace echo::detail
