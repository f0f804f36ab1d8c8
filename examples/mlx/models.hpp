// SPDX-License-Identifier: BSL-1.0
/// @file
/// Two models in MLX's own ops: a Transformer and a convolutional network. Parameters come as one list.
#pragma once

#include <mlx/mlx.h>

#include <functional>
#include <string>
#include <vector>

namespace echo_mlx {

namespace mx = mlx::core;

struct model {
    std::string name;
    std::vector<mx::array> parameters;
    std::function<mx::array(const std::vector<mx::array>&)> loss;
};

inline mx::array weights(mx::Shape shape) {
    return mx::multiply(mx::random::normal(shape), mx::array(0.05f));
}

inline mx::array gelu(const mx::array& x) {
    const mx::array inner =
        mx::multiply(mx::array(0.7978845608f),
                     mx::add(x, mx::multiply(mx::array(0.044715f), mx::multiply(x, mx::multiply(x, x)))));
    return mx::multiply(mx::multiply(mx::array(0.5f), x), mx::add(mx::array(1.0f), mx::tanh(inner)));
}

inline mx::array normalised(const mx::array& x) {
    const mx::array moved = mx::subtract(x, mx::mean(x, -1, true));
    return mx::multiply(moved, mx::rsqrt(mx::add(mx::mean(mx::square(moved), -1, true), mx::array(1e-5f))));
}

inline model transformer(int batch, int length, int width, int layers) {
    constexpr int heads = 4;
    model m{.name = "transformer", .parameters = {}, .loss = {}};
    for (int layer = 0; layer < layers; ++layer)
        for (const int columns : {3 * width, width, 4 * width, -width})
            m.parameters.push_back(columns > 0 ? weights({width, columns}) : weights({4 * width, width}));
    const mx::array data = mx::random::normal({batch * length, width}),
                    target = mx::random::normal({batch * length, width});
    m.loss = [=](const std::vector<mx::array>& w) {
        mx::array x = data;
        for (std::size_t layer = 0; 4 * layer < w.size(); ++layer) {
            const mx::array* const p = &w[4 * layer];
            const auto parts = mx::split(mx::matmul(normalised(x), p[0]), 3, -1);
            const auto split = [&](const mx::array& y) {
                return mx::transpose(mx::reshape(y, {batch, length, heads, width / heads}), {0, 2, 1, 3});
            };
            const mx::array scale(1.0f / std::sqrt(static_cast<float>(width / heads)));
            const mx::array scores = mx::matmul(mx::multiply(split(parts[0]), scale),
                                                mx::transpose(split(parts[1]), {0, 1, 3, 2}));
            const mx::array mixed = mx::matmul(mx::softmax(scores, -1), split(parts[2]));
            const mx::array joined = mx::reshape(mx::transpose(mixed, {0, 2, 1, 3}), {batch * length, width});
            x = mx::add(x, mx::matmul(joined, p[1]));
            x = mx::add(x, mx::matmul(gelu(mx::matmul(normalised(x), p[2])), p[3]));
        }
        return mx::mean(mx::square(mx::subtract(x, target)));
    };
    mx::eval(m.parameters);
    mx::eval(data, target);
    return m;
}

inline model convnet(int batch, int size, int channels, int layers) {
    model m{.name = "convnet", .parameters = {weights({channels, 3, 3, 3})}, .loss = {}};
    for (int layer = 0; layer < layers; ++layer) m.parameters.push_back(weights({channels, 3, 3, channels}));
    const mx::array data = mx::random::normal({batch, size, size, 3});
    m.loss = [=](const std::vector<mx::array>& w) {
        mx::array x = mx::conv2d(data, w[0], {1, 1}, {1, 1});
        for (std::size_t layer = 1; layer < w.size(); ++layer)
            x = mx::add(x, mx::conv2d(gelu(normalised(x)), w[layer], {1, 1}, {1, 1}));
        return mx::mean(mx::square(x));
    };
    mx::eval(m.parameters);
    mx::eval(data);
    return m;
}

} // namespace echo_mlx
