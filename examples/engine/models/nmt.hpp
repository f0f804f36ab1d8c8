// SPDX-License-Identifier: BSL-1.0
/// @file
/// The LSTM translation model as a model to train: its graph, its presets, and sentences to translate.
#pragma once

#include "engine/models/nmt_graph.hpp"
#include "engine/models/translator.hpp"
#include "engine/optimizer.hpp"

namespace models {

class nmt : public translator<nmt_options, build_nmt> {
public:
    static constexpr std::string_view name = "nmt";
    using translator::translator;

    /// `tiny` steps in a fraction of a second, `small` has at least 2 GB of feature maps, `paper` is that of the
    /// paper's IWSLT15 runs, `best` that of its WMT16 German to English runs. Errors: no such preset.
    static nmt_options preset(std::string_view called) {
        if (called == "tiny")
            return {.batch = 32,
                    .source_length = 8,
                    .target_length = 9,
                    .source_vocabulary = 16,
                    .target_vocabulary = 16,
                    .encoder_layers = 2,
                    .decoder_layers = 1,
                    .hidden = 64,
                    .embed = 32,
                    .attention = 32};
        if (called == "small")
            return {.batch = 208,
                    .source_length = 50,
                    .target_length = 50,
                    .source_vocabulary = 4096,
                    .target_vocabulary = 4096};
        if (called == "paper") return {};
        if (called == "best") // the vocabulary is assumed
            return {.batch = 16,
                    .source_vocabulary = 50004,
                    .target_vocabulary = 50004,
                    .encoder_layers = 4,
                    .decoder_layers = 4,
                    .hidden = 1024,
                    .embed = 512,
                    .attention = 1024,
                    .embed_dropout = 0.1,
                    .hidden_dropout = 0.2,
                    .smoothing = 0.1,
                    .layer_norm = true,
                    .tied = tied::embeddings};
        throw echo::error({}, "preset", "nmt has no '" + std::string(called) + "'",
                          "give tiny, small, paper or best");
    }
    static engine::training optimizer() {
        return {.how = engine::training::adam, .with_adam = {.rate = 0.003}, .clip = 1};
    }
};

} // namespace models
