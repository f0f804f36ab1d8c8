// SPDX-License-Identifier: BSL-1.0
/// @file
/// Which nodes to mark. Echo's planner proposes what to run again; a mark says more than that (nnvm.hpp), so proposals
/// are completed, then improved group by group, and MXNet's pool judges each. Nodes are grouped by op, shapes and
/// neighbours: the steps of an unrolled loop and the blocks of a network decide together.
#pragma once

#include "pool.hpp"

#include <array>
#include <limits>
#include <set>

namespace echo_mxnet {

struct wishes {
    double max_overhead = 0.05;            ///< time of the copies ÷ time of the step
    bool names_overhead = false;           ///< by the user; else the mirror may lift it
    std::uint64_t budget = echo::any_peak; ///< bytes of the pool; then the least time that keeps them
    std::size_t trials = 1200;
};

struct decision {
    marks marked;
    verdict got, baseline, mirror; ///< mirror: MXNET_BACKWARD_DO_MIRROR
    double step_us = 0;
    std::size_t trials = 0;
    double overhead() const { return step_us > 0 ? got.copies_us / step_us : 0; }
};

class mark_search {
public:
    mark_search(const forward_pass& f, const wishes& w) : f_(f), wishes_(w), none_(f.nodes.size(), false) {
        const step_graph step(f, none_);
        // A gradient costs what is counted for what it is the gradient of, a product's twice.
        for (index n = 0; n < f.nodes.size(); ++n)
            step_us_ += f.nodes[n].time_us * (f.of[n].facts.kind == echo::op_kind::heavy ? 3 : 2);
        limit_us_ = w.max_overhead * step_us_;
        group();
        readers_.resize(groups_.size());
        for (index n = 0; n < f.nodes.size(); ++n) {
            const std::vector<index> read = remade_inputs(n);
            if (f.of[n].markable)
                for (const index x : read) readers_[group_of_[x]].insert(group_of_[n]);
        }
    }

    decision run(const echo::snapshot& s) {
        marks mirrored = none_, all = none_;
        for (index n = 0; n < f_.nodes.size(); ++n) {
            const std::string& op = f_.of[n].host->op;
            all[n] = f_.of[n].markable;
            mirrored[n] = all[n] && op != "Convolution" && op != "FullyConnected" && op != "Concat" &&
                          op != "SoftmaxOutput";
        }
        const verdict baseline = judge(f_, none_), mirror = judge(f_, mirrored);
        baseline_bytes_ = baseline.bytes;
        best_ = {.marked = none_, .got = baseline};
        consider(mirrored, mirror);
        for (const double overhead : {wishes_.max_overhead, 0.3 * wishes_.max_overhead})
            for (const auto how : {echo::strategy::budget, echo::strategy::min_cut})
                consider(completed(s, how, overhead));
        // Bytes and time at several exchange rates, dearer and dearer, each from where the last one ended; then by the
        // wish.
        const auto by_wish = [this](const verdict& a, const verdict& b) { return better(a, b); };
        for (marks now : {marks(best_.marked), all})
            for (const double rate : {0.5, 1.5, 3.0, 5.0, 8.0, 14.0}) {
                now = improve(now, [&, rate](const verdict& a, const verdict& b) {
                    return priced(a, rate) < priced(b, rate);
                });
                if (wishes_.budget != echo::any_peak) improve(now, by_wish);
            }
        improve(marks(best_.marked), by_wish);
        if (wishes_.budget == echo::any_peak && !wishes_.names_overhead &&
            best_.got.bytes > mirror.bytes) { // it takes longer than the default allows
            limit_us_ = std::max(limit_us_, mirror.copies_us);
            improve(mirrored, by_wish);
        }
        return {std::move(best_.marked), best_.got, baseline, mirror, step_us_, trials_};
    }

private:
    struct trial {
        marks marked;
        verdict got;
    };

    bool better(const verdict& a, const verdict& b) const {
        if (a.unsound != b.unsound) return a.unsound < b.unsound;
        const auto rank = [&](const verdict& v) {
            const double late = std::max(0.0, v.copies_us - limit_us_);
            if (wishes_.budget != echo::any_peak) {
                const auto over =
                    static_cast<double>(v.bytes > wishes_.budget ? v.bytes - wishes_.budget : 0);
                return std::array<double, 3>{over, v.copies_us, static_cast<double>(v.bytes)};
            }
            return std::array<double, 3>{late, static_cast<double>(v.bytes), v.copies_us};
        };
        return rank(a) < rank(b);
    }

