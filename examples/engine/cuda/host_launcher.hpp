// SPDX-License-Identifier: BSL-1.0
/// @file
/// `host_launcher`: runs kernel bodies on the CPU, warp by warp. Slow, and a proof.
#pragma once

#include <echo/cuda/kernel/launch.hpp>

#include <string_view>

namespace engine::cuda {

struct host_launcher {
    echo::cuda::host_grid grid{};

    template <echo::cuda::kernel_body Body>
    void operator()(std::string_view, const Body& body) const {
        echo::cuda::host_launch(body, grid);
    }
};

} // namespace engine::cuda
