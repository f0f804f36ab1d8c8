// SPDX-License-Identifier: BSL-1.0
/// @file
/// A small parallel corpus in memory: lines `source<TAB>target` of words between spaces, and the vocabularies made
/// of them.
#pragma once

#include "engine/models/random.hpp"

#include <echo/error.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace models {

/// Tokens that every vocabulary begins with; words follow from `first` on.
struct token {
    static constexpr std::int32_t padding = 0, begin = 1, end = 2, first = 3;
};

using sentence = std::vector<std::int32_t>;

/// Words in the order in which they are first met.
class vocabulary {
public:
    std::int32_t operator[](const std::string& word) {
        return tokens_.try_emplace(word, static_cast<std::int32_t>(size())).first->second;
    }
    /// With the tokens that are no words.
    std::int64_t size() const noexcept { return token::first + static_cast<std::int64_t>(tokens_.size()); }

private:
    std::unordered_map<std::string, std::int32_t> tokens_;
};

class parallel_text {
public:
    /// Reads a file. A target has an end token, so that it fits where it has one word less than `target_length`. With
    /// `joint` both sides share one vocabulary. Errors: a file that cannot be read or is empty; a line without a tab,
    /// with a second one, with an empty side or with more words than fit.
    parallel_text(const std::string& file, std::int64_t source_length, std::int64_t target_length, bool joint,
                  std::uint64_t seed)
        : source_(std::make_shared<vocabulary>()), target_(joint ? source_ : std::make_shared<vocabulary>()),
          seed_(seed) {
        std::error_code unknown;
        if (std::filesystem::is_directory(file, unknown))
            throw echo::error({}, file, "is a directory", "give a file of lines SOURCE<TAB>TARGET");
        std::ifstream in(file, std::ios::binary);
        if (!in) throw echo::error({}, file, "cannot be read", "give a file of lines SOURCE<TAB>TARGET");
        std::string line;
        while (std::getline(in, line)) {
            const std::string where = file + ":" + std::to_string(pairs_.size() + 1);
            const auto tab = line.find('\t');
            if (tab == std::string::npos || line.find('\t', tab + 1) != std::string::npos)
                throw echo::error({}, where,
                                  tab == std::string::npos ? "has no tab" : "has more than one tab",
                                  "write lines SOURCE<TAB>TARGET");
            auto source = words(line.substr(0, tab), *source_, source_length, where, "source");
            auto target = words(line.substr(tab + 1), *target_, target_length - 1, where, "target");
            pairs_.emplace_back(std::move(source), std::move(target));
        }
        if (in.bad()) throw echo::error({}, file, "cannot be read to its end", "check the disk");
        if (pairs_.empty()) throw echo::error({}, file, "is empty", "give lines SOURCE<TAB>TARGET");
    }

    std::size_t size() const noexcept { return pairs_.size(); }
    std::int64_t source_vocabulary() const noexcept { return source_->size(); }
    std::int64_t target_vocabulary() const noexcept { return target_->size(); }

    /// Pairs of the `count` lines of a step: every line once an epoch, in an order drawn for each epoch. O(size()).
    std::vector<std::pair<sentence, sentence>> draw(std::uint64_t step, std::size_t count) const {
        std::vector<std::pair<sentence, sentence>> drawn;
        std::vector<std::size_t> order;
        for (std::uint64_t i = step * count; drawn.size() < count; ++i) {
            if (order.empty() || i % size() == 0) order = shuffled(i / size());
            drawn.push_back(pairs_[order[i % size()]]);
        }
        return drawn;
    }

private:
    static sentence words(const std::string& text, vocabulary& known, std::int64_t most,
                          const std::string& where, const std::string& side) {
        std::istringstream in(text);
        sentence made;
        for (std::string word; in >> word;) made.push_back(known[word]);
        if (made.empty()) throw echo::error({}, where, "the " + side + " is empty", "give it a word");
        if (static_cast<std::int64_t>(made.size()) > most)
            throw echo::error({}, where,
                              "the " + side + " has " + std::to_string(made.size()) +
                                  " words, the bucket takes " + std::to_string(most),
                              "give a longer bucket or split the line");
        return made;
    }
    std::vector<std::size_t> shuffled(std::uint64_t epoch) const {
        random_numbers random(seed_, epoch);
        std::vector<std::size_t> order(size());
        for (std::size_t i = 0; i < size(); ++i) {
            const auto j = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i + 1)));
            order[i] = order[j];
            order[j] = i;
        }
        return order;
    }

    std::shared_ptr<vocabulary> source_, target_;
    std::uint64_t seed_;
    std::vector<std::pair<sentence, sentence>> pairs_;
};

} // namespace models
