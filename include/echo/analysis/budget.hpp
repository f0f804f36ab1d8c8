// SPDX-License-Identifier: BSL-1.0
/// @file
/// Budgets: the least recomputation under a limit on the peak, the least peak under a limit on
/// recomputation, and the front of one against the other.
///
/// The cuts of `cut_grid` give the lower hull only. From its points near the limit, dearer and cheaper ones, plans
/// are led to the limit: `relieve` forgets what is live at the peak, cheapest time per byte first; `spare` keeps what
/// there is room for; in small graphs, runs are also exchanged one by one. The replay judges every step, and the
/// cheapest plan wins.
#pragma once

#include <echo/analysis/cut_grid.hpp>
#include <echo/analysis/exchange.hpp>
#include <echo/analysis/progress.hpp>
#include <echo/analysis/relieve.hpp>
#include <echo/analysis/spare.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace echo {

/// As in `plan_options`.
struct budget_options {
    bool encode = true;
    std::size_t exchange_replays = 4000;
    progress_callback progress{};
};

/// Searches for plans of one snapshot under any number of limits. Evaluator and anchors must outlive it.
/// A template so that only files that make plans compile it.
template <class = void>
class budget_search {
public:
    budget_search(evaluator& evaluate, const anchor_finder& anchors, const budget_options& options)
        : evaluate_(evaluate), s_(evaluate.graph()), grid_(evaluate, anchors, options.encode),
          relieve_(evaluate), spare_(evaluate), exchange_(evaluate, relieve_, spare_), options_(options),
          most_starts_(evaluate.graph().node_count() > 8192 ? 5 : 8) {
        know({.decided = choice::nothing(s_)});
    }

    /// A plan to start from as well: no search finds a worse one.
    void know(trial t) {
        t.decided.heavy = true;
        evaluate_(t);
        known_.push_back(std::move(t));
    }

    /// The cheapest plan found whose peak is at most `limit`; without one, the plan of the least peak found.
    /// A cut and a replay for each point of the grid that is asked for, at most 34 replays for each of some ten starts, and those of the
    /// exchanges.
    trial cheapest(std::uint64_t limit) {
        explore(limit);
        trial best, lowest;
        bool found = false;
        const auto all = starts(limit);
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (options_.progress)
                options_.progress(done_ + share_ * static_cast<double>(i) / static_cast<double>(all.size()));
            trial t = begin(all[i]);
            const double most_us = found ? 1.2 * best.recompute_us : no_limit;
            const bool fits =
                relieve_(t, limit, {.rounds = 30, .most_us = most_us, .everywhere = s_.node_count() < 512});
            if (fits) {
                spare_(t, limit, 4);
                if (!found || t.recompute_us < best.recompute_us ||
                    (t.recompute_us == best.recompute_us && t.better_than(best)))
                    best = t;
                found = true;
            }
            if (i == 0 || t.better_than(lowest)) lowest = std::move(t);
        }
        if (!found) {
            relieve_.in_steps(lowest, limit);
            exchange_.lower(lowest, limit, replays_to_exchange());
            known_.push_back(lowest);
            if (lowest.footprint.peak_bytes > limit) return cheapest(lowest.footprint.peak_bytes);
            evaluate_(lowest);
            spare_(lowest, limit, 4);
            best = std::move(lowest);
        }
        exchange_(best, limit, replays_to_exchange());
        known_.push_back(best);
        return best;
    }

    /// The least peak found among plans that recompute for at most `most_us`. At most twelve searches.
    trial lowest(double most_us) {
        trial best = known_.front();
        for (const trial& t : known_)
            if (t.recompute_us <= most_us && t.better_than(best)) best = t;
        std::uint64_t high = best.footprint.peak_bytes, low = 0;
        share_ = 1.0 / 12;
        for (int i = 0; i < 12 && high - low > high / 512; ++i, done_ += share_) {
            const std::uint64_t limit = low + (high - low) / 2;
            trial t = cheapest(limit);
            if (t.recompute_us <= most_us && t.better_than(best)) best = t;
            if (t.recompute_us <= most_us && t.footprint.peak_bytes <= limit)
                high = t.footprint.peak_bytes;
            else
                low = limit;
        }
        return best;
    }

    /// The front, from the plan that recomputes nothing down to the least peak found; peaks fall and times rise from
    /// point to point. At most `count` searches between them: none below a limit that the last plan is within already.
    std::vector<trial> front(std::size_t count) {
        share_ = 1.0 / static_cast<double>(count + 1);
        // Neighbours on the front are good starts for each other: fewer others are needed.
        const auto starts = std::exchange(most_starts_, 5);
        const auto replays =
            std::exchange(options_.exchange_replays, options_.exchange_replays / (count + 1));
        const std::uint64_t low = cheapest(0).footprint.peak_bytes;
        const std::uint64_t high = known_.front().footprint.peak_bytes;
        std::uint64_t reached = high;
        for (std::size_t i = 1; i <= count; ++i) {
            done_ += share_;
            const double part = 1 - static_cast<double>(i) / static_cast<double>(count);
            const std::uint64_t limit =
                low + static_cast<std::uint64_t>(static_cast<double>(high - low) * part);
            if (reached > limit) reached = cheapest(limit).footprint.peak_bytes;
        }
        most_starts_ = starts;
        options_.exchange_replays = replays;
        ranking by_time;
        for (std::uint32_t i = 0; i < known_.size(); ++i)
            by_time.add(i, known_[i].recompute_us, known_[i].footprint.peak_bytes);
        const auto order = by_time.descending();
        std::vector<trial> front;
        for (std::size_t i = order.size(); i-- > 0;)
            if (front.empty() || known_[order[i]].footprint.peak_bytes < front.back().footprint.peak_bytes)
                front.push_back(known_[order[i]]);
        return front;
    }

