// SPDX-License-Identifier: BSL-1.0
/// @file
/// `cut_candidates`: minimum cuts over anchor distance × price of time × with or without compute-heavy ops: the plans
/// from which searches for budgets start.
#pragma once

#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/strategies/min_cut.hpp>
#include <echo/graph/ranking.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace echo {

/// Prices of time from what one op in twenty makes faster down to a sixteenth of what all but one in twenty do (a chain
/// takes several runs to make), evenly on a logarithmic scale, dearest first. A single price of 0 where no op may run
/// again. O(nodes log nodes + values). Errors: none.
inline std::vector<time_price> cut_prices(const snapshot& s, const candidates& c, std::size_t count) {
    // Bytes made per time, with 44 bits behind the point: as precise as prices need be.
    constexpr int point = 44;
    ranking by_rate;
    id_vector<node_id, std::uint64_t> rate(s.node_count(), 0);
    for (const auto n : s.nodes()) {
        if (!(c.rerunnable[n] || c.heavy_rerunnable[n]) || c.times.of_node[n] <= 0) continue;
        std::uint64_t bytes = 0;
        for (const auto v : s.outputs(n))
            if (c.base[v] == v && !c.resident[v]) bytes += s[v].bytes;
        rate[n] =
            detail::mul_div(bytes, std::uint64_t{1} << point, static_cast<std::uint64_t>(c.times.of_node[n]));
        if (rate[n] > 0) by_rate.add(n.index(), rate[n]);
    }
    const auto order = by_rate.descending();
    if (order.empty()) return {time_price{}};
    constexpr std::size_t ends = tuning::extreme_rates;
    const std::uint64_t high = rate[node_id(order[order.size() / ends])];
    const node_id last(order[order.size() * (ends - 1) / ends]);
    const std::uint64_t low = std::max<std::uint64_t>(1, rate[last] / tuning::cheapest_part);
    // Logarithms to base 2 in sixteenths; 2^(k/16) as whole numbers of 2^-16.
    constexpr std::array<std::uint64_t, 16> root{65536,  68438,  71468,  74632, 77936,  81386,
                                                 84990,  88752,  92682,  96785, 101070, 105545,
                                                 110218, 115098, 120194, 125515};
    const auto log16 = [&](std::uint64_t x) {
        const int whole = static_cast<int>(std::bit_width(x)) - 1;
        const std::uint64_t rest = detail::mul_div(x, 65536, std::uint64_t{1} << whole);
        return 16 * whole +
               static_cast<int>(std::upper_bound(root.begin(), root.end(), rest) - root.begin()) - 1;
    };
    const int from = log16(high), to = std::min(log16(low), from);
    std::vector<time_price> prices;
    for (std::size_t i = 0; i < count; ++i) {
        const int log = from - static_cast<int>(static_cast<std::size_t>(from - to) * i /
                                                std::max<std::size_t>(count - 1, 1));
        const std::uint64_t price =
            detail::mul_div(root[static_cast<std::size_t>(log % 16)], std::uint64_t{1} << (log / 16), 65536);
        const int shift = std::clamp(static_cast<int>(std::bit_width(price)) - 20, 0, point);
        prices.push_back({std::max<std::uint64_t>(1, price >> shift), ticks{1} << (point - shift)});
    }
    return prices;
}

/// Snapshot, candidates, evaluator and anchors must outlive it.
/// A template so that only files that make plans compile it.
template <class = void>
class cut_candidates {
public:
    /// `distances`: at most, of anchors (at least 3).
    cut_candidates(evaluator& evaluate, const anchor_finder& anchors, bool encode, std::size_t distances = 5)
        : evaluate_(evaluate), s_(evaluate.graph()), anchors_(anchors), needs_(anchors(no_anchor)),
          cut_(s_, evaluate.facts()), encode_(encode),
          distances_(anchor_distances(needs_.largest_span, distances)),
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
        cut_(needs_, {.price = prices_[column], .heavy = row % 2 != 0, .encode = encode_}, decided);
        decided.heavy = true;
        return evaluate_(decided);
    }

private:
    evaluator& evaluate_;
    const snapshot& s_;
    const anchor_finder& anchors_;
    std::uint32_t at_ = no_anchor;
    backward_needs needs_;
    min_cut cut_;
    bool encode_;
    std::vector<std::uint32_t> distances_;
    std::vector<time_price> prices_;
};

} // namespace echo
