// SPDX-License-Identifier: BSL-1.0
/// @file
/// `parse`: a command line, read into the variables of its options; what all programs here do alike.
#pragma once

#include "command_line/completion.hpp"
#include "command_line/usage_error.hpp"

#include <echo/version.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <string>
#include <string_view>

namespace echo::format {

/// Thrown inside `parse`, so that nothing else that may be missing or wrong is looked at.
struct completion_asked {
    std::string shell;
};

/// Reads the arguments into what `app` names, and --completion, --help and --version, which it need not name. Returns
/// the text to print instead of doing anything else: `help`, the program's name and version, or what a shell completes;
/// empty if none was asked for. Errors: `usage_error`.
inline std::string parse(CLI::App& app, int count, const char* const* arguments, std::string_view program,
                         std::string_view help) {
    app.set_version_flag("--version",
                         fmt::format("{} {}.{}.{}", program, version.major, version.minor, version.patch));
    const auto ask = [](const std::string& shell) { throw completion_asked{shell}; };
    app.add_option_function<std::string>("--completion", ask)->trigger_on_parse();
    try {
        app.parse(count, arguments);
    } catch (const CLI::CallForHelp&) {
        return std::string(help);
    } catch (const CLI::CallForVersion& e) {
        return std::string(e.what()) + '\n';
    } catch (const completion_asked& asked) {
        return completion(app, program, help, asked.shell);
    } catch (const CLI::ParseError& e) {
        throw usage_error(e.what());
    }
    return {};
}

} // namespace echo::format
