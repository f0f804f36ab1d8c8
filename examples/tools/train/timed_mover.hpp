// SPDX-License-Identifier: BSL-1.0
/// @file
/// `timed_mover`: another mover, and how long a step waits for it.
#pragma once

#include "engine/mover.hpp"

#include <chrono>
#include <cstddef>
#include <utility>

namespace train {

class timed_mover final : public engine::mover {
public:
    /// Kept by reference.
    explicit timed_mover(engine::mover& inner) : inner_(inner) {}

    /// Milliseconds that the last step waited for copies.
    double waited_ms() const noexcept { return waited_.count(); }

    void prepare(engine::transfers all) override { inner_.prepare(std::move(all)); }
    void begin_step() override {
        waited_ = {};
        inner_.begin_step();
    }
    void begin_out(std::size_t k) override { inner_.begin_out(k); }
    void wait_out(std::size_t k) override {
        timed([&] { inner_.wait_out(k); });
    }
    void begin_in(std::size_t k) override { inner_.begin_in(k); }
    void wait_in(std::size_t k) override {
        timed([&] { inner_.wait_in(k); });
    }
    void give_up() noexcept override { inner_.give_up(); }

private:
    template <class Wait>
    void timed(const Wait& wait) {
        const auto begin = std::chrono::steady_clock::now();
        wait();
        waited_ += std::chrono::steady_clock::now() - begin;
    }

    engine::mover& inner_;
    std::chrono::duration<double, std::milli> waited_{};
};

} // namespace train
