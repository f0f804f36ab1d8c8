// SPDX-License-Identifier: BSL-1.0
/// @file
/// `transfer_lane`: a thread that carries transfers of one direction, each when it may begin, in their order.
#pragma once

#include "engine/mover.hpp"

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace engine::cpu {

class transfer_lane {
public:
    /// `carry` carries one transfer, in the lane's own thread. What it throws is thrown by `wait` for that transfer and
    /// for all behind it.
    transfer_lane(std::vector<transfer> all, std::function<void(const transfer&)> carry);
    transfer_lane(const transfer_lane&) = delete;
    transfer_lane& operator=(const transfer_lane&) = delete;
    /// Waits for the transfer under way.
    ~transfer_lane();

    /// Transfer `k` may begin.
    void begin(std::size_t k);
    /// Until transfer `k`, which may begin, has ended. Errors: those of `carry`.
    void wait(std::size_t k);
    /// Waits for the transfer under way; none may begin any more, and errors are forgotten.
    void restart();

private:
    void run();
    bool can_carry() const { return !failed_ && !halted_ && done_ < all_.size() && may_begin_[done_]; }

    const std::vector<transfer> all_;
    const std::function<void(const transfer&)> carry_;
    std::mutex mutex_{};
    std::condition_variable changed_{};
    std::vector<bool> may_begin_;
    std::size_t done_ = 0; ///< so many have ended
    bool busy_ = false, halted_ = false, stopped_ = false;
    std::exception_ptr failed_{};
    std::thread thread_;
};

} // namespace engine::cpu
