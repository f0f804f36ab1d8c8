// SPDX-License-Identifier: BSL-1.0
/// @file
/// `footprint`: the exact replay of a schedule, the only judge of every plan (docs/formats.md, "Peak").
#pragma once

#include <echo/analysis/schedule/liveness.hpp>
#include <echo/analysis/schedule/load_sweep.hpp>

#include <cstdint>
#include <span>

namespace echo {

/// What a replay finds.
struct footprint_result {
    std::uint64_t peak_bytes = 0; ///< largest sum over the steps: live non-resident storages and workspace
    step_id peak_step{};          ///< the first step that reaches it
    /// Made before the first non-view backward or update step, read at or after it.
    std::uint64_t stash_bytes = 0;
};

/// The first step of phase `backward` or `update` that is no view; `steps.size()` if there is none. O(steps). Errors:
/// none.
[[nodiscard]] inline step_id first_backward_step(const snapshot& s, const schedule& steps) {
    for (const auto t : steps.steps()) {
        const node_record& node = s[steps[t].node];
        const bool backward = node.phase == phase::backward || node.phase == phase::update;
        if (runs_node(steps[t].kind) && backward && node.kind != op_kind::view) return t;
    }
    return step_id(steps.size());
}

/// A schedule replayed: its figures, what is live when, and the load of each step.
struct replayed {
    footprint_result footprint{};
    /// What is live when.
    liveness live{};
    detail::large_vector<std::uint64_t> loads{}; ///< by step: live bytes and workspace; and one entry more
    /// By step: live bytes and workspace.
    std::span<const std::uint64_t> load() const noexcept { return {loads.data(), loads.size() - 1}; }
};

/// Replays schedules; scratch memory is kept between calls.
class replay {
public:
    /// O(steps + copies). Errors: as `liveness_analysis`.
    [[nodiscard]] replayed operator()(const snapshot& s, const schedule& steps) {
        replayed result;
        (*this)(s, steps, result);
        return result;
    }
    /// The same into `result`, whose memory is used again.
    void operator()(const snapshot& s, const schedule& steps, replayed& result) {
        analyse_(s, steps, result.live);
        auto& load = result.loads;
        detail::begin_loads(load, steps.size());
        for (const auto i : result.live.storages()) {
            const storage_record& storage = result.live[i];
            if (!storage.resident)
                detail::add_life(load, storage.first.index(), storage.last.index(), storage.bytes);
        }
        result.footprint = {};
        std::uint64_t live = 0;
        for (std::size_t i = 0; const auto t : steps.steps()) {
            const step_record& step = steps[t];
            std::uint64_t& now = load[i++];
            now = live += now;
            if (runs_node(step.kind)) now += s[step.node].workspace;
            if (now > result.footprint.peak_bytes || !result.footprint.peak_step.valid()) {
                result.footprint.peak_bytes = now;
                result.footprint.peak_step = t;
            }
        }
        result.footprint.stash_bytes = stash_bytes(result.live, first_backward_step(s, steps));
    }

private:
    /// A value read at or after the boundary has its storage live there; results that nobody reads are no
    /// stash.
    static std::uint64_t stash_bytes(const liveness& live, step_id boundary) {
        std::uint64_t sum = 0;
        for (const auto i : live.storages()) {
            const storage_record& storage = live[i];
            if (storage.first >= boundary) break; // they are in the order of their makers
            if (!storage.resident && storage.last_read.valid() && storage.last_read >= boundary)
                sum += storage.bytes;
        }
        return sum;
    }

    liveness_analysis analyse_;
};

/// The figures of one schedule. O(nodes + edges + steps). Errors: as `replay`.
[[nodiscard]] inline footprint_result footprint(const snapshot& s, const schedule& steps) {
    return replay{}(s, steps).footprint;
}

/// Bytes of all resident storages, each once, whether their nodes run or not: a fact of the graph in its own
/// order. O(nodes + edges). Errors: as `liveness_analysis`.
[[nodiscard]] inline std::uint64_t resident_bytes(const snapshot& s) {
    std::uint64_t sum = 0;
    const schedule steps = baseline_schedule(s);
    liveness_analysis analyse;
    const liveness& live = analyse(s, steps);
    for (const auto i : live.storages())
        if (live[i].resident) sum += live[i].bytes;
    return sum;
}

} // namespace echo
