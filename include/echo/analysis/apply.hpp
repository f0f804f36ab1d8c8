// SPDX-License-Identifier: BSL-1.0
/// @file
/// `apply`: rewrites a host graph so that its own execution order is the schedule of a plan. Recomputations
/// become clones, encodings become nodes of the host, late first runs are moved, dead nodes that the plan
/// leaves out are erased, and clones that are fused go into their readers.
#pragma once

#include <echo/analysis/plan/plan.hpp>
#include <echo/analysis/schedule/latest_runs.hpp>
#include <echo/graph/abilities.hpp>
#include <echo/graph/live_nodes.hpp>
#include <echo/graph/read.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echo {

/// What `apply` made of a host graph, each list in execution order.
template <class Node>
struct applied {
    std::vector<Node> clones;   ///< of the nodes that run again, those that are fused left out
    std::vector<Node> encodes;  ///< nodes that pack a value into one bit per element
    std::vector<Node> offloads; ///< nodes behind which a copy has left for the host's memory
    std::vector<Node> reloads;  ///< nodes that begin to bring one back
    std::vector<Node> moved;    ///< nodes that run at another place than before
    std::size_t erased = 0;     ///< dead nodes that are gone
    std::size_t fused = 0;      ///< clones that have gone into their readers
};

namespace detail {

/// Refuses a plan that is not one for this graph: what `apply` relies on, not all that `verify` proves.
class apply_check {
public:
    apply_check(const snapshot& s, const schedule& steps) : s_(s), steps_(steps), run_(s.node_count()) {}

    /// Errors: as `apply`. O(steps + copies read).
    void operator()(const host_abilities& host) {
        if (s_.host_node_count() != s_.node_count())
            throw error({}, "phase", "the graph has no backward nodes, so there is nothing to rewrite",
                        "mark the nodes of plan::mirrored() and let the gradient pass of the host recompute "
                        "them, or apply the plan to the training graph");
        for (const auto t : steps_.steps()) check(t, host);
        const auto live = live_nodes(s_);
        for (const auto n : s_.nodes()) {
            if (run_[n]) continue;
            if (live[n]) mismatch(n, "runs in no step");
            if (!host.erase) lacks(n, "erase", "leaves out a dead node");
        }
        check_results(host);
    }

private:
    [[noreturn]] void mismatch(node_id n, std::string_view problem) const {
        throw error(n.index() < s_.node_count() ? s_.name(n) : "#" + std::to_string(n.index()), "schedule",
                    std::string(problem) + ": the plan was made for another graph",
                    "read the graph and make the plan again");
    }
    [[noreturn]] void lacks(node_id n, std::string_view function, std::string_view what) const {
        throw error(s_.name(n), function,
                    "the plan " + std::string(what) + ", which the host graph does not offer",
                    "give graph_traits that function, or plan with .host = echo::abilities<G>()");
    }

    void check(step_id t, const host_abilities& host) {
        const step_record& step = steps_[t];
        const node_id n = step.node;
        if (n.index() >= s_.node_count()) mismatch(n, "is no node of the graph");
        const auto copies = steps_.inputs(t);
        for (const copy_id c : copies)
            if (c.step >= t) mismatch(n, "reads a step that does not stand earlier");
        if (step.fused && step.kind != step_kind::recompute) mismatch(n, "is fused, but is no recomputation");
        if (step.fused && !host.fuse) lacks(n, "fuse", "recomputes a node inside its readers");
        if (!runs_node(step.kind)) return check_single(t, host);
        const auto inputs = s_.inputs(n);
        if (copies.size() != inputs.size()) mismatch(n, "has another number of inputs");
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            if (steps_[copies[i].step].kind == step_kind::offload)
                mismatch(n, "reads what lies in the host's memory");
            copy_id c = first_made(steps_, copies[i]);
            if (steps_[c.step].kind == step_kind::encode) {
                if (c.output != 0 || !s_.one_bit(n, i)) mismatch(n, "cannot read an encoding");
                c = first_made(steps_, steps_.inputs(c.step)[0]);
            }
            if (value_at(c) != inputs[i]) mismatch(n, "reads another value");
        }
        for (const node_id c : s_.control(n))
            if (!run_[c]) mismatch(n, "runs before '" + s_.name(c) + "', which control puts first");
        if (step.kind == step_kind::run) {
            if (run_[n]) mismatch(n, "runs twice without being a recomputation");
            run_[n] = 1;
        } else if (!run_[n] || s_[n].rerun == rerun_kind::never) {
            mismatch(n, "runs again but may not, or has not run before");
        }
    }

