// SPDX-License-Identifier: BSL-1.0
/// @file
/// `eviction_finder`: which copies are live at a step without being used there, and could be given up.
#pragma once

#include <echo/analysis/plan/moves/eviction.hpp>
#include <echo/analysis/plan/moves/missing_inputs.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace echo::detail {

/// Copies that are live at a step without being used there.
struct idle_copies {
    static constexpr std::uint32_t nobody = ~std::uint32_t{0};
    /// The copies.
    std::vector<evicted_copy> all;
    id_vector<node_id, std::uint32_t> of; ///< its number in `all`, or `nobody`
    missing_inputs missing;               ///< there, of nodes that would run again

    /// No copy, of a graph of that many nodes. O(copies), and O(nodes) for the first time.
    void clear(std::size_t nodes) {
        for (const evicted_copy& copy : all) of[copy.node] = nobody;
        all.clear();
        missing.clear();
        of.resize(nodes, nobody);
    }
};

/// Scratch memory is kept between uses.
class eviction_finder {
public:
    /// The copies that are idle at the peak of `view` and could be made again for their next reader. Those that need
    /// not be there are added to `list`: an encoding is enough for who reads them from there on, or, if `pulls`, those
    /// can run before the peak. O(storages + their reads + absent × idle copies).
    void operator()(const eviction_view& view, idle_copies& idle, eviction_list& list, bool pulls) const {
        idle.clear(view.s.node_count());
        const liveness& live = view.plan.live();
        for (const auto i : live.storages()) {
            const storage_record& storage = live[i];
            if (storage.first >= view.peak) break; // they are in the order of their makers
            if (storage.last <= view.peak || storage.resident || storage.encoded || storage.holds_result)
                continue;
            if (view.is_absent(i)) continue;
            const auto reads = view.history.reads(i);
            step_id from = storage.first;
            std::size_t next = 0;
            for (; next < reads.size() && reads[next].by <= view.peak; ++next) from = reads[next].by;
            if (next == reads.size() || from == view.peak) continue;
            const step_id to = reads[next].by;
            const node_id content = reads[next].content;
            if (view.in_forward(to) || view.home(from) >= view.home(to)) continue;
            if (pulls) add_pull(view, i, from, reads.subspan(next), list);
            add_encoding(view, i, from, reads.subspan(next), list);
            // What is written over it behind `to` may be written over what is made again as well.
            if (!view.may_run_later({content, i, from, to})) continue;
            idle.of[content] = static_cast<std::uint32_t>(idle.all.size());
            idle.all.push_back({content, i, from, to});
        }
    }

private:
    /// What is read only to make something again or late, and more bytes than that, need not be there: what is made of
    /// it can be made before the peak.
    void add_pull(const eviction_view& view, storage_id i, step_id from, std::span<const storage_read> reads,
                  eviction_list& list) const {
        const snapshot& s = view.s;
        const std::size_t first = list.copies.size();
        std::int64_t freed = view.bytes_of(i);
        for (const storage_read& read : reads) {
            const step_record& reader = view.plan.steps()[read.by];
            const node_id n = reader.node;
            if (reader.kind == step_kind::encode || s.phase_of(n) != phase::forward ||
                s[n].kind == op_kind::view || !is_ready(view, read.by, from))
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

    /// What gradients read in one bit per element, from the peak on, can be encoded where the last of them before has
    /// read all of it. Where none has, an encoding would be held from the forward pass on: cuts decide about those.
    static void add_encoding(const eviction_view& view, storage_id i, step_id from,
                             std::span<const storage_read> reads, eviction_list& list) {
        const snapshot& s = view.s;
        const value_id v = read_in_one_bit(view, i, reads);
        if (!v.valid() || view.next.encoded[v]) return;
        const node_id packed_at = view.c.packed_at[v];
        if (!packed_at.valid() || packed_at >= view.home(view.peak)) return;
        const std::int64_t freed = view.bytes_of(i) - static_cast<std::int64_t>(encoded_bytes(s[v].elements));
        if (freed <= 0) return;
        list.copies.push_back({s[v].producer, i, from, reads.back().by});
        list.all.push_back({.first = list.copies.size() - 1, .count = 1, .freed = freed, .encodes = v});
    }

    /// The value that all those read from the storage, if its encoding would do.
    static value_id read_in_one_bit(const eviction_view& view, storage_id i,
                                    std::span<const storage_read> reads) {
        const auto made = view.s.outputs(reads[0].content); // mostly none of these is ever encoded
        if (std::none_of(made.begin(), made.end(), [&](value_id v) { return view.c.packable[v] != 0; }))
            return {};
        const schedule& steps = view.plan.steps();
        value_id found;
        for (const storage_read& read : reads) {
            const node_id n = steps[read.by].node;
            bool itself = false; // and not through what is fused into it
            for (std::size_t k = 0; k < steps.inputs(read.by).size(); ++k) {
                if (view.plan.live().storage(steps.inputs(read.by)[k]) != i) continue;
                if (steps[read.by].kind == step_kind::encode || !encodable(view.s, view.c, n, k)) return {};
                const value_id v = view.s.inputs(n)[k];
                if (found.valid() && v != found) return {};
                found = v;
                itself = true;
            }
            if (!itself) return {};
        }
        return found;
    }

    /// Whether all that step `by` reads is there at step `at` already.
    static bool is_ready(const eviction_view& view, step_id by, step_id at) {
        for (const auto c : view.plan.steps().inputs(by)) {
            if (view.plan.steps()[c.step].fused) return false;
            const storage_record& storage = view.plan.live()[view.plan.live().storage(c)];
            if (!storage.resident && (c.step > at || storage.first > at)) return false;
        }
        return true;
    }
};

} // namespace echo::detail
