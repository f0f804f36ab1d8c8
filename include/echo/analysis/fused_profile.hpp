// SPDX-License-Identifier: BSL-1.0
/// @file
/// What the fused steps of a schedule are, and the memory traffic that they save.
#pragma once

#include <echo/analysis/schedule/read_walk.hpp>
#include <echo/graph/ranking.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace echo {

/// Bytes are those that fused steps and the steps around them read and write, each copy once per kernel.
struct fused_profile {
    /// The fused steps of one op.
    struct op_row {
        /// Of the op.
        std::string name{};
        std::size_t steps = 0; ///< fused ones
        friend bool operator==(const op_row&, const op_row&) = default;
    };
    std::vector<op_row> by_op{}; ///< most steps first
    /// If each step were a kernel of its own.
    std::uint64_t bytes_apart = 0;
    /// As it is: a fused step reads where its readers run, and writes nothing.
    std::uint64_t bytes_inside = 0;

    /// What is not moved. The planner fuses nothing that moves more; steps of others may, by being read more than once.
    std::int64_t bytes_saved() const noexcept {
        return static_cast<std::int64_t>(bytes_apart - bytes_inside);
    }
};

namespace detail {

class fused_profiler {
public:
    fused_profiler(const snapshot& s, const schedule& steps) : s_(s), steps_(steps) {}

    fused_profile operator()() {
        fused_profile out;
        std::vector<fused_profile::op_row> ops(s_.op_count());
        for (const auto t : steps_.steps()) {
            const bool fused = steps_[t].fused;
            if (fused) ++ops[s_[steps_[t].node].op].steps;
            if (is_view(t) || (!fused && walk_.inside(steps_, t).empty())) continue;
            const std::uint64_t writes = written(t);
            for (const copy_id c : steps_.inputs(t)) read_.push_back(c);
            out.bytes_apart += take_read() + writes;
            if (fused) continue;
            walk_(steps_, t, [&](std::uint32_t, copy_id c) { read_.push_back(c); });
            out.bytes_inside += take_read() + writes;
        }
        ranking by_steps;
        for (std::uint32_t i = 0; i < ops.size(); ++i)
            if (ops[i].steps > 0) by_steps.add(i, std::uint64_t{ops[i].steps});
        for (const auto i : by_steps.descending()) {
            ops[i].name = s_.op_name(i);
            out.by_op.push_back(std::move(ops[i]));
        }
        return out;
    }

private:
    bool is_view(step_id t) const {
        return runs_node(steps_[t].kind) && s_[steps_[t].node].kind == op_kind::view;
    }
    std::uint64_t bytes_of(copy_id c) const {
        const step_record& maker = steps_[c.step];
        return !runs_node(maker.kind) ? maker.bytes : s_[s_.output(maker.node, c.output)].bytes;
    }
    std::uint64_t written(step_id t) const {
        std::uint64_t sum = 0;
        for (std::uint32_t k = 0; k < copy_count(s_, steps_[t]); ++k) sum += bytes_of({t, k});
        return sum;
    }
    /// Bytes of the copies that were noted, each once; none is noted afterwards.
    std::uint64_t take_read() {
        std::sort(read_.begin(), read_.end());
        read_.erase(std::unique(read_.begin(), read_.end()), read_.end());
        std::uint64_t sum = 0;
        for (const copy_id c : read_) sum += bytes_of(c);
        read_.clear();
        return sum;
    }

    const snapshot& s_;
    const schedule& steps_;
    read_walk walk_;
    std::vector<copy_id> read_;
};

} // namespace detail

/// O(steps + reads × log reads of one step).
[[nodiscard]] inline fused_profile profile_fused(const snapshot& s, const schedule& steps) {
    return detail::fused_profiler(s, steps)();
}

} // namespace echo
