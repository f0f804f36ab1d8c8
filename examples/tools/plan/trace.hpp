// SPDX-License-Identifier: BSL-1.0
/// @file
/// A step of training as a trace that Perfetto and Chrome open (the Trace Event format): what runs when by the times of
/// the plan, and the bytes that are live, by what they are for; the graph's own order and the plan, one under the
/// other.
#pragma once

#include "format/json_out.hpp"

#include <echo/analysis/plan/decision/cost.hpp>
#include <echo/analysis/plan/offload/copy_clocks.hpp>
#include <echo/analysis/profile.hpp>
#include <echo/analysis/schedule/liveness.hpp>

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace echo::format {

namespace detail {

constexpr std::size_t structure_count = static_cast<std::size_t>(data_structure::workspace) + 1;

/// Live bytes at each step by data structure, residents left out.
inline std::vector<std::array<std::uint64_t, structure_count>> load_by_structure(const snapshot& s,
                                                                                 const schedule& steps) {
    std::vector<std::array<std::uint64_t, structure_count>> load(steps.size() + 1);
    liveness_analysis analyse;
    const liveness& live = analyse(s, steps);
    for (const auto i : live.storages()) {
        const storage_record& storage = live[i];
        if (storage.resident) continue;
        const auto what = static_cast<std::size_t>(echo::detail::structure_of(s, steps, storage));
        load[storage.first.index()][what] += storage.bytes;
        load[storage.last.index() + std::size_t{1}][what] -= storage.bytes; // wraps; the running sum does not
    }
    for (std::size_t t = 1; t < load.size(); ++t)
        for (std::size_t k = 0; k < structure_count; ++k) load[t][k] += load[t - 1][k];
    for (const auto t : steps.steps())
        if (runs_node(steps[t].kind))
            load[t.index()][static_cast<std::size_t>(data_structure::workspace)] = s[steps[t].node].workspace;
    return load;
}

/// When each step begins and ends: runs one after the other, and copies beside them.
inline std::vector<std::pair<ticks, ticks>> spans_of(const schedule& steps, const run_times& times,
                                                     const link_model& link) {
    std::vector<std::pair<ticks, ticks>> spans(steps.size());
    if (link) {
        static_cast<void>(replay_copies(steps, times, link, [&](step_id t, ticks begin, ticks end) {
            spans[t.index()] = {begin, end};
        }));
        return spans;
    }
    ticks now = 0;
    for (const auto t : steps.steps()) {
        const bool takes_time = runs_node(steps[t].kind) && !steps[t].fused;
        const ticks begin = now;
        now += takes_time ? times.of_node[steps[t].node] : 0;
        spans[t.index()] = {begin, now};
    }
    return spans;
}

/// The events of one schedule, as one process of the trace; its threads are runs, what runs again or is packed, and the
/// copies each way. Encode steps take no time.
inline void trace_schedule(json_out& out, const snapshot& s, const schedule& steps, const run_times& times,
                           const link_model& link, int process, std::string_view name) {
    out.put("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":", process, ",\"args\":{\"name\":");
    out.text(name);
    out.put("}}");
    const auto load = load_by_structure(s, steps);
    const auto spans = spans_of(steps, times, link);
    ticks now = 0;
    for (const auto t : steps.steps()) {
        const step_record& step = steps[t];
        constexpr std::string_view kinds[] = {"run", "recompute", "encode", "offload", "reload"};
        constexpr int threads[] = {1, 2, 2, 3, 4};
        const auto [begin, end] = step.fused ? std::pair(now, now) : spans[t.index()];
        out.put(",\n{\"ph\":\"X\",\"name\":");
        out.text(s.name(step.node));
        out.put(",\"cat\":\"", step.fused ? "fused" : kinds[static_cast<std::size_t>(step.kind)],
                "\",\"pid\":", process, ",\"tid\":", threads[static_cast<std::size_t>(step.kind)],
                ",\"ts\":");
        out.number(times.microseconds(begin));
        out.put(",\"dur\":");
        out.number(times.microseconds(end - begin));
        out.put(",\"args\":{\"step\":", t.index(), ",\"op\":");
        out.text(s.op_name(s[step.node].op));
        out.put(",\"layer\":");
        out.text(s.layer_name(s[step.node].layer));
        out.put("}},\n{\"ph\":\"C\",\"name\":\"live bytes\",\"pid\":", process, ",\"ts\":");
        out.number(times.microseconds(now));
        out.put(",\"args\":{");
        for (std::size_t k = 1; k < structure_count; ++k) // residents are there all the time
            out.put(k > 1 ? "," : "", "\"", name_of(static_cast<data_structure>(k)),
                    "\":", load[t.index()][k]);
        out.put("}}");
        if (runs_node(step.kind)) now = end;
    }
}

} // namespace detail

/// `link`: on which the plan moves values, if it moves any. O(steps + copies). Errors: as `liveness_analysis`.
inline void write_trace(const byte_sink& sink, const snapshot& s, const schedule& steps,
                        const link_model& link) {
    const run_times times = times_of(s);
    json_out out(sink);
    out.put("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    detail::trace_schedule(out, s, baseline_schedule(s), times, {}, 1, "the graph's own order");
    out.put(",\n");
    detail::trace_schedule(out, s, steps, times, link, 2, "with Echo");
    out.put("\n]}\n");
    out.flush();
}

} // namespace echo::format
