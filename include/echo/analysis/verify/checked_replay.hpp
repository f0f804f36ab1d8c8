// SPDX-License-Identifier: BSL-1.0
/// @file
/// `checked_replay`: the steps of a plan, checked and replayed beside the graph's own order, for `verify`.
#pragma once

#include <echo/analysis/schedule/schedule.hpp>
#include <echo/analysis/verify/checked_figures.hpp>
#include <echo/analysis/verify/replay_machine.hpp>
#include <echo/analysis/verify/resolved_steps.hpp>
#include <echo/analysis/verify/step_resolver.hpp>
#include <echo/error.hpp>
#include <echo/graph/host_abilities.hpp>
#include <echo/graph/id_vector.hpp>
#include <echo/graph/snapshot.hpp>

#include <cstddef>
#include <utility>

namespace echo::detail {

/// The nodes that are dead: no graph output, no update node and no node that writes in place on resident storage (by
/// the replay of the graph's own order) needs them, through inputs or control. O(nodes + edges).
inline id_set<node_id> dead_nodes(const snapshot& s, const checked_figures& own_order) {
    id_set<node_id> dead(s.node_count(), true);
    for (const auto v : s.results()) dead.erase(s[v].producer);
    for (std::size_t i = s.node_count(); i-- > 0;) {
        const node_id n(i);
        if (s[n].phase == phase::update || own_order.writes_resident[n]) dead.erase(n);
        if (dead[n]) continue;
        for (const auto v : s.inputs(n)) dead.erase(s[v].producer);
        for (const auto c : s.control(n)) dead.erase(c);
    }
    return dead;
}

/// A schedule, found sound, with the figures of its replay and of the graph's own order.
struct checked_schedule {
    resolved_steps steps;
    checked_figures before, after;
};

/// Errors: as `verify`, as far as they concern the steps. O(nodes + edges + steps + copies read).
inline checked_schedule checked_replay(const snapshot& s, const schedule& given,
                                       const host_abilities& host = {}) {
    const resolved_steps own_order = resolve_own_order(s);
    checked_figures before = replay_machine(s, own_order)();
    resolved_steps steps = step_resolver(s, given, host, dead_nodes(s, before))();
    checked_figures after = replay_machine(s, steps)();
    for (std::size_t t = 0; t < steps.size(); ++t) {
        if (steps.steps[t].kind != step_kind::recompute) continue;
        const node_id n = steps.steps[t].node;
        if (before.makes_resident[n] || before.writes_resident[n] || after.makes_resident[n] ||
            after.writes_resident[n])
            throw error(s.name(n), step_key(t), "is recomputed, but makes or writes over a resident storage",
                        "such nodes run once only");
    }
    return {std::move(steps), std::move(before), std::move(after)};
}

} // namespace echo::detail
