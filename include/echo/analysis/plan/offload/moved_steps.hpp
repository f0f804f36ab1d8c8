// SPDX-License-Identifier: BSL-1.0
/// @file
/// `moved_steps`: a schedule with the steps that move copies to the host and back.
#pragma once

#include <echo/analysis/plan/offload/absences.hpp>
#include <echo/analysis/schedule/schedule.hpp>
#include <echo/graph/id_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace echo::detail {

/// An absence that is made use of. Its steps stand before steps of the schedule without it.
struct move {
    absence of{};
    step_id gone{};                  ///< the copy has left before this step
    step_id back{};                  ///< the copy begins to come back before this step
    ticks out_from = 0, in_from = 0; ///< when it is expected to travel
    ticks out_takes = 0, in_takes = 0;
};

/// Writes the steps of a schedule anew.
class step_mover {
public:
    step_mover(const snapshot& s, const schedule& steps)
        : s_(s), steps_(steps), first_copy_(steps.size() + 1, 0) {
        for (const auto t : steps.steps())
            first_copy_[t.next()] = first_copy_[t] + static_cast<std::uint32_t>(copy_count(s, steps[t]));
        now_.resize(first_copy_[step_id(steps.size())]);
        gone_.assign(now_.size(), false);
    }

    /// O(steps + inputs + moves log moves).
    [[nodiscard]] schedule operator()(std::span<const move> moves) {
        std::vector<const move*> out, in;
        for (const move& m : moves) out.push_back(&m), in.push_back(&m);
        std::ranges::stable_sort(out, {}, [](const move* m) { return std::pair(m->gone, m->out_from); });
        std::ranges::stable_sort(in, {}, [](const move* m) { return std::pair(m->back, m->in_from); });
        made_.reserve(steps_.size() + 2 * moves.size(), 0);
        auto next_out = out.begin();
        auto next_in = in.begin();
        for (const auto t : steps_.steps()) {
            for (; next_out != out.end() && (*next_out)->gone == t; ++next_out) offload(**next_out);
            for (; next_in != in.end() && (*next_in)->back == t; ++next_in) reload(**next_in);
            repeat(t);
        }
        return std::move(made_);
    }

    /// The step with which a copy of the old schedule has left, once it is written.
    step_id left_by(copy_id content) const { return on_host_.at(content); }

private:
    std::size_t at(copy_id c) const { return first_copy_[c.step] + c.output; }

    /// What left once and was not written over since is still there.
    void offload(const move& m) {
        const auto [place, is_new] = on_host_.try_emplace(m.of.content, step_id{});
        if (!is_new) return;
        bring_back(m.of.content);
        place->second = made_.add(
            {.node = steps_[m.of.content.step].node, .kind = step_kind::offload, .bytes = m.of.bytes});
        made_.read(now_[at(m.of.content)]);
    }
    void reload(const move& m) {
        const step_id t = made_.add(
            {.node = steps_[m.of.content.step].node, .kind = step_kind::reload, .bytes = m.of.bytes});
        made_.read({on_host_.at(m.of.content), 0});
        now_[at(m.of.content)] = {t, 0};
        for (const auto view : m.of.views)
            for (std::uint32_t k = 0; k < copy_count(s_, steps_[view]); ++k) gone_[at({view, k})] = true;
    }
    /// A step as it is, reading the copies that there are now.
    void repeat(step_id t) {
        for (const auto c : steps_.inputs(t)) bring_back(c);
        add(t, steps_[t]);
    }
    void add(step_id t, const step_record& step) {
        const auto inputs = steps_.inputs(t);
        const step_id made =
            made_.add(step, inputs.size(), [&](std::size_t k) { return now_[at(inputs[k])]; });
        for (std::uint32_t k = 0; k < copy_count(s_, step); ++k) {
            now_[at({t, k})] = {made, k};
            gone_[at({t, k})] = false;
        }
    }
    /// The steps of the views that went with their storage run again, from what it looks at on.
    void bring_back(copy_id c) {
        if (!gone_[at(c)]) return;
        to_run_.clear();
        for (; gone_[at(c)]; c = steps_.inputs(c.step)[0]) to_run_.push_back(c.step);
        for (; !to_run_.empty(); to_run_.pop_back())
            add(to_run_.back(), {.node = steps_[to_run_.back()].node, .kind = step_kind::recompute});
    }

    const snapshot& s_;
    const schedule& steps_;
    id_vector<step_id, std::uint32_t> first_copy_;
    std::vector<copy_id> now_;           ///< by copy of the old schedule: where it is in the new one
    std::vector<bool> gone_;             ///< likewise, whether it is a view of what was away
    std::map<copy_id, step_id> on_host_; ///< what left, by the step that waits for it
    std::vector<step_id> to_run_;
    schedule made_;
};

} // namespace echo::detail
