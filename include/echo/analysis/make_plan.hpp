// SPDX-License-Identifier: BSL-1.0
/// @file
/// `make_plan`: the one entry point of planning. Every strategy proposes decisions; each is laid out and
/// replayed; the replay chooses, and what is worse than the baseline is rolled back.
#pragma once

#include <echo/analysis/allocator_choice.hpp>
#include <echo/analysis/budget.hpp>
#include <echo/analysis/budget_bound.hpp>
#include <echo/analysis/echo.hpp>
#include <echo/analysis/evaluate.hpp>
#include <echo/analysis/lower_bound.hpp>
#include <echo/analysis/min_cut.hpp>
#include <echo/analysis/mirror.hpp>
#include <echo/analysis/partition.hpp>
#include <echo/analysis/plan.hpp>
#include <echo/analysis/plan_options.hpp>
#include <echo/analysis/progress.hpp>
#include <echo/analysis/retain.hpp>
#include <echo/analysis/roll_back.hpp>

#include <algorithm>
#include <concepts>
#include <numeric>
#include <optional>
#include <utility>

namespace echo {

namespace detail {

/// A template so that only files that make plans compile it.
template <class = void>
class planner {
public:
    planner(const snapshot& s, const plan_options& options)
        : s_(s), options_(options), how_(options.how), c_(find_candidates(s, options.host, options.device)),
          anchors_(s, c_), evaluate_(s, c_) {}

    /// `without`: what the same options give a host that does not fuse.
    plan run(const plan* without = nullptr) {
        if (!is_amount(options_.max_overhead))
            throw error({}, "max_overhead", "is no number of 0 or more",
                        "give a part of a step's time, such as 0.05");
        begin();
        const std::uint64_t baseline = best_.footprint.peak_bytes;
        if (how_ != strategy::baseline &&
            (how_ != strategy::budget || options_.budget == any_peak ||
             std::max(baseline, report_.baseline_allocated_bytes) > options_.budget)) {
            proposed_ = propose(how_);
            keep_promise(baseline);
        }
        if (without) keep_to(*without);
        finish();
        return {how_, std::move(steps_), options_.host, std::move(report_)};
    }

    plan_front front(std::size_t count) {
        begin();
        plan_front found{.baseline_peak_bytes = best_.footprint.peak_bytes};
        found.points.push_back({found.baseline_peak_bytes, 0});
        budget_search<> search(evaluate_, anchors_, search_options());
        tell_what_is_known(search);
        for (rated_decision& t : search.front(count)) {
            if (t.footprint.peak_bytes >= found.points.back().peak_bytes) continue;
            if (t.recompute <= 0) found.points.pop_back();
            found.points.push_back({t.footprint.peak_bytes, c_.times.part(t.recompute)});
            best_ = std::move(t);
        }
        if (found.points.back().peak_bytes < found.baseline_peak_bytes) {
            evaluate_(best_);
            steps_ = evaluate_.steps();
        }
        found.lower_bound_bytes = bound({});
        return found;
    }

private:
    void begin() {
        schedule before = baseline_schedule(s_);
        const footprint_result baseline = judge_(s_, before);
        report_.baseline_peak_bytes = baseline.peak_bytes;
        report_.baseline_stash_bytes = baseline.stash_bytes;
        const liveness& live = judge_.live();
        for (const auto i : live.storages())
            if (live[i].resident) report_.resident_bytes += live[i].bytes;

        best_ = {.decided = decision::nothing(s_), .footprint = baseline};
        steps_ = std::move(before);
        if (options_.allocator)
            report_.baseline_allocated_bytes = report_.allocated_bytes = options_.allocator(steps_);
    }

    rated_decision propose(strategy how) {
        proposals_ = 0;
        best_distance_ = no_anchor;
        switch (how) {
        case strategy::baseline:
            consider(decision::nothing(s_));
            break;
        case strategy::mirror:
            consider(mirror(s_, c_));
            break;
        case strategy::echo_printed:
            consider(echo_as_printed(s_, c_, gradient_needs(s_, c_, options_.encode)));
            break;
        case strategy::echo: {
            const gradient_needs needs(s_, c_, options_.encode);
            sweep([&](const backward_needs& when, decision& out) { out = echo_pass(s_, c_, needs, when); });
            break;
        }
        case strategy::min_cut:
            propose_cut();
            lower_peak();
            break;
        case strategy::budget: {
            budget_search<> search(evaluate_, anchors_, search_options());
            tell_what_is_known(search);
            if (search.is_reduced())
                report_.notes.push_back(
                    "a graph of this size is searched from fewer starts than a small one");
            const ticks most = c_.times.at_most(options_.max_overhead);
            if (options_.allocator) {
                allocator_choice<> choose(evaluate_, options_.allocator, search);
                return options_.budget != any_peak ? choose.cheapest(options_.budget) : choose.smallest(most);
            }
            return options_.budget != any_peak ? search.cheapest(options_.budget) : search.lowest(most);
        }
        }
        return std::move(proposed_);
    }

