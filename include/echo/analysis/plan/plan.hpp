// SPDX-License-Identifier: BSL-1.0
/// @file
/// `plan`: what to do, as a value. A plan is its steps; what else it says is derived from them and reported.
#pragma once

#include <echo/analysis/plan/offload/link.hpp>
#include <echo/analysis/schedule/schedule.hpp>
#include <echo/graph/host_abilities.hpp>

#include <algorithm>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace echo {

/// How the stash is chosen. `echo_printed` is the paper's algorithm to the letter, kept for comparison.
enum class strategy : std::uint8_t { baseline, mirror, echo, echo_printed, min_cut, budget };

/// The name that the command line and `echo-plan/1` use.
constexpr std::string_view name_of(strategy how) noexcept {
    constexpr std::string_view names[] = {"baseline", "mirror", "echo", "echo_printed", "min_cut", "budget"};
    return names[static_cast<std::size_t>(how)];
}
/// Those that need no figure to be told.
inline constexpr strategy all_strategies[] = {strategy::baseline, strategy::mirror, strategy::echo,
                                              strategy::echo_printed, strategy::min_cut};

/// A budget in bytes that every plan meets.
inline constexpr std::uint64_t any_peak = ~std::uint64_t{0};

/// What a plan achieves; every figure comes from the replay. Bytes, unless the name says otherwise.
struct plan_report {
    /// Without Echo: the graph in its own order.
    std::uint64_t baseline_peak_bytes = 0;
    /// Of the plan; never more than without Echo.
    std::uint64_t peak_bytes = 0;
    /// What the host's own allocator takes, if `plan_options` has one; else 0.
    std::uint64_t baseline_allocated_bytes = 0, allocated_bytes = 0;
    /// Live whatever is planned: parameters, optimizer state and data.
    std::uint64_t resident_bytes = 0;
    /// Without Echo: made by the forward pass and kept for the backward pass.
    std::uint64_t baseline_stash_bytes = 0;
    /// Of the plan: made by the forward pass and kept for the backward pass.
    std::uint64_t stash_bytes = 0;
    /// Certified: no legal plan has a lower peak that runs each gradient once, keeps their order, and runs again only
    /// what the strategy may: light nodes, or with `budget` heavy ones too (lower_bound.hpp); where values may be
    /// offloaded, over the link that was given.
    std::uint64_t lower_bound_bytes = 0;
    /// Steps that run a node again.
    std::size_t recomputed_nodes = 0;
    /// Values that are kept in one bit per element.
    std::size_t encoded_values = 0;
    std::size_t fused_nodes = 0;     ///< those of the recomputed nodes that run inside their readers
    double recompute_time_ratio = 0; ///< time of recompute steps not fused ÷ time of all the graph's nodes
    /// Over which values leave, where they may.
    link_model link{};
    /// Values that wait in the host's memory, and the bytes that leave for it.
    std::size_t offloaded_values = 0;
    std::uint64_t offloaded_bytes = 0; ///< that leave in a step, each time counted
    /// Of the host's memory, at most at any time.
    std::uint64_t host_bytes = 0;
    double stall_time_ratio = 0; ///< time that the steps wait for copies ÷ time of all the graph's nodes
    /// How long copies leave, and how long they come back ÷ time of all the graph's nodes.
    double out_time_ratio = 0, in_time_ratio = 0;
    /// Certified, where a budget in bytes is kept: no plan that keeps it and runs each gradient once, in their order,
    /// has a lower `recompute_time_ratio`. Else 0.
    double recompute_time_bound = 0;
    std::size_t subgraphs = 0;             ///< pieces into which the compute-heavy ops cut the graph
    std::size_t largest_subgraph = 0;      ///< nodes of the largest of them
    std::uint64_t budget_bytes = any_peak; ///< what was asked for
    node_id
        blocker{}; ///< if the budget is not met: makes the largest value live at the peak, or needs the workspace
    /// Bytes of that value, or of that workspace.
    std::uint64_t blocker_bytes = 0;
    /// Backward nodes of the graph, and those of them that are dead: no result needs them, so nothing of them runs.
    std::size_t backward_nodes = 0, dead_backward_nodes = 0;
    /// Input nodes that backward nodes read, all of which are dead, as are all that read what their readers read.
    std::vector<node_id> inputs_of_dead_nodes{};
    /// Ops that nothing is known of: they are left alone.
    std::vector<std::string> unknown_ops{};
    /// Schedules that the search replayed, over all plans that it compared.
    std::size_t replays = 0;
    /// What else the user should know, a line each.
    std::vector<std::string> notes{};

    /// Whether the budget that was asked for is kept.
    bool met() const noexcept { return std::max(peak_bytes, allocated_bytes) <= budget_bytes; }
};

