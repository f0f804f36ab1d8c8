// SPDX-License-Identifier: BSL-1.0
/// @file
/// `parse`: a command line, read into the variables of its options; what all programs here do alike.
#pragma once

#include "command_line/completion.hpp"
#include "command_line/usage_error.hpp"

#include <echo/version.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

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

namespace detail {

/// How many letters must be changed, added or left out to make one of the other (Levenshtein). O(a b).
inline std::size_t edits_between(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t corner = row[0]++;
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t changed = corner + (a[i] != b[j]);
            corner = row[j + 1];
            row[j + 1] = std::min({changed, row[j] + 1, corner + 1});
        }
    }
    return row.back();
}

/// The option of `app` that `word` may stand for, such as `--budget` for `--bugdet`; empty: none is near.
inline std::string nearest_option(const CLI::App& app, std::string_view word) {
    word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
    word = word.substr(0, word.find('='));
    constexpr std::size_t longest = 32; // no option is longer
    if (word.empty() || word.size() > longest) return {};
    std::string found;
    std::size_t least = word.size() / 3 + 1;
    for (const CLI::Option* const each : app.get_options())
        for (const std::string& name : each->get_lnames()) {
            const std::size_t edits = name.starts_with(word) ? 0 : edits_between(word, name);
            if (edits >= least) continue;
            least = edits;
            found = "--" + name;
        }
    return found;
}

/// Errors: `usage_error` where an option stands for the value of another: `--emit-plan --json` writes no file of that
/// name.
inline void refuse_options_as_values(const CLI::App& app, int count, const char* const* arguments) {
    const auto option = [&](std::string_view word) {
        word = word.substr(0, word.find('='));
        return word.starts_with("--") && word.size() > 2 ? app.get_option_no_throw(std::string(word))
                                                         : nullptr;
    };
    for (int i = 1; i + 1 < count; ++i) {
        const std::string_view word = arguments[i], next = arguments[i + 1];
        if (word == "--") return;
        const CLI::Option* const taker = option(word);
        if (!taker || taker->get_items_expected_max() == 0 || word.find('=') != word.npos) continue;
        if (option(next) && taker->get_items_expected_min() == 0) continue; // its value may be left out
        if (option(next))
            throw usage_error(fmt::format("{} needs a value, and {} is an option (a file of that name: ./{})",
                                          word, next, next));
        ++i;
    }
}

/// Errors: `usage_error` where the parser did not know what to do with an argument.
inline void refuse_extras(const CLI::App& app) {
    std::vector<std::string> extra = app.remaining(), expected;
    std::erase(extra, "--");
    if (extra.empty()) return;
    for (const std::string& word : extra) {
        if (!word.starts_with('-') || word == "-") continue;
        const std::string near = nearest_option(app, word);
        throw usage_error(fmt::format("there is no option {}{}", word,
                                      near.empty() ? "" : fmt::format(" (did you mean {}?)", near)));
    }
    for (const CLI::Option* const each : app.get_options())
        if (each->get_positional()) expected.push_back(each->get_name(true));
    throw usage_error(fmt::format("not expected: '{}'; give {} and options", fmt::join(extra, "', '"),
                                  fmt::join(expected, " ")));
}

/// The parser's complaint about how often an option or its value stands there, in other words.
inline std::string in_words(const CLI::ArgumentMismatch& e) {
    const std::string_view text = e.what();
    const std::string_view name = text.substr(0, std::min(text.find(": "), text.find(' ')));
    if (text.find("received") != text.npos) return fmt::format("{} is given more than once", name);
    if (text.find("missing") != text.npos) return fmt::format("{} needs a value", name);
    return fmt::format("{}{} takes no value", name.starts_with('-') ? "" : "--", name);
}

} // namespace detail

/// Reads the arguments into what `app` names, and --completion, --help and --version, which it need not name. Returns
/// the text to print instead of doing anything else: `help`, the program's name and version, or what a shell completes;
/// empty if none was asked for. `complete`: for a program with more than these options. Errors: `usage_error`.
inline std::string parse(CLI::App& app, int count, const char* const* arguments, std::string_view program,
                         std::string_view help, const completer& complete = nullptr) {
    add_common(app, program);
    std::vector<CLI::Option*>
        required; // looked at last, so that a mistyped option is not told as a missing file
    for (CLI::Option* const each : app.get_options()) {
        if (each->get_required()) required.push_back(each->required(false));
        if (each->get_items_expected_max() == 0) each->disable_flag_override();
    }
    try {
        detail::refuse_options_as_values(app, count, arguments);
        app.allow_extras();
        app.parse(count, arguments);
    } catch (const CLI::CallForHelp&) {
        return std::string(help);
    } catch (const CLI::CallForVersion& e) {
        return std::string(e.what()) + '\n';
    } catch (const completion_asked& asked) {
        return complete ? complete(asked.shell) : completion(program, options_of(app, help), {}, asked.shell);
    } catch (const CLI::ArgumentMismatch& e) {
        throw usage_error(detail::in_words(e));
    } catch (const CLI::ParseError& e) {
        throw usage_error(e.what());
    }
    detail::refuse_extras(app);
    for (const CLI::Option* const each : required)
        if (each->count() == 0) throw usage_error(fmt::format("{} is missing", each->get_name(true)));
    return {};
}

} // namespace echo::format
