// SPDX-License-Identifier: BSL-1.0
/// @file
/// What a plan fuses, in words.
#pragma once

#include "command_line/one_line.hpp"
#include "plan/units.hpp"

#include <echo/analysis/fused_profile.hpp>
#include <echo/analysis/plan/plan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace echo::format {

/// Steps, traffic and the commonest ops: "8 nodes inside their readers: 1.2 MB moved instead of 3.4 MB (tanh_op 4,
/// ...)".
inline std::string fused_text(const snapshot& s, const plan& p) {
    const fused_profile found = profile_fused(s, p.steps());
    std::string text = fmt::format("{} nodes inside their readers", p.report().fused_nodes);
    if (found.by_op.empty()) return text;
    text += fmt::format(": {} moved instead of {} (", show_bytes(found.bytes_inside),
                        show_bytes(found.bytes_apart));
    constexpr std::size_t most = 4;
    for (std::size_t i = 0; i < std::min(most, found.by_op.size()); ++i)
        text +=
            fmt::format("{}{} {}", i == 0 ? "" : ", ", short_name(found.by_op[i].name), found.by_op[i].steps);
    if (found.by_op.size() > most) text += ", ...";
    return text + ")";
}

} // namespace echo::format
