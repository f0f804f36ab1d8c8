// SPDX-License-Identifier: BSL-1.0
/// @file
/// What the facts of a graph say about fusion, whatever the plan: which ops may be recomputed inside others, and which
/// others take them in. Conservative: what is not light, pure and about as large as what it reads is left alone.
///
/// - The host may say of any op that it writes no such code for it (`graph_traits::may_fuse`).
/// - A fused op is `light`, has no workspace and makes no graph output. It is `pure`, or seeded with a generator that
/// counts
///   by element (`draws_by_element`): where it counts by the thread that draws, another kernel draws other numbers.
/// - It does not shrink what it reads. A reduction would be done all over for each element of its reader. (A softmax
///   is as large as what it reads, and passes: `light` is all that the facts say.)
/// - A reader is `light`: nothing is recomputed inside a matrix product. It handles no more elements than the fused
///   value has, so that each element is recomputed once per reader; and it updates no resident storage, which others
///   of its threads would read.
#pragma once

#include <echo/analysis/plan/decision/edge_uses.hpp>
#include <echo/graph/id_vector.hpp>
#include <echo/graph/snapshot.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace echo::detail {

/// How far fusion goes. More ops in a kernel cost registers, more readers repeat work, more pointers are more loads.
struct fusion_limits {
    std::size_t readers = 4; ///< steps inside which one step is recomputed
    std::size_t inside = 8;  ///< steps recomputed inside one, views not counted
    /// Copies that one step reads and makes, and keys that it draws random numbers by: what one kernel of echo/cuda
    /// takes.
    std::size_t tensors = 16;
};

/// By node index.
struct fusion_facts {
    id_set<node_id> fusable; ///< may be recomputed inside readers; or a view that may go with what it is of
    id_set<node_id> folds;   ///< fusable, and all that reads it in the backward pass may be its reader
    id_set<node_id> reader;  ///< others may be recomputed inside it
    id_vector<node_id, std::uint64_t> work; ///< the most elements of anything that it reads or makes
};

/// Whether all that reads `v` in the backward pass, through views too, may recompute it.
inline bool folds_into_readers(const snapshot& s, const fusion_facts& f, value_id v, std::size_t most) {
    std::size_t readers = 0;
    for (const use& u : s.uses(v)) {
        const node_id r = u.reader;
        const bool view = s[u.reader].kind == op_kind::view;
        if (view && !f.folds[r]) return false;
        if (view || !runs_after_forward(s[u.reader].phase)) continue;
        if (!f.reader[r] || f.work[r] > s[v].elements || ++readers > most) return false;
    }
    return true;
}

inline bool is_fusable(const snapshot& s, node_id n, std::uint64_t largest_input) {
    if (!s[n].may_fuse || !s[n].same_in_any_kernel() || s[n].workspace > 0 || s.outputs(n).empty())
        return false;
    const bool view = s[n].kind == op_kind::view;
    if (s[n].kind != op_kind::light && (!view || s.inputs(n).size() != 1)) return false;
    for (const auto v : s.outputs(n)) {
        if (s.is_result(v) || s[v].resident || (s[v].view_of != no_input) != view) return false;
        // A view that shows its base more than once would have it recomputed as often.
        if (view ? s[v].elements > largest_input : s[v].elements < largest_input) return false;
    }
    return true;
}

/// `rerunnable` and `hoistable` by node, `resident` by value, as in `candidates`. O(nodes + edges). Errors: none.
inline fusion_facts find_fusion_facts(const snapshot& s, const id_set<node_id>& rerunnable,
                                      const id_set<node_id>& hoistable, const id_set<value_id>& resident,
                                      bool host_fuses) {
    fusion_facts f;
    f.fusable.assign(s.node_count());
    f.folds = f.reader = f.fusable;
    f.work.assign(host_fuses ? s.node_count() : 0, 0);
    if (!host_fuses) return f;
    for (const auto n : s.nodes()) {
        std::uint64_t largest_input = 0;
        for (const auto v : s.inputs(n)) largest_input = std::max(largest_input, s[v].elements);
        f.work[n] = largest_input;
        f.fusable[n] =
            (rerunnable[n] || (hoistable[n] && !s[n].keep)) && detail::is_fusable(s, n, largest_input);
        f.reader[n] = s[n].may_fuse && s[n].kind == op_kind::light && s[n].phase != phase::update;
        for (const auto v : s.outputs(n)) {
            f.work[n] = std::max(f.work[n], s[v].elements);
            if (s[v].inplace != no_input && resident[s.inputs(n)[s[v].inplace]]) f.reader[n] = 0;
        }
    }
    for (std::size_t i = s.node_count(); i-- > 0;) { // views stand behind what they are of
        const node_id n(i);
        f.folds[n] = f.fusable[n];
        for (const auto v : s.outputs(n))
            f.folds[n] = f.folds[n] && detail::folds_into_readers(s, f, v, fusion_limits{}.readers);
    }
    return f;
}

} // namespace echo::detail
