// SPDX-License-Identifier: BSL-1.0
// Host code of the same project, by a plain C++ compiler.
#include <echo/cuda/device.hpp>

bool device_is_there();

bool device_is_there() {
    try {
        return echo::cuda::device_count() > 0;
    } catch (const echo::cuda::error&) {
        return false;
    }
}