    /// No search does worse than the strategies that name no figure. Of large graphs the minimum cut alone is asked: a
    /// search finds better plans than the others then.
    void tell_what_is_known(budget_search<>& search) {
        propose_cut();
        search.know(std::move(proposed_));
        if (!search.knows_all()) return;
        for (const strategy other :
             {strategy::min_cut, strategy::mirror, strategy::echo_printed, strategy::echo})
            search.know(propose(other));
    }

    void propose_cut() {
        proposals_ = 0;
        best_distance_ = no_anchor;
        min_cut solve(s_, c_);
        sweep([&](const backward_needs& when, decision& out) {
            solve(when, {.encode = options_.encode}, out);
        });
        weigh(solve);
        evaluate_(proposed_);
        retainer<>{evaluate_}(proposed_, proposed_.footprint.peak_bytes);
    }

    /// A cut counts what is held where it is taken; what making it again holds on the way is seen by the replay alone. So
    /// the peak is lowered further, by light ops, as long as it lies above the bound.
    void lower_peak() {
        if (s_.node_count() > 8192) return;
        const auto at = most_loaded(evaluate_.steps(), evaluate_.last().load());
        const std::uint64_t bound = lower_bound(s_, c_, options_.encode)(at, 8);
        evictor<>(evaluate_).in_steps(proposed_, bound);
        evaluate_(proposed_);
        retainer<>{evaluate_}(proposed_, proposed_.footprint.peak_bytes);
    }

    budget_options search_options() const {
        return {options_.encode, options_.local_search_replays, searching_};
    }

    /// The part of all that is done; what does not go on is not told.
    void tell(double part) {
        if (!options_.progress || part <= told_) return;
        told_ = part;
        options_.progress(part);
    }
    double share_of_cuts() const noexcept { return how_ == strategy::budget ? 0.1 : 1; }
    struct search_progress {
        planner* self;
        void operator()(double part) const {
            self->tell(self->share_of_cuts() + (1 - self->share_of_cuts()) * part);
        }
    } searching_{this};

    /// The cut counts bytes where the backward pass begins; the peak may stand elsewhere, and what is made
    /// again is held there too. So bytes are weighed by when they are live, and each replay moves weight to
    /// its peak: the subgradient method on the largest load over all steps.
    void weigh(min_cut& solve) {
        if (s_.node_count() == 0) return;
        const backward_needs when = anchors_(best_distance_);
        constexpr std::uint64_t whole = cut_options::whole_weight;
        std::vector<std::uint64_t> weight(s_.node_count(), 0), sums(s_.node_count() + 1, 0);
        evaluate_(proposed_);
        weight[backward_node_at(first_backward_step(s_, evaluate_.steps()))] = whole / 2;
        weight[backward_node_at(proposed_.footprint.peak_step)] += whole / 2;
        previous_ = {};
        for (std::size_t round = 0; round < options_.weight_rounds; ++round) {
            std::partial_sum(weight.begin(), weight.end(), sums.begin() + 1);
            rated_decision t{.decided = decision::nothing(s_)};
            solve(when, {.weight_sums = sums, .encode = options_.encode}, t.decided);
            if (t.decided == previous_) break;
            previous_ = t.decided;
            evaluate_(t);
            for (std::uint64_t& w : weight) w -= w / (round + 3);
            weight[backward_node_at(t.footprint.peak_step)] += whole / (round + 3);
            if (t.better_than(proposed_)) proposed_ = std::move(t);
        }
    }

    /// Index of the backward node that runs at the step of the last rated_decision, or first after it.
    std::size_t backward_node_at(step_id from) const {
        const schedule& steps = evaluate_.steps();
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
            tell(share_of_cuts() * static_cast<double>(i) / static_cast<double>(distances.size()));
            decision proposal = decision::nothing(s_);
            if (i > 0) when = anchors_(distances[i]);
            propose_at(when, proposal);
            if (std::exchange(previous_, proposal) != proposal || i == 0)
                if (consider(std::move(proposal))) best_distance_ = distances[i];
        }
    }

    /// Whether it is the best so far.
    bool consider(decision decided) {
        rated_decision t{.decided = std::move(decided)};
        evaluate_(t);
        const bool better = proposals_++ == 0 || t.better_than(proposed_);
        if (better) proposed_ = std::move(t);
        return better;
    }

