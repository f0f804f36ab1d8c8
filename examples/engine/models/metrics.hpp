// SPDX-License-Identifier: BSL-1.0
/// @file
/// How good a model is: accuracy of a classifier, label error of a transcription.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace models {

/// The part of rows [rows, classes] whose largest score stands at their label.
inline double accuracy(std::span<const float> scores, std::span<const std::int32_t> labels) {
    if (labels.empty()) return 0;
    const auto classes = static_cast<std::ptrdiff_t>(scores.size() / labels.size());
    std::size_t right = 0;
    auto row = scores.begin();
    for (const std::int32_t label : labels) {
        right += std::max_element(row, row + classes) - row == label;
        row += classes;
    }
    return static_cast<double>(right) / static_cast<double>(labels.size());
}

using label_sequence = std::vector<std::int32_t>;

/// The labels of the best path through scores [steps, batch, classes] for one row of the batch: the largest score of
/// each step, repetitions merged, blanks (0) left out. Graves et al., 2006.
inline label_sequence best_path(std::span<const float> scores, std::size_t steps, std::size_t batch,
                                std::size_t row) {
    const std::size_t classes = scores.size() / (steps * batch);
    label_sequence found;
    std::int32_t last = 0;
    for (std::size_t t = 0; t < steps; ++t) {
        const auto at = scores.subspan((t * batch + row) * classes, classes);
        const auto best = static_cast<std::int32_t>(std::max_element(at.begin(), at.end()) - at.begin());
        if (best != 0 && best != last) found.push_back(best);
        last = best;
    }
    return found;
}

/// Insertions, deletions and replacements that turn one sequence into the other.
inline std::size_t edit_distance(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
    std::vector<std::size_t> cost(b.size() + 1);
    for (std::size_t j = 0; j < cost.size(); ++j) cost[j] = j;
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = cost[0];
        cost[0] = i + 1;
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i] != b[j]);
            diagonal = cost[j + 1];
            cost[j + 1] = std::min({replaced, cost[j] + 1, diagonal + 1});
        }
    }
    return cost.back();
}

/// Edits per label of best paths through scores [steps, batch, classes] against labels [batch, longest] that end with
/// the first 0.
inline double label_error(std::span<const float> scores, std::span<const std::int32_t> labels,
                          std::size_t batch, std::size_t classes) {
    const std::size_t longest = labels.size() / batch, steps = scores.size() / (batch * classes);
    std::size_t wrong = 0, all = 0;
    for (std::size_t row = 0; row < batch; ++row) {
        auto wanted = labels.subspan(row * longest, longest);
        wanted = wanted.first(
            static_cast<std::size_t>(std::find(wanted.begin(), wanted.end(), 0) - wanted.begin()));
        wrong += edit_distance(best_path(scores, steps, batch, row), wanted);
        all += wanted.size();
    }
    return all ? static_cast<double>(wrong) / static_cast<double>(all) : 0;
}

} // namespace models
