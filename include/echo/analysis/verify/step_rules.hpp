// SPDX-License-Identifier: BSL-1.0
/// @file
/// `step_rules`: which steps may stand in a plan, and in which order, by what the graph and the host allow. It looks at
/// nodes and steps only; what a step reads is checked in step_resolver.hpp.
#pragma once

#include <echo/analysis/schedule/schedule.hpp>
#include <echo/analysis/verify/step_refusal.hpp>
#include <echo/error.hpp>
#include <echo/graph/host_abilities.hpp>
#include <echo/graph/id_vector.hpp>
#include <echo/graph/snapshot.hpp>

#include <cstddef>

namespace echo::detail {

/// Checks steps from the first to the last, and remembers which nodes have run. All that it is given must outlive it.
/// Errors name the node and the step.
class step_rules {
public:
    step_rules(const snapshot& s, const schedule& given, const host_abilities& host,
               const id_set<node_id>& dead)
        : s_(s), given_(given), host_(host), dead_(dead), refuse_(s, given), ran_(s.node_count()) {}

    /// The next step: whether it may run, run again or encode at this place. O(outputs).
    void check(step_id t) {
        const step_record& step = given_[t];
        switch (step.kind) {
        case step_kind::run:
            check_run(t);
            break;
        case step_kind::recompute:
            check_recompute(t);
            break;
        case step_kind::encode:
            if (step.fused) refuse_(t, "fused", "is fused, but is no recompute");
            if (!host_.encode) refuse_(t, "encode", "is packed, but the host encodes nothing");
            break;
        case step_kind::offload:
        case step_kind::reload:
            if (step.fused) refuse_(t, "fused", "is fused, but is no recompute");
            if (!host_.offload) refuse_(t, {}, "is moved, but the host moves nothing to its memory");
            break;
        default:
            refuse_(t, "kind", "is no run, recompute, encode, offload or reload");
        }
        if (step.fused) check_fused(t);
    }

    /// Whether step `t` may take, at this position, what a fused step makes. O(outputs).
    void check_takes_fused(step_id t, std::size_t position) const {
        const node_id n = given_[t].node;
        if (s_[n].kind == op_kind::heavy)
            refuse_.of_input(t, position,
                             "is recomputed inside the step, which is heavy: hosts fuse into light ops only");
        if (given_[t].fused) return;
        for (const auto v : s_.outputs(n))
            if (s_[v].view_of == position)
                refuse_.of_input(t, position, "is fused, but the step, a view of it, is not");
    }

    /// Whether all that step `t` must run after has run. O(control dependencies).
    void check_control(step_id t) const {
        for (const auto c : s_.control(given_[t].node))
            if (!ran_[c]) refuse_(t, "control", "runs before '" + s_.name(c) + "', which it must run after");
    }

    /// Behind the last step: no graph output comes from a fused step, and no node is left out that must run. O(nodes +
    /// steps).
    void check_end() const {
        if (any_fused_) check_results();
        for (const auto n : s_.nodes()) {
            if (ran_[n]) continue;
            if (!dead_[n])
                throw error(s_.name(n), "schedule", "runs in no step, though it is not dead",
                            step_refusal::advice());
            if (!host_.erase)
                throw error(s_.name(n), "schedule", "is left out, but the host erases no nodes",
                            step_refusal::advice());
        }
    }

private:
    void check_run(step_id t) {
        const node_id n = given_[t].node;
        if (!ran_.add(n)) refuse_(t, {}, "runs a second time without being a recompute");
        if (latest_run_.valid() && n < latest_run_) {
            if (!host_.move)
                refuse_(t, {},
                        "runs after '" + s_.name(latest_run_) +
                            "', which stands behind it in the graph, but the host moves no nodes");
        } else {
            latest_run_ = n;
        }
        if (s_[n].rerun != rerun_kind::never) return;
        if (latest_never_.valid() && n < latest_never_)
            refuse_(t, {},
                    "runs after '" + s_.name(latest_never_) +
                        "', which stands behind it in the graph; nodes that never rerun keep their order");
        latest_never_ = n;
    }

    void check_recompute(step_id t) const {
        const node_id n = given_[t].node;
        const node_record& node = s_[n];
        if (!host_.recompute) refuse_(t, {}, "is recomputed, but the host recomputes nothing");
        if (node.phase == phase::input) refuse_(t, {}, "is recomputed, but is an input node");
        if (node.rerun == rerun_kind::never) refuse_(t, {}, "is recomputed, but may never rerun");
        if (node.keep) refuse_(t, {}, "is recomputed, but the host wishes to keep its outputs");
        if (dead_[n]) refuse_(t, {}, "is recomputed, but nothing needs it");
        if (!ran_[n]) refuse_(t, {}, "is recomputed before it has run");
        if (host_.recompute_results) return;
        for (const auto v : s_.outputs(n))
            if (s_.is_result(v))
                refuse_(t, {}, "is recomputed and makes a graph output, which the host cannot redirect");
    }

    void check_fused(step_id t) {
        const node_record& node = s_[given_[t].node];
        if (given_[t].kind != step_kind::recompute) refuse_(t, "fused", "is fused, but is no recompute");
        if (!host_.fuse) refuse_(t, "fused", "is fused, but the host fuses nothing");
        if (node.kind == op_kind::heavy) refuse_(t, "fused", "is fused, but heavy");
        if (!node.same_in_any_kernel())
            refuse_(t, "fused",
                    "is fused, but draws random numbers, which another kernel would draw otherwise");
        any_fused_ = true;
    }

    /// A graph output is the copy of the latest step that produces it.
    void check_results() const {
        id_vector<node_id, step_id> latest(s_.node_count(), step_id::none());
        for (const auto t : given_.steps())
            if (runs_node(given_[t].kind)) latest[given_[t].node] = t;
        for (const auto v : s_.results()) {
            const step_id t = latest[s_[v].producer];
            if (t.valid() && given_[t].fused) refuse_(t, "fused", "is fused, but makes a graph output");
        }
    }

    const snapshot& s_;
    const schedule& given_;
    const host_abilities& host_;
    const id_set<node_id>& dead_;
    step_refusal refuse_;
    id_set<node_id> ran_; ///< its first run stands earlier
    node_id latest_run_ = node_id::none(), latest_never_ = node_id::none();
    bool any_fused_ = false;
};

} // namespace echo::detail
