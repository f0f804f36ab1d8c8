// SPDX-License-Identifier: BSL-1.0
/// @file
/// `cut_prices`: the prices of time that minimum cuts are made at, from the ops of a graph and what they would save.
#pragma once

#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/analysis/plan/decision/cost.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/strategies/min_cut.hpp>
#include <echo/graph/id_vector.hpp>
#include <echo/graph/ranking.hpp>
#include <echo/graph/snapshot.hpp>
#include <echo/numbers.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace echo::detail {

/// 2^(k/16) in whole numbers of 2^-16.
inline constexpr std::array<std::uint64_t, 16> powers_of_16ths{65536,  68438,  71468,  74632, 77936,  81386,
                                                               84990,  88752,  92682,  96785, 101070, 105545,
                                                               110218, 115098, 120194, 125515};

/// The logarithm to base 2 of `x` > 0, in sixteenths, rounded down; the same on every machine.
inline int log2_in_16ths(std::uint64_t x) noexcept {
    const auto& powers = powers_of_16ths;
    const int whole = static_cast<int>(std::bit_width(x)) - 1;
    const std::uint64_t rest = mul_div(x, powers[0], std::uint64_t{1} << whole);
    return 16 * whole +
           static_cast<int>(std::upper_bound(powers.begin(), powers.end(), rest) - powers.begin()) - 1;
}
/// 2^(log/16), rounded down, of a `log` from 0 to 1,023.
inline std::uint64_t exp2_of_16ths(int log) noexcept {
    return mul_div(powers_of_16ths[static_cast<std::size_t>(log % 16)], std::uint64_t{1} << (log / 16),
                   powers_of_16ths[0]);
}

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
    const int from = detail::log2_in_16ths(high), to = std::min(detail::log2_in_16ths(low), from);
    std::vector<time_price> prices;
    for (std::size_t i = 0; i < count; ++i) {
        const int log = from - static_cast<int>(static_cast<std::size_t>(from - to) * i /
                                                std::max<std::size_t>(count - 1, 1));
        const std::uint64_t price = detail::exp2_of_16ths(log);
        const int shift = std::clamp(static_cast<int>(std::bit_width(price)) - 20, 0, point);
        prices.push_back({std::max<std::uint64_t>(1, price >> shift), ticks{1} << (point - shift)});
    }
    return prices;
}

} // namespace echo::detail
