// SPDX-License-Identifier: BSL-1.0
/// @file
/// `unfinished`: files and folders on their way, which are removed also where a signal such as Ctrl-C ends the program.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <string>
#include <utility>

namespace echo::format {

namespace detail {

/// Signals that end a program, and that it may catch.
inline constexpr int ending_signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGXCPU, SIGXFSZ};

/// A name that a signal handler may read; nullptr: none.
struct unfinished_slot {
    std::atomic<const char*> path{nullptr};
    std::atomic<bool> is_folder{false};
};
inline std::array<unfinished_slot, 32> unfinished_slots; // an output has one; a program has few
inline std::atomic<bool> terminal_line{false};           ///< a line on standard error is to be wiped

/// Calls only what a handler may call.
inline void remove_unfinished() noexcept {
    for (const bool folders : {false, true}) // what lies in a folder goes before it
        for (auto& slot : unfinished_slots) {
            const char* const path = slot.path;
            if (path && slot.is_folder == folders) (folders ? ::rmdir : ::unlink)(path);
        }
}

extern "C" inline void end_by_signal(int number) {
    remove_unfinished();
    if (terminal_line) (void)!::write(STDERR_FILENO, "\r\033[K", 4);
    ::raise(number); // by default, since the handler is gone: the caller sees what ended the program
}

} // namespace detail

/// From here on a signal that ends the program removes what is unfinished. Signals that are ignored stay so.
inline void catch_ending_signals() {
    static const bool once = [] {
        for (const int number : detail::ending_signals) {
            struct sigaction before = {}, after = {};
            after.sa_handler = detail::end_by_signal;
            after.sa_flags = static_cast<int>(SA_RESETHAND);
            if (::sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_DFL)
                ::sigaction(number, &after, nullptr);
        }
        return true;
    }();
    (void)once;
}

/// While it lives, signals that end the program wait in this thread.
class signals_wait {
public:
    signals_wait() {
        sigset_t ending;
        sigemptyset(&ending);
        for (const int number : detail::ending_signals) sigaddset(&ending, number);
        pthread_sigmask(SIG_BLOCK, &ending, &before_);
    }
    ~signals_wait() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    signals_wait(const signals_wait&) = delete;
    signals_wait& operator=(const signals_wait&) = delete;

private:
    sigset_t before_{};
};

/// A file or a folder that is to be removed unless `keep` is called. Make it, and the file, while signals wait.
class unfinished {
public:
    unfinished() = default;
    explicit unfinished(std::string path, bool is_folder = false)
        : path_(std::move(path)), is_folder_(is_folder) {
        catch_ending_signals();
        for (auto& slot : detail::unfinished_slots) {
            const char* none = nullptr;
            if (!slot.path.compare_exchange_strong(none, path_.c_str())) continue;
            slot.is_folder = is_folder;
            slot_ = &slot;
            return;
        }
    }
    ~unfinished() { remove(); }
    unfinished(const unfinished&) = delete;
    unfinished& operator=(const unfinished&) = delete;

    const std::string& path() const noexcept { return path_; }
    /// It has its name, or is nothing of ours.
    void keep() noexcept {
        if (slot_) slot_->path = nullptr;
        slot_ = nullptr;
        path_.clear();
    }

private:
    void remove() noexcept {
        const signals_wait until_done;
        if (!path_.empty()) (is_folder_ ? ::rmdir : ::unlink)(path_.c_str());
        keep();
    }

    std::string path_{};
    bool is_folder_ = false;
    detail::unfinished_slot* slot_ = nullptr;
};

} // namespace echo::format
