// SPDX-License-Identifier: BSL-1.0
/// @file
/// `eviction_finder`: which copies are live at a step without being used there, and could be given up.
#pragma once

#include <echo/analysis/plan/moves/eviction.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace echo {

/// Copies that are live at a step without being used there.
struct idle_copies {
    static constexpr std::uint32_t nobody = ~std::uint32_t{0};
    /// The copies.
    std::vector<evicted_copy> all;
    id_vector<node_id, std::uint32_t> of; ///< its number in `all`, or `nobody`

    /// No copy, of a graph of that many nodes. O(copies), and O(nodes) for the first time.
    void clear(std::size_t nodes) {
        for (const evicted_copy& copy : all) of[copy.node] = nobody;
        all.clear();
        of.resize(nodes, nobody);
    }
};

/// Scratch memory is kept between uses.
/// A template so that only files that make plans compile it.
template <class = void>
class eviction_finder {
public:
    /// The copies that are idle at the peak of `view` and could be made again for their next reader. Those that need
    /// not be there because their readers can run before the peak are added to `pulls`, if that is given.
    /// O(storages + their reads).
    void operator()(const eviction_view<>& view, idle_copies& idle, eviction_list* pulls = nullptr) const {
        idle.clear(view.s.node_count());
        const liveness& live = view.plan.live();
        for (const auto i : live.storages()) {
            const storage_record& storage = live[i];
            if (storage.first >= view.peak) break; // they are in the order of their makers
            if (storage.last <= view.peak || storage.resident || storage.encoded || storage.holds_result)
                continue;
            const auto reads = view.history.reads(i);
            step_id from = storage.first;
            std::size_t next = 0;
            for (; next < reads.size() && reads[next].by <= view.peak; ++next) from = reads[next].by;
            if (next == reads.size() || from == view.peak) continue;
            const step_id to = reads[next].by;
            const node_id content = reads[next].content;
            if (view.in_forward(to) || view.home(from) >= view.home(to)) continue;
            if (pulls) add_pull(view, i, from, reads.subspan(next), *pulls);
            // What is written over it behind `to` may be written over what is made again as well.
            if (!view.may_run_later({content, i, from, to})) continue;
            idle.of[content] = static_cast<std::uint32_t>(idle.all.size());
            idle.all.push_back({content, i, from, to});
        }
    }

private:
    /// What is read only to make something again or late, and more bytes than that, need not be there: what is made of
    /// it can be made before the peak.
    void add_pull(const eviction_view<>& view, storage_id i, step_id from,
                  std::span<const storage_read> reads, eviction_list& list) const {
        const snapshot& s = view.s;
        const std::size_t first = list.copies.size();
        std::int64_t freed = view.bytes_of(i);
        for (const storage_read& read : reads) {
            const node_id n = view.plan.steps()[read.by].node;
            if (s[n].phase != phase::forward || s[n].kind == op_kind::view ||
                !is_ready(view, n, read.by, from))
                freed = 0;
            if (freed <= 0) break;
            if (list.names(n, first)) continue;
            list.copies.push_back({n, i, from, read.by});
            const liveness& live = view.plan.live();
            for (std::uint32_t k = 0; k < s.outputs(n).size(); ++k)
                if (live.last_read({read.by, k}).valid()) freed -= view.bytes_of(live.storage({read.by, k}));
        }
        if (freed > 0 && list.copies.size() > first)
            list.all.push_back({first, list.copies.size() - first, freed, true});
        else
            list.copies.resize(first);
    }

    /// Whether all that step `by` reads is there at step `at` already.
    static bool is_ready(const eviction_view<>& view, node_id n, step_id by, step_id at) {
        for (const auto c : view.plan.steps().inputs(by)) {
            if (view.plan.steps()[c.step].fused) return false;
            const storage_record& storage = view.plan.live()[view.plan.live().storage(c)];
            if (!storage.resident && (c.step > at || storage.first > at)) return false;
        }
        return !view.is_locked(n);
    }
};

} // namespace echo
