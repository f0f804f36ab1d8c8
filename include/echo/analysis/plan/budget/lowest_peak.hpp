// SPDX-License-Identifier: BSL-1.0
/// @file
/// `lowest_peak`: how far below the plans that are known a peak can be brought, within a time or at whatever price.
#pragma once

#include <echo/analysis/plan/budget/rung_search.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace echo {

/// Goes on from what the rungs' search knows, which must outlive it, and leaves there what it finds.
/// A template so that only files that make plans compile it.
template <class = void>
class lowest_peak {
public:
    explicit lowest_peak(rung_search<>& rungs) : rungs_(rungs) {}

    /// Below the lowest plan within `most`, rung by rung, until `tuning::rungs_failed` of them in turn give nothing:
    /// the plans next above are led to each, those below keep again what there is room for, and what is cheapest there
    /// is searched around. Where that gives nothing, it goes a way below the rung and back. At
    /// last, by a small part of a rung at a time, plans are led down as far as that goes. Not below `least`, nor below
    /// what is proved by then to be the least peak.
    void polish(ticks most, std::uint64_t least) {
        const std::size_t replays = rungs_.polishing_replays();
        if (replays == 0 || !rungs_.plans().passes().polish) return;
        least = std::max(least, rungs_.least_bytes_within(most));
        const auto lowest = [&] { return rungs_.known().within_time(most)->footprint.peak_bytes; };
        std::size_t rung = rungs_.ladder().above(lowest()) + 1;
        for (std::size_t failed = 0; failed < tuning::rungs_failed && rungs_.ladder().limit(rung) >= least;
             ++rung) {
            rungs_.plans().tell();
            const std::uint64_t before = lowest(), limit = rungs_.ladder().limit(rung);
            rungs_.plans().lead_from_above(limit, tuning::led_to_rung, most + most / 2);
            rungs_.plans().retain_from_below(limit);
            rungs_.search_around(limit, replays);
            if (lowest() == before) rungs_.plans().ruin(limit);
            failed = lowest() < before ? 0 : failed + 1;
            rung = std::max(rung, rungs_.ladder().above(lowest()));
        }
        // What is left is less than a rung.
        for (std::uint64_t before = lowest() + 1; lowest() < before;) {
            before = lowest();
            const std::uint64_t limit = before - before / tuning::fine_parts;
            if (limit >= least) rungs_.plans().lead_from_above(limit, tuning::led_finely, most);
        }
    }

    /// Towards a limit that no plan known meets, at whatever price: the lowest plan is polished, and where that stops
    /// above the limit, all starts are led with patience to a rung further down; both again while a rung is gained.
    void approach(std::uint64_t limit) {
        if (rungs_.polishing_replays() == 0) return;
        const auto rung_of_lowest = [&] {
            return rungs_.ladder().above(rungs_.known().lowest().footprint.peak_bytes);
        };
        for (std::size_t before = rung_of_lowest() + 1; !rungs_.known().within(limit);) {
            polish(led_plans<>::no_limit / 4, limit);
            const std::uint64_t below = rungs_.ladder().limit(rung_of_lowest() + tuning::rungs_approached);
            if (rungs_.known().within(limit) || below < std::max(limit, rungs_.least_bytes())) return;
            rungs_.plans().search(below, true);
            if (rung_of_lowest() < before) return;
            before = rung_of_lowest() + 1;
        }
    }

private:
    rung_search<>& rungs_;
};

} // namespace echo
