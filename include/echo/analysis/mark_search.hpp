// SPDX-License-Identifier: BSL-1.0
/// @file
/// `mark_search`: plans for an engine that takes marks on nodes of its forward pass and makes the rest itself, as MXNet
/// does with `__force_mirroring__`. What a set of marks leads to is the engine's affair: a judge says its bytes and its
/// time. Echo's plans propose sets of marks (`plan::mirrored`); a mark may say more than "run this again", so proposals
/// are completed, then improved group by group. Nodes of one kind with neighbours of one kind are a group: the steps of
/// an unrolled loop and the blocks of a network decide together.
#pragma once

#include <echo/analysis/make_plan.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace echo {

using marks = std::vector<bool>; ///< by node of the forward pass

/// What an engine says of a set of marks.
struct mark_verdict {
    std::uint64_t bytes = 0; ///< that the engine takes
    double copies_us = 0;    ///< what runs in addition
    std::size_t copies = 0;  ///< nodes that run in addition
    /// Places where the marks may not be made: no set with one is taken for one without.
    std::size_t unsound = 0;
};

/// The forward pass of such an engine.
struct markable_graph {
    const snapshot& s;                ///< as read from the engine; its gradients are the skeleton's
    marks may_be_marked{};            ///< by node
    std::vector<std::string> kinds{}; ///< by node: nodes of equal kinds may decide together
    /// By node: who made what its gradient reads of its inputs.
    std::vector<std::vector<std::uint32_t>> gradient_reads{};
    marks mirrored{}; ///< what the engine itself would mark where it is asked for recomputation
};

/// What is asked of a search.
struct mark_options {
    double max_overhead = 0.05;      ///< time of the copies ÷ time of the step
    bool names_overhead = false;     ///< by the user; else what the engine itself would mark may lift it
    std::uint64_t budget = any_peak; ///< bytes; then the least time that keeps them
    std::size_t trials = 1200;       ///< sets of marks that the judge is asked about at most, but for a few
};

/// What a search has found.
struct mark_decision {
    marks marked{};          ///< the best
    mark_verdict got{};      ///< of these
    mark_verdict baseline{}; ///< without any
    mark_verdict mirror{};   ///< of what the engine itself would mark
    double step_us = 0;      ///< time of a step by the model, in microseconds
    std::size_t trials = 0;  ///< that the judge was asked about
    /// Time of the copies as a part of the step's.
    double overhead() const { return step_us > 0 ? got.copies_us / step_us : 0; }
};

/// The graph must outlive it. `Judge`: from marks to a `mark_verdict`.
template <class Judge>
class mark_search {
public:
    /// Finds the groups. O(nodes + edges).
    mark_search(const markable_graph& g, const mark_options& options, Judge judge)
        : g_(g), options_(options), judge_(std::move(judge)), none_(g.may_be_marked.size(), false) {
        const run_times times = times_of(g.s);
        ticks all = 0; // a gradient costs what is counted for what it is the gradient of, a product's twice
        for (std::size_t n = 0; n < none_.size(); ++n)
            all += times.of_node[node_id(n)] * (g.s[node_id(n)].kind == op_kind::heavy ? 3 : 2);
        step_us_ = times.microseconds(all);
        limit_us_ = options.max_overhead * step_us_;
        group();
    }

    /// The best marks found: never worse than none at all. Where neither a budget nor an overhead is named, they take
    /// no more bytes than what the engine itself would mark, if that is sound. Asks the judge about no set twice.
    mark_decision run() {
        const mark_verdict baseline = verdict(none_), mirror = verdict(g_.mirrored);
        baseline_bytes_ = baseline.bytes;
        best_ = {none_, baseline};
        consider(g_.mirrored, mirror);
        for (const double overhead : {options_.max_overhead, 0.3 * options_.max_overhead})
            for (const auto how : {strategy::budget, strategy::min_cut}) {
                const marks proposed = completed(how, overhead);
                consider(proposed, verdict(proposed));
            }
        // Bytes and time at several exchange rates, dearer and dearer, each from where the last one ended; then by the
        // wish.
        const auto by_wish = [this](const mark_verdict& a, const mark_verdict& b) { return better(a, b); };
        const std::size_t explored = options_.trials - options_.trials / 5; // the last fifth is for the best
        for (marks now : {marks(best_.marked), g_.may_be_marked})
            for (const double rate : {0.5, 1.5, 3.0, 5.0, 8.0, 14.0}) {
                now = improve(
                    now,
                    [&, rate](const mark_verdict& a, const mark_verdict& b) {
                        return priced(a, rate) < priced(b, rate);
                    },
                    explored);
                if (options_.budget != any_peak) improve(now, by_wish, explored);
            }
        improve(marks(best_.marked), by_wish, options_.trials);
        if (options_.budget == any_peak && !options_.names_overhead &&
            best_.got.bytes > mirror.bytes) { // it takes longer than the default allows
            limit_us_ = std::max(limit_us_, mirror.copies_us);
            consider(g_.mirrored, mirror); // it may have been too slow before
            improve(g_.mirrored, by_wish, trials_ + options_.trials / 10);
        }
        return {std::move(best_.marked), best_.got, baseline, mirror, step_us_, trials_};
    }

private:
    struct trial {
        marks marked;
        mark_verdict got;
    };

