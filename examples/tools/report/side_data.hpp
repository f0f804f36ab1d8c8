// SPDX-License-Identifier: BSL-1.0
/// @file
/// One schedule as columns of a report's data: its steps, its storages with their lives and places, and why they stay.
#pragma once

#include "report/column.hpp"
#include "report/graph_data.hpp"
#include "report/reasons.hpp"
#include "report/storages.hpp"

#include <echo/analysis/memory/memory_plan.hpp>
#include <echo/analysis/schedule/footprint.hpp>

#include <string_view>
#include <vector>

namespace echo::report {

/// What is drawn as one curve.
struct side {
    std::string_view title{};           ///< such as "with Echo"
    std::size_t graph = 0;              ///< which of the report's graphs it runs
    const snapshot* of = nullptr;       ///< that graph
    const schedule* steps = nullptr;    ///< in its order
    bool has_reasons = true;            ///< not so: nobody asks why its values stay
    const memory_plan* arena = nullptr; ///< nullptr: nothing is said of places
};

namespace detail {

/// What the page is told of a fused step instead of its kind.
inline constexpr int fused_step = 5;

inline void put_steps(json_out& out, const schedule& steps) {
    const auto at = [&](std::size_t i) { return steps[step_id(i)]; };
    put_differences(out, "node", steps.size(), [&](std::size_t i) { return at(i).node.index(); });
    put_sparse(out, "kind", steps.size(),
               [&](std::size_t i) { return at(i).fused ? fused_step : static_cast<int>(at(i).kind); });
}

inline void put_storages(json_out& out, const liveness& live, const std::vector<storage_id>& shown,
                         const memory_plan* arena) {
    const auto at = [&](std::size_t i) { return live[shown[i]]; };
    const std::size_t count = shown.size();
    put_key(out, "storages");
    out.put("{\"count\":", count);
    put_differences(out, "first", count, [&](std::size_t i) { return at(i).maker.step.index(); });
    put_sparse(out, "output", count, [&](std::size_t i) { return at(i).maker.output; });
    put_column(out, "bytes", count, [&](std::size_t i) { return at(i).bytes; });
    put_column(out, "length", count, [&](std::size_t i) { return at(i).last.index() - at(i).first.index(); });
    put_column(out, "read", count, [&](std::size_t i) { // steps from its making to the last that reads it
        return at(i).last_read.valid() ? std::int64_t{at(i).last_read.index()} - at(i).first.index() : -1;
    });
    put_sparse(out, "flags", count, [&](std::size_t i) { return at(i).holds_result + 2 * at(i).encoded; });
    if (arena)
        put_column(out, "offset", count,
                   [&](std::size_t i) { return arena->offset(at(i).maker).value_or(0); });
    out.put("}");
}

inline void put_reasons(json_out& out, const snapshot& s, const std::vector<reason>& all,
                        const std::vector<storage_id>& shown) {
    std::vector<std::size_t> position(shown.empty() ? 0 : shown.back().index() + std::size_t{1}, 0);
    for (std::size_t i = 0; i < shown.size(); ++i) position[shown[i].index()] = i;
    const run_times times = times_of(s);
    const auto node = [](node_id n) { return n.valid() ? std::int64_t{n.index()} : -1; };
    const std::size_t count = all.size();
    put_key(out, "reasons");
    out.put("{\"count\":", count);
    put_differences(out, "storage", count, [&](std::size_t i) { return position[all[i].storage.index()]; });
    put_column(out, "kind", count, [&](std::size_t i) { return static_cast<int>(all[i].kind); });
    put_column(out, "value", count, [&](std::size_t i) { return node(all[i].value); });
    put_column(out, "reader", count, [&](std::size_t i) { return node(all[i].reader); });
    put_column(out, "culprit", count, [&](std::size_t i) { return node(all[i].culprit); });
    put_column(out, "nodes", count, [&](std::size_t i) { return all[i].count; });
    put_column(out, "ns", count, [&](std::size_t i) {
        return std::llround(1000 * std::min(times.microseconds(all[i].time), 1e15));
    });
    out.put("}");
}

/// Those that come and go: resident ones are there all the time.
inline std::vector<storage_id> passing(const liveness& live) {
    std::vector<storage_id> shown;
    for (const auto i : live.storages())
        if (!live[i].resident && live[i].bytes > 0) shown.push_back(i);
    return shown;
}

} // namespace detail

/// O(steps + copies + what reasons take). Errors: as `liveness_analysis`.
inline void put_side(json_out& out, const side& shown) {
    const snapshot& s = *shown.of;
    const storages found = storages_of(s, *shown.steps);
    const std::vector<storage_id> ids = detail::passing(found.live);
    std::vector<reason> reasons;
    if (shown.has_reasons) reasons = reasons_of(s, *shown.steps, found);
    std::erase_if(reasons, [&](const reason& why) { return found.live[why.storage].bytes == 0; });
    const footprint_result judged = footprint(s, *shown.steps);
    out.put("{");
    put_key(out, "title", true);
    out.text(shown.title);
    out.put(",\"graph\":", shown.graph, ",\"steps\":", shown.steps->size(), ",\"peak\":", judged.peak_bytes,
            ",\"peakStep\":", judged.peak_step.valid() ? judged.peak_step.index() : 0,
            ",\"boundary\":", found.boundary.index(), ",\"resident\":", resident_bytes(s),
            ",\"arena\":", shown.arena ? shown.arena->bytes() : 0);
    detail::put_steps(out, *shown.steps);
    detail::put_storages(out, found.live, ids, shown.arena);
    detail::put_reasons(out, s, reasons, ids);
    out.put("}");
}

} // namespace echo::report
