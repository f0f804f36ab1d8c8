// SPDX-License-Identifier: BSL-1.0
/// @file
/// `check_copies`: how long a plan waits for its copies. Written from docs/formats.md ("Offload") alone.
#pragma once

#include <echo/analysis/plan/offload/link.hpp>
#include <echo/analysis/verify/checked_replay.hpp>
#include <echo/analysis/verify/copy_reads.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace echo::detail {

/// What moves, by the steps of a plan; times in microseconds.
struct checked_copies {
    std::uint64_t offloads = 0, out_bytes = 0, host_bytes = 0;
    double stall_us = 0;
};

/// Runs the computation and the copies by their clocks. `time_of`: microseconds of one run of a node. O(steps +
/// copies read).
template <class TimeOf>
checked_copies check_copies(const resolved_steps& r, const link_model& link, const TimeOf& time_of) {
    checked_copies found;
    copy_reads reads(r);
    std::vector<double> ready(r.size(), 0);
    std::vector<std::uint32_t> named_by(r.size(), 0); // the first step that names something of a step
    for (std::size_t t = r.size(); t-- > 0;)
        for (const auto c : reads.named(t)) named_by[reads.maker(c)] = static_cast<std::uint32_t>(t);
    std::vector<std::uint32_t> away_until(r.size(), 0);
    double now = 0, engine[2] = {0, 0};
    for (std::size_t t = 0; t < r.size(); ++t) {
        const auto& step = r.steps[t];
        const auto bytes = static_cast<double>(step.bytes);
        if (step.fused) continue;
        if (step.kind == step_kind::offload) {
            ++found.offloads;
            found.out_bytes += step.bytes;
            away_until[t] = static_cast<std::uint32_t>(t);
            double& out = engine[0];
            out = std::max(out, ready[reads.maker(reads.named(t)[0])]) + bytes / link.out_bytes_per_us;
            if (out > now) found.stall_us += out - now;
            ready[t] = now = std::max(now, out);
        } else if (step.kind == step_kind::reload) {
            away_until[reads.maker(reads.named(t)[0])] = std::max(named_by[t], static_cast<std::uint32_t>(t));
            double& in = engine[link.both_ways];
            in = std::max(in, now) + bytes / link.in_bytes_per_us;
            ready[t] = in;
        } else {
            double begin = now;
            for (const auto c : reads.gather(t)) begin = std::max(begin, ready[reads.maker(c)]);
            found.stall_us += begin - now;
            const bool runs = step.kind == step_kind::run || step.kind == step_kind::recompute;
            ready[t] = now = begin + (runs ? time_of(step.node) : 0);
        }
    }
    std::vector<std::uint64_t> begins(r.size() + 1, 0), ends(r.size() + 1, 0);
    for (std::size_t t = 0; t < r.size(); ++t) {
        if (r.steps[t].kind != step_kind::offload) continue;
        begins[reads.maker(reads.named(t)[0])] += r.steps[t].bytes;
        ends[away_until[t] + 1] += r.steps[t].bytes;
    }
    std::uint64_t held = 0;
    for (std::size_t t = 0; t < r.size(); ++t) {
        held = held - ends[t] + begins[t];
        found.host_bytes = std::max(found.host_bytes, held);
    }
    return found;
}

} // namespace echo::detail
