// SPDX-License-Identifier: BSL-1.0
/// @file
/// `exchange`: the pass that decides one thing of a plan otherwise, and repairs what follows from it.
#pragma once

#include <echo/analysis/plan/budget/search_state.hpp>
#include <echo/analysis/plan/moves/eviction.hpp>
#include <echo/analysis/plan/moves/kept_copy.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace echo::detail {

/// What a plan could do otherwise about a copy between two of its uses.
struct other_choice {
    /// The copy.
    kept_copy copy;
    /// Keep what is made again, make again what is kept, or make again before it is read.
    enum class kind { keep, give_up, make_early } now;
    node_id early_at{}; ///< where it is made early

    /// The decision with that choice. O(turns).
    decision of(const snapshot& s, decision decided) const {
        if (now == kind::keep)
            keep_copy(s, decided, copy);
        else if (now == kind::make_early)
            decided.make_early(copy.node, early_at);
        else if (runs_after_forward(s.phase_of(copy.from)))
            decided.forget(copy.node, node_id(copy.from.index() + 1));
        else
            decided.again[copy.node] = 1;
        return decided;
    }
};

/// All that the plan could do otherwise: first what it makes again and could keep, then what it keeps and could make
/// again, last what it could make earlier. O(steps + reads + recomputes × nodes of the backward pass).
inline std::vector<other_choice> other_choices(const search_moves& m, const evaluated_plan& plan) {
    const snapshot& s = m.evaluate.graph();
    const candidates& c = m.evaluate.facts();
    const copy_history& history = m.evaluate.history_of(plan);
    std::vector<other_choice> all;
    for (const auto t : late_steps(c, plan))
        if (can_be_retained(s, plan, t))
            all.push_back({kept_instead(plan, history, t), other_choice::kind::keep});
    const std::size_t runs = all.size();
    const eviction_view view{s, c, plan, history, plan.decided()};
    for (const auto i : plan.live().storages()) {
        const storage_record& storage = plan.live()[i];
        if (storage.resident || storage.encoded || storage.holds_result) continue;
        step_id from = storage.first;
        for (const storage_read& read : history.reads(i)) {
            const evicted_copy copy{read.content, i, std::exchange(from, read.by), read.by};
            const kept_copy gap{copy.node, view.home(copy.from), view.home(copy.to)};
            if (!view.in_forward(copy.to) && gap.from < gap.to && view.may_run_later(copy))
                all.push_back({gap, other_choice::kind::give_up});
        }
    }
    for (std::size_t i = 0; i < runs; ++i) {
        const kept_copy copy = all[i].copy;
        for (std::size_t at = copy.to.index(); at-- > std::max(copy.from.index() + 1, c.first_late.index());)
            all.push_back({copy, other_choice::kind::make_early, node_id(at)});
    }
    return all;
}

/// The first plan that is not in `seen`: the cheapest within the limit, those just above it, those below.
inline std::optional<rated_decision> next_to_change(const known_plans& known, std::uint64_t limit,
                                                    const std::vector<plan_figures>& seen) {
    auto plans = known.next_within(limit, tuning::retained_below);
    const auto above = known.next_above(limit, tuning::nearest);
    plans.insert(plans.begin() + !plans.empty(), above.rbegin(), above.rend());
    const auto is_new = [&](const rated_decision& plan) {
        return std::none_of(seen.begin(), seen.end(), [&](const plan_figures& other) {
            return other.footprint.peak_bytes == plan.footprint.peak_bytes &&
                   other.recompute == plan.recompute;
        });
    };
    const auto plan = std::find_if(plans.begin(), plans.end(), is_new);
    return plan == plans.end() ? std::nullopt : std::optional(*plan);
}

/// The state with a plan within the limit that recomputes less, or with one within it where there was none, if a change
/// of one decision leads to one: each thing that a known plan next to the limit decides is decided otherwise, one after
/// the other; evictions bring the plan down to the limit again, and what fits is kept, all without touching that
/// decision (a local search whose neighbours are repaired). A copy is made before it is read only where no plan meets
/// the limit: that seldom saves time. Again with what is found, until all is tried or nodes times replays reach
/// `tuning::most_exchanged`. A replay is O(nodes + edges + steps). Errors: as `replay`.
[[nodiscard]] inline search_state exchange(search_moves& m, search_state state, std::uint64_t limit) {
    if (!m.options.exchange) return state;
    m.tell();
    const snapshot& s = m.evaluate.graph();
    const std::size_t most_replays = m.evaluate.count() + tuning::most_exchanged / m.effort.size;
    std::vector<plan_figures> seen;
    while (const auto base = next_to_change(state.known, limit, seen)) {
        seen.push_back(*base);
        for (const other_choice& choice : other_choices(m, m.evaluate(base->decided))) {
            const rated_decision* best = state.known.within(limit);
            if (best && (best->recompute == 0 || choice.now == other_choice::kind::make_early)) break;
            if (m.evaluate.count() >= most_replays) return state;
            const ticks most = best ? best->recompute + best->recompute / 2 : any_time;
            const node_id settled = choice.copy.node;
            auto [plan, met] =
                m.evict(m.evaluate(choice.of(s, base->decided)), limit, {.most = most, .settled = settled});
            state.known.add(met ? m.retain(std::move(plan), limit, settled).rated() : plan.rated());
        }
    }
    return state;
}

} // namespace echo::detail
