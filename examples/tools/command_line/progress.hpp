// SPDX-License-Identifier: BSL-1.0
/// @file
/// `progress`: one line on a terminal that says what goes on, how far it is and how long it takes, once that has lasted
/// over a second.
#pragma once

#include "command_line/unfinished.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace echo::format {

/// `planning  [=========               ]  38 %, 12 s left`; where it is not known how far it is, the seconds since the
/// stage began. `part`: from 0 to 1, or negative: not known.
inline std::string progress_line(const char* stage, double part, std::uint64_t bytes, double seconds) {
    constexpr std::size_t width = 24;
    std::string line = fmt::format("{:<20}", stage);
    if (part >= 0) {
        const double done = std::min(part, 1.0);
        line += fmt::format("[{:<{}}] {:>3.0f} %", std::string(static_cast<std::size_t>(done * width), '='),
                            width, 100 * done);
        constexpr double least = 0.02; // of which the rest can be told
        if (done >= least) line += fmt::format(", {:.0f} s left", seconds * (1 - done) / done);
        return line;
    }
    if (bytes > 0) line += fmt::format("{:.1f} MB, ", static_cast<double>(bytes) / 1e6);
    return line + fmt::format("{:.0f} s", seconds);
}

/// Nothing happens unless standard error is a terminal and progress is wanted. The line is gone when the object is, and
/// where a signal ends the program.
class progress {
public:
    explicit progress(bool wanted = true) {
        if (!wanted || ::isatty(STDERR_FILENO) != 1) return;
        catch_ending_signals();
        const signals_wait for_the_thread; // it inherits that: signals go to the others
        ticker_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    }
    /// `what` must be a literal.
    void stage(const char* what) {
        part_ = -1;
        bytes_ = 0;
        since_ = std::chrono::steady_clock::now();
        what_ = what;
    }
    /// From 0 to 1.
    void part_done(double part) { part_ = part; }
    /// Of a file of unknown size.
    void add_bytes(std::size_t bytes) { bytes_ += bytes; }
    /// Calls `part_done`, for as long as the object lives.
    std::function<void(double)> parts() {
        return [this](double part) { part_done(part); };
    }

private:
    using clock = std::chrono::steady_clock;

    void run(const std::stop_token& stop) {
        using namespace std::chrono;
        std::unique_lock lock(mutex_);
        while (!tick_.wait_for(lock, stop, detail::terminal_line ? milliseconds(200) : milliseconds(1000),
                               [] { return false; }) &&
               !stop.stop_requested())
            show();
        if (!detail::terminal_line) return;
        std::fputs("\r\033[K", stderr);
        std::fflush(stderr);
        detail::terminal_line = false;
    }
    void show() {
        const std::chrono::duration<double> seconds = clock::now() - since_.load();
        std::string line = progress_line(what_, part_, bytes_, seconds.count());
        winsize size = {};
        if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
            line.resize(std::min<std::size_t>(line.size(), size.ws_col - 1U)); // it must not wrap
        detail::terminal_line = true;
        fmt::print(stderr, "\r\033[K{}", line);
        std::fflush(stderr);
    }

    std::atomic<const char*> what_ = "";
    std::atomic<double> part_ = -1; ///< negative: not known
    std::atomic<std::uint64_t> bytes_ = 0;
    std::atomic<clock::time_point> since_ = clock::now();
    std::mutex mutex_;
    std::condition_variable_any tick_;
    std::jthread ticker_; ///< last: it is joined before what it uses goes
};

} // namespace echo::format
