// SPDX-License-Identifier: BSL-1.0
/// @file
/// From the command line to a graph that is planned and placed, before anything is allocated.
#pragma once

#include "command_line/progress.hpp"
#include "engine/session.hpp"
#include "train/models.hpp"
#include "train/options.hpp"
#include "train/room.hpp"

#include <echo/analysis/profile.hpp>

#include <functional>
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

/// `complete` has the shapes of the graph inferred and asks a backend for scratch memory (engine::complete). `link_of`
/// says how fast values travel to where they may wait, and writes times of nodes into the graph; it is asked behind
/// `complete`, and only if something may wait. Errors: `usage_error`; those of the model, of the passes and of both
/// functions. A budget that is not met is none.
prepared prepare(const options& asked, const std::function<void(engine::graph&)>& complete,
                 const std::function<echo::link_model(prepared&)>& link_of, echo::format::progress& line);

/// Where every tensor begins; bytes. On a device never less: its libraries' choices hang on it, and bits on those.
constexpr std::uint64_t alignment(device on) { return on == device::cuda ? 256 : 64; }

/// Errors: the system does not have that much; one line says how much is missing and what to do.
void expect_room(const engine::planned& p);

} // namespace train
