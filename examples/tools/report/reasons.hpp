// SPDX-License-Identifier: BSL-1.0
/// @file
/// Why a plan keeps what waits for the backward pass: what it would take to make each storage again at the step that
/// first reads it there.
#pragma once

#include "report/storages.hpp"

#include <echo/analysis/plan/decision/cost.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace echo::report {

/// `result`: the caller needs it; `asked`: the host wishes it kept; `never`: something on the way must not run twice;
/// `unknown`: likewise, since nothing is known of its op; `gone`: it would begin with bytes that have been written
/// over; `heavy`, `light`: it can be made again, with a compute-heavy op or without; `long_way`: by more ops than are
/// counted.
enum class reason_kind : std::uint8_t { result, asked, never, unknown, gone, heavy, light, long_way };

struct reason {
    storage_id storage{};
    node_id value{}; ///< made what is read
    reason_kind kind = reason_kind::light;
    node_id reader{};  ///< the first that reads it in the backward pass; none for a result that nobody reads
    node_id culprit{}; ///< the node that forbids it or takes longest
    std::size_t count = 0; ///< nodes that would run again
    ticks time = 0;        ///< theirs
};

/// Finds reasons one storage at a time.
class reason_finder {
public:
    static constexpr std::size_t most = 256; ///< nodes on the way back that are counted

    reason_finder(const snapshot& s, const schedule& steps, const storages& found)
        : s_(s), steps_(steps), found_(found), times_(times_of(s)), seen_(steps.size(), 0) {}

    /// O(nodes on the way back, at most `most`, and their inputs).
    reason operator()(storage_id kept) {
        const storage_record& record = found_.live[kept];
        const late_read& read = found_.first_late_read[kept.index()];
        const step_id made = read.reader.valid() ? read.copy.step : record.maker.step;
        reason why{.storage = kept, .value = steps_[made].node};
        if (read.reader.valid()) why.reader = steps_[read.reader].node;
        if (record.holds_result) {
            why.kind = reason_kind::result;
        } else {
            walk(made, read.reader, why);
        }
        return why;
    }

private:
    /// From the step that made it back to what is live at step `at`.
    void walk(step_id from, step_id at, reason& why) {
        ++round_;
        ahead_.assign(1, from);
        seen_[from.index()] = round_;
        while (!ahead_.empty()) {
            const step_id t = ahead_.back();
            ahead_.pop_back();
            if (!take(steps_[t].node, why)) return;
            for (const copy_id c : steps_.inputs(t))
                if (!reach(c, at, why)) return;
        }
    }

    /// One more node that runs again. Returns whether the search goes on.
    bool take(node_id n, reason& why) {
        const node_record& node = s_[n];
        const auto stop = [&](reason_kind kind) {
            why.kind = kind;
            why.culprit = n;
            return false;
        };
        if (node.unknown_op) return stop(reason_kind::unknown);
        if (node.rerun == rerun_kind::never || node.phase == phase::input) return stop(reason_kind::never);
        if (node.keep) return stop(reason_kind::asked);
        if (++why.count > most) return stop(reason_kind::long_way);
        const ticks time = times_.of_node[n];
        why.time += time;
        const bool heavy = node.kind == op_kind::heavy;
        const bool first = !why.culprit.valid();
        if (heavy && why.kind != reason_kind::heavy) {
            why.kind = reason_kind::heavy;
            why.culprit = n;
        } else if (first ||
                   (heavy == (why.kind == reason_kind::heavy) && time > times_.of_node[why.culprit])) {
            why.culprit = n;
        }
        return true;
    }

    /// What is live then can be read; what is not is made again, unless it is there no more.
    bool reach(copy_id c, step_id at, reason& why) {
        const storage_id on = found_.live.storage(c);
        if (on.valid() && on != why.storage) {
            const storage_record& record = found_.live[on];
            const bool intact = found_.last_write[on.index()] <= c.step;
            const bool there = record.resident || (at.valid() && record.first <= at && record.last >= at);
            if (there && intact) return true;
            if (record.resident) {
                why.kind = reason_kind::gone;
                why.culprit = steps_[c.step].node;
                return false;
            }
        }
        if (seen_[c.step.index()] == round_) return true;
        seen_[c.step.index()] = round_;
        ahead_.push_back(c.step);
        return true;
    }

    const snapshot& s_;
    const schedule& steps_;
    const storages& found_;
    run_times times_;
    std::vector<std::uint32_t> seen_; ///< by step: the round that met it last
    std::vector<step_id> ahead_;
    std::uint32_t round_ = 0;
};

/// For everything that waits for the backward pass. O(steps + reasons × nodes on the way back).
inline std::vector<reason> reasons_of(const snapshot& s, const schedule& steps, const storages& found) {
    std::vector<reason> all;
    reason_finder find(s, steps, found);
    for (const auto i : found.live.storages()) {
        const storage_record& record = found.live[i];
        if (record.resident || record.encoded) continue;
        if (found.first_late_read[i.index()].reader.valid() || record.holds_result) all.push_back(find(i));
    }
    return all;
}

} // namespace echo::report
