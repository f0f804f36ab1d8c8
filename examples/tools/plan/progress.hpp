// SPDX-License-Identifier: BSL-1.0
/// @file
/// `progress`: one line on a terminal that says what goes on, once that has lasted over a second.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace echo::format {

/// Nothing happens unless standard error is a terminal. The line is gone when the object is.
class progress {
public:
    progress() {
        if (::isatty(STDERR_FILENO) == 1)
            ticker_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    }
    /// `what` must be a literal.
    void stage(const char* what) {
        part_ = -1;
        what_ = what;
    }
    /// From 0 to 1.
    void part_done(double part) { part_ = part; }
    /// Calls `part_done`, for as long as the object lives.
    std::function<void(double)> parts() {
        return [this](double part) { part_done(part); };
    }

private:
    void run(const std::stop_token& stop) {
        using namespace std::chrono;
        const auto start = steady_clock::now();
        bool shown = false;
        std::unique_lock lock(mutex_);
        while (!tick_.wait_for(lock, stop, shown ? milliseconds(200) : milliseconds(1000), [] {
            return false;
        }) && !stop.stop_requested()) {
            const auto seconds = duration_cast<std::chrono::seconds>(steady_clock::now() - start).count();
            const double part = part_;
            const std::string done = part < 0 ? "" : fmt::format(", {:.0f} %", 100 * part);
            fmt::print(stderr, "\r\033[K{}{} ({} s)", what_.load(), done, seconds);
            std::fflush(stderr);
            shown = true;
        }
        if (shown) {
            std::fputs("\r\033[K", stderr);
            std::fflush(stderr);
        }
    }

    std::atomic<const char*> what_ = "";
    std::atomic<double> part_ = -1; ///< negative: not known
    std::mutex mutex_;
    std::condition_variable_any tick_;
    std::jthread ticker_; ///< last: it is joined before what it uses goes
};

} // namespace echo::format
