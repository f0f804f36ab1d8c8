// SPDX-License-Identifier: BSL-1.0
#include "engine/cpu/transfer_lane.hpp"

#include <pthread.h>

#include <csignal>
#include <utility>

namespace engine::cpu {
namespace {

/// While it lives, threads that are started get no signals: handlers of the program run in its own threads, and a file
/// beyond the limit of the process is an error of `pwrite`.
class without_signals {
public:
    without_signals() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    without_signals(const without_signals&) = delete;
    without_signals& operator=(const without_signals&) = delete;
    ~without_signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_{};
};

} // namespace

transfer_lane::transfer_lane(std::vector<transfer> all, std::function<void(const transfer&)> carry)
    : all_(std::move(all)), carry_(std::move(carry)), may_begin_(all_.size(), false) {
    const without_signals masked;
    thread_ = std::thread([this] { run(); });
}

transfer_lane::~transfer_lane() {
    {
        const std::scoped_lock lock(mutex_);
        stopped_ = halted_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void transfer_lane::begin(std::size_t k) {
    {
        const std::scoped_lock lock(mutex_);
        may_begin_.at(k) = true;
    }
    changed_.notify_all();
}

void transfer_lane::wait(std::size_t k) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ > k || failed_; });
    if (done_ <= k) std::rethrow_exception(failed_);
}

void transfer_lane::restart() {
    std::unique_lock lock(mutex_);
    halted_ = true;
    changed_.wait(lock, [&] { return !busy_; });
    may_begin_.assign(all_.size(), false);
    done_ = 0;
    failed_ = nullptr;
    halted_ = false;
}

void transfer_lane::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [&] { return stopped_ || can_carry(); });
        if (stopped_) return;
        busy_ = true;
        lock.unlock();
        std::exception_ptr failed;
        try {
            carry_(all_[done_]); // this thread alone changes `done_` while it is busy
        } catch (...) {
            failed = std::current_exception();
        }
        lock.lock();
        busy_ = false;
        failed ? void(failed_ = failed) : void(++done_);
        changed_.notify_all();
    }
}

} // namespace engine::cpu
