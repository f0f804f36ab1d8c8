// SPDX-License-Identifier: BSL-1.0
/// @file
/// `copy_clocks`: how long the steps of a plan wait for copies to and from the host (docs/formats.md, "Offload").
#pragma once

#include <echo/analysis/plan/decision/cost.hpp>
#include <echo/analysis/plan/offload/copy_times.hpp>
#include <echo/analysis/plan/offload/link.hpp>
#include <echo/analysis/schedule/load_sweep.hpp>
#include <echo/analysis/schedule/read_walk.hpp>
#include <echo/analysis/schedule/schedule.hpp>
#include <echo/graph/id_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace echo {

/// What the copies of a plan cost.
struct copy_figures {
    std::size_t offloads = 0, reloads = 0;     ///< how many copies travel each way
    std::uint64_t out_bytes = 0, in_bytes = 0; ///< what they carry
    std::uint64_t host_bytes = 0;              ///< of the host's memory, at most at any time
    ticks stall = 0;                           ///< that the computation waits for them
    ticks out_busy = 0, in_busy = 0;           ///< how long copies travel each way
};

namespace detail {

/// The bytes of the host's memory at the moment that takes most: a copy takes them from the step that makes what
/// leaves to the first that names what its last reload step brings back.
inline std::uint64_t most_host_bytes(const schedule& steps) {
    id_vector<step_id, step_id> first_named(steps.size(), step_id::none()), until = first_named;
    for (const auto t : steps.steps())
        for (const auto c : steps.inputs(t))
            if (!first_named[c.step].valid()) first_named[c.step] = t;
    for (const auto t : steps.steps())
        if (steps[t].kind == step_kind::reload)
            until[steps.inputs(t)[0].step] = first_named[t].valid() ? std::max(first_named[t], t) : t;
    std::vector<std::uint64_t> loads;
    begin_loads(loads, steps.size());
    for (const auto t : steps.steps())
        if (steps[t].kind == step_kind::offload)
            add_life(loads, steps.inputs(t)[0].step.index(), (until[t].valid() ? until[t] : t).index(),
                     steps[t].bytes);
    return sum_lives(loads);
}

} // namespace detail

/// Runs the clocks: the computation takes one step after the other; copies travel in the order of their steps. What
/// leaves may do so from the end of the step that made it, and its offload step waits for it; what comes back begins
/// at its reload step, and its first reader waits for it. Calls `visit(step, begin, end)` with the time of
/// each run and each copy; of what is fused, there is none. O(steps + inputs). Errors: a link without rates.
template <class Visit>
copy_figures replay_copies(const schedule& steps, const run_times& times, const link_model& link,
                           const Visit& visit) {
    copy_figures found;
    const detail::copy_times copying(link, times.exponent);
    ticks now = 0, out_free = 0, in_free = 0;
    id_vector<step_id, ticks> ready(steps.size(), 0); // the end of the step, or of the copy that it begins
    read_walk walk;
    for (const auto t : steps.steps()) {
        const step_record& step = steps[t];
        if (step.fused) continue;
        if (step.kind == step_kind::offload) {
            const ticks takes = copying.out(step.bytes);
            ticks& free = link.both_ways ? out_free : in_free;
            free = std::max(free, ready[steps.inputs(t)[0].step]) + takes;
            visit(t, free - takes, free);
            found.stall += std::max<ticks>(0, free - now);
            now = ready[t] = std::max(now, free);
            found.out_busy += takes;
            found.out_bytes += step.bytes;
            ++found.offloads;
        } else if (step.kind == step_kind::reload) {
            const ticks takes = copying.in(step.bytes);
            ready[t] = in_free = std::max(in_free, now) + takes;
            visit(t, in_free - takes, in_free);
            found.in_busy += takes;
            found.in_bytes += step.bytes;
            ++found.reloads;
        } else {
            ticks begin = now;
            walk(steps, t, [&](std::uint32_t, copy_id c) { begin = std::max(begin, ready[c.step]); });
            found.stall += begin - now;
            now = ready[t] = begin + (runs_node(step.kind) ? times.of_node[step.node] : 0);
            visit(t, begin, now);
        }
    }
    found.host_bytes = detail::most_host_bytes(steps);
    return found;
}

/// What the copies cost. O(steps + inputs). Errors: as above.
[[nodiscard]] inline copy_figures replay_copies(const schedule& steps, const run_times& times,
                                                const link_model& link) {
    return replay_copies(steps, times, link, [](step_id, ticks, ticks) {});
}

} // namespace echo