    /// Law 1, and no recomputation for nothing. What even an empty decision breaks (a dead node kept storage from being
    /// taken over) stays the baseline.
    void keep_promise(std::uint64_t limit) {
        const std::size_t taken_back = roll_back(evaluate_, proposed_, limit);
        if (taken_back > 0)
            report_.notes.push_back(std::to_string(taken_back) +
                                    " of the subgraphs to recompute were rolled back: they "
                                    "would have raised the peak above the baseline's");
        if (best_.better_than(proposed_)) return;
        evaluate_(proposed_);
        if (options_.allocator) {
            const std::uint64_t bytes = options_.allocator(evaluate_.steps());
            if (bytes >= report_.allocated_bytes) return;
            report_.allocated_bytes = bytes;
        }
        steps_ = evaluate_.steps();
        best_ = std::move(proposed_);
    }

    /// Fusion makes nothing worse: the plan without it, with what can be fused in that very plan, stays unless the
    /// search that knew of fusion has found a better one.
    void keep_to(const plan& without) {
        schedule steps;
        rated_decision fused;
        fused.footprint = evaluate_.fuse(without.steps(), steps);
        fused.recompute = evaluate_.recompute_time(steps);
        if (options_.allocator) {
            const std::uint64_t bytes = options_.allocator(steps);
            if (!is_smaller({bytes, fused.recompute}, {report_.allocated_bytes, best_.recompute})) return;
            report_.allocated_bytes = bytes;
        } else if (is_better(best_, fused) && !is_dearer(best_, without)) {
            return;
        }
        best_ = std::move(fused);
        steps_ = std::move(steps);
        report_.notes = without.report().notes;
    }

    /// Of bytes and time of two plans: bytes within the budget are all the same.
    bool is_smaller(std::pair<std::uint64_t, ticks> one, std::pair<std::uint64_t, ticks> other) const {
        if (options_.budget == any_peak) return one < other;
        one.first = std::max(one.first, options_.budget);
        other.first = std::max(other.first, options_.budget);
        return one < other;
    }
    bool is_better(const rated_decision& t, const rated_decision& other) const {
        if (how_ != strategy::budget || options_.budget == any_peak) return t.better_than(other);
        const auto over = [&](const rated_decision& of) {
            return std::max(of.footprint.peak_bytes, options_.budget);
        };
        if (over(t) != over(other)) return over(t) < over(other);
        if (t.recompute != other.recompute) return t.recompute < other.recompute;
        return t.footprint.peak_bytes < other.footprint.peak_bytes;
    }
    /// Where no price was named, a lower peak is not worth more recomputation.
    bool is_dearer(const rated_decision& t, const plan& without) const {
        return how_ != strategy::budget && t.recompute > evaluate_.recompute_time(without.steps());
    }

    void finish() {
        report_.peak_bytes = best_.footprint.peak_bytes;
        report_.stash_bytes = best_.footprint.stash_bytes;
        for (const auto t : steps_.steps()) {
            report_.recomputed_nodes += steps_[t].kind == step_kind::recompute;
            report_.encoded_values += steps_[t].kind == step_kind::encode;
        }
        report_.fused_nodes = steps_.fused_count();
        report_.recompute_time_ratio = c_.times.part(evaluate_.recompute_time(steps_));
        const node_groups subgraphs = partition(s_, c_);
        report_.subgraphs = subgraphs.size();
        report_.largest_subgraph = subgraphs.largest();
        const bool within_time = how_ == strategy::budget && options_.budget == any_peak;
        report_.lower_bound_bytes =
            bound(within_time ? std::optional(c_.times.at_most(options_.max_overhead)) : std::nullopt);
        report_.budget_bytes = options_.budget;
        if (std::max(report_.peak_bytes, report_.allocated_bytes) > report_.budget_bytes) find_blocker();
        std::vector<std::uint8_t> unknown(s_.op_count(), 0);
        for (const auto n : s_.nodes()) unknown[s_[n].op] |= static_cast<std::uint8_t>(s_[n].unknown_op);
        for (std::uint32_t op = 0; op < unknown.size(); ++op)
            if (unknown[op]) report_.unknown_ops.emplace_back(s_.op_name(op));
    }

    /// What no plan of the same kind goes below: with the same ops to run again and, if `most` is given, for at most that
    /// long.
    std::uint64_t bound(std::optional<ticks> most) {
        judge_(s_, steps_);
        if (how_ == strategy::baseline) return best_.footprint.peak_bytes;
        const auto at = most_loaded(steps_, judge_.load());
        const bool heavy = how_ == strategy::budget;
        const std::size_t more = std::clamp<std::size_t>(200000 / (s_.node_count() + 1), 6, 64);
        std::uint64_t bound = lower_bound(s_, c_, options_.encode, heavy)(at, more);
        if (heavy && most && bound < best_.footprint.peak_bytes)
            bound = std::max(bound, budget_bound(s_, c_, options_.encode).within(*most, at));
        return std::min(bound, best_.footprint.peak_bytes);
    }