    /// A step that runs no node.
    void check_single(step_id t, const host_abilities& host) const {
        const step_record& step = steps_[t];
        const node_id n = step.node;
        if (step.kind == step_kind::encode && !host.encode)
            lacks(n, "encode", "packs an output into one bit per element");
        if (step.kind != step_kind::encode && !host.offload)
            lacks(n, "offload", "moves an output to the host's memory");
        if (steps_.inputs(t).size() != 1) mismatch(n, "is packed or moved with another number of inputs");
        const copy_id c = steps_.inputs(t)[0];
        const step_record& maker = steps_[c.step];
        const bool reloads = step.kind == step_kind::reload;
        if (maker.fused) mismatch(n, "is packed or moved, but fused");
        if (reloads != (maker.kind == step_kind::offload)) mismatch(n, "comes back without having left");
        if (maker.node != n || (reloads && maker.bytes != step.bytes))
            mismatch(n, "is moved in another size");
        if (step.kind != step_kind::encode) return;
        const value_id v = value_at(first_made(steps_, c));
        if (!v.valid() || step.bytes < encoded_bytes(s_[v].elements))
            mismatch(n, "is encoded in another size");
    }

    /// The value that a copy is one of; `none()` for an encoding and for what does not exist.
    value_id value_at(copy_id c) const {
        const step_record& step = steps_[c.step];
        if (!runs_node(step.kind) || c.output >= s_.outputs(step.node).size()) return value_id::none();
        return s_.output(step.node, c.output);
    }

    void check_results(const host_abilities& host) const {
        const auto latest = latest_runs(s_, steps_);
        for (const auto v : s_.results()) {
            const node_id n = s_[v].producer;
            if (!latest[n].valid()) continue; // it was told of above
            if (steps_[latest[n]].fused) mismatch(n, "makes a graph result, but is fused");
            if (steps_[latest[n]].kind != step_kind::run && !host.recompute_results)
                lacks(n, "redirect_result", "runs a node again that makes a graph result");
        }
    }

    const snapshot& s_;
    const schedule& steps_;
    id_set<node_id> run_; ///< per node: its first run stands in an earlier step
};

/// Marks a longest increasing subsequence of distinct numbers: the nodes that may stay where they are.
/// O(n log n).
inline std::vector<std::uint8_t> longest_increasing(std::span<const node_id> numbers) {
    constexpr std::size_t none = ~std::size_t{0};
    std::vector<std::size_t> tail, previous(numbers.size(), none); // tail[k]: smallest end of length k + 1
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const auto at = std::lower_bound(tail.begin(), tail.end(), numbers[i],
                                         [&](std::size_t j, node_id x) { return numbers[j] < x; });
        if (at != tail.begin()) previous[i] = *(at - 1);
        if (at == tail.end())
            tail.push_back(i);
        else
            *at = i;
    }
    std::vector<std::uint8_t> chosen(numbers.size(), 0);
    for (std::size_t i = tail.empty() ? none : tail.back(); i != none; i = previous[i]) chosen[i] = 1;
    return chosen;
}

template <rewritable_graph G>
class apply_run {
    using traits = graph_traits<G>;
    using node = node_of<G>;
    using value = value_of<node>;

public:
    apply_run(const schedule& steps, G& g) : steps_(steps), graph_(g), s_(read(std::as_const(g))) {}

