// SPDX-License-Identifier: BSL-1.0
/// @file
/// `file_mover`: the mover of the CPU. Values wait in a file for their next readers; a thread carries each direction.
#pragma once

#include "engine/cpu/store_file.hpp"
#include "engine/cpu/transfer_lane.hpp"

#include <echo/analysis/plan/offload/link.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace engine::cpu {

class file_mover final : public mover {
public:
    /// The file lies in the folder; see `store_file`. Errors: it cannot be made.
    explicit file_mover(std::string folder = {}) : file_(std::move(folder)) {}

    /// The link that plans should reckon with: writes so many bytes and reads them again, each alone and both at once.
    /// Whether copies travel both ways at once is what comes nearer to the time of both: that of the longer one, or
    /// those of the two together. Rates are whole bytes per microsecond. Before `prepare`. Errors: those of
    /// `store_file`.
    echo::link_model measure(std::uint64_t bytes = std::uint64_t{1} << 28);
    const store_file& file() const noexcept { return file_; }

    void prepare(transfers all) override;
    void begin_step() override;
    void begin_out(std::size_t k) override { out_->begin(k); }
    void wait_out(std::size_t k) override { out_->wait(k); }
    void begin_in(std::size_t k) override { in_->begin(k); }
    void wait_in(std::size_t k) override { in_->wait(k); }
    void give_up() noexcept override;

private:
    store_file file_;
    store_buffer out_buffer_{}, in_buffer_{};
    std::optional<transfer_lane> out_{}, in_{}; // they use what stands above
};

} // namespace engine::cpu
