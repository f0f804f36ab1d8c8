// SPDX-License-Identifier: BSL-1.0
/// @file
/// A generated task for image models: coloured shapes before a noisy ground. The class says which shape, and above
/// eight classes also which hue.
#pragma once

#include "engine/models/random.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace models {

/// Draws images [batch, 3, size, size] about 0 and their classes, one per label. The same for the same seed and step.
class shapes {
public:
    static constexpr std::int64_t kinds = 8;

    shapes(std::int64_t size, std::int64_t classes, std::uint64_t seed)
        : size_(size), classes_(classes), seed_(seed) {}

    /// Pre: `images` has labels.size() · 3 · size² elements.
    void draw(std::uint64_t step, std::span<float> images, std::span<std::int32_t> labels) const {
        random_numbers random(seed_, step);
        const auto pixels = static_cast<std::size_t>(3 * size_ * size_);
        for (std::size_t i = 0; i < labels.size(); ++i) {
            labels[i] = static_cast<std::int32_t>(random.below(classes_));
            draw_one(random, labels[i], images.subspan(i * pixels, pixels));
        }
    }

private:
    /// Whether a shape of radius 1 about the origin covers (u, v).
    static bool covers(std::int64_t kind, float u, float v) {
        const float x = std::abs(u), y = std::abs(v), square = u * u + v * v;
        switch (kind) {
        case 0:
            return square < 1; // disc
        case 1:
            return x < 0.85f && y < 0.85f; // square
        case 2:
            return v < 0.8f && v > 2 * x - 1; // triangle
        case 3:
            return square < 1 && square > 0.4f; // ring
        case 4:
            return (x < 0.3f && y < 1) || (y < 0.3f && x < 1); // upright cross
        case 5:
            return x < 1 && y < 1 && std::abs(x - y) < 0.35f; // diagonal cross
        case 6:
            return y < 0.3f && x < 1; // bar
        default:
            return x < 0.3f && y < 1; // post
        }
    }
    /// Channel `c` of a bright colour, hue in [0, 1).
    static float shade(float hue, int c) {
        const float turned = hue + static_cast<float>(c) / 3;
        return std::clamp(std::abs(6 * (turned - std::floor(turned)) - 3) - 1, 0.0f, 1.0f);
    }

    void draw_one(random_numbers& random, std::int64_t label, std::span<float> image) const {
        const std::int64_t hues = (classes_ + kinds - 1) / kinds;
        const float hue = hues == 1 ? random.uniform()
                                    : (static_cast<float>(label / kinds) + random.uniform(0.2f, 0.8f)) /
                                          static_cast<float>(hues);
        const float radius = random.uniform(0.4f, 0.6f); // the image reaches from −1 to 1
        const float left = random.uniform(radius - 1, 1 - radius),
                    top = random.uniform(radius - 1, 1 - radius);
        const float noise = 0.3f, pixel = 2 / static_cast<float>(size_);
        auto out = image.begin();
        for (int c = 0; c < 3; ++c)
            for (std::int64_t y = 0; y < size_; ++y)
                for (std::int64_t x = 0; x < size_; ++x) {
                    const float u = (static_cast<float>(x) + 0.5f) * pixel - 1 - left;
                    const float v = (static_cast<float>(y) + 0.5f) * pixel - 1 - top;
                    const bool inside = covers(label % kinds, u / radius, v / radius);
                    *out++ = (inside ? 2 * shade(hue, c) - 0.5f : -0.5f) + random.uniform(-noise, noise);
                }
    }

    std::int64_t size_, classes_;
    std::uint64_t seed_;
};

} // namespace models
