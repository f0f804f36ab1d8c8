// SPDX-License-Identifier: BSL-1.0
/// @file
/// The command line of `echo-arena` as a value.
#pragma once

#include "arena/help.hpp"
#include "command_line/amount.hpp"
#include "command_line/parse.hpp"
#include "command_line/place.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace echo::format {

struct arena_options {
    std::string table{};
    double limit = 0.2;                      ///< seconds
    std::optional<std::uint64_t> capacity{}; ///< bytes
    std::string output{};                    ///< empty: none
    bool quiet = false;                      ///< no progress is shown
    std::string print{};                     ///< not empty: print this and do nothing else
};

/// Errors: `usage_error`.
inline double parse_seconds(std::string_view option, std::string_view text) {
    std::string_view rest = text;
    const double seconds = take_number(option, rest);
    if (!rest.empty() || !(seconds >= 0))
        throw usage_error(fmt::format("{} {} is no number of seconds, 0 or more", option, text));
    return seconds;
}

/// Errors: `usage_error`.
inline arena_options parse_arena_options(int count, const char* const* arguments) {
    arena_options chosen;
    std::string limit, capacity;
    CLI::App app;
    app.add_option("FILE", chosen.table)->required();
    auto* const limit_option = app.add_option("--limit", limit);
    auto* const capacity_option = app.add_option("--capacity", capacity);
    app.add_flag("--quiet", chosen.quiet);
    auto* const output_option = app.add_option("--output", chosen.output);
    chosen.print = parse(app, count, arguments, "echo-arena", arena_help());
    if (!chosen.print.empty()) return chosen;
    if (limit_option->count() > 0) chosen.limit = parse_seconds("--limit", limit);
    if (capacity_option->count() > 0) chosen.capacity = parse_bytes("--capacity", capacity, 0);
    if (output_option->count() > 0 && chosen.output.empty()) throw usage_error("--output names no file");
    if (chosen.table.empty()) throw usage_error("FILE is empty");
    name_standard_output(chosen.output);
    if (!chosen.output.empty() && place::of_output(chosen.output) == place::of_input(chosen.table))
        throw usage_error("--output would overwrite FILE");
    return chosen;
}

} // namespace echo::format
