// SPDX-License-Identifier: BSL-1.0
/// @file
/// The paper's workloads: training graphs of examples/engine/models by name, at the paper's sizes or at others.
#pragma once

#include "engine/models/deepspeech2.hpp"
#include "engine/models/nmt.hpp"
#include "engine/models/resnet.hpp"
#include "engine/models/transformer.hpp"
#include "engine/session.hpp"

#include <echo/error.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paper {

/// Which graph. Sizes that are not named are those of the preset.
struct workload {
    std::string model, preset = "paper";
    std::vector<std::pair<std::string, std::int64_t>> sizes{};
    engine::baseline habits = engine::baseline::paper;
    bool mirror = false; ///< with the copies of MXNet's mirror
    bool loss_in_place =
        false;                ///< the gradient of a softmax may take over its storage, as in the paper's Echo
    bool keep_random = false; ///< dropout is not run again, as in the paper's Echo
    bool keep_heavy_inputs = false; ///< without gradient dependencies: what a compute-heavy op reads is kept
};

/// The sizes of a model that a workload may name.
template <class Options>
struct size_names;

template <class Options>
struct size_name {
    std::string_view name;
    std::int64_t Options::*member;
};

template <>
struct size_names<models::nmt_options> {
    using o = models::nmt_options;
    static constexpr size_name<o> all[] = {{"batch", &o::batch},
                                           {"source_length", &o::source_length},
                                           {"target_length", &o::target_length},
                                           {"source_vocabulary", &o::source_vocabulary},
                                           {"target_vocabulary", &o::target_vocabulary},
                                           {"encoder_layers", &o::encoder_layers},
                                           {"decoder_layers", &o::decoder_layers},
                                           {"hidden", &o::hidden}};
};
template <>
struct size_names<models::deepspeech2_options> {
    using o = models::deepspeech2_options;
    static constexpr size_name<o> all[] = {{"batch", &o::batch},   {"frames", &o::frames},
                                           {"labels", &o::labels}, {"layers", &o::layers},
                                           {"hidden", &o::hidden}, {"classes", &o::classes}};
};
template <>
struct size_names<models::transformer_options> {
    using o = models::transformer_options;
    static constexpr size_name<o> all[] = {{"batch", &o::batch},
                                           {"source_length", &o::source_length},
                                           {"target_length", &o::target_length},
                                           {"source_vocabulary", &o::source_vocabulary},
                                           {"target_vocabulary", &o::target_vocabulary},
                                           {"encoder_layers", &o::encoder_layers},
                                           {"decoder_layers", &o::decoder_layers}};
};
template <>
struct size_names<models::resnet_options> {
    using o = models::resnet_options;
    static constexpr size_name<o> all[] = {{"batch", &o::batch}, {"depth", &o::depth}, {"image", &o::image}};
};

/// Sets what the workload names. Errors: a size that the model does not have.
template <class Options>
void set_sizes(Options& options, const workload& w) {
    for (const auto& [name, size] : w.sizes) {
        bool found = false;
        for (const auto& known : size_names<Options>::all)
            if (known.name == name) options.*known.member = size, found = true;
        if (!found) throw echo::error({}, name, w.model + " has no such size", "name one of workloads.hpp");
    }
}

/// What MXNET_BACKWARD_DO_MIRROR runs again: all but dropout, convolution, fully connected, concat, softmax output and
/// transpose. BatchNorm is not excepted, as in the paper's run. Sockeye's NMT swaps axes, by another op.
inline bool mirrored(const engine::node& n, bool swaps_axes) {
    constexpr std::string_view kept[] = {"dropout_op", "convolution", "fully_connected", "concat",
                                         "softmax_output"};
    const auto name = engine::name_of(n.op);
    if (n.phase != echo::phase::forward || (name == "transpose" && !swaps_axes)) return false;
    return std::ranges::find(kept, name) == std::end(kept);
}

namespace detail {

template <class M>
void append(engine::graph& g, const workload& w) {
    auto options = M::preset(w.preset);
    set_sizes(options, w);
    const M m(g, options);
    engine::training how = M::optimizer();
    if (w.mirror)
        how.mirror = [swaps = M::name == models::nmt::name](engine::node* const& n) {
            return mirrored(*n, swaps);
        };
    engine::train(g, m.loss(), how);
}

/// Inputs of compute-heavy ops stay: recomputation that takes such an op's place in the graph for its cost, as
/// if its gradient needed the op again.
inline void keep_heavy_inputs(engine::graph& g) {
    for (engine::node* n : g.nodes())
        if (n->phase == echo::phase::forward && engine::facts(n->op).kind == echo::op_kind::heavy)
            for (const engine::value& v : n->inputs) v.producer->keep = true;
}

inline bool is_random(const engine::node& n) { return engine::name_of(n.op) == "dropout_op"; }

} // namespace detail

/// Appends the training graph of a workload, complete. Errors: no such model, preset or size.
inline void build(engine::graph& g, const workload& w) {
    if (w.model == models::nmt::name)
        detail::append<models::nmt>(g, w);
    else if (w.model == models::deepspeech2::name)
        detail::append<models::deepspeech2>(g, w);
    else if (w.model == models::transformer::name)
        detail::append<models::transformer>(g, w);
    else if (w.model == models::resnet::name)
        detail::append<models::resnet>(g, w);
    else
        throw echo::error({}, "model", "there is no '" + w.model + "'",
                          "give nmt, ds2, transformer or resnet");
    if (w.mirror) // the gradients belong to copies, of which those that nobody reads are gone
        for (engine::node* n : g.nodes()) n->gradient_of = nullptr;
    engine::complete(g);
    if (w.loss_in_place)
        for (engine::node* n : g.nodes())
            if (auto* loss = std::get_if<engine::ops::softmax_output_gradient>(&n->op))
                loss->how.over_output = true;
    if (w.keep_heavy_inputs) detail::keep_heavy_inputs(g);
    for (engine::node* n : g.nodes()) n->keep |= w.keep_random && detail::is_random(*n);
}

} // namespace paper
