// SPDX-License-Identifier: BSL-1.0
/// @file
/// `completion`: what a shell needs to complete a command line. The options come from the parser's own table; what an
/// option means, and which words it takes, from the help page.
#pragma once

#include "command_line/usage_error.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace echo::format {

/// One option, or what stands without a name in front of it, for a shell.
struct completed_option {
    std::string name{};    ///< `strategy`, without the dashes; of what has no name, as the usage calls it
    std::string letter{};  ///< `h`, if there is a short name
    std::string value{};   ///< what the help page calls the value; empty: takes none
    std::string meaning{}; ///< the first sentence about it
    std::vector<std::string> words{}; ///< the values that it takes; empty: any
    bool repeats = false;
    bool positional = false;

    bool takes_file() const {
        return value == "FILE" || value == "DIR" || value == "[DIR]" || value == "GRAPH" || positional;
    }
};

/// A word that stands first and has options of its own, such as `diff`.
struct completed_word {
    std::string name{};
    std::string meaning{};
    std::vector<completed_option> options{};
};

/// A line of the help page without its indent, or nothing if it is indented otherwise.
inline std::string_view indented(std::string_view line, std::size_t by) {
    const std::size_t first = line.find_first_not_of(' ');
    return first == by ? line.substr(by) : std::string_view{};
}

/// Adds what the section OPTIONS of a help page says about the option: a line `--name VALUE` indented by 4, its meaning
/// indented by 8, where a word with two spaces behind it begins a line about a value.
inline void read_help(completed_option& option, std::string_view help) {
    bool found = false;
    std::string text;
    while (!help.empty()) {
        const std::size_t end = std::min(help.find('\n'), help.size());
        const std::string_view line = help.substr(0, end);
        help.remove_prefix(std::min(end + 1, help.size()));
        if (const auto head = indented(line, 4); !head.empty() || line.find_first_not_of(' ') == 0) {
            if (found) break;
            const std::string name = "--" + option.name;
            found = head.starts_with(name) &&
                    (head.size() == name.size() || head.find_first_of(" ,") == name.size());
            if (found && head.size() > name.size() && head[name.size()] == ' ')
                option.value = head.substr(name.size() + 1);
        } else if (const auto body = indented(line, 8); found && !body.empty()) {
            const std::size_t word = body.find(' ');
            if (word != std::string_view::npos && body.substr(word).starts_with("  "))
                option.words.emplace_back(body.substr(0, word));
            else if (option.words.empty())
                text.append(text.empty() ? "" : " ").append(body);
        }
    }
    const bool names_words =
        option.value.find('|') != std::string::npos &&
        std::none_of(option.value.begin(), option.value.end(), [](char c) { return 'A' <= c && c <= 'Z'; });
    for (std::string_view rest(option.value); names_words && !rest.empty();) { // cpu|cuda
        const std::size_t bar = std::min(rest.find('|'), rest.size());
        option.words.emplace_back(rest.substr(0, bar));
        rest.remove_prefix(std::min(bar + 1, rest.size()));
    }
    const std::size_t stop = std::min({text.find(". "), text.find(": "), text.size()});
    option.meaning = text.substr(0, stop);
    if (option.meaning.ends_with('.')) option.meaning.pop_back();
    if (option.meaning.empty()) option.meaning = fmt::format("{}", fmt::join(option.words, ", "));
}

/// The options of `app` in their order, and what has no name last.
inline std::vector<completed_option> options_of(const CLI::App& app, std::string_view help) {
    std::vector<completed_option> named, unnamed;
    for (const CLI::Option* const each : app.get_options()) {
        completed_option option;
        option.repeats = each->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll &&
                         each->get_items_expected_max() > 0;
        option.positional = each->get_positional();
        if (option.positional) {
            option.name = option.value = each->get_name(true);
            unnamed.push_back(std::move(option));
            continue;
        }
        if (each->get_lnames().empty()) continue;
        option.name = each->get_lnames().front();
        if (!each->get_snames().empty()) option.letter = each->get_snames().front();
        read_help(option, help);
        if (each->get_items_expected_max() == 0) option.value.clear();
        named.push_back(std::move(option));
    }
    named.insert(named.end(), unnamed.begin(), unnamed.end());
    return named;
}

/// `text` with a backslash before each of the characters.
inline std::string escaped(std::string_view text, std::string_view characters) {
    std::string out;
    for (const char c : text) {
        if (characters.find(c) != std::string_view::npos) out += '\\';
        out += c;
    }
    return out;
}

/// The text in single quotes, as a POSIX shell reads it.
inline std::string shell_quoted(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        if (c == '\'') out += "'\\'";
        out += c;
    }
    return out + '\'';
}

/// `--strategy --budget …`
inline std::string long_names(const std::vector<completed_option>& options) {
    std::string all;
    for (const auto& option : options)
        if (!option.positional) all += (all.empty() ? "--" : " --") + option.name;
    return all;
}

/// The options of all: one that several have stands there once.
inline std::vector<completed_option> united(std::vector<completed_option> options,
                                            const std::vector<completed_word>& first_words) {
    for (const auto& word : first_words)
        for (const auto& option : word.options)
            if (std::ranges::find(options, option.name, &completed_option::name) == options.end())
                options.push_back(option);
    return options;
}