/// One point of a front: some plan of this peak takes this much recomputation.
struct front_point {
    /// Bytes: some plan has this peak.
    std::uint64_t peak_bytes = 0;
    double recompute_time_ratio = 0; ///< as in `plan_report`
    friend bool operator==(const front_point&, const front_point&) = default;
};

/// Peak against recomputation, from the baseline down to the least peak found: peaks fall and times rise from point to
/// point.
struct plan_front {
    /// Bytes: the peak of the graph in its own order.
    std::uint64_t baseline_peak_bytes = 0;
    std::uint64_t lower_bound_bytes = 0; ///< certified, as in `plan_report`, at whatever price
    /// From the baseline on, by falling peaks.
    std::vector<front_point> points{};
};

/// Two plans are equal if their strategies and steps are.
class plan {
public:
    plan() = default;
    /// Takes over what a strategy has made; nothing is checked here: that is what `verify` is for.
    plan(strategy how, schedule steps, host_abilities host, plan_report report)
        : strategy_(how), steps_(std::move(steps)), host_(host), report_(std::move(report)) {}

    /// The strategy that made it.
    strategy chosen_by() const noexcept { return strategy_; }
    /// What runs, in this order.
    const schedule& steps() const noexcept { return steps_; }
    /// What the host was taken to be able to do.
    const host_abilities& host() const noexcept { return host_; }
    /// What it achieves.
    const plan_report& report() const noexcept { return report_; }
    /// Bytes: no plan has a lower peak, as `plan_report` says.
    std::uint64_t lower_bound() const noexcept { return report_.lower_bound_bytes; }
    /// Bytes: the peak of this plan.
    std::uint64_t best() const noexcept { return report_.peak_bytes; }
    /// Whether the budget that was asked for is kept.
    bool met() const noexcept { return report_.met(); }

    /// Nodes that run again, fused or not, in execution order: for hosts whose own gradient pass recomputes marked
    /// nodes.
    /// O(steps).
    std::vector<node_id> mirrored() const {
        std::vector<node_id> again;
        for (const auto t : steps_.steps())
            if (steps_[t].kind == step_kind::recompute) again.push_back(steps_[t].node);
        return again;
    }

    /// Whether strategy and steps are the same.
    friend bool operator==(const plan& a, const plan& b) {
        return a.strategy_ == b.strategy_ && a.steps_ == b.steps_;
    }

private:
    strategy strategy_ = strategy::baseline;
    schedule steps_;
    host_abilities host_;
    plan_report report_;
};

/// The report in a few lines for people: notes, a budget that is not met, then before, after, bound, overhead.
template <class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, const plan_report& r) {
    const auto megabytes = [](std::uint64_t bytes) { return static_cast<double>(bytes) / 1e6; };
    const auto gap = static_cast<double>(r.peak_bytes - r.lower_bound_bytes);
    const auto bound = static_cast<double>(r.lower_bound_bytes);
    for (const auto& note : r.notes) out << "note: " << note << '\n';
    if (!r.met())
        out << "budget not met: " << megabytes(std::max(r.peak_bytes, r.allocated_bytes)) << " MB needed, "
            << megabytes(r.budget_bytes) << " MB asked for\n";
    out << "peak " << megabytes(r.baseline_peak_bytes) << " -> " << megabytes(r.peak_bytes) << " MB";
    if (r.peak_bytes) {
        out << " (" << static_cast<double>(r.baseline_peak_bytes) / static_cast<double>(r.peak_bytes)
            << "x, bound " << megabytes(r.lower_bound_bytes) << " MB, gap "
            << (bound > 0 ? 100 * gap / bound : 0.0) << " %)";
    }
    out << "\nstash " << megabytes(r.baseline_stash_bytes) << " -> " << megabytes(r.stash_bytes)
        << " MB, resident " << megabytes(r.resident_bytes) << " MB\nrecomputed nodes " << r.recomputed_nodes
        << ", encoded values " << r.encoded_values;
    if (r.fused_nodes > 0) out << ", fused nodes " << r.fused_nodes;
    if (r.offloaded_values > 0)
        out << ", offloaded values " << r.offloaded_values << " (" << megabytes(r.offloaded_bytes)
            << " MB, stall " << 100 * r.stall_time_ratio << " % of a step)";
    out << ", recompute time " << 100 * r.recompute_time_ratio << " % of a step";
    if (r.recompute_time_bound > 0) out << " (bound " << 100 * r.recompute_time_bound << " %)";
    if (r.recompute_time_ratio > 1) out << ": recomputation takes longer than the step without it";
    out << '\n';
    for (const auto& op : r.unknown_ops) out << "unknown op (left alone): " << op << '\n';
    return out;
}

} // namespace echo
