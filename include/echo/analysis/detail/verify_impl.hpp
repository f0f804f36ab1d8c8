// SPDX-License-Identifier: BSL-1.0
/// @file
/// What `verify` compares with the second replay. `echo::core` compiles it once.
#pragma once

#include <echo/analysis/memory/memory_plan.hpp>
#include <echo/analysis/plan/decision/cost.hpp>
#include <echo/analysis/plan/plan.hpp>
#include <echo/analysis/verify.hpp>
#include <echo/analysis/verify/check_arena.hpp>
#include <echo/analysis/verify/check_copies.hpp>
#include <echo/analysis/verify/checked_replay.hpp>

#include <cstdint>
#include <string>

namespace echo {
namespace detail {

/// Compares a report with the replay.
class report_check {
public:
    report_check(const snapshot& s, const checked_schedule& c, const plan_report& report,
                 const device_model& device)
        : s_(s), c_(c), report_(report), device_(device) {}

    void operator()() const {
        equal("baseline_peak_bytes", report_.baseline_peak_bytes, c_.before.peak_bytes);
        equal("peak_bytes", report_.peak_bytes, c_.after.peak_bytes);
        equal("resident_bytes", report_.resident_bytes, c_.before.resident_bytes);
        equal("baseline_stash_bytes", report_.baseline_stash_bytes, c_.before.stash_bytes);
        equal("stash_bytes", report_.stash_bytes, c_.after.stash_bytes);
        if (c_.after.peak_bytes > c_.before.peak_bytes)
            refuse("peak_bytes", std::to_string(c_.after.peak_bytes) + " is more than the baseline's " +
                                     std::to_string(c_.before.peak_bytes));
        if (report_.lower_bound_bytes > c_.after.peak_bytes)
            refuse("lower_bound_bytes", std::to_string(report_.lower_bound_bytes) +
                                            " lies above the peak of " + std::to_string(c_.after.peak_bytes));
        std::uint64_t recomputed = 0, encoded = 0, fused = 0;
        double spent = 0, total = 0;
        for (std::size_t t = 0; t < c_.steps.size(); ++t) {
            const auto& step = c_.steps.steps[t];
            encoded += step.kind == step_kind::encode;
            if (step.kind != step_kind::recompute) continue;
            ++recomputed;
            fused += step.fused;
            if (!step.fused) spent += time_of(step.node);
        }
        equal("recomputed_nodes", report_.recomputed_nodes, recomputed);
        equal("encoded_values", report_.encoded_values, encoded);
        equal("fused_nodes", report_.fused_nodes, fused);
        for (const auto n : s_.nodes()) total += time_of(n);
        close_to("recompute_time_ratio", report_.recompute_time_ratio, total > 0 ? spent / total : 0);
        const auto copies = check_copies(c_.steps, report_.link, [&](node_id n) { return time_of(n); });
        equal("offloaded_values", report_.offloaded_values, copies.offloads);
        equal("offloaded_bytes", report_.offloaded_bytes, copies.out_bytes);
        equal("host_bytes", report_.host_bytes, copies.host_bytes);
        close_to("stall_time_ratio", report_.stall_time_ratio, total > 0 ? copies.stall_us / total : 0);
    }

private:
    static void close_to(const char* key, double reported, double found) {
        const double off = reported - found;
        if (!detail::is_finite(off) || off > 5e-9 || off < -5e-9)
            refuse(key, "is " + std::to_string(reported) + ", but the times of the nodes give " +
                            std::to_string(found));
    }
    [[noreturn]] static void refuse(const std::string& key, const std::string& problem) {
        throw error({}, "report." + key, problem, "report what the steps achieve");
    }

    static void equal(const char* key, std::uint64_t reported, std::uint64_t found) {
        if (reported != found)
            refuse(key, "is " + std::to_string(reported) + ", but the replay finds " + std::to_string(found));
    }

    /// Microseconds of one run (docs/formats.md, `time_us`).
    double time_of(node_id n) const {
        const node_record& node = s_[n];
        if (node.time_us >= 0) return node.time_us; // measured
        if (node.phase == phase::input || node.kind == op_kind::view) return 0;
        double bytes = 0;
        for (const auto v : s_.outputs(n)) bytes += static_cast<double>(s_[v].bytes);
        for (const auto v : s_.inputs(n)) bytes += static_cast<double>(s_[v].bytes);
        return device_.launch_us + node.flops / device_.flops_per_us + bytes / device_.bytes_per_us;
    }

    const snapshot& s_;
    const checked_schedule& c_;
    const plan_report& report_;
    const device_model& device_;
};

} // namespace detail

ECHO_INLINE void verify(const snapshot& s, const plan& p, const device_model& device) {
    const auto checked = detail::checked_replay(s, p.steps(), p.host());
    detail::report_check(s, checked, p.report(), device)();
}

ECHO_INLINE void verify(const snapshot& s, const plan& p, const memory_plan& m, const device_model& device) {
    const auto checked = detail::checked_replay(s, p.steps(), p.host());
    detail::report_check(s, checked, p.report(), device)();
    detail::arena_check(s, checked, m)();
}

} // namespace echo