inline std::string bash_completion(std::string_view program, const std::vector<completed_option>& options,
                                   const std::vector<completed_word>& first_words) {
    std::string function(program), cases, files, others, chosen, words;
    std::replace(function.begin(), function.end(), '-', '_');
    for (const auto& word : first_words) {
        chosen += fmt::format("\n    if [[ ${{COMP_WORDS[1]}} == {} ]]; then options='{}'; fi", word.name,
                              long_names(word.options));
        words += (words.empty() ? "" : " ") + word.name;
    }
    if (!words.empty())
        words = fmt::format("; if ((COMP_CWORD == 1)); then compgen -W '{}' -- \"$word\"; fi", words);
    for (const auto& option : united(options, first_words)) {
        if (option.positional || option.value.empty()) continue;
        if (option.words.empty()) {
            std::string& list = option.takes_file() ? files : others;
            list += (list.empty() ? "--" : " | --") + option.name;
        } else
            cases += fmt::format("        --{}) words='{}' ;;\n", option.name, fmt::join(option.words, " "));
    }
    if (!others.empty()) cases += fmt::format("        {}) words= ;;\n", others);
    if (!files.empty()) cases += fmt::format("        {}) words=FILE ;;\n", files);
    return fmt::format(R"(# bash completion of {0}
_{1}() {{
    local words=FILE word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
    local options='{2}'{4}
    COMPREPLY=()
    if [[ $word == = ]]; then word=; elif [[ $before == = ]]; then before=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
    case $before in
{3}        *) if [[ $word == -* ]]; then words=$options; fi ;;
    esac
    if [[ $words == FILE ]]; then
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$word"{5})
    else
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    fi
}}
complete -F _{1} {0}
)",
                       program, function, long_names(options), cases, chosen, words);
}

/// What zsh is told of a command line: its options, and what stands without a name, with `first_words` at its place.
inline std::string zsh_arguments(const std::vector<completed_option>& options,
                                 const std::vector<completed_word>& first_words) {
    std::string out = "_arguments", words;
    for (const auto& word : first_words) words += fmt::format("{}{}", words.empty() ? "" : " ", word.name);
    for (const auto& option : options) {
        std::string action;
        if (!option.words.empty())
            action = fmt::format("({})", fmt::join(option.words, " "));
        else if (option.takes_file())
            action = "_files";
        if (option.positional && !words.empty())
            action = fmt::format("{{_alternative \"words:word:({})\" \"files:file:_files\"}}", words);
        if (option.positional) {
            out += " \\\n    " + shell_quoted(fmt::format(":{}:{}", escaped(option.value, ":"), action));
            continue;
        }
        std::string spec = fmt::format("[{}]", escaped(option.meaning, "[]\\:"));
        if (!option.value.empty()) spec = fmt::format("={}:{}:{}", spec, escaped(option.value, ":"), action);
        std::string name = fmt::format("--{}", option.name);
        if (option.repeats) name.insert(0, "*");
        out += " \\\n    " + shell_quoted(name + spec);
        if (!option.letter.empty())
            out += " \\\n    " + shell_quoted(fmt::format("-{}{}", option.letter, spec));
    }
    return out + '\n';
}

inline std::string zsh_completion(std::string_view program, const std::vector<completed_option>& options,
                                  const std::vector<completed_word>& first_words) {
    std::string out = fmt::format("#compdef {}\n", program);
    for (const auto& word : first_words)
        out += fmt::format("if ((CURRENT > 2)) && [[ $words[2] == {} ]]; then\n"
                           "shift words\n((CURRENT -= 1))\n{}return\nfi\n",
                           word.name, zsh_arguments(word.options, {}));
    return out + zsh_arguments(options, first_words);
}

/// Lines for fish. `when`: the condition under which they count, or "".
inline std::string fish_options(std::string_view program, const std::vector<completed_option>& options,
                                std::string_view when) {
    std::string out;
    for (const auto& option : options) {
        if (option.positional) continue;
        out += fmt::format("complete -c {}{} -l {}", program, when, option.name);
        if (!option.letter.empty()) out += fmt::format(" -s {}", option.letter);
        if (!option.words.empty())
            out += fmt::format(" -x -a '{}'", fmt::join(option.words, " "));
        else if (!option.value.empty())
            out += option.takes_file() ? " -r -F" : " -x";
        out += fmt::format(" -d '{}'\n", escaped(option.meaning, "'\\"));
    }
    return out;
}

inline std::string fish_completion(std::string_view program, const std::vector<completed_option>& options,
                                   const std::vector<completed_word>& first_words) {
    std::string out = fmt::format("# fish completion of {}\n", program), names;
    for (const auto& word : first_words) {
        names += " " + word.name;
        out += fmt::format("complete -c {} -n __fish_use_subcommand -a {} -d '{}'\n", program, word.name,
                           escaped(word.meaning, "'\\"));
        out += fish_options(program, word.options,
                            fmt::format(" -n '__fish_seen_subcommand_from {}'", word.name));
    }
    const std::string none =
        names.empty() ? "" : fmt::format(" -n 'not __fish_seen_subcommand_from{}'", names);
    return out + fish_options(program, options, none);
}

/// The text that a shell reads: `bash`, `zsh` or `fish`. Errors: `usage_error` for another shell.
inline std::string completion(std::string_view program, const std::vector<completed_option>& options,
                              const std::vector<completed_word>& first_words, std::string_view shell) {
    if (shell == "bash") return bash_completion(program, options, first_words);
    if (shell == "zsh") return zsh_completion(program, options, first_words);
    if (shell == "fish") return fish_completion(program, options, first_words);
    throw usage_error(fmt::format("--completion {}: there are bash, zsh and fish", shell));
}

} // namespace echo::format