    /// The step of the highest load in each part of the backward pass, the highest first.
    std::vector<node_id> most_loaded(const schedule& steps, std::span<const std::uint64_t> load) const {
        const std::size_t parts = std::clamp<std::size_t>(50000 / (s_.node_count() + 1), 6, 64);
        const std::size_t first = first_backward_step(s_, steps).index(), count = steps.size() - first;
        ranking by_load;
        for (std::size_t part = 0; part < parts; ++part) {
            std::uint32_t highest = 0;
            std::uint64_t most = 0;
            for (std::size_t t = first + count * part / parts; t < first + count * (part + 1) / parts; ++t) {
                const step_record& step = steps[step_id(t)];
                if (load[t] <= most || !is_backward(s_[step.node].phase)) continue;
                most = load[t];
                highest = step.node.index();
            }
            if (most > 0) by_load.add(highest, most);
        }
        std::vector<node_id> at;
        for (const auto n : by_load.descending()) at.emplace_back(n);
        return at;
    }

    /// What is largest at the peak of the plan that `bound` judged: a live value, or the workspace of what runs.
    void find_blocker() {
        if (!best_.footprint.peak_step.valid()) return;
        report_.blocker = steps_[best_.footprint.peak_step].node;
        report_.blocker_bytes = s_[report_.blocker].workspace;
        const liveness& live = judge_.live();
        for (const auto i : live.storages()) {
            const storage_record& storage = live[i];
            const step_id peak = best_.footprint.peak_step;
            if (storage.resident || storage.first > peak || storage.last < peak) continue;
            if (storage.bytes <= report_.blocker_bytes) continue;
            report_.blocker_bytes = storage.bytes;
            report_.blocker = steps_[storage.maker.step].node;
        }
    }

    const snapshot& s_;
    const plan_options& options_;
    strategy how_;
    candidates c_;
    anchor_finder anchors_;
    evaluator evaluate_;
    replay judge_;
    rated_decision proposed_, best_;
    schedule steps_; // of the best
    decision previous_;
    std::size_t proposals_ = 0;
    std::uint32_t best_distance_ = no_anchor;
    double told_ = -1; // of the progress
    plan_report report_;
};

/// Tells of one search of two.
struct half_progress {
    progress_callback all{};
    double before = 0; ///< of the part done
    void operator()(double part) const { all(before + part / 2); }
};

/// Adds points to a front: of all, those stay that no other beats.
inline void join(std::vector<front_point>& points, const std::vector<front_point>& more) {
    points.insert(points.end(), more.begin(), more.end());
    std::sort(points.begin(), points.end(), [](const front_point& a, const front_point& b) {
        if (a.recompute_time_ratio != b.recompute_time_ratio)
            return a.recompute_time_ratio < b.recompute_time_ratio;
        return a.peak_bytes < b.peak_bytes;
    });
    std::size_t kept = 0;
    for (const front_point& p : points)
        if (kept == 0 || p.peak_bytes < points[kept - 1].peak_bytes) points[kept++] = p;
    points.resize(kept);
}

} // namespace detail

/// Makes a plan for `s`. Its replayed peak is never above the baseline's, and every figure in its report
/// comes from the replay. Errors: the graph's own order reads a value after it was overwritten in place; a `max_overhead`
/// that is negative or NaN.
/// If the host fuses, the plan is made twice, without fusion and with it, and is never worse than the first: neither
/// the peak nor the recomputation is; with a budget, what it is asked for comes first, and then the other.
/// Near-linear: some ten cuts and replays of O(nodes + edges).
template <std::same_as<snapshot> Snapshot>
plan make_plan(const Snapshot& s, const plan_options& options = {}) {
    if (!options.host.fuse) return detail::planner<>(s, options).run();
    detail::half_progress half{options.progress};
    plan_options asked = options;
    if (options.progress) asked.progress = half;
    asked.host.fuse = false;
    const plan without = detail::planner<>(s, asked).run();
    half.before = 0.5;
    asked.host.fuse = true;
    return detail::planner<>(s, asked).run(&without);
}

/// The front of peak against recomputation, searched at `points` limits; `how`, `budget` and `max_overhead` are not
/// read. `make_plan` with a point's peak as its budget gives a plan like it. Errors: as `make_plan`. Some hundred cuts and a thousand replays of O(nodes + edges).
template <std::same_as<snapshot> Snapshot>
plan_front front(const Snapshot& s, const plan_options& options = {}, std::size_t points = 24) {
    plan_options asked = options;
    asked.how = strategy::budget;
    if (!options.host.fuse) return detail::planner<>(s, asked).front(points);
    detail::half_progress half{options.progress};
    if (options.progress) asked.progress = half;
    plan_front found = detail::planner<>(s, asked).front(points);
    half.before = 0.5;
    asked.host.fuse = false;
    detail::join(found.points, detail::planner<>(s, asked).front(points).points);
    return found;
}

} // namespace echo
