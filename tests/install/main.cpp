// SPDX-License-Identifier: BSL-1.0
// Everything that a project needs to use Echo: one include and one target.
#include <echo/echo.hpp>

#include <iostream>
#include <string>

int main() {
    const auto found = std::to_string(echo::version.major) + '.' + std::to_string(echo::version.minor) + '.' +
                       std::to_string(echo::version.patch);
    if (found != EXPECTED_VERSION) {
        std::cerr << "the headers say " << found << ", the package " << EXPECTED_VERSION << '\n';
        return 1;
    }
    try {
        throw echo::error("conv1", "shape", "is missing", "state the shape or the bytes");
    } catch (const echo::error& e) {
        return e.node() == "conv1" ? 0 : 1;
    }
}