    applied<node> run() {
        apply_check(s_, steps_)(abilities<G>());
        for (auto&& n : traits::nodes(std::as_const(graph_))) handles_.push_back(n);
        for (const auto t : steps_.steps())
            if (steps_[t].kind == step_kind::run) order_.push_back(steps_[t].node);
        stay_ = longest_increasing(order_);
        check_moves();
        erase();
        move();
        insert();
        redirect_results();
        fuse();
        return std::move(made_);
    }

private:
    void check_moves() const {
        if constexpr (!can_move<G>) {
            constexpr std::string_view advice =
                "give graph_traits `move`, or plan with .host = echo::abilities<G>()";
            for (std::size_t i = 0; i < order_.size(); ++i)
                if (!stay_[i])
                    throw error(s_.name(order_[i]), "move", "the plan runs the node at another place",
                                advice);
            if (!steps_.empty() && steps_[step_id(steps_.size() - 1)].kind != step_kind::run)
                throw error(s_.name(steps_[step_id(steps_.size() - 1)].node), "move",
                            "the plan ends with a copy, which takes a move of the last node", advice);
        }
    }

    /// Dead nodes the plan leaves out, readers before what they read.
    void erase() {
        if constexpr (can_erase<G>) {
            id_set<node_id> runs(s_.node_count());
            for (const auto n : order_) runs.insert(n);
            for (std::size_t i = s_.node_count(); i-- > 0;)
                if (const node_id n(i); !runs[n]) traits::erase(graph_, handles_[n]), ++made_.erased;
        }
    }

    void move_before([[maybe_unused]] const node& n, [[maybe_unused]] const node& before) {
        if constexpr (can_move<G>) traits::move(graph_, n, before);
    }

    /// Brings the host's own nodes into the order of their first runs. What stays put is a longest increasing
    /// subsequence; readers move before what they read, so that a host that minds never sees a value read
    /// too early (but for nodes that go behind the last one that stays).
    void move() {
        if (order_.empty()) return;
        std::size_t last = order_.size();
        while (!stay_[--last]) {}
        const auto at = [&](std::size_t i) -> const node& { return handles_[order_[i]]; };
        for (std::size_t i = last + 1; i < order_.size(); ++i) move_before(at(i), at(last));
        if (last + 1 < order_.size()) move_before(at(last), at(last + 1));
        for (std::size_t i = last; i-- > 0;)
            if (!stay_[i]) move_before(at(i), at(i + 1));
        for (std::size_t i = 0; i < order_.size(); ++i)
            if (!stay_[i]) made_.moved.push_back(at(i));
    }

    value handle(copy_id c) const { return {of_step_[c.step], c.output}; }

    /// Walks the steps: makes clones and encodings in front of the next node of the host, and turns each
    /// reader to the copies its step names.
    void insert() {
        of_step_.reserve(steps_.size());
        std::size_t next = 0;
        const auto before = [&]() -> const node& {
            return handles_[order_[std::min(next, order_.size() - 1)]];
        };
        std::optional<step_id> first_behind; // the first copy behind all of the host's own nodes
        for (const auto t : steps_.steps()) {
            const auto copies = steps_.inputs(t);
            switch (steps_[t].kind) {
            case step_kind::run:
                of_step_.push_back(handles_[order_[next++]]);
                redirect(t);
                continue;
            case step_kind::recompute: {
                std::vector<value> inputs;
                for (const copy_id c : copies) inputs.push_back(handle(c));
                of_step_.push_back(traits::clone(graph_, handles_[steps_[t].node],
                                                 std::span<const value>(inputs), before()));
                if (!steps_[t].fused) made_.clones.push_back(of_step_.back());
                break;
            }
            case step_kind::encode:
                if constexpr (can_encode<G>) {
                    of_step_.push_back(traits::encode(graph_, handle(copies[0]), before()));
                    made_.encodes.push_back(of_step_.back());
                }
                break;
            case step_kind::offload:
            case step_kind::reload:
                if constexpr (can_offload<G>) insert_move(t, before());
                break;
            }
            if (next == order_.size() && !first_behind) first_behind = t;
        }
        // Copies behind the last node were put in front of it, there being no other handle to name.
        if (first_behind) move_before(handles_[order_.back()], of_step_[*first_behind]);
    }

