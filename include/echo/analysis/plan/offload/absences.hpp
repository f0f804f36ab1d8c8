// SPDX-License-Identifier: BSL-1.0
/// @file
/// `find_absences`: which storages of a schedule could be away from the device, and when: between two uses.
#pragma once

#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/analysis/schedule/footprint.hpp>
#include <echo/analysis/schedule/read_walk.hpp>
#include <echo/analysis/schedule/schedule.hpp>
#include <echo/graph/id_vector.hpp>
#include <echo/graph/live_nodes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace echo::detail {

/// A storage that no step uses between two steps, and what would leave of it in the meantime.
struct absence {
    copy_id content{};                  ///< the copy that leaves; what is read later is this, or views of it
    step_id used_before{}, used_next{}; ///< the steps between which nothing needs the storage
    std::uint64_t bytes = 0;            ///< of the storage, which is moved as a whole
    /// Steps that look at the content: they run again where their views are read.
    std::vector<step_id> views{};
};

/// Finds what can be away, of plans for one graph.
class absence_finder {
public:
    absence_finder(const snapshot& s, const candidates& c) : s_(s), c_(c), needed_(live_nodes(s)) {}

    /// In the order of their storages; none of a storage below `least` bytes. `live`: of `steps`. O(steps + inputs).
    [[nodiscard]] std::vector<absence> operator()(const schedule& steps, const liveness& live,
                                                  std::uint64_t least) {
        steps_ = &steps, live_ = &live;
        find_uses(least);
        std::vector<absence> found;
        for (const auto i : live.storages()) find_of(i, found);
        return found;
    }

private:
    /// A step reads or makes a copy on a storage; what fused steps read is needed until their last reader has run.
    struct use {
        step_id by{}, until{};
        copy_id copy{};
        bool makes = false;
    };

    bool may_leave(storage_id i, std::uint64_t least) const {
        if (!i.valid()) return false;
        const storage_record& storage = (*live_)[i];
        return !storage.resident && !storage.holds_result && storage.bytes >= least &&
               storage.last_read.valid();
    }

    void find_uses(std::uint64_t least) {
        uses_.begin(live_->storage_count());
        for_each_use(least, [&](storage_id i, const use&) { uses_.count(i); });
        uses_.lay_out();
        for_each_use(least, [&](storage_id i, const use& u) { uses_.add(i, u); });
    }
    template <class Visit>
    void for_each_use(std::uint64_t least, const Visit& visit) {
        const schedule& steps = *steps_;
        for (const auto t : steps.steps()) {
            const std::size_t copies = copy_count(s_, steps[t]);
            step_id until = t;
            if (steps[t].fused)
                for (std::uint32_t k = 0; k < copies; ++k)
                    if (const step_id read = live_->last_read({t, k}); read.valid())
                        until = std::max(until, read);
            for (const auto c : steps.inputs(t))
                if (const auto i = live_->storage(c); may_leave(i, least)) visit(i, use{t, until, c, false});
            if (steps[t].fused) continue;
            for (std::uint32_t k = 0; k < copies; ++k)
                if (const auto i = live_->storage({t, k}); may_leave(i, least))
                    visit(i, use{t, t, {t, k}, true});
        }
    }

    void find_of(storage_id i, std::vector<absence>& found) {
        const auto uses = uses_[i];
        if (uses.size() < 2) return;
        const std::size_t first = found.size();
        later_.clear();
        needed_until_.resize(uses.size());
        for (std::size_t k = 0; k < uses.size(); ++k)
            needed_until_[k] = k == 0 ? uses[k].until : std::max(needed_until_[k - 1], uses[k].until);
        for (std::size_t k = uses.size() - 1; k > 0; --k) {
            if (!uses[k].makes) note_later(uses[k].copy);
            if (needed_until_[k - 1].next() < uses[k].by)
                if (auto away = between(i, uses.first(k), uses[k])) found.push_back(*std::move(away));
        }
        std::reverse(found.begin() + static_cast<std::ptrdiff_t>(first), found.end());
    }
    void note_later(copy_id c) {
        const auto place = std::lower_bound(later_.begin(), later_.end(), c);
        if (place == later_.end() || *place != c) later_.insert(place, c);
    }

    /// What could leave behind the last of the uses `before` and come back for `next`, if anything.
    std::optional<absence> between(storage_id i, std::span<const use> before, const use& next) const {
        std::vector<copy_id> needed;
        for (const auto c : later_)
            if (c.step <= before.back().by) needed.push_back(c);
        if (needed.empty()) return std::nullopt;
        const storage_record& storage = (*live_)[i];
        absence away{.content = needed[0],
                     .used_before = before.back().by,
                     .used_next = next.by,
                     .bytes = storage.bytes};
        if (needed.size() == 1 && bytes_of(needed[0]) == storage.bytes) return away;
        away.content = written_last(before);
        for (const auto c : needed)
            if (!looks_at(c, away)) return std::nullopt;
        std::sort(away.views.begin(), away.views.end());
        away.views.erase(std::unique(away.views.begin(), away.views.end()), away.views.end());
        return away;
    }

    std::uint64_t bytes_of(copy_id c) const {
        const step_record& step = (*steps_)[c.step];
        return runs_node(step.kind) ? s_[s_.output(step.node, c.output)].bytes : step.bytes;
    }
    bool is_view(copy_id c) const {
        const step_record& step = (*steps_)[c.step];
        return runs_node(step.kind) && s_[s_.output(step.node, c.output)].view_of != no_input;
    }
    /// The copy that is the whole content of the storage: what made it, or wrote over it.
    copy_id written_last(std::span<const use> before) const {
        copy_id last = before[0].copy;
        for (const use& u : before)
            if (u.makes && !is_view(u.copy)) last = u.copy;
        return last;
    }
    /// Whether the copy is the content, or views of it that may run again, which are noted then.
    bool looks_at(copy_id c, absence& away) const {
        for (; c != away.content; c = steps_->inputs(c.step)[0]) {
            const step_record& step = (*steps_)[c.step];
            if (!is_view(c) || steps_->inputs(c.step).size() != 1 || !c_.host.recompute) return false;
            const node_record& node = s_[step.node];
            if (node.kind != op_kind::view || node.rerun == rerun_kind::never || node.keep) return false;
            if (!needed_[step.node]) return false; // what is dead runs once, if the host cannot leave it out
            if (c_.times.of_node[step.node] > 0) return false; // measured: it would have to be paid for
            away.views.push_back(c.step);
        }
        return true;
    }

    const snapshot& s_;
    const candidates& c_;
    id_set<node_id> needed_;
    const schedule* steps_ = nullptr;
    const liveness* live_ = nullptr;
    id_lists<storage_id, use> uses_;
    std::vector<copy_id> later_;
    std::vector<step_id> needed_until_;
};

} // namespace echo::detail
