// SPDX-License-Identifier: BSL-1.0
#include "engine/cpu/file_mover.hpp"
#include "engine/memory.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

namespace engine::cpu {
namespace {

using clock_type = std::chrono::steady_clock;

double us_since(clock_type::time_point begin) {
    return std::chrono::duration<double, std::micro>(clock_type::now() - begin).count();
}

} // namespace

void file_mover::prepare(transfers all) {
    out_.reset();
    in_.reset();
    out_.emplace(std::move(all.out), [this](const transfer& t) { file_.write(t, out_buffer_); });
    in_.emplace(std::move(all.in), [this](const transfer& t) { file_.read(t, in_buffer_); });
}

void file_mover::begin_step() {
    out_->restart();
    in_->restart();
}

void file_mover::give_up() noexcept {
    out_->restart();
    in_->restart();
}

echo::link_model file_mover::measure(std::uint64_t bytes) {
    constexpr std::uint64_t at_once = std::uint64_t{1} << 24;
    const std::size_t count = static_cast<std::size_t>(std::max<std::uint64_t>(1, bytes / at_once));
    const memory_piece out(host_memory(), at_once, "measuring"), in(host_memory(), at_once, "measuring");
    std::memset(out.data(), 1, at_once);
    std::memset(in.data(), 1, at_once); // pages are touched
    transfers all;
    for (std::size_t k = 0; k < 2 * count; ++k) // the second half lies behind the first
        all.out.push_back({out.data(), at_once, k * at_once, "measuring"});
    all.in.assign(all.out.begin(), all.out.begin() + static_cast<std::ptrdiff_t>(count));
    for (transfer& t : all.in) t.at = in.data();
    const auto moving = [&](bool leaves, bool comes_back) {
        begin_step();
        const auto begin = clock_type::now();
        for (std::size_t k = 0; k < count; ++k) {
            if (leaves) out_->begin(k);
            if (comes_back) in_->begin(k);
        }
        if (leaves) out_->wait(count - 1);
        if (comes_back) in_->wait(count - 1);
        return us_since(begin);
    };
    prepare(all);
    moving(true, false); // blocks of the disk are found
    const double out_us = moving(true, false), in_us = moving(false, true);
    std::rotate(all.out.begin(), all.out.begin() + static_cast<std::ptrdiff_t>(count), all.out.end());
    prepare(all);
    moving(true, false);
    const double both_us = moving(true, true);
    prepare({});
    const auto moved = static_cast<double>(count * at_once);
    const auto rate = [&](double us) { return std::max(1.0, std::floor(moved / us)); };
    return {.out_bytes_per_us = rate(out_us),
            .in_bytes_per_us = rate(in_us),
            .both_ways = 2 * both_us < std::max(out_us, in_us) + out_us + in_us};
}

} // namespace engine::cpu