    /// A rate of 1 gives one part of the bytes for one part of the time.
    double priced(const verdict& v, double rate) const {
        return static_cast<double>(v.bytes) / static_cast<double>(baseline_bytes_) +
               rate * v.copies_us / step_us_ + static_cast<double>(v.unsound);
    }

    bool consider(const marks& marked) { return consider(marked, judge(f_, marked)); }
    bool consider(const marks& marked, const verdict& got) {
        ++trials_;
        if (!better(got, best_.got)) return false;
        best_ = {marked, got};
        return true;
    }

    /// Inputs, of those that could run again, that the gradient of a node reads.
    std::vector<index> remade_inputs(index n) const {
        std::vector<index> found;
        for (std::size_t i = 0; i < f_.nodes[n].inputs.size(); ++i) {
            const index x = f_.nodes[n].inputs[i].node;
            if (f_.of[x].markable && f_.of[n].facts.gradient_reads.inputs.contains(i)) found.push_back(x);
        }
        return found;
    }

    /// What a plan runs again, and all whose gradients read that.
    marks completed(const echo::snapshot& s, echo::strategy how, double overhead) const {
        const echo::plan plan = echo::make_plan(s, {.how = how, .max_overhead = overhead, .encode = false});
        marks marked = none_;
        for (const echo::node_id n : plan.mirrored())
            if (n.index() < f_.nodes.size()) marked[n.index()] = f_.of[n.index()].markable;
        const marks remade = marked;
        for (index n = 0; n < f_.nodes.size(); ++n)
            for (const index x : remade_inputs(n))
                if (remade[x] && f_.of[n].markable) marked[n] = true;
        return marked;
    }

    void group() {
        std::vector<std::set<std::string>> readers(f_.nodes.size());
        for (index n = 0; n < f_.nodes.size(); ++n)
            for (const entry& e : f_.nodes[n].inputs) readers[e.node].insert(f_.of[n].host->op);
        std::map<std::string, index> known;
        group_of_.assign(f_.nodes.size(), 0);
        for (index n = 0; n < f_.nodes.size(); ++n) {
            if (!f_.of[n].markable) continue;
            std::string key = f_.of[n].host->op + '|';
            const auto shape = f_.of[n].host->attrs.find("__ext_shape__");
            key += shape->second + '|' + std::string(gradient_of(*f_.of[n].host)->op) + '|';
            for (const entry& e : f_.nodes[n].inputs) key += f_.of[e.node].host->op + ',';
            for (const std::string& op : readers[n]) key += '>' + op;
            const auto [at, added] = known.emplace(std::move(key), static_cast<index>(groups_.size()));
            if (added) groups_.emplace_back();
            groups_[at->second].push_back(n);
            group_of_[n] = at->second;
        }
    }

    /// Turns groups around, alone or with the groups whose gradients read them, while that helps.
    template <class Better>
    marks improve(const marks& start, const Better& is_better) {
        trial now{start, judge(f_, start)};
        const std::size_t end = trials_ + wishes_.trials / 10;
        for (bool moved = true; moved && trials_ < end;) {
            moved = false;
            for (index g = 0; g < groups_.size() && trials_ < end; ++g) {
                std::vector<std::vector<index>> moves{{g}};
                if (!readers_[g].empty()) {
                    moves.emplace_back(readers_[g].begin(), readers_[g].end());
                    moves.back().push_back(g);
                }
                const bool to = !now.marked[groups_[g].front()];
                for (const auto& move : moves) {
                    marks next = now.marked;
                    for (const index k : move)
                        for (const index n : groups_[k]) next[n] = to;
                    if (next == now.marked) continue;
                    const verdict got = judge(f_, next);
                    consider(next, got);
                    if (!is_better(got, now.got)) continue;
                    now = {std::move(next), got};
                    moved = true;
                    break;
                }
            }
        }
        return now.marked;
    }

    const forward_pass& f_;
    wishes wishes_;
    marks none_;
    double step_us_ = 0, limit_us_ = 0;
    std::uint64_t baseline_bytes_ = 0;
    std::vector<std::vector<index>> groups_;
    std::vector<index> group_of_;
    std::vector<std::set<index>> readers_;
    trial best_;
    std::size_t trials_ = 0;
};

} // namespace echo_mxnet
