// SPDX-License-Identifier: BSL-1.0
// What is planned is in README.md; here is seen that the package is found and compiles.
#include <echo/echo.hpp>

int main() { return echo::byte_count({.shape = {2, 3}, .type = echo::dtype::f32}) == 24 ? 0 : 1; }
