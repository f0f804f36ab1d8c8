// SPDX-License-Identifier: BSL-1.0
/// @file
/// The command line of `echo-arena` as a value.
#pragma once

#include "arena/help.hpp"
#include "command_line/parse.hpp"
#include "command_line/refuse_comma.hpp"
#include "command_line/same_file.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <charconv>
#include <cmath>
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
    std::string print{};                     ///< not empty: print this and do nothing else
};

/// Errors: `usage_error`.
inline arena_options parse_arena_options(int count, const char* const* arguments) {
    arena_options chosen;
    std::string limit, capacity;
    CLI::App app;
    app.add_option("FILE", chosen.table)->required();
    auto* const limit_option = app.add_option("--limit", limit);
    auto* const capacity_option = app.add_option("--capacity", capacity);
    auto* const output_option = app.add_option("--output", chosen.output);
    chosen.print = parse(app, count, arguments, "echo-arena", arena_help());
    if (!chosen.print.empty()) return chosen;
    const auto read = [](std::string_view option, const std::string& text, auto& value) {
        refuse_comma(option, text);
        const char* const end = text.data() + text.size();
        const auto [stop, code] = std::from_chars(text.data(), end, value);
        return code == std::errc{} && stop == end;
    };
    if (limit_option->count() > 0 &&
        !(read("--limit", limit, chosen.limit) && std::isfinite(chosen.limit) && chosen.limit >= 0))
        throw usage_error(fmt::format("--limit {} is no number of seconds, 0 or more", limit));
    if (capacity_option->count() > 0 && !read("--capacity", capacity, chosen.capacity.emplace()))
        throw usage_error(fmt::format("--capacity {} is no whole number of bytes below 2^64", capacity));
    if (output_option->count() > 0 && chosen.output.empty()) throw usage_error("--output names no file");
    if (chosen.table.empty()) throw usage_error("FILE is empty");
    if (!chosen.output.empty() && same_file(chosen.output, chosen.table))
        throw usage_error("--output would overwrite FILE");
    return chosen;
}

} // namespace echo::format
