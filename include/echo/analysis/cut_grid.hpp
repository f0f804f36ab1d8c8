// SPDX-License-Identifier: BSL-1.0
/// @file
/// `cut_grid`: minimum cuts over anchor distance × price of time × with or without compute-heavy ops, where searches
/// for budgets begin. A point of the grid is solved and replayed when it is first asked for; of its plan only the
/// figures are kept, since solving again is cheap.
#pragma once

#include <echo/analysis/evaluate.hpp>
#include <echo/analysis/min_cut.hpp>
#include <echo/graph/ranking.hpp>

#include <vector>

namespace echo {

/// Snapshot, candidates, evaluator and anchors must outlive it.
/// A template so that only files that make plans compile it.
template <class = void>
class cut_grid {
public:
    struct point {
        std::uint64_t peak_bytes = 0;
        double recompute_us = 0;
        bool known = false;
    };

    cut_grid(evaluator& evaluate, const anchor_finder& anchors, bool encode, std::size_t distances = 5)
        : evaluate_(evaluate), s_(evaluate.graph()), c_(evaluate.facts()), anchors_(anchors),
          needs_(anchors(no_anchor)), cut_(s_, c_), encode_(encode),
          distances_(anchor_distances(needs_.largest_span, distances)), prices_(find_prices(8)) {
        points_.resize(rows() * prices_.size());
    }

    /// A row is one anchor distance, without (even) or with (odd) compute-heavy ops; along it, time gets cheaper.
    std::size_t rows() const noexcept { return 2 * distances_.size(); }
    std::size_t columns() const noexcept { return prices_.size(); }
    std::size_t size() const noexcept { return points_.size(); }

    /// The figures of a point, known or not.
    const point& operator[](std::size_t i) const { return points_[i]; }

    /// Makes the point known. A cut and a replay, if it was not.
    const point& find(std::size_t row, std::size_t column) {
        const std::size_t i = row * columns() + column;
        if (!points_[i].known) plan_of(i);
        return points_[i];
    }

    /// The plan of a point. A cut and a replay; it is the last trial evaluated.
    trial plan_of(std::size_t i) {
        const std::uint32_t distance = distances_[i / columns() / 2];
        if (distance != at_) needs_ = anchors_(at_ = distance);
        trial t{.decided = choice::nothing(s_)};
        const bool heavy = i / columns() % 2 != 0;
        cut_(needs_, {.bytes_per_us = prices_[i % columns()], .heavy = heavy, .encode = encode_}, t.decided);
        t.decided.heavy = true;
        evaluate_(t);
        points_[i] = {t.footprint.peak_bytes, t.recompute_us, true};
        return t;
    }

private:
    /// In bytes per microsecond: from what one op in twenty makes faster down to a sixteenth of what all but one in
    /// twenty do (a chain takes several runs to make), evenly on a logarithmic scale.
    std::vector<double> find_prices(std::size_t count) const {
        std::vector<double> rate(s_.node_count(), 0);
        ranking by_rate;
        for (const auto n : s_.nodes()) {
            const std::size_t i = n.index();
            if (!(c_.rerunnable[i] || c_.heavy_rerunnable[i]) || c_.time_us[i] <= 0) continue;
            for (const auto v : s_.outputs(n))
                if (c_.base[v.index()] == v && !c_.resident[v.index()])
                    rate[i] += static_cast<double>(s_[v].bytes);
            rate[i] /= c_.time_us[i];
            if (rate[i] > 0) by_rate.add(n.index(), rate[i]);
        }
        const auto order = by_rate.descending();
        if (order.empty()) return {0};
        const double high = rate[order[order.size() / 20]], low = rate[order[order.size() * 19 / 20]] / 16;
        // The factor between neighbours, by halving: as good as a logarithm, and the same on every machine.
        double factor = 1, step = 1;
        const auto reaches = [&](double f) {
            double p = high;
            for (std::size_t k = 1; k < count; ++k) p /= f;
            return p <= low;
        };
        while (!reaches(factor + step)) step *= 2;
        for (int k = 0; k < 20; ++k, step /= 2)
            if (!reaches(factor + step)) factor += step;
        std::vector<double> prices;
        for (double p = high; prices.size() < count; p /= factor) prices.push_back(p);
        return prices;
    }

    evaluator& evaluate_;
    const snapshot& s_;
    const candidates& c_;
    const anchor_finder& anchors_;
    std::uint32_t at_ = no_anchor;
    backward_needs needs_;
    min_cut cut_;
    bool encode_;
    std::vector<std::uint32_t> distances_;
    std::vector<double> prices_;
    std::vector<point> points_;
};

} // namespace echo
