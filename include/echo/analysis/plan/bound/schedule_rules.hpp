// SPDX-License-Identifier: BSL-1.0
/// @file
/// What a schedule may do by the rules of formats.md, whatever any strategy would do: the ground that the lower bounds
/// stand on. More is allowed here than in `candidates`, which leaves alone what it cannot prove to be safe: a bound has
/// to hold for every plan that `verify` accepts, not just for those that are proposed.
///
/// A *gradient* is here a node of phase `backward` or `update` that makes more than views. All bounds assume that each
/// gradient runs once, and that they keep the host's order among themselves. Everything else is as free as the format:
/// forward nodes run anywhere behind what they need, early, late or between gradients, in any order; views of any
/// phase run anywhere and any number of times; one bit of any value, forward or backward, may be kept instead.
#pragma once

#include <echo/analysis/plan/decision/candidates.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace echo::detail {

/// The rules for one snapshot, found once. O(nodes + edges) to build. Snapshot and candidates must outlive it.
class schedule_rules {
public:
    /// `heavy`: compute-heavy nodes may run again too. `encode`: values may be kept in one bit per element.
    schedule_rules(const snapshot& s, const candidates& c, bool encode, bool heavy)
        : s_(s), c_(c), encode_(encode && c.host.encode) {
        find_gradients();
        find_reruns(heavy);
        find_needs();
    }

    /// Whether the node runs once, in the place that the host's order gives it among its like.
    bool is_gradient(node_id n) const { return gradients_[n]; }
    /// Views cost nothing and are not told apart from what they lie on.
    bool makes_views_only(node_id n) const {
        for (const auto v : s_.outputs(n))
            if (s_[v].view_of == no_input) return false;
        return !s_.outputs(n).empty();
    }
    /// Whether it may run a second time.
    bool may_rerun(node_id n) const { return rerunnable_[n]; }
    /// Index of the first gradient that needs the node, through inputs, control or the order of nodes that never rerun;
    /// a gradient needs itself. More than any index if none does.
    std::uint32_t needed_first(node_id n) const { return needed_first_[n]; }
    /// Whether its first run may stand behind that of gradient `at`: no gradient needs it before.
    bool may_be_later(node_id n, node_id at) const { return needed_first(n) > at.index(); }
    /// Whether the node may run behind gradient `at`, for the first time or again.
    bool may_run_behind(node_id n, node_id at) const { return may_rerun(n) || may_be_later(n, at); }
    /// Whether an encoding may be read at this input.
    bool reads_bit(node_id reader, std::size_t position) const {
        return encode_ && s_.one_bit(reader, position);
    }
    /// Whether some plan may recompute what makes the storage inside this reader.
    bool may_run_inside(node_id reader, value_id base) const {
        const node_id maker = s_[base].producer;
        return may_run_inside_others(maker) && s_[reader].kind != op_kind::heavy && maker != reader;
    }
    /// Whether some plan may recompute the node inside what reads it.
    bool may_run_inside_others(node_id maker) const {
        return c_.host.fuse && may_rerun(maker) && s_[maker].kind != op_kind::heavy &&
               s_[maker].same_in_any_kernel();
    }
    /// Resident storages cost nothing, wherever they are read.
    bool counts(value_id v) const { return !c_.resident[v]; }
    value_id base(value_id v) const { return c_.base[v]; }
    bool is_live(node_id n) const { return c_.live[n]; }
    const snapshot& graph() const noexcept { return s_; }
    const candidates& facts() const noexcept { return c_; }

    /// Calls `visit(node)` for the live nodes that must wait for the first run of `n`. O(their number).
    template <class Visit>
    void for_each_that_waits(node_id n, const Visit& visit) const {
        for (const auto v : s_.outputs(n))
            for (const use& u : s_.uses(v))
                if (is_live(u.reader)) visit(u.reader);
        for (const node_id waits : waiting_[n]) visit(waits);
    }

private:
    static constexpr std::uint32_t nobody = std::numeric_limits<std::uint32_t>::max();

    void find_gradients() {
        gradients_.assign(s_.node_count());
        for (const auto n : s_.nodes())
            gradients_[n] = is_live(n) && runs_after_forward(s_[n].phase) && !makes_views_only(n);
    }
    void find_reruns(bool heavy) {
        rerunnable_.assign(s_.node_count());
        for (const auto n : s_.nodes()) {
            const node_record& node = s_[n];
            bool may = c_.host.recompute && node.phase == phase::forward && node.rerun != rerun_kind::never &&
                       !node.keep && is_live(n) && (heavy || node.kind != op_kind::heavy);
            for (const auto v : s_.outputs(n)) {
                const bool on_resident = c_.resident[v] && s_[v].view_of == no_input;
                may &= !on_resident && (c_.host.recompute_results || !s_.is_result(v));
            }
            rerunnable_[n] = may;
        }
    }

    /// Of each node: the first gradient that needs it. Those who wait for a node stand behind it.
    void find_needs() {
        find_waiting();
        needed_first_.assign(s_.node_count(), nobody);
        for (std::size_t i = s_.node_count(); i-- > 0;) {
            const node_id n(i);
            if (!is_live(n)) continue;
            std::uint32_t& first = needed_first_[n];
            if (is_gradient(n) || !c_.host.move) first = n.index();
            for_each_that_waits(n, [&](node_id m) { first = std::min(first, needed_first_[m]); });
        }
    }

    /// Who waits without reading: by control, and the next node that never reruns.
    void find_waiting() {
        waiting_.begin(s_.node_count());
        for_each_wait([&](node_id before, node_id) { waiting_.count(before); });
        waiting_.lay_out();
        for_each_wait([&](node_id before, node_id n) { waiting_.add(before, n); });
    }
    template <class Visit>
    void for_each_wait(const Visit& visit) const {
        node_id last_never = node_id::none();
        for (const auto n : s_.nodes()) {
            if (!is_live(n)) continue;
            for (const auto before : s_.control(n)) visit(before, n);
            if (s_[n].rerun != rerun_kind::never) continue;
            if (last_never.valid()) visit(last_never, n);
            last_never = n;
        }
    }

    const snapshot& s_;
    const candidates& c_;
    bool encode_;
    id_set<node_id> gradients_, rerunnable_;
    id_vector<node_id, std::uint32_t>
        needed_first_; ///< node: index of the first gradient that needs it, or `nobody`
    id_lists<node_id, node_id> waiting_;
};

} // namespace echo::detail
