// SPDX-License-Identifier: BSL-1.0
/// @file
/// ResNet-50, 101, 152 and 200 with pre-activation (He et al., 2016) as MXNet builds it: batch normalisation and relu
/// stand before each convolution, no convolution has a bias. Images are [batch, 3, size, size].
#pragma once

#include "engine/models/batch_norm.hpp"

#include <array>
#include <cmath>
#include <string>

namespace models {

struct resnet_options {
    std::int64_t depth = 152;
    std::int64_t batch = 32;
    std::int64_t image = 224; ///< height and width; up to 32 the stem is one 3×3 convolution
    std::int64_t classes = 1000;
    std::int64_t filters = 64; ///< of the stem; the stages give out 4, 8, 16 and 32 times as many
};

/// Units per stage. Errors: no such depth, sizes below 1.
inline std::array<std::int64_t, 4> units_of(const resnet_options& o) {
    for (const auto& [key, number] : {std::pair<const char*, std::int64_t>{"batch", o.batch},
                                      {"image", o.image},
                                      {"classes", o.classes},
                                      {"filters", o.filters}})
        if (number < 1) throw echo::error({}, key, "is " + std::to_string(number), "give 1 or more");
    switch (o.depth) {
    case 50:
        return {3, 4, 6, 3};
    case 101:
        return {3, 4, 23, 3};
    case 152:
        return {3, 8, 36, 3};
    case 200:
        return {3, 24, 36, 3};
    default:
        throw echo::error({}, "depth", "no ResNet has " + std::to_string(o.depth) + " layers",
                          "give 50, 101, 152 or 200");
    }
}

/// The values of the forward graph that are asked for from outside.
struct resnet_values {
    engine::value images;        ///< [batch, 3, image, image]
    engine::value labels;        ///< i32 [batch]
    engine::value loss;          ///< [1]
    engine::value probabilities; ///< [batch, classes]
};

namespace detail {

/// Builds the forward graph piece by piece.
class resnet_builder {
public:
    resnet_builder(engine::graph& g, const resnet_options& o) : graph_(g), options_(o) {}

    resnet_values build() {
        engine::graph& g = graph_;
        const auto units = units_of(options_);
        const auto n = options_.batch;
        const auto images = engine::data(g, "images", engine::f32({n, 3, options_.image, options_.image}));
        const auto labels = engine::data(g, "labels", engine::i32({n}));
        auto x = stem(images);
        for (std::size_t stage = 0; stage < units.size(); ++stage)
            for (std::int64_t k = 0; k < units[stage]; ++k) {
                const auto name = "stage" + std::to_string(stage + 1) + ".unit" + std::to_string(k + 1);
                const engine::graph::scope scope(g, name);
                const engine::graph::in_layer layer(g, name);
                x = unit(x, options_.filters << (stage + 2), stage > 0 && k == 0 ? 2 : 1, k > 0);
            }
        const engine::graph::in_layer layer(g, "output");
        x = engine::global_mean_pool(g, normal_relu("bn1", "relu1", x));
        x = engine::flatten(g, engine::named(g, "pool1", x));
        const auto inputs = g[x].shape[1];
        const auto w = engine::parameter(g, "fc1.weight", {options_.classes, inputs}, spread(inputs));
        const auto b = engine::parameter(g, "fc1.bias", {options_.classes}, {});
        const auto scores = engine::named(g, "fc1", engine::fully_connected(g, x, w, b));
        const auto loss = engine::named(g, "softmax", engine::softmax_output(g, scores, labels));
        g.results().push_back(loss);
        return {images, labels, loss, engine::output(loss, 1)};
    }

private:
    static constexpr engine::ops::batch_norm how{.epsilon = 2e-5};

    /// Keeps the variance of what follows a relu.
    static engine::initial spread(std::int64_t fan_in) {
        return {engine::initial::normal, std::sqrt(2.0 / static_cast<double>(fan_in))};
    }

    engine::value convolve(const std::string& name, engine::value x, std::int64_t filters,
                           std::int64_t kernel, std::int64_t stride) {
        const auto channels = graph_[x].shape[1], pad = kernel / 2;
        const auto w = engine::parameter(graph_, name + ".weight", {filters, channels, kernel, kernel},
                                         spread(channels * kernel * kernel));
        return engine::named(
            graph_, name,
            engine::convolution(graph_, x, w, {.stride = {stride, stride}, .padding = {pad, pad}}));
    }
    engine::value normal_relu(const std::string& norm, const std::string& relu, engine::value x) {
        const auto by = affine::make(graph_, norm, graph_[x].shape[1]);
        return engine::named(graph_, relu, engine::relu(graph_, normalise(graph_, norm, x, by, how)));
    }

    engine::value stem(engine::value images) {
        const engine::graph::in_layer layer(graph_, "stem");
        auto fixed = how;
        fixed.fixed_gamma = true;
        const auto by = affine::make_fixed(graph_, "bn_data", 3);
        const auto x = normalise(graph_, "bn_data", images, by, fixed);
        if (options_.image <= 32) return convolve("conv0", x, options_.filters, 3, 1);
        const auto y = normal_relu("bn0", "relu0", convolve("conv0", x, options_.filters, 7, 2));
        return engine::named(graph_, "pool0",
                             engine::max_pool(graph_, y, {3, 3}, {.stride = {2, 2}, .padding = {1, 1}}));
    }

    /// A bottleneck with a shortcut around it: x itself, or a convolution of the first relu.
    engine::value unit(engine::value x, std::int64_t filters, std::int64_t stride, bool same_size) {
        const auto relu1 = normal_relu("bn1", "relu1", x);
        const auto conv1 = convolve("conv1", relu1, filters / 4, 1, 1);
        const auto conv2 = convolve("conv2", normal_relu("bn2", "relu2", conv1), filters / 4, 3, stride);
        const auto conv3 = convolve("conv3", normal_relu("bn3", "relu3", conv2), filters, 1, 1);
        const auto shortcut = same_size ? x : convolve("shortcut", relu1, filters, 1, stride);
        return engine::named(graph_, "add", engine::add(graph_, conv3, shortcut));
    }

    engine::graph& graph_;
    const resnet_options& options_;
};

} // namespace detail

/// Appends the forward graph; the loss becomes a result. Layers are `stem`, `stage2.unit3`, `output`. Errors: those of
/// `units_of`.
inline resnet_values build_resnet(engine::graph& g, const resnet_options& o) {
    return detail::resnet_builder(g, o).build();
}

} // namespace models
