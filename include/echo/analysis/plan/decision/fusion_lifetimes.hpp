// SPDX-License-Identifier: BSL-1.0
/// @file
/// `fusion_lifetimes`: how long what fused steps read must live, and what that makes of the load. What a fused step
/// reads lives until the last of its readers has run, which nothing may have written over before; what it makes is not
/// there. Loads kept here are never below the true ones, so that a replay finds no higher peak.
#pragma once

#include <echo/analysis/schedule/footprint.hpp>
#include <echo/analysis/schedule/load_profile.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace echo::detail {

/// Of the steps of one schedule, nothing of which is fused at first. All that is given must outlive it.
class fusion_lifetimes {
public:
    /// Of these very steps, replayed. O(steps + copies × log writes).
    fusion_lifetimes(const snapshot& s, const schedule& steps, const replayed& last)
        : s_(s), steps_(steps), live_(last.live), profile_(last.load()), most_(profile_.most()) {
        find_writes();
        last_.resize(live_.storage_count());
        for (const auto i : live_.storages()) last_[i] = live_[i].last;
    }

    /// Begins a change: what step `t` makes is not there, as it is fused.
    void begin(step_id t) {
        made_ = t;
        stays_.clear();
        free_made(t, -1);
    }
    /// Lets what the copy lies in live from the fused step until step `until`. False where that is written over before,
    /// or where the peak would rise. O(log steps + log writes).
    bool stays(copy_id c, step_id until) {
        const storage_id what = live_.storage(c);
        const step_id write = next_write(what, made_);
        if (write.valid() && write <= until) return false;
        step_id& last = last_[what];
        if (live_[what].resident || last >= until) return true;
        const std::size_t first = last.index() + 1;
        profile_.add(first, until.index(), bytes(what));
        stays_.push_back({what, last});
        last = until;
        return profile_.most(first, until.index()) <= most_;
    }

    /// Undoes what was changed since it was begun.
    void undo() {
        for (std::size_t i = stays_.size(); i-- > 0;) {
            const auto& [what, before] = stays_[i];
            profile_.add(before.index() + 1, last_[what].index(), -bytes(what));
            last_[what] = before;
        }
        free_made(made_, 1);
    }

private:
    struct overwrite {
        storage_id on;
        step_id by;
        friend auto operator<=>(const overwrite&, const overwrite&) = default;
    };
    struct stay {
        storage_id what;
        step_id until; ///< before
    };

    std::int64_t bytes(storage_id i) const { return static_cast<std::int64_t>(live_[i].bytes); }

    /// Whoever wrote over what the step made has storage of its own then.
    void free_made(step_id t, std::int64_t sign) {
        for (std::uint32_t k = 0; k < s_.outputs(steps_[t].node).size(); ++k) {
            const storage_id i = live_.storage({t, k});
            if (live_[i].maker.step != t) continue;
            const step_id write = next_write(i, t);
            const std::size_t end = write.valid() ? write.index() - 1 : last_[i].index();
            profile_.add(t.index(), end, sign * bytes(i));
        }
    }

    /// Writes in place: copies that are no views and lie on what another step made.
    void find_writes() {
        for (const auto t : steps_.steps()) {
            if (steps_[t].kind == step_kind::encode) continue;
            for (std::uint32_t k = 0; const auto v : s_.outputs(steps_[t].node)) {
                const storage_id on = live_.storage({t, k++});
                if (s_[v].view_of == no_input && live_[on].maker.step != t) writes_.push_back({on, t});
            }
        }
        std::sort(writes_.begin(), writes_.end());
    }
    /// The first write on the storage behind step `from`, or none.
    step_id next_write(storage_id on, step_id from) const {
        const auto w = std::upper_bound(writes_.begin(), writes_.end(), overwrite{on, from});
        return w != writes_.end() && w->on == on ? w->by : step_id::none();
    }

    const snapshot& s_;
    const schedule& steps_;
    const liveness& live_;
    load_profile profile_;
    std::int64_t most_;
    std::vector<overwrite> writes_;       // sorted
    id_vector<storage_id, step_id> last_; // storage: live up to there
    std::vector<stay> stays_;             // of the change that was begun last
    step_id made_{0};                     // its step
};

} // namespace echo::detail
