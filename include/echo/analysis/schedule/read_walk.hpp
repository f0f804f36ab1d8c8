// SPDX-License-Identifier: BSL-1.0
/// @file
/// `read_walk`: what a step reads in truth. A fused step makes nothing: in place of its outputs its readers read what
/// it reads, directly or through further fused steps.
#pragma once

#include <echo/analysis/schedule/schedule.hpp>

#include <cstdint>
#include <vector>

namespace echo {

/// Scratch memory is kept between walks.
class read_walk {
public:
    /// Calls `visit(position, copy)` for each copy that step `t` reads, a fused step itself included; a fused source
    /// is looked through once for each position that names it. O(inputs of the step and of the fused steps inside it).
    template <class Visit>
    void operator()(const schedule& steps, step_id t, const Visit& visit) {
        const auto inputs = steps.inputs(t);
        const bool none_fused = steps.fused_count() == 0;
        for (std::uint32_t i = 0; i < inputs.size(); ++i) {
            if (none_fused || !steps[inputs[i].step].fused)
                visit(i, inputs[i]);
            else
                look_through(steps, inputs[i].step, [&](copy_id c) { visit(i, c); });
        }
    }

    /// The fused steps that are recomputed inside step `t`, each once. Valid until the next call. O(their inputs).
    const std::vector<step_id>& inside(const schedule& steps, step_id t) {
        begin(steps);
        for (const copy_id c : steps.inputs(t)) meet(steps, c.step);
        for (std::size_t i = 0; i < met_.size(); ++i)
            for (const copy_id c : steps.inputs(met_[i])) meet(steps, c.step);
        return met_;
    }

private:
    template <class Visit>
    void look_through(const schedule& steps, step_id fused, const Visit& visit) {
        begin(steps);
        meet(steps, fused);
        for (std::size_t i = 0; i < met_.size(); ++i)
            for (const copy_id c : steps.inputs(met_[i]))
                if (!meet(steps, c.step)) visit(c);
    }

    void begin(const schedule& steps) {
        if (seen_.size() < steps.size() || ++stamp_ == 0) {
            seen_.assign(steps.size(), 0);
            stamp_ = 1;
        }
        met_.clear();
    }
    /// Whether the step is fused.
    bool meet(const schedule& steps, step_id t) {
        if (!steps[t].fused) return false;
        if (seen_[t] != stamp_) met_.push_back(t);
        seen_[t] = stamp_;
        return true;
    }

    id_vector<step_id, std::uint32_t> seen_; // step: the last walk that met it
    std::uint32_t stamp_ = 0;
    std::vector<step_id> met_;
};

} // namespace echo