    void insert_move([[maybe_unused]] step_id t, [[maybe_unused]] const node& before) {
        if constexpr (can_offload<G>) {
            const copy_id c = steps_.inputs(t)[0];
            const bool leaves = steps_[t].kind == step_kind::offload;
            of_step_.push_back(leaves ? traits::offload(graph_, handle(c), steps_[t].bytes, before)
                                      : traits::reload(graph_, of_step_[c.step], before));
            (leaves ? made_.offloads : made_.reloads).push_back(of_step_.back());
        }
    }

    void redirect(step_id t) {
        const auto copies = steps_.inputs(t);
        for (std::size_t i = 0; i < copies.size(); ++i)
            if (steps_[copies[i].step].kind != step_kind::run)
                traits::redirect(graph_, of_step_[t], i, handle(copies[i]));
    }

    void redirect_results() {
        if constexpr (can_redirect_result<G>) {
            const auto latest = latest_runs(s_, steps_);
            for (std::size_t r = 0; r < s_.results().size(); ++r) {
                const value_id v = s_.results()[r];
                const step_id t = latest[s_[v].producer];
                if (steps_[t].kind == step_kind::recompute)
                    traits::redirect_result(graph_, r, handle({t, s_.output_index(v)}));
            }
        }
    }

    /// Once every reader is turned to its copies; what a fused node reads has gone into it before.
    void fuse() {
        if constexpr (can_fuse<G>) {
            for (const auto t : steps_.steps())
                if (steps_[t].fused) traits::fuse(graph_, of_step_[t]), ++made_.fused;
        }
    }

    const schedule& steps_;
    G& graph_;
    snapshot s_;
    id_vector<node_id, node> handles_; ///< of the host's own nodes, by node index
    id_vector<step_id, node> of_step_; ///< the host node of each step
    std::vector<node_id> order_;       ///< in the order of their first runs
    std::vector<std::uint8_t> stay_;   ///< by position in `order_`: the node is not moved
    applied<node> made_;
};

} // namespace detail

/// Rewrites `g` so that, read again, it replays to the peak of `p`: `clone` for every step that runs a node again,
/// `encode` for every encoding, `offload` and `reload` for what moves, `move` for first runs at another place (as few
/// as possible), `erase` for dead nodes left out, `redirect` for readers of copies, `redirect_result` for results whose
/// latest copy is a clone, and last `fuse` for clones that their readers recompute. Afterwards the host's order is
/// exactly the order of the steps.
///
/// All or nothing: everything is checked before the first change. (What the host's own functions throw on
/// the way passes through, and leaves the graph as far as it got.)
///
/// Laws for the host, beyond those of `graph_traits`: `clone`, `encode`, `offload` and `reload` put the new node
/// directly in front of `before`, `move` likewise; the output of `encode` is fresh storage of
/// `encoded_bytes(encodable_elements(value))` bytes, that of `offload` takes none, and that of `reload` is fresh
/// storage of the bytes that left; the phase of these three is forward, whatever they pack or move (a backward node
/// would move the boundary at which the stash is counted); a reader redirected to an encoding no longer states that
/// this input is read as one bit or written over in place; after `fuse` the clone is none of the nodes, and those that
/// read it read its inputs as well as their own, and write over nothing in the place where they read it.
///
/// Errors: a graph without backward nodes; a plan made for another graph; a plan that needs a function which
/// `graph_traits<G>` lacks. O(steps log steps + copies read) and the host's own functions.
template <detail::checked_host_graph G>
    requires rewritable_graph<G>
applied<node_of<G>> apply(const plan& p, G& g) {
    return detail::apply_run<G>(p.steps(), g).run();
}

} // namespace echo
