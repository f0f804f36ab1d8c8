// SPDX-License-Identifier: BSL-1.0
/// @file
/// What a plan may decide about each node: which may run again, which may run late, which value makes the
/// storage that a value lies on. Everything that cannot be proved safe is left alone.
#pragma once

#include <echo/analysis/plan/decision/cost.hpp>
#include <echo/analysis/plan/decision/edge_uses.hpp>
#include <echo/analysis/plan/decision/fusable.hpp>
#include <echo/analysis/plan/decision/storage_facts.hpp>
#include <echo/graph/host_abilities.hpp>
#include <echo/graph/id_vector.hpp>
#include <echo/graph/live_nodes.hpp>
#include <echo/graph/snapshot.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace echo::detail {

/// Facts for planning, by node or value index. Built once per snapshot, shared by all strategies.
struct candidates {
    host_abilities host{};
    node_id first_late{};       ///< the first node behind the forward pass; their number if there is none
    id_set<node_id> live;       ///< node: a plan runs it
    id_set<node_id> rerunnable; ///< forward node: light or view, and may run again
    id_set<node_id> heavy_rerunnable;   ///< forward node: heavy, and may run again
    id_set<node_id> movable;            ///< forward node: its first run may stand later
    id_set<node_id> forward_needed;     ///< forward node: the forward pass itself needs it
    id_vector<value_id, value_id> base; ///< value: the maker of its storage, through views
    id_set<value_id> resident;          ///< value: it lies on resident storage
    id_set<value_id> costless;          ///< base value: resident or a result, so it costs nothing to keep
    id_set<node_id> hoistable; ///< backward view of a forward value: may run right after what it looks at
    id_set<value_id> packable; ///< value: an encoding of it could be made, and would be read
    /// Value: the last gradient that reads all of it before any reads its encoding, which is made there then; none if
    /// there is no such gradient, and the encoding is made in the forward pass.
    id_vector<value_id, node_id> packed_at;
    fusion_facts fusion;             ///< nothing is fusable, if the host does not fuse
    run_times times;                 ///< of one run of each node, dead ones included
    id_vector<node_id, ticks> rerun; ///< node: what running it again is likely to cost: 0 for what folds

    /// Whether nothing in the forward pass waits for the node, so that it may run late at no price.
    bool late_is_free(node_id n) const { return movable[n] && !forward_needed[n]; }
};

/// Whether this backward node could read an encoding of the value at this input: one bit is enough for it,
/// the encoding is smaller, and no output of the node would take over the encoding's storage once a host
/// graph shows it as an ordinary value. O(outputs). Errors: none.
inline bool encodable(const snapshot& s, const candidates& c, node_id reader, std::size_t position) {
    if (!s.one_bit(reader, position) || !runs_after_forward(s[reader].phase)) return false;
    const value_id v = s.inputs(reader)[position];
    if (!c.packable[v]) return false;
    for (const auto out : s.outputs(reader))
        if (s[out].view_of == position ||
            (s[out].inplace == position && s[out].bytes <= encoded_bytes(s[v].elements)))
            return false;
    return true;
}

/// Calls `visit(value, one_bit)` for everything of the forward pass that live backward nodes behind `after`
/// read. Views that may be hoisted ask for nothing themselves: what reads them does. O(nodes + edges). Errors: those
/// of `visit`.
template <class Visit>
void for_each_gradient_read(const snapshot& s, const candidates& c, bool encode, node_id after,
                            const Visit& visit) {
    for (std::size_t i = after.valid() ? after.index() + 1 : 0; i < s.node_count(); ++i) {
        const node_id n(i);
        if (!c.live[n] || !runs_after_forward(s[n].phase) || c.hoistable[n]) continue;
        for (std::size_t k = 0; const auto v : s.inputs(n)) {
            const value_id base = c.base[v];
            if (s[s[base].producer].phase == phase::forward && !c.costless[base])
                visit(v, encode && encodable(s, c, n, k));
            ++k;
        }
    }
}

/// Finds the facts one after the other; each hangs on those before it.
class candidate_finder {
public:
    candidate_finder(const snapshot& s, const host_abilities& host, const device_model& device) : s_(s) {
        c_.host = host;
        c_.first_late = node_id(s.node_count());
        for (std::size_t i = s.node_count(); i-- > 0;)
            if (runs_after_forward(s.phase_of(node_id(i)))) c_.first_late = node_id(i);
        needed_ = live_nodes(s);
        c_.live = host.erase ? needed_ : id_set<node_id>(s.node_count(), true);
        c_.times = times_of(s, device);
    }

