// SPDX-License-Identifier: BSL-1.0
/// @file
/// `saved_step`: a graph and a schedule of it as two files that `echo-plan --report` draws, for engines that run
/// without the command's own code: they save, and have the command draw where there is one.
#pragma once

#include "format/write_graph.hpp"
#include "format/write_plan.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace echo::format {

/// Its files are STEM.graph.json and STEM.plan.json, its page STEM/index.html.
class saved_step {
public:
    /// `page`: what the user has named, FILE.html; the stem is FILE. `number`: of the graph in its program; those
    /// from 1 on have it in their names.
    saved_step(std::string_view page, std::size_t number)
        : stem_(page.substr(0, page.size() - (page.ends_with(".html") ? 5 : 0))) {
        if (number > 0) stem_ += '.' + std::to_string(number + 1);
    }

    /// Writes both files. What cannot be written; empty where all went well.
    [[nodiscard]] std::string write(const snapshot& s, const schedule& steps) const {
        if (!save(graph_file(), [&](const byte_sink& to) { write_graph(to, s, stem_); })) return graph_file();
        const auto plan = [&](const byte_sink& to) {
            write_plan(to, s,
                       {.graph = stem_, .strategy = "budget", .steps = steps, .stash = stash_of(s, steps)});
        };
        return save(plan_file(), plan) ? "" : plan_file();
    }

    /// The line of a shell that draws the page.
    std::string line() const {
        return "echo-plan " + quoted(graph_file()) + " --plan " + quoted(plan_file()) + " --report " +
               quoted(stem_);
    }

    /// Draws the page by the program that ECHO_PLAN names, or by `echo-plan` from PATH. The page's file; empty where
    /// there is no such program, where it fails, which it says itself, and where it has not ended after `patience`,
    /// as an engine waits meanwhile.
    [[nodiscard]] std::string draw(std::chrono::milliseconds patience = std::chrono::seconds(60)) const {
        const char* const named = std::getenv("ECHO_PLAN");
        std::string words[] = {
            named && *named ? named : "echo-plan", graph_file(), "--plan", plan_file(), "--report", stem_};
        char* arguments[std::size(words) + 1] = {};
        for (std::size_t i = 0; i < std::size(words); ++i) arguments[i] = words[i].data();
        posix_spawn_file_actions_t quietly;
        posix_spawn_file_actions_init(&quietly);
        posix_spawn_file_actions_addopen(&quietly, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_addopen(&quietly, STDOUT_FILENO, "/dev/null", O_WRONLY,
                                         0); // errors are heard
        pid_t child = 0;
        const int refused = posix_spawnp(&child, arguments[0], &quietly, nullptr, arguments, environ);
        posix_spawn_file_actions_destroy(&quietly);
        return refused == 0 && ends_well(child, patience) ? stem_ + "/index.html" : "";
    }

private:
    /// Whether a child exits with 0 in time; one that takes longer is killed.
    static bool ends_well(pid_t child, std::chrono::milliseconds patience) {
        const auto end = std::chrono::steady_clock::now() + patience;
        int status = 0;
        pid_t ended = 0;
        while ((ended = waitpid(child, &status, WNOHANG)) == 0 && std::chrono::steady_clock::now() < end)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        if (ended == 0) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
        }
        return ended == child && status == 0;
    }

    std::string graph_file() const { return stem_ + ".graph.json"; }
    std::string plan_file() const { return stem_ + ".plan.json"; }

    static std::string quoted(const std::string& name) {
        std::string all = "'";
        for (const char c : name) all += c == '\'' ? std::string("'\\''") : std::string(1, c);
        return all + "'";
    }

    template <class Write>
    static bool save(const std::string& file, const Write& write) {
        std::FILE* const out = std::fopen(file.c_str(), "w");
        if (!out) return false;
        bool good = true;
        write([&](std::string_view bytes) {
            good &= std::fwrite(bytes.data(), 1, bytes.size(), out) == bytes.size();
        });
        return std::fclose(out) == 0 && good;
    }

    std::string stem_;
};

} // namespace echo::format
