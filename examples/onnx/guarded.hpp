// SPDX-License-Identifier: BSL-1.0
/// @file
/// `guarded`: a call into a library that was not written for hostile files. It runs in a process of its own, with
/// bounds on memory and time: whatever it does there, the caller gets a text or an error of one line.
#pragma once

#include <echo/error.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

namespace echo::format {

/// Sanitizers take terabytes of addresses: no bound can be set then.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool addresses_are_bounded = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool addresses_are_bounded = false;
#else
inline constexpr bool addresses_are_bounded = true;
#endif
#else
inline constexpr bool addresses_are_bounded = true;
#endif

namespace detail {

inline void set_limit(int what, rlim_t most) {
    struct rlimit limit = {};
    if (::getrlimit(static_cast<__rlimit_resource>(what), &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || most < limit.rlim_max ? most : limit.rlim_max;
    ::setrlimit(static_cast<__rlimit_resource>(what), &limit);
}

/// Bytes of addresses that this process has.
inline rlim_t addresses() {
    unsigned long pages = 0;
    if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
        if (std::fscanf(file, "%lu", &pages) != 1) pages = 0;
        std::fclose(file);
    }
    return static_cast<rlim_t>(pages) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

using steady = std::chrono::steady_clock;

/// Whether `from` has bytes, or its other end is closed, by `deadline`: what has come until then counts.
inline bool has_more(int from, steady::time_point deadline) {
    using std::chrono::milliseconds;
    constexpr std::int64_t longest = 1'000'000; // one wait; there may be many
    for (;;) {
        const std::int64_t left = std::chrono::ceil<milliseconds>(deadline - steady::now()).count();
        pollfd end = {.fd = from, .events = POLLIN, .revents = 0};
        const int ready = ::poll(&end, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, longest)));
        if (ready > 0) return true;
        if ((ready < 0 && errno != EINTR) || left <= 0) return false;
    }
}

/// How the child ended; nothing, if by `deadline` it had not, and was killed.
inline std::optional<int> status_of(pid_t child, steady::time_point deadline) {
    int status = 0;
    for (;;) {
        const pid_t ended = ::waitpid(child, &status, WNOHANG);
        if (ended != 0 && !(ended < 0 && errno == EINTR)) return status;
        if (steady::now() >= deadline) break;
        ::usleep(500);
    }
    ::kill(child, SIGKILL);
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return std::nullopt;
}

inline bool write_all(int to, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::write(to, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
}

/// What the child does; never returns.
template <class F>
[[noreturn]] void run_and_exit(F& call, pid_t parent, int to, std::size_t room, unsigned seconds) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL); // who asked may be killed, and this may take all the memory it has
    if (::getppid() != parent) ::_exit(2);
    if (const int nowhere = ::open("/dev/null", O_WRONLY); nowhere >= 0) {
        ::dup2(nowhere, STDOUT_FILENO);
        ::dup2(nowhere, STDERR_FILENO);
    }
    set_limit(RLIMIT_CORE, 0);
    set_limit(RLIMIT_CPU, seconds);
    if (addresses_are_bounded) set_limit(RLIMIT_AS, addresses() + room);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU}) std::signal(signal, SIG_DFL);
    std::string answer;
    try {
        answer = '=' + call();
    } catch (const std::bad_alloc&) {
        answer = "!takes more memory than it may";
    } catch (const std::exception& e) {
        try {
            answer = std::string("!") + e.what();
        } catch (...) {
            ::_exit(2);
        }
    } catch (...) {
        ::_exit(2);
    }
    ::_exit(write_all(to, answer) ? 0 : 2);
}

/// What a child writes.
struct child_answer {
    std::string text{};
    bool enough = true;  ///< there was memory for all of it
    bool in_time = true; ///< it came to its end by the deadline
};

inline child_answer read_answer(int from, steady::time_point deadline) {
    child_answer answer;
    std::array<char, 1 << 16> part;
    while ((answer.in_time = has_more(from, deadline))) {
        const ssize_t count = ::read(from, part.data(), part.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        try {
            if (answer.enough) answer.text.append(part.data(), static_cast<std::size_t>(count));
        } catch (const std::bad_alloc&) {
            answer.enough = false; // the child is still to be waited for
        }
    }
    return answer;
}

/// What went wrong in a child that ended with this status and answer, in one line; empty: nothing.
inline std::string problem_of(int status, const std::string& answer, unsigned seconds) {
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
        return "takes more than " + std::to_string(seconds) + " seconds";
    const std::string breaks_down = "the ONNX library breaks down on this model";
    if (WIFSIGNALED(status)) return breaks_down + " (" + ::strsignal(WTERMSIG(status)) + ")";
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || answer.empty()) return breaks_down;
    if (answer[0] != '!') return {};
    std::string problem = answer.substr(1, 600);
    for (char& c : problem)
        if (c == '\n' || c == '\r' || c == '\t') c = ' ';
    return problem.empty() ? breaks_down : problem;
}

} // namespace detail

/// The text that `call()` returns. `what` names the call in messages. Errors: it throws; it ends the process; it takes
/// more than `room` bytes or `seconds` of processor time, or four times as long by the clock. To be called where one
/// thread runs: the child would wait for a lock that another held when the process was copied.
template <class F>
std::string guarded(std::string_view what, F call, std::size_t room = std::size_t{4} << 30,
                    unsigned seconds = 120) {
    const auto refuse = [&](std::string_view problem) -> error {
        return error({}, what, problem, "check the model with onnx.checker and onnx.shape_inference");
    };
    int ends[2] = {};
    if (::pipe2(ends, O_CLOEXEC) != 0) throw refuse(std::strerror(errno));
    const pid_t parent = ::getpid(), child = ::fork();
    if (child < 0) {
        const int reason = errno;
        ::close(ends[0]);
        ::close(ends[1]);
        throw refuse(std::strerror(reason));
    }
    if (child == 0) detail::run_and_exit(call, parent, ends[1], room, seconds);
    ::close(ends[1]);
    const std::uint64_t longest = 4 * std::uint64_t{seconds};
    const auto deadline = detail::steady::now() + std::chrono::seconds(longest);
    auto [answer, enough, in_time] = detail::read_answer(ends[0], deadline);
    ::close(ends[0]);
    const auto ended = detail::status_of(child, in_time ? deadline : detail::steady::now());
    if (!enough) throw std::bad_alloc();
    if (!in_time || !ended)
        throw refuse("the ONNX library does not come back within " + std::to_string(longest) + " seconds");
    if (const std::string problem = detail::problem_of(*ended, answer, seconds); !problem.empty())
        throw refuse(problem);
    answer.erase(0, 1);
    return answer;
}

} // namespace echo::format