    bool better(const mark_verdict& a, const mark_verdict& b) const {
        if (a.unsound != b.unsound) return a.unsound < b.unsound;
        const auto rank = [&](const mark_verdict& v) {
            const double late = std::max(0.0, v.copies_us - limit_us_);
            if (options_.budget != any_peak) {
                const auto over =
                    static_cast<double>(v.bytes > options_.budget ? v.bytes - options_.budget : 0);
                return std::array<double, 3>{over, v.copies_us, static_cast<double>(v.bytes)};
            }
            return std::array<double, 3>{late, static_cast<double>(v.bytes), v.copies_us};
        };
        return rank(a) < rank(b);
    }

    /// A rate of 1 gives one part of the bytes for one part of the time.
    double priced(const mark_verdict& v, double rate) const {
        return static_cast<double>(v.bytes) / static_cast<double>(baseline_bytes_) +
               rate * v.copies_us / step_us_ + static_cast<double>(v.unsound);
    }

    /// What the judge says; it is asked once about each set.
    const mark_verdict& verdict(const marks& marked) {
        const auto [at, is_new] = known_.try_emplace(marked);
        if (is_new) {
            at->second = judge_(marked);
            ++trials_;
        }
        return at->second;
    }

    void consider(const marks& marked, const mark_verdict& got) {
        if (better(got, best_.got)) best_ = {marked, got};
    }

    /// What a plan runs again, and all whose gradients read that.
    marks completed(strategy how, double overhead) const {
        const plan made = make_plan(g_.s, {.how = how, .max_overhead = overhead, .encode = false});
        id_set<node_id> mirrored(g_.s.node_count());
        for (const node_id n : made.mirrored()) mirrored.insert(n);
        marks again = none_;
        for (std::size_t n = 0; n < none_.size(); ++n) again[n] = mirrored[node_id(n)] && g_.may_be_marked[n];
        marks marked = again;
        for (std::size_t n = 0; n < none_.size(); ++n)
            for (const auto x : g_.gradient_reads[n])
                if (again[x] && g_.may_be_marked[n]) marked[n] = true;
        return marked;
    }

    void group() {
        id_vector<node_id, std::set<std::uint32_t>> readers(none_.size()); // their ops
        for (std::size_t n = 0; n < none_.size(); ++n)
            for (const edge_source& from : g_.s.sources(node_id(n)))
                readers[from.producer].insert(g_.s[node_id(n)].op);
        std::map<std::string, std::size_t> known;
        std::vector<std::size_t> group_of(none_.size(), 0);
        for (std::size_t n = 0; n < none_.size(); ++n) {
            if (!g_.may_be_marked[n]) continue;
            std::string key = g_.kinds[n] + '|';
            for (const edge_source& from : g_.s.sources(node_id(n)))
                key += std::to_string(g_.s[from.producer].op) + ',';
            for (const auto op : readers[node_id(n)]) key += '>' + std::to_string(op);
            const auto [at, added] = known.emplace(std::move(key), groups_.size());
            if (added) groups_.emplace_back();
            groups_[at->second].push_back(n);
            group_of[n] = at->second;
        }
        readers_.resize(groups_.size());
        for (std::size_t n = 0; n < none_.size(); ++n)
            for (const auto x : g_.gradient_reads[n])
                if (g_.may_be_marked[n] && g_.may_be_marked[x]) readers_[group_of[x]].insert(group_of[n]);
    }

    /// Turns groups around, alone or with the groups whose gradients read them, while that helps. Asks the judge a
    /// tenth of all questions at most, and none where that many were asked before.
    template <class Better>
    marks improve(const marks& start, const Better& is_better, std::size_t most_trials) {
        const std::size_t end = std::min(trials_ + options_.trials / 10, most_trials);
        if (trials_ >= end) return start;
        trial now{start, verdict(start)};
        for (bool moved = true; moved && trials_ < end;) {
            moved = false;
            for (std::size_t g = 0; g < groups_.size() && trials_ < end; ++g) {
                const bool to = !now.marked[groups_[g].front()];
                moved |= turn(now, {g}, to, is_better) ||
                         (!readers_[g].empty() && turn(now, with_readers(g), to, is_better));
            }
        }
        return now.marked;
    }

    std::vector<std::size_t> with_readers(std::size_t g) const {
        std::vector<std::size_t> all(readers_[g].begin(), readers_[g].end());
        all.push_back(g);
        return all;
    }

    template <class Better>
    bool turn(trial& now, const std::vector<std::size_t>& groups, bool to, const Better& is_better) {
        marks next = now.marked;
        for (const std::size_t g : groups)
            for (const std::size_t n : groups_[g]) next[n] = to;
        if (next == now.marked) return false;
        const mark_verdict got = verdict(next);
        consider(next, got);
        if (!is_better(got, now.got)) return false;
        now = {std::move(next), got};
        return true;
    }

    const markable_graph& g_;
    mark_options options_;
    Judge judge_;
    marks none_;
    double step_us_ = 0, limit_us_ = 0;
    std::uint64_t baseline_bytes_ = 0;
    std::vector<std::vector<std::size_t>> groups_; // nodes of each
    std::vector<std::set<std::size_t>> readers_;   // by group: the groups whose gradients read it
    trial best_;
    std::unordered_map<marks, mark_verdict> known_; // by set
    std::size_t trials_ = 0;
};

} // namespace echo