    candidates run() {
        find_storages();
        find_latest_uses();
        judge_nodes();
        block_bases_of_fixed_views();
        find_forward_needs();
        find_hoistable();
        find_packable();
        find_packing();
        c_.fusion = find_fusion_facts(s_, c_.rerunnable, c_.hoistable, c_.resident,
                                      c_.host.fuse && c_.host.recompute);
        c_.rerun = c_.times.of_node;
        for (const auto n : s_.nodes())
            if (c_.fusion.folds[n]) c_.rerun[n] = 0;
        return std::move(c_);
    }

private:
    void find_storages() {
        storage_facts facts = find_storage_facts(s_);
        deadline_ = find_read_deadlines(s_, facts);
        c_.base = std::move(facts.base);
        c_.resident = std::move(facts.resident);
        c_.costless = std::move(facts.costless);
        writes_resident_ = std::move(facts.writes_resident);
    }

    /// The last position at which a forward node could be run for a gradient, directly or through others.
    void find_latest_uses() {
        latest_.assign(s_.node_count(), 0);
        for (std::size_t i = s_.node_count(); i-- > 0;) {
            const node_id n(i);
            if (!c_.live[n]) continue;
            const bool backward = runs_after_forward(s_[n].phase);
            const std::uint32_t here = backward ? static_cast<std::uint32_t>(i) : latest_[n];
            for (const auto v : s_.inputs(n)) {
                auto& latest = latest_[s_[v].producer];
                latest = std::max(latest, here);
            }
        }
    }

    void judge_nodes() {
        const std::size_t n = s_.node_count();
        c_.rerunnable.assign(n);
        c_.heavy_rerunnable.assign(n);
        c_.movable.assign(n);
        id_set<node_id> controls(n);
        for (const auto m : s_.nodes())
            if (c_.live[m])
                for (const auto c : s_.control(m)) controls[c] = 1;
        for (const auto m : s_.nodes()) {
            const node_record& node = s_[m];
            if (!needed_[m] || node.phase != phase::forward || node.rerun == rerun_kind::never || node.keep ||
                writes_resident_[m])
                continue;
            bool in_time = true, makes_result = false;
            for (const auto v : s_.inputs(m)) in_time &= latest_[m] <= deadline_[v];
            for (const auto v : s_.outputs(m)) makes_result |= s_.is_result(v);
            if (!in_time) continue;
            const bool again = c_.host.recompute && (c_.host.recompute_results || !makes_result);
            c_.rerunnable[m] = again && node.kind != op_kind::heavy;
            c_.heavy_rerunnable[m] = again && node.kind == op_kind::heavy;
            c_.movable[m] = c_.host.move && !controls[m] && !makes_result;
        }
    }

    /// Where a view cannot be made again, neither can the storage it lies on: its readers would lose it.
    void block_bases_of_fixed_views() {
        for (const auto v : s_.values()) {
            const node_id n = s_[v].producer;
            if (s_[v].view_of == no_input || s_[n].phase != phase::forward) continue;
            if (c_.rerunnable[n] || !c_.live[n]) continue;
            const node_id maker = s_[c_.base[v]].producer;
            c_.rerunnable[maker] = c_.heavy_rerunnable[maker] = 0;
        }
    }

    /// The forward pass needs what its results, its compute-heavy nodes and what may not move need; and what the
    /// backward pass begins with: by the first backward node behind a forward node that reads any of it, all that this
    /// one needs has run, whoever asks for it.
    void find_forward_needs() {
        c_.forward_needed.assign(s_.node_count());
        node_id first_backward; // behind this node
        for (std::size_t i = s_.node_count(); i-- > 0;) {
            const node_id n(i);
            if (!c_.live[n]) continue;
            if (runs_after_forward(s_[n].phase) && s_[n].kind != op_kind::view && reads_forward(n))
                first_backward = n;
            if (s_[n].phase != phase::forward) continue;
            if (first_backward.valid()) {
                need_inputs(first_backward);
                first_backward = {};
            }
            if (!c_.movable[n] || s_[n].kind == op_kind::heavy) c_.forward_needed[n] = 1;
            if (c_.forward_needed[n]) need_inputs(n);
        }
    }

