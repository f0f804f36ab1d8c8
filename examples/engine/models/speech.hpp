// SPDX-License-Identifier: BSL-1.0
/// @file
/// A generated task for speech models: sequences of labels as spectrograms. Each label sounds like three formants that
/// glide through the bands for some frames, with pauses between the labels and noise everywhere.
#pragma once

#include "engine/models/random.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace models {

/// Draws spectrograms [batch, frames, bands] about 0 and labels [batch, longest] from 1 on, 0 behind the end. The same
/// for the same seed and step.
class speech {
public:
    speech(std::int64_t frames, std::int64_t bands, std::int64_t longest, std::int64_t classes,
           std::uint64_t seed)
        : frames_(frames), bands_(bands), longest_(longest), classes_(classes), seed_(seed) {}

    /// Pre: `labels` has a multiple of `longest` elements, `sound` as many times frames · bands.
    void speak(std::uint64_t step, std::span<float> sound, std::span<std::int32_t> labels) const {
        random_numbers random(seed_, step);
        const auto area = static_cast<std::size_t>(frames_ * bands_);
        const auto row = static_cast<std::size_t>(longest_);
        for (std::size_t i = 0; i * row < labels.size(); ++i)
            speak_one(random, sound.subspan(i * area, area), labels.subspan(i * row, row));
    }

private:
    struct formant {
        float from, to; ///< bands
    };
    /// How a label sounds, whatever the seed.
    std::array<formant, 3> formants(std::int64_t label) const {
        random_numbers voice(0x5eec4, static_cast<std::uint64_t>(label));
        std::array<formant, 3> made;
        for (auto& f : made) {
            const auto top = static_cast<float>(bands_);
            f.from = voice.uniform(0, top);
            f.to = voice.uniform(0, top);
        }
        return made;
    }

    void speak_one(random_numbers& random, std::span<float> sound, std::span<std::int32_t> labels) const {
        for (float& x : sound) x = random.uniform(-0.3f, 0.3f);
        const std::int64_t fewest = (longest_ + 1) / 2;
        const std::int64_t count = fewest + random.below(longest_ - fewest + 1);
        const std::int64_t slot = frames_ / longest_;
        std::int64_t start = random.below(frames_ - count * slot + 1);
        std::fill(labels.begin(), labels.end(), 0);
        for (std::int64_t k = 0; k < count; ++k, start += slot) {
            const auto label = 1 + random.below(classes_);
            labels[static_cast<std::size_t>(k)] = static_cast<std::int32_t>(label);
            const auto length = std::max<std::int64_t>(1, slot - slot / 4 - random.below(slot / 4 + 1));
            pronounce(label, start, length, random.uniform(0.8f, 1.2f), sound);
        }
    }
    void pronounce(std::int64_t label, std::int64_t start, std::int64_t length, float loudness,
                   std::span<float> sound) const {
        const float reach = std::max(2.0f, static_cast<float>(bands_) / 16);
        for (const formant& f : formants(label))
            for (std::int64_t t = 0; t < length; ++t) {
                const float part = (static_cast<float>(t) + 0.5f) / static_cast<float>(length);
                const float centre = f.from + (f.to - f.from) * part;
                for (std::int64_t b = 0; b < bands_; ++b) {
                    const float away = (static_cast<float>(b) - centre) / reach;
                    if (away * away < 1)
                        sound[static_cast<std::size_t>((start + t) * bands_ + b)] +=
                            2 * loudness * (1 - away * away);
                }
            }
    }

    std::int64_t frames_, bands_, longest_, classes_;
    std::uint64_t seed_;
};

} // namespace models
