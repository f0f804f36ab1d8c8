// SPDX-License-Identifier: BSL-1.0
// Prints the architecture and the name of the card, for `run`. 77, and why, where there is none.
#include <echo/cuda/device.hpp>

#include <cstdio>

int main() {
    try {
        const auto card = echo::cuda::properties_of(echo::cuda::current_device());
        std::printf("%d %s\n", card.architecture(), card.name.c_str());
        return 0;
    } catch (const echo::cuda::error& e) {
        std::printf("%s\n", e.what());
        return 77;
    }
}
