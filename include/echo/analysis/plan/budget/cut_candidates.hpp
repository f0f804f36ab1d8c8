// SPDX-License-Identifier: BSL-1.0
/// @file
/// `cut_candidates`: minimum cuts over anchor distance × price of time × with or without compute-heavy ops: the plans
/// from which searches for budgets start.
#pragma once

#include <echo/analysis/plan/budget/cut_prices.hpp>
#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/strategies/min_cut.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace echo::detail {

/// Snapshot, candidates, evaluator and anchors must outlive it.
class cut_candidates {
public:
    /// `distances`: at most, of anchors (at least 3).
    cut_candidates(evaluator& evaluate, const anchor_finder& anchors, bool encode, std::size_t distances)
        : evaluate_(evaluate), s_(evaluate.graph()), anchors_(anchors), needs_(anchors(no_anchor)),
          encode_(encode), distances_(anchor_distances(needs_.largest_span, distances)),
          prices_(cut_prices(s_, evaluate.facts(), tuning::cut_prices)) {}

    /// A row is one anchor distance, without (even) or with (odd) compute-heavy ops; along it, time gets cheaper.
    std::size_t rows() const noexcept { return 2 * distances_.size(); }
    /// How many prices of time there are.
    std::size_t columns() const noexcept { return prices_.size(); }

    /// The plan of a point. A cut and a replay.
    [[nodiscard]] evaluated_plan plan_of(std::size_t row, std::size_t column) {
        const std::uint32_t distance = distances_[row / 2];
        if (distance != at_) needs_ = anchors_(at_ = distance);
        decision decided = decision::nothing(s_);
        if (!cut_) cut_.emplace(s_, evaluate_.facts());
        (*cut_)(needs_, {.price = prices_[column], .heavy = row % 2 != 0, .encode = encode_}, decided);
        decided.heavy = true;
        return evaluate_(decided);
    }

private:
    evaluator& evaluate_;
    const snapshot& s_;
    const anchor_finder& anchors_;
    std::uint32_t at_ = no_anchor;
    backward_needs needs_;
    std::optional<min_cut> cut_;
    bool encode_;
    std::vector<std::uint32_t> distances_;
    std::vector<time_price> prices_;
};

} // namespace echo::detail
