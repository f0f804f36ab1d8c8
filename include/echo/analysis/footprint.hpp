// SPDX-License-Identifier: BSL-1.0
/// @file
/// `footprint`: the exact replay of a schedule, the only judge of every plan (docs/formats.md, "Peak").
#pragma once

#include <echo/analysis/liveness.hpp>

#include <cstdint>

namespace echo {

/// What a replay finds.
struct footprint_result {
    std::uint64_t peak_bytes = 0; ///< largest sum over the steps: live non-resident storages and workspace
    step_id peak_step{};          ///< the first step that reaches it
    std::uint64_t stash_bytes =
        0; ///< made before the first non-view backward or update step, read at or after it
};

/// The first step of phase `backward` or `update` that is no view; `steps.size()` if there is none.
inline step_id first_backward_step(const snapshot& s, const schedule& steps) {
    for (const auto t : steps.steps()) {
        const node_record& node = s[steps[t].node];
        const bool backward = node.phase == phase::backward || node.phase == phase::update;
        if (steps[t].kind != step_kind::encode && backward && node.kind != op_kind::view) return t;
    }
    return step_id(steps.size());
}

/// Replays schedules; scratch memory is kept between calls.
class replay {
public:
    /// O(steps + copies). Errors: as `liveness_analysis`.
    footprint_result operator()(const snapshot& s, const schedule& steps) {
        const liveness& live = analyse_(s, steps);
        load_.assign(steps.size() + 1, 0);
        for (const auto i : live.storages()) {
            const storage_record& storage = live[i];
            if (storage.resident) continue;
            load_[storage.first.index()] += storage.bytes;
            load_[storage.last.index() + 1] -= storage.bytes; // wraps; the running sum does not
        }
        footprint_result result;
        std::uint64_t now = 0;
        for (const auto t : steps.steps()) {
            now += load_[t.index()];
            const step_record& step = steps[t];
            load_[t.index()] = now + (step.kind == step_kind::encode ? 0 : s[step.node].workspace);
            if (load_[t.index()] > result.peak_bytes || !result.peak_step.valid()) {
                result.peak_bytes = load_[t.index()];
                result.peak_step = t;
            }
        }
        result.stash_bytes = stash_bytes(live, first_backward_step(s, steps));
        live_ = &live;
        return result;
    }

    /// Of the last replay: live bytes and workspace at each step.
    std::span<const std::uint64_t> load() const noexcept { return {load_.data(), load_.size() - 1}; }
    /// Of the last replay.
    const liveness& live() const noexcept { return *live_; }

private:
    /// A value read at or after the boundary has its storage live there; results that nobody reads are no
    /// stash.
    static std::uint64_t stash_bytes(const liveness& live, step_id boundary) {
        std::uint64_t sum = 0;
        for (const auto i : live.storages())
            if (!live[i].resident && live[i].first < boundary && live[i].last_read.valid() &&
                live[i].last_read >= boundary)
                sum += live[i].bytes;
        return sum;
    }

    liveness_analysis analyse_;
    detail::large_vector<std::uint64_t> load_;
    const liveness* live_ = nullptr;
};

/// The figures of one schedule. O(nodes + edges + steps). Errors: as `replay`.
inline footprint_result footprint(const snapshot& s, const schedule& steps) { return replay{}(s, steps); }

/// Bytes of all resident storages, each once, whether their nodes run or not: a fact of the graph in its own
/// order.
inline std::uint64_t resident_bytes(const snapshot& s) {
    std::uint64_t sum = 0;
    const schedule steps = baseline_schedule(s);
    liveness_analysis analyse;
    const liveness& live = analyse(s, steps);
    for (const auto i : live.storages())
        if (live[i].resident) sum += live[i].bytes;
    return sum;
}

} // namespace echo
