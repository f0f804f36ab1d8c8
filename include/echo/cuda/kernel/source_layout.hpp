// SPDX-License-Identifier: BSL-1.0
/// @file
/// The part of a generated kernel's source that says which layout it is made for.
#pragma once

#include <echo/cuda/kernel/fused_shape.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace echo::cuda::fused::detail {

/// `echo_laid_out`, which makes of a kernel's parameters those with all but addresses as constants.
inline std::string text_of_layout(const launch_shape& s, std::span<const launch_operand> operands) {
    std::string out;
    const auto line = [&](const std::string& text) { out += text + "\n"; };
    const auto list = [](const auto& numbers, const char* suffix) {
        std::string text;
        for (const auto n : numbers) text += (text.empty() ? "" : ", ") + std::to_string(n) + suffix;
        return "{" + text + "}";
    };
    const auto number = [](auto n, const char* suffix) { return std::to_string(n) + suffix + ", "; };
    line("ECHO_DEVICE echo_params echo_laid_out(const echo_params& p) {");
    line("    return {{" + number(s.rows, "ull") + number(s.groups, "ull") + number(s.line_groups, "ull") +
         number(s.line, "ll") + number(s.row_length, "ll") + list(s.outer, "ull") + ", " +
         list(s.within, "ull") + ", " + number(s.shift, "u") +
         number(static_cast<std::uint32_t>(s.walk), "u") + list(s.by_line_groups.words(), "u") + ", {" +
         list(s.by_within[0].words(), "u") + ", " + list(s.by_within[1].words(), "u") + "}, " +
         number(s.first_whole, "u") + number(s.whole, "u") + "0u},");
    line("            {");
    for (std::size_t i = 0; i < operands.size(); ++i)
        line("                {p.operand[" + std::to_string(i) + "].data, " + list(operands[i].step, "ll") +
             ", " + number(static_cast<std::uint32_t>(operands[i].how), "u") + "0u},");
    line("            }};\n}");
    return out;
}

} // namespace echo::cuda::fused::detail
