// SPDX-License-Identifier: BSL-1.0
/// @file
/// The command line of `echo-plan` as a value.
#pragma once

#include "plan/help.hpp"

#include <echo/analysis/plan.hpp>
#include <echo/version.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace echo::format {

struct options {
    std::string graph{};
    strategy how = strategy::min_cut;
    bool encode = true;
    bool json = false;
    bool compare = false;
    std::string plan_file{}, dot_file{}; ///< empty: none
    std::string print{};                 ///< not empty: print this and do nothing else
};

/// A command line that cannot be obeyed. `what()` is one line.
class usage_error : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Errors: `usage_error`.
inline options parse_options(int count, const char* const* arguments) {
    options chosen;
    std::string named(name_of(chosen.how)), budget, overhead, report;
    bool no_encode = false, pareto = false, fuse = false;
    CLI::App app;
    app.add_option("GRAPH", chosen.graph)->required();
    app.add_option("--strategy", named);
    app.add_option("--budget", budget);
    app.add_option("--max-overhead", overhead);
    app.add_flag("--fuse", fuse);
    app.add_flag("--no-encode", no_encode);
    app.add_flag("--json", chosen.json);
    auto* const plan_file = app.add_option("--emit-plan", chosen.plan_file);
    auto* const dot_file = app.add_option("--dot", chosen.dot_file);
    app.add_option("--report", report);
    app.add_flag("--compare", chosen.compare);
    app.add_flag("--pareto", pareto);
    app.set_version_flag("--version",
                         fmt::format("echo-plan {}.{}.{}", version.major, version.minor, version.patch));
    try {
        app.parse(count, arguments);
    } catch (const CLI::CallForHelp&) {
        chosen.print = help_text;
        return chosen;
    } catch (const CLI::CallForVersion& e) {
        chosen.print = std::string(e.what()) + '\n';
        return chosen;
    } catch (const CLI::ParseError& e) {
        throw usage_error(e.what());
    }

    const auto not_yet = [](bool asked, std::string_view what) {
        if (asked) throw usage_error(fmt::format("{} is not available yet", what));
    };
    not_yet(named == "budget", "--strategy budget");
    not_yet(app.count("--budget") > 0, "--budget");
    not_yet(app.count("--max-overhead") > 0, "--max-overhead");
    not_yet(app.count("--report") > 0, "--report");
    not_yet(pareto, "--pareto");
    not_yet(fuse, "--fuse");

    const auto* const how = std::ranges::find(all_strategies, named, [](strategy s) { return name_of(s); });
    if (how == std::end(all_strategies))
        throw usage_error(
            fmt::format("--strategy {} is none of baseline, mirror, echo, echo_printed, min_cut", named));
    chosen.how = *how;
    chosen.encode = !no_encode;
    if (plan_file->count() > 0 && chosen.plan_file.empty()) throw usage_error("--emit-plan names no file");
    if (dot_file->count() > 0 && chosen.dot_file.empty()) throw usage_error("--dot names no file");
    if (!chosen.dot_file.empty() && chosen.dot_file == chosen.plan_file)
        throw usage_error("--emit-plan and --dot name the same file");
    return chosen;
}

} // namespace echo::format
