// SPDX-License-Identifier: BSL-1.0
/// @file
/// `eviction_choice`: which eviction is the cheapest one at a peak, for swaps, which ask for one after the other.
#pragma once

#include <echo/analysis/plan/moves/dear_evictions.hpp>
#include <echo/analysis/plan/moves/eviction.hpp>
#include <echo/analysis/plan/moves/eviction_finder.hpp>
#include <echo/analysis/plan/moves/eviction_price.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace echo {

/// Scratch memory is kept between uses.
/// A template so that only files that make plans compile it.
template <class = void>
class eviction_choice {
public:
    /// Leaves in `list`, as its last one, the eviction of which a byte costs least at the peak of `view`, if that is
    /// less than `below`, and returns its price in ticks per byte, as `tuning::price_parts` counts them. An encoding,
    /// which takes no time, goes before all others. None of a node that is locked or in `touched`. `excess`: bytes
    /// above the limit. `known`: of the plan of `view`, and with all that it has decided; what is found out is added.
    /// O(storages + their reads + what it takes to price those evictions that are not known to cost too much).
    [[nodiscard]] std::optional<std::uint64_t>
    operator()(const eviction_view<>& view, std::int64_t excess, std::optional<std::uint64_t> below,
               dear_evictions<>& known, const id_set<node_id>& touched, eviction_list& list) {
        list.clear();
        find_(view, idle_, list, false); // nothing is run earlier
        if (take_largest_encoding(view, touched, list)) return 0;
        std::optional<std::uint64_t> best;
        std::size_t which = 0;
        auto answers = known.ask(view.peak, excess);
        for (std::size_t i = 0; i < idle_.all.size(); ++i) {
            const evicted_copy& one = idle_.all[i];
            const auto most = best ? best : below;
            if (touched[one.node] || !price_.may_be_below(view, at_the_peak_, one, excess, most)) continue;
            if (most && answers.cost(one.storage, *most)) continue;
            const auto [price, rests_on] = price_(view, idle_, at_the_peak_, i, excess, list, most);
            if (price || most) answers.add(one.storage, price ? *price : *most, rests_on);
            if (!price || !is_free(view, touched, list, list.all.back())) continue;
            best = price;
            which = list.all.size() - 1;
        }
        if (best) std::swap(list.all[which], list.all.back());
        return best;
    }

private:
    /// Of a list of encodings, the one that frees most and concerns no other swap is the last then. Whether there is
    /// any.
    static bool take_largest_encoding(const eviction_view<>& view, const id_set<node_id>& touched,
                                      eviction_list& list) {
        std::size_t largest = list.all.size();
        for (std::size_t i = 0; i < list.all.size(); ++i) {
            if (!is_free(view, touched, list, list.all[i])) continue;
            if (largest == list.all.size() || list.all[i].freed > list.all[largest].freed) largest = i;
        }
        if (largest == list.all.size()) return false;
        std::swap(list.all[largest], list.all.back());
        return true;
    }

    /// Whether it concerns no other swap.
    static bool is_free(const eviction_view<>& view, const id_set<node_id>& touched,
                        const eviction_list& list, const eviction& e) {
        const auto copies = list.copies_of(e);
        return std::none_of(copies.begin(), copies.end(), [&](const evicted_copy& copy) {
            return touched[copy.node] || view.is_locked(copy.node);
        });
    }

    eviction_finder<> find_;
    eviction_pricer<> price_;
    const excess_sums<> at_the_peak_{}; // of which only the bytes at the peak count
    idle_copies idle_;
};

} // namespace echo
