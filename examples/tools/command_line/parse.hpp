// SPDX-License-Identifier: BSL-1.0
/// @file
/// `parse`: a command line, read into the variables of its options; what all programs here do alike.
#pragma once

#include "command_line/completion.hpp"
#include "command_line/usage_error.hpp"

#include <echo/version.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

namespace echo::format {

/// Thrown inside `parse`, so that nothing else that may be missing or wrong is looked at.
struct completion_asked {
    std::string shell;
};

/// What every program has: --version and --completion; --help the parser brings itself.
inline void add_common(CLI::App& app, std::string_view program) {
    app.set_version_flag("--version",
                         fmt::format("{} {}.{}.{}", program, version.major, version.minor, version.patch));
    const auto ask = [](const std::string& shell) { throw completion_asked{shell}; };
    app.add_option_function<std::string>("--completion", ask)->trigger_on_parse();
}

/// What completes a command line in a shell of this name. Errors: `usage_error` for another shell.
using completer = std::function<std::string(std::string_view shell)>;

/// Reads the arguments into what `app` names, and --completion, --help and --version, which it need not name. Returns
/// the text to print instead of doing anything else: `help`, the program's name and version, or what a shell completes;
/// empty if none was asked for. `complete`: for a program with more than these options. Errors: `usage_error`.
inline std::string parse(CLI::App& app, int count, const char* const* arguments, std::string_view program,
                         std::string_view help, const completer& complete = nullptr) {
    add_common(app, program);
    try {
        app.parse(count, arguments);
    } catch (const CLI::CallForHelp&) {
        return std::string(help);
    } catch (const CLI::CallForVersion& e) {
        return std::string(e.what()) + '\n';
    } catch (const completion_asked& asked) {
        return complete ? complete(asked.shell) : completion(program, options_of(app, help), {}, asked.shell);
    } catch (const CLI::ParseError& e) {
        throw usage_error(e.what());
    }
    return {};
}

} // namespace echo::format