private:
    static constexpr double no_limit = std::numeric_limits<double>::infinity();

    /// Where a search starts: a point of the grid, or a plan that is known.
    struct start {
        std::size_t index;
        bool of_grid;
    };

    /// How many replays to spend on exchanges: many in small graphs, where each takes microseconds.
    std::size_t replays_to_exchange() const {
        const double nodes = static_cast<double>(s_.node_count()) + 1;
        const double most = 8e6 / (nodes * nodes) * std::max(1.0, 200 / nodes);
        return static_cast<std::size_t>(std::min(static_cast<double>(options_.exchange_replays), most));
    }

    /// Every other point of the grid, then those between points of which one is above the limit and one below.
    void explore(std::uint64_t limit) {
        for (std::size_t row = 0; row < grid_.rows(); ++row) {
            std::uint64_t before = known_.front().footprint.peak_bytes;
            for (std::size_t column = 1; column < grid_.columns(); column += 2) {
                const std::uint64_t peak = grid_.find(row, column).peak_bytes;
                if ((peak > limit) != (before > limit)) grid_.find(row, column - 1);
                before = peak;
            }
        }
    }

    /// The known points on the front around the limit, cheapest first: the plan that recomputes nothing, some
    /// others above the limit, two or three below.
    std::vector<start> starts(std::uint64_t limit) const {
        std::vector<start> all;
        ranking by_time;
        const auto add = [&](start from, std::uint64_t peak, double us) {
            by_time.add(static_cast<std::uint32_t>(all.size()), us, peak);
            all.push_back(from);
        };
        for (std::size_t i = 0; i < grid_.size(); ++i)
            if (grid_[i].known) add({i, true}, grid_[i].peak_bytes, grid_[i].recompute_us);
        for (std::size_t i = 0; i < known_.size(); ++i)
            add({i, false}, known_[i].footprint.peak_bytes, known_[i].recompute_us);
        const auto order = by_time.descending();
        std::vector<start> chosen;
        std::uint64_t least = ~std::uint64_t{0};
        std::size_t fitting = 0;
        for (std::size_t i = order.size(); i-- > 0 && fitting < (most_starts_ + 1) / 3;) {
            const std::uint64_t peak = peak_of(all[order[i]]);
            if (peak >= least) continue;
            least = peak;
            fitting += peak <= limit;
            chosen.push_back(all[order[i]]);
        }
        const std::size_t above = chosen.size() - fitting;
        if (above > most_starts_)
            chosen.erase(chosen.begin() + 1,
                         chosen.begin() + static_cast<std::ptrdiff_t>(above - most_starts_ + 1));
        return chosen;
    }

    std::uint64_t peak_of(const start& from) const {
        return from.of_grid ? grid_[from.index].peak_bytes : known_[from.index].footprint.peak_bytes;
    }

    trial begin(const start& from) {
        if (from.of_grid) return grid_.plan_of(from.index);
        trial t = known_[from.index];
        evaluate_(t);
        return t;
    }

    evaluator& evaluate_;
    const snapshot& s_;
    cut_grid<> grid_;
    reliever<> relieve_;
    sparer<> spare_;
    exchanger<> exchange_;
    budget_options options_;
    std::size_t most_starts_;     // above the limit: many cost time, few miss what only one of them leads to
    double done_ = 0, share_ = 1; ///< of the progress: before this search, and of it
    std::vector<trial> known_;    // the first recomputes nothing
};

} // namespace echo
