// SPDX-License-Identifier: BSL-1.0
/// @file
/// From the command line to a graph that is planned and placed, before anything is allocated.
#pragma once

#include "engine/cpu/backend.hpp"
#include "engine/session.hpp"
#include "plan/progress.hpp"
#include "train/models.hpp"
#include "train/options.hpp"

#include <echo/analysis/profile.hpp>

#include <memory>

namespace train {

struct prepared {
    std::unique_ptr<engine::graph> graph;
    built_model built;
    std::uint64_t parameters = 0; ///< numbers that are trained
    engine::planned plans;
    echo::memory_profile before, after; ///< where the bytes are at the peak, without Echo and with it
    double pass_ms = 0;
};

/// Errors: `usage_error`; those of the model and of the passes. A budget that is not met is none.
prepared prepare(const options& asked, engine::cpu::backend& on, echo::format::progress& line);

/// Bytes that training takes beside those of the process itself.
inline std::uint64_t needed_bytes(const engine::planned& p) {
    return p.memory.bytes() + p.plan.report().resident_bytes;
}

/// Errors: the system does not have that much; one line says how much is missing and what to do.
void expect_room(const engine::planned& p);

} // namespace train
