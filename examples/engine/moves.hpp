// SPDX-License-Identifier: BSL-1.0
/// @file
/// `find_moves`: what the steps of a schedule that offload and reload ask of a `mover`, and when.
#pragma once

#include "engine/mover.hpp"

#include <echo/analysis/memory/arena/place.hpp>
#include <echo/analysis/schedule/read_walk.hpp>
#include <echo/analysis/schedule/schedule.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace engine {

/// Copies that a step waits for or lets go, as positions in `transfers`.
struct moves_at_step {
    std::vector<std::size_t> wait_in{};   ///< come back before it
    std::vector<std::size_t> begin_out{}; ///< may leave behind it
    std::size_t own = 0;                  ///< of an offload or a reload step: its copy
};

struct planned_moves {
    transfers all{};
    std::vector<moves_at_step> at{}; ///< per step; empty where the schedule moves nothing
};

namespace detail {

/// Builds `planned_moves`.
class move_finder {
public:
    explicit move_finder(const echo::schedule& steps)
        : steps_(steps), arrives_(steps.size(), echo::step_id::none()), in_store_until_(arrives_) {}

    template <class PlaceOf, class NameOf>
    planned_moves operator()(const PlaceOf& place_of, const NameOf& name_of) {
        planned_moves found;
        if (!moves_any()) return found;
        find_arrivals();
        found.at.resize(steps_.size());
        std::vector<echo::arena::interval> lives;
        std::vector<std::size_t> number(steps_.size(), 0); // of an offload or a reload step
        for (const auto t : steps_.steps()) {
            const auto& step = steps_[t];
            if (step.kind != echo::step_kind::offload && step.kind != echo::step_kind::reload) continue;
            const bool leaves = step.kind == echo::step_kind::offload;
            auto& list = leaves ? found.all.out : found.all.in;
            found.at[t.index()].own = number[t.index()] = list.size();
            const echo::copy_id c = steps_.inputs(t)[0];
            list.push_back({.at = place_of(leaves ? c : echo::copy_id{t, 0}),
                            .bytes = step.bytes,
                            .name = name_of(step.node)});
            if (!leaves) {
                found.at[arrives_[t].index()].wait_in.push_back(number[t.index()]);
                continue;
            }
            found.at[there(c.step).index()].begin_out.push_back(number[t.index()]);
            lives.push_back({static_cast<std::uint32_t>(c.step.index()),
                             static_cast<std::uint32_t>(in_store_until_[t].index()), step.bytes});
        }
        lay_out(lives, number, found.all);
        return found;
    }

private:
    bool moves_any() const {
        return std::ranges::any_of(steps_.steps(),
                                   [&](auto t) { return steps_[t].kind == echo::step_kind::offload; });
    }
    /// The step by which what a step makes is there.
    echo::step_id there(echo::step_id t) const {
        return steps_[t].kind == echo::step_kind::reload ? arrives_[t] : t;
    }

    /// What comes back is waited for by the first step that reads it; where none does, by its own step, as others may
    /// use its memory behind that.
    void find_arrivals() {
        echo::read_walk walk;
        for (const auto t : steps_.steps()) {
            if (steps_[t].kind == echo::step_kind::reload) arrives_[t] = t;
            if (steps_[t].fused || steps_[t].kind == echo::step_kind::reload) continue;
            walk(steps_, t, [&](std::uint32_t, echo::copy_id c) {
                if (arrives_[c.step] == c.step) arrives_[c.step] = t;
            });
        }
        for (const auto t : steps_.steps()) {
            if (steps_[t].kind == echo::step_kind::offload) in_store_until_[t] = t;
            if (steps_[t].kind != echo::step_kind::reload) continue;
            auto& until = in_store_until_[steps_.inputs(t)[0].step];
            until = std::max(until, arrives_[t]);
        }
    }

    /// Places in the store: none is used again before what lies there has been read for the last time.
    void lay_out(const std::vector<echo::arena::interval>& lives, const std::vector<std::size_t>& number,
                 transfers& all) const {
        const auto placed = echo::arena::place(lives, {.align = mover::place_alignment, .limit = 0});
        for (std::size_t k = 0; k < lives.size(); ++k) all.out[k].place = placed.offsets[k];
        for (const auto t : steps_.steps())
            if (steps_[t].kind == echo::step_kind::reload)
                all.in[number[t.index()]].place = all.out[number[steps_.inputs(t)[0].step.index()]].place;
        all.store_bytes = placed.bytes;
    }

    const echo::schedule& steps_;
    echo::id_vector<echo::step_id, echo::step_id> arrives_; ///< of a reload: the step that waits for it
    echo::id_vector<echo::step_id, echo::step_id> in_store_until_; ///< of an offload
};

} // namespace detail

/// `place_of(copy) -> std::byte*` says where a copy lies, `name_of(node_id) -> std::string` what its node is called.
/// O(steps + inputs + moves log moves).
template <class PlaceOf, class NameOf>
planned_moves find_moves(const echo::schedule& steps, const PlaceOf& place_of, const NameOf& name_of) {
    return detail::move_finder(steps)(place_of, name_of);
}

} // namespace engine
