// SPDX-License-Identifier: BSL-1.0
/// @file
/// `make_plan`: the one entry point of planning. Every strategy proposes choices; each is laid out and
/// replayed; the replay chooses, and what is worse than the baseline is rolled back.
#pragma once

#include <echo/analysis/echo.hpp>
#include <echo/analysis/evaluate.hpp>
#include <echo/analysis/lower_bound.hpp>
#include <echo/analysis/min_cut.hpp>
#include <echo/analysis/mirror.hpp>
#include <echo/analysis/partition.hpp>
#include <echo/analysis/plan.hpp>
#include <echo/analysis/roll_back.hpp>
#include <echo/analysis/spare.hpp>

#include <numeric>
#include <type_traits>
#include <utility>

namespace echo {

/// Refers to something callable with the part done, 0 to 1; does not own it.
class progress_callback {
public:
    progress_callback() = default;
    template <class F>
        requires std::is_invocable_v<F&, double>
    progress_callback(F&& call) // NOLINT: meant to convert
        : object_(const_cast<void*>(static_cast<const void*>(&call))), call_([](void* object, double part) {
              (*static_cast<std::remove_reference_t<F>*>(object))(part);
          }) {}
    explicit operator bool() const noexcept { return call_ != nullptr; }
    void operator()(double part) const { call_(object_, part); }

private:
    void* object_ = nullptr;
    void (*call_)(void*, double) = nullptr;
};

/// Options of `make_plan`; every default is the recommended choice.
struct plan_options {
    strategy how = strategy::min_cut;
    bool encode = true;                ///< one-bit encodings are candidates
    host_abilities host{};             ///< what the executor can do
    device_model device{};             ///< for nodes without a measured time
    std::size_t anchor_distances = 10; ///< how many anchor distances `echo` and `min_cut` try at most
    std::size_t weight_rounds = 8;     ///< how often `min_cut` moves the weight of bytes to the peak
    progress_callback progress{};      ///< called now and then with the part done, 0 to 1
};

namespace detail {

class planner {
public:
    planner(const snapshot& s, const plan_options& options)
        : s_(s), options_(options), c_(find_candidates(s, options.host, options.device)), anchors_(s, c_),
          evaluate_(s, c_) {}

    plan run() {
        schedule before = baseline_schedule(s_);
        const footprint_result baseline = judge_(s_, before);
        report_.baseline_peak_bytes = baseline.peak_bytes;
        report_.baseline_stash_bytes = baseline.stash_bytes;
        const liveness& live = judge_.live();
        for (const auto i : live.storages())
            if (live[i].resident) report_.resident_bytes += live[i].bytes;

        best_ = {.decided = choice::nothing(s_), .steps = std::move(before), .footprint = baseline};
        if (options_.how != strategy::baseline) {
            propose();
            keep_promise(baseline.peak_bytes);
        }
        finish();
        return {options_.how, std::move(best_.steps), options_.host, std::move(report_)};
    }

private:
    void propose() {
        proposals_ = 0;
        switch (options_.how) {
        case strategy::baseline:
            break;
        case strategy::mirror:
            consider(mirror(s_, c_));
            break;
        case strategy::echo_printed:
            consider(echo_as_printed(s_, c_, gradient_needs(s_, c_, options_.encode)));
            break;
        case strategy::echo: {
            const gradient_needs needs(s_, c_, options_.encode);
            sweep([&](const backward_needs& when, choice& out) { out = echo_pass(s_, c_, needs, when); });
            break;
        }
        case strategy::min_cut: {
            min_cut solve(s_, c_);
            sweep([&](const backward_needs& when, choice& out) {
                solve(when, {.encode = options_.encode}, out);
            });
            weigh(solve);
            spare(evaluate_, proposed_, proposed_.footprint.peak_bytes);
            break;
        }
        }
    }

    /// The cut counts bytes where the backward pass begins; the peak may stand elsewhere, and what is made
    /// again is held there too. So bytes are weighed by when they are live, and each replay moves weight to
    /// its peak: the subgradient method on the largest load over all steps.
    void weigh(min_cut& solve) {
        if (s_.node_count() == 0) return;
        const backward_needs when = anchors_(best_distance_);
        std::vector<double> weight(s_.node_count(), 0), sums(s_.node_count() + 1, 0);
        weight[backward_node_at(proposed_.steps, first_backward_step(s_, proposed_.steps))] = 0.5;
        weight[backward_node_at(proposed_.steps, proposed_.footprint.peak_step)] += 0.5;
        previous_ = {};
        for (std::size_t round = 0; round < options_.weight_rounds; ++round) {
            std::partial_sum(weight.begin(), weight.end(), sums.begin() + 1);
            trial t{.decided = choice::nothing(s_), .steps = {}, .footprint = {}};
            solve(when, {.weight_sums = sums, .encode = options_.encode}, t.decided);
            if (t.decided == previous_) break;
            previous_ = t.decided;
            evaluate_(t);
            const double part = 1.0 / static_cast<double>(round + 3);
            for (double& w : weight) w *= 1 - part;
            weight[backward_node_at(t.steps, t.footprint.peak_step)] += part;
            if (t.better_than(proposed_)) proposed_ = std::move(t);
        }
    }

