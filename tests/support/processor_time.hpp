// SPDX-License-Identifier: BSL-1.0
/// @file
/// Time for tests with a bar: that of the processor, since other tests run beside them.
#pragma once

#include <ctime>

namespace support {

/// Seconds of the processor that `run()` takes.
double processor_seconds(const auto& run) {
    const std::clock_t start = std::clock();
    run();
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

} // namespace support
