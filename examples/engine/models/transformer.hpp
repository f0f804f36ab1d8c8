// SPDX-License-Identifier: BSL-1.0
/// @file
/// The Transformer as a model to train: its graph, its presets, and sentences to translate.
#pragma once

#include "engine/models/transformer_graph.hpp"
#include "engine/models/translator.hpp"
#include "engine/optimizer.hpp"

namespace models {

class transformer : public translator<transformer_options, build_transformer> {
public:
    static constexpr std::string_view name = "transformer";
    using translator::translator;

    /// `tiny` steps in a fraction of a second, `small` has at least 2 GB of feature maps, `paper` has the paper's
    /// sizes. Errors: no such preset.
    static transformer_options preset(std::string_view called) {
        if (called == "tiny")
            return {.batch = 32,
                    .source_length = 8,
                    .target_length = 9,
                    .source_vocabulary = 16,
                    .target_vocabulary = 16,
                    .encoder_layers = 2,
                    .decoder_layers = 2,
                    .hidden = 64,
                    .heads = 4,
                    .feed_forward = 128};
        if (called == "small")
            return {.batch = 32,
                    .source_length = 80,
                    .target_length = 80,
                    .source_vocabulary = 64,
                    .target_vocabulary = 64};
        if (called == "paper") return {};
        throw echo::error({}, "preset", "transformer has no '" + std::string(called) + "'",
                          "give tiny, small or paper");
    }
    static engine::training optimizer() {
        return {.how = engine::training::adam, .with_adam = {.rate = 0.001}, .clip = 1};
    }

    /// Draws the data of a step, and writes the positions.
    void fill(engine::residents& outside, std::uint64_t step) const {
        translator::fill(outside, step);
        write_positions(outside.f32(values().source_positions), options().source_length);
        write_positions(outside.f32(values().target_positions), options().target_length);
    }
};

} // namespace models
