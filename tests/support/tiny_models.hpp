// SPDX-License-Identifier: BSL-1.0
/// @file
/// The four models, so small that a step takes kernels that are emulated a moment.
#pragma once

#include "engine/models/deepspeech2.hpp"
#include "engine/models/model.hpp"
#include "engine/models/nmt.hpp"
#include "engine/models/resnet.hpp"
#include "engine/models/transformer.hpp"

#include <functional>
#include <string>

namespace support::tiny {

using namespace models;

struct subject {
    std::string name;
    std::function<model(engine::graph&)> build;
    bool recomputes; ///< its feature maps are worth it at this size
};

inline const subject tiny_nmt{"nmt",
                              [](engine::graph& g) {
                                  return model::make<nmt>(g, nmt_options{.batch = 5,
                                                                         .source_length = 4,
                                                                         .target_length = 5,
                                                                         .source_vocabulary = 9,
                                                                         .target_vocabulary = 11,
                                                                         .encoder_layers = 1,
                                                                         .decoder_layers = 1,
                                                                         .hidden = 6,
                                                                         .embed = 6,
                                                                         .attention = 20,
                                                                         .embed_dropout = 0.1,
                                                                         .hidden_dropout = 0.2,
                                                                         .smoothing = 0.1,
                                                                         .layer_norm = true});
                              },
                              true};
inline const subject tiny_transformer{"transformer",
                                      [](engine::graph& g) {
                                          return model::make<transformer>(
                                              g, transformer_options{.batch = 3,
                                                                     .source_length = 5,
                                                                     .target_length = 6,
                                                                     .source_vocabulary = 9,
                                                                     .target_vocabulary = 9,
                                                                     .encoder_layers = 1,
                                                                     .decoder_layers = 1,
                                                                     .hidden = 8,
                                                                     .heads = 2,
                                                                     .feed_forward = 16});
                                      },
                                      true};
inline const subject tiny_deepspeech2{"ds2",
                                      [](engine::graph& g) {
                                          return model::make<deepspeech2>(g,
                                                                          deepspeech2_options{.batch = 32,
                                                                                              .frames = 59,
                                                                                              .bands = 81,
                                                                                              .labels = 2,
                                                                                              .classes = 5,
                                                                                              .filters = 2,
                                                                                              .layers = 2,
                                                                                              .hidden = 24});
                                      },
                                      false};
/// It starts with gradients so large that rounding errors grow a hundredfold in a step: it takes small ones.
inline const subject tiny_resnet{
    "resnet",
    [](engine::graph& g) {
        model m = model::make<resnet>(
            g, resnet_options{.depth = 50, .batch = 2, .image = 16, .classes = 4, .filters = 2});
        m.optimizer.with_sgd.rate = 1e-4;
        return m;
    },
    true};

} // namespace support::tiny
