// SPDX-License-Identifier: BSL-1.0
/// @file
/// `ticker`: how training goes on: a bar on a terminal, else a line now and then.
#pragma once

#include "command_line/print.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace train {

/// A step that was done.
struct step_done {
    std::uint64_t step = 0;
    float loss = 0;
    double ms = 0;
};

class ticker {
public:
    /// `lines`: standard output takes lines. The bar stands on standard error, and only where lines, if any, go to a
    /// terminal as well.
    ticker(std::uint64_t steps, std::int64_t batch, bool lines)
        : steps_(steps), batch_(static_cast<double>(batch)), lines_(lines),
          bar_(::isatty(STDERR_FILENO) == 1 && (!lines || ::isatty(STDOUT_FILENO) == 1)),
          every_(std::max<std::uint64_t>(1, steps / 20)) {}
    ~ticker() { wipe(); }
    ticker(const ticker&) = delete;
    ticker& operator=(const ticker&) = delete;

    void operator()(const step_done& s) {
        const bool last = s.step == steps_;
        if (lines_ && (last || (!bar_ && (s.step == 1 || s.step % every_ == 0)))) line(s, {});
        if (bar_ && !last) draw(s);
    }
    /// A line of this step, whatever is due.
    void line(const step_done& s, const std::string& more) {
        if (s.step == said_ && more.empty()) return;
        said_ = s.step;
        wipe();
        echo::format::print(fmt::format(
            "step {:<{}}  loss {:<12.9g}  {:>7.4g} samples/s{}{}\n", fmt::format("{}/{}", s.step, steps_),
            2 * std::to_string(steps_).size() + 1, s.loss, per_second(s), more.empty() ? "" : "  ", more));
    }
    void wipe() {
        if (!drawn_) return;
        fmt::print(stderr, "\r\033[K");
        std::fflush(stderr);
        drawn_ = false;
    }

private:
    using clock = std::chrono::steady_clock;
    double per_second(const step_done& s) const { return 1000 * batch_ / std::max(s.ms, 1e-3); }

    void draw(const step_done& s) {
        const auto now = clock::now();
        if (drawn_ && now - when_ < std::chrono::milliseconds(100)) return;
        when_ = now;
        constexpr std::uint64_t width = 24;
        const double part = static_cast<double>(s.step) / static_cast<double>(steps_);
        const auto full = static_cast<std::size_t>(part * static_cast<double>(width));
        const double left = std::chrono::duration<double>(now - start_).count() * (1 - part) / part;
        fmt::print(stderr, "\r[{:<{}}] {}/{}  loss {:.5g}  {:.4g} samples/s  {:.0f} s left\033[K",
                   std::string(full, '='), width, s.step, steps_, s.loss, per_second(s), left);
        std::fflush(stderr);
        drawn_ = true;
    }

    std::uint64_t steps_;
    double batch_;
    bool lines_, bar_, drawn_ = false;
    std::uint64_t every_, said_ = 0;
    clock::time_point start_ = clock::now(), when_{};
};

} // namespace train
