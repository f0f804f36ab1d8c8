// SPDX-License-Identifier: BSL-1.0
/// @file
/// `device_launcher`: starts kernel bodies on a device, in one stream.
#pragma once

#include <echo/cuda/launch.cuh>

namespace engine::cuda {

struct device_launcher {
    echo::cuda::stream_ref stream;

    template <echo::cuda::kernel_body Body>
    void operator()(std::string_view name, const Body& body) const {
        echo::cuda::launch(name, body, stream);
    }
};

} // namespace engine::cuda
