// SPDX-License-Identifier: BSL-1.0
/// @file
/// Tasks of translation models: pairs of sentences in a bucket, generated (a sentence and its reversal) or read from
/// a file, and the part of them that a model gets wholly right.
#pragma once

#include "engine/models/parallel_text.hpp"

#include <algorithm>
#include <optional>
#include <span>

namespace models {

/// A bucket: sizes that sentences and vocabularies have at most.
struct bucket {
    std::int64_t source_length, target_length, source_vocabulary, target_vocabulary;
};

/// A generated task: random tokens, and the same in reverse order. Lengths vary over the upper half of what fits.
class reversal {
public:
    /// Errors: no room for a token in the bucket or in a vocabulary.
    reversal(const bucket& b, std::uint64_t seed)
        : longest_(std::min(b.source_length, b.target_length - 1)),
          tokens_(std::min(b.source_vocabulary, b.target_vocabulary) - token::first), seed_(seed) {
        if (longest_ < 1)
            throw echo::error({}, "target_length", "leaves no token before the end of a sentence",
                              "give 2 or more");
        if (tokens_ < 1)
            throw echo::error({}, "vocabulary", "leaves no token but padding, begin and end",
                              "give " + std::to_string(token::first + 1) + " or more");
    }

    std::vector<std::pair<sentence, sentence>> draw(std::uint64_t step, std::size_t count) const {
        random_numbers random(seed_, step);
        std::vector<std::pair<sentence, sentence>> drawn(count);
        const auto fewest = (longest_ + 1) / 2;
        for (auto& [source, target] : drawn) {
            source.resize(static_cast<std::size_t>(fewest + random.below(longest_ - fewest + 1)));
            for (auto& t : source) t = token::first + static_cast<std::int32_t>(random.below(tokens_));
            target.assign(source.rbegin(), source.rend());
        }
        return drawn;
    }

private:
    std::int64_t longest_, tokens_;
    std::uint64_t seed_;
};

class translation {
public:
    /// The reversal task, or the sentences of `file` where it has a name. Errors: those of `reversal` and
    /// `parallel_text`.
    translation(const bucket& b, const std::string& file, bool joint, std::uint64_t seed) : bucket_(b) {
        if (file.empty()) {
            generated_.emplace(b, seed);
        } else {
            text_.emplace(file, b.source_length, b.target_length, joint, seed);
            bucket_.source_vocabulary = text_->source_vocabulary();
            bucket_.target_vocabulary = text_->target_vocabulary();
        }
    }

    /// With the vocabularies of the file, where there is one.
    const models::bucket& bucket() const noexcept { return bucket_; }

    /// Sources [batch, source length]; targets and labels [batch, target length]: a target begins with the begin
    /// token, its labels are one step ahead and end with the end token. Padding behind all of them. The same for the
    /// same seed and step.
    void fill(std::uint64_t step, std::span<std::int32_t> sources, std::span<std::int32_t> targets,
              std::span<std::int32_t> labels) const {
        const auto from = static_cast<std::size_t>(bucket_.source_length);
        const auto to = static_cast<std::size_t>(bucket_.target_length);
        const auto count = sources.size() / from;
        const auto pairs = text_ ? text_->draw(step, count) : generated_->draw(step, count);
        std::fill(sources.begin(), sources.end(), token::padding);
        std::fill(targets.begin(), targets.end(), token::padding);
        std::fill(labels.begin(), labels.end(), token::padding);
        for (std::size_t i = 0; i < count; ++i) {
            const auto& [source, target] = pairs[i];
            std::copy(source.begin(), source.end(), sources.subspan(i * from, from).begin());
            const auto into = targets.subspan(i * to, to), wanted = labels.subspan(i * to, to);
            into[0] = token::begin;
            std::copy(target.begin(), target.end(), into.begin() + 1);
            std::copy(target.begin(), target.end(), wanted.begin());
            wanted[target.size()] = token::end;
        }
    }

private:
    models::bucket bucket_;
    std::optional<reversal> generated_;
    std::optional<parallel_text> text_;
};

/// The part of sentences whose every label, the end token among them, has the largest probability (the first of equal
/// ones): labels [sentences, length], probabilities [sentences · length, vocabulary] of a step with the true target as
/// the decoder's input. Where these came without dropout, this is just the part that greedy decoding gets right: up to
/// its first mistake it has read the true target.
inline double exact_match(std::span<const float> probabilities, std::span<const std::int32_t> labels,
                          std::size_t sentences) {
    if (sentences == 0) return 0;
    const std::size_t length = labels.size() / sentences, classes = probabilities.size() / labels.size();
    std::size_t right = 0;
    for (std::size_t i = 0; i < sentences; ++i) {
        bool whole = true;
        for (std::size_t t = i * length; whole && t < (i + 1) * length; ++t) {
            const auto row = probabilities.subspan(t * classes, classes);
            whole = labels[t] == token::padding ||
                    std::max_element(row.begin(), row.end()) - row.begin() == labels[t];
        }
        right += whole;
    }
    return static_cast<double>(right) / static_cast<double>(sentences);
}

} // namespace models