    /// Index of the backward node that runs at the step, or first after it.
    std::size_t backward_node_at(const schedule& steps, step_id from) const {
        for (std::size_t i = from.index(); i < steps.size(); ++i) {
            const step_record& step = steps[step_id(i)];
            if (step.kind == step_kind::run && is_backward(s_[step.node].phase)) return step.node.index();
        }
        return s_.node_count() - 1;
    }

    template <class Strategy>
    void sweep(const Strategy& propose_at) {
        backward_needs when = anchors_(no_anchor);
        const auto distances = anchor_distances(when.largest_span, options_.anchor_distances);
        for (std::size_t i = 0; i < distances.size(); ++i) {
            if (options_.progress)
                options_.progress(static_cast<double>(i) / static_cast<double>(distances.size()));
            choice proposal = choice::nothing(s_);
            if (i > 0) when = anchors_(distances[i]);
            propose_at(when, proposal);
            if (std::exchange(previous_, proposal) != proposal || i == 0)
                if (consider(std::move(proposal))) best_distance_ = distances[i];
        }
    }

    /// Whether it is the best so far.
    bool consider(choice decided) {
        trial t{.decided = std::move(decided), .steps = {}, .footprint = {}};
        evaluate_(t);
        const bool better = proposals_++ == 0 || t.better_than(proposed_);
        if (better) proposed_ = std::move(t);
        return better;
    }

    /// Law 1, and no recomputation for nothing. What even an empty choice breaks (a dead node kept storage from being
    /// taken over) stays the baseline.
    void keep_promise(std::uint64_t limit) {
        const std::size_t taken_back = roll_back(evaluate_, proposed_, limit);
        if (taken_back > 0)
            report_.notes.push_back(std::to_string(taken_back) +
                                    " of the subgraphs to recompute were rolled back: they "
                                    "would have raised the peak above the baseline's");
        if (!best_.better_than(proposed_)) best_ = std::move(proposed_);
    }

    void finish() {
        report_.peak_bytes = best_.footprint.peak_bytes;
        report_.stash_bytes = best_.footprint.stash_bytes;
        for (const auto t : best_.steps.steps()) {
            report_.recomputed_nodes += best_.steps[t].kind == step_kind::recompute;
            report_.encoded_values += best_.steps[t].kind == step_kind::encode;
        }
        if (c_.total_time_us > 0)
            report_.recompute_time_ratio = evaluate_.recompute_us(best_.steps) / c_.total_time_us;
        const node_groups subgraphs = partition(s_, c_);
        report_.subgraphs = subgraphs.size();
        report_.largest_subgraph = subgraphs.largest();
        report_.lower_bound_bytes = bound();
        std::vector<std::uint8_t> unknown(s_.op_count(), 0);
        for (const auto n : s_.nodes()) unknown[s_[n].op] |= static_cast<std::uint8_t>(s_[n].unknown_op);
        for (std::uint32_t op = 0; op < unknown.size(); ++op)
            if (unknown[op]) report_.unknown_ops.emplace_back(s_.op_name(op));
    }

    /// The cuts are taken where the plan's own load is highest, one in each part of the backward pass.
    std::uint64_t bound() {
        if (options_.how == strategy::baseline) return best_.footprint.peak_bytes;
        judge_(s_, best_.steps);
        const auto load = judge_.load();
        const std::size_t parts = std::clamp<std::size_t>(50000 / (s_.node_count() + 1), 6, 64);
        const std::size_t first = first_backward_step(s_, best_.steps).index(),
                          count = best_.steps.size() - first;
        std::vector<node_id> at;
        for (std::size_t part = 0; part < parts; ++part) {
            node_id highest;
            std::uint64_t most = 0;
            for (std::size_t t = first + count * part / parts; t < first + count * (part + 1) / parts; ++t) {
                const step_record& step = best_.steps[step_id(t)];
                if (load[t] <= most || !is_backward(s_[step.node].phase)) continue;
                most = load[t];
                highest = step.node;
            }
            if (highest.valid()) at.push_back(highest);
        }
        return std::min(lower_bound(s_, c_, options_.encode)(at), best_.footprint.peak_bytes);
    }

    const snapshot& s_;
    const plan_options& options_;
    candidates c_;
    anchor_finder anchors_;
    evaluator evaluate_;
    replay judge_;
    trial proposed_, best_;
    choice previous_;
    std::size_t proposals_ = 0;
    std::uint32_t best_distance_ = no_anchor;
    plan_report report_;
};

} // namespace detail

/// Makes a plan for `s`. Its replayed peak is never above the baseline's, and every figure in its report
/// comes from the replay. Errors: the graph's own order reads a value after it was overwritten in place.
/// Near-linear: some ten cuts and replays of O(nodes + edges).
inline plan make_plan(const snapshot& s, const plan_options& options = {}) {
    return detail::planner(s, options).run();
}

} // namespace echo