    bool reads_forward(node_id n) const {
        for (const auto v : s_.inputs(n))
            if (s_[s_[c_.base[v]].producer].phase == phase::forward) return true;
        return false;
    }

    /// Views of the backward pass are looked through.
    void need_inputs(node_id n) {
        for (const auto v : s_.inputs(n)) {
            c_.forward_needed[s_[v].producer] = 1;
            c_.forward_needed[s_[c_.base[v]].producer] = 1;
        }
        for (const auto m : s_.control(n)) c_.forward_needed[m] = 1;
    }

    /// A backward view may run early if moving it is safe: nothing orders it but the one value it looks at.
    void find_hoistable() {
        c_.hoistable.assign(s_.node_count());
        if (!c_.host.move) return;
        id_set<node_id> controls(s_.node_count());
        for (const auto n : s_.nodes())
            for (const auto m : s_.control(n)) controls[m] = 1;
        for (const auto n : s_.nodes()) {
            if (!needed_[n] || s_[n].phase != phase::backward || s_[n].kind != op_kind::view) continue;
            if (s_[n].rerun == rerun_kind::never || controls[n] || !s_.control(n).empty()) continue;
            if (s_.inputs(n).size() != 1 || s_.outputs(n).size() != 1) continue;
            const value_id out = s_.output(n, 0);
            if (s_[out].view_of != 0 || s_.is_result(out) || c_.resident[out]) continue;
            const node_id from = s_[s_.inputs(n)[0]].producer;
            c_.hoistable[n] = s_[from].phase == phase::forward || c_.hoistable[from];
        }
    }

    void find_packable() {
        c_.packable.assign(s_.value_count());
        if (!c_.host.encode) return;
        for (const auto v : s_.values()) {
            const node_id maker = s_[v].producer;
            if (!c_.live[maker] || encoded_bytes(s_[v].elements) >= s_[v].bytes) continue;
            if (s_[maker].phase == phase::forward)
                c_.packable[v] = 1;
            else if (c_.hoistable[maker])
                c_.packable[v] = read_by_the_bit_alone(v);
        }
    }

    /// Where encodings are made. Of what a hoisted view makes nobody reads more, and it stays none.
    void find_packing() {
        c_.packed_at.assign(s_.value_count(), node_id::none());
        for (const auto v : s_.values()) {
            if (!c_.packable[v] || s_[s_[v].producer].phase != phase::forward) continue;
            const auto uses = s_.uses(v);
            const auto bit = std::find_if(uses.begin(), uses.end(), [&](const use& u) {
                return c_.live[u.reader] && encodable(s_, c_, u.reader, u.position);
            });
            if (bit == uses.end()) {
                c_.packable[v] = 0;
                continue;
            }
            for (auto u = uses.begin(); u->reader < bit->reader; ++u)
                if (c_.live[u->reader] && runs_after_forward(s_[u->reader].phase) && !c_.hoistable[u->reader])
                    c_.packed_at[v] = u->reader;
        }
    }

    /// A hoisted view must not keep its storage for others: all that read it, and nothing else, read the
    /// encoding, and the views below it are read by no one else.
    bool read_by_the_bit_alone(value_id v) {
        c_.packable[v] = 1;
        for (const use& u : s_.uses(v))
            if (c_.live[u.reader] && !encodable(s_, c_, u.reader, u.position)) return false;
        for (node_id n = s_[v].producer; c_.hoistable[n];) {
            const value_id from = s_.inputs(n)[0];
            n = s_[from].producer;
            if (c_.hoistable[n] && s_.uses(from).size() != 1) return false;
        }
        return true;
    }

    const snapshot& s_;
    candidates c_;
    id_set<node_id> needed_, writes_resident_;
    id_vector<value_id, std::uint32_t> deadline_; ///< value: position of the last node that may read it
    id_vector<node_id, std::uint32_t> latest_;    ///< node: the last position at which it could be run
};

/// O(nodes + edges).
[[nodiscard]] inline candidates find_candidates(const snapshot& s, const host_abilities& host = {},
                                                const device_model& device = {}) {
    return detail::candidate_finder(s, host, device).run();
}

} // namespace echo::detail
