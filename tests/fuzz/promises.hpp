// SPDX-License-Identifier: BSL-1.0
/// @file
/// What the fuzzers of readers share: a promise that ends the program where it is broken, and readers that may refuse.
#pragma once

#include <echo/error.hpp>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace fuzz {

inline void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "broken promise: %s\n", what);
    std::abort();
}

/// Calls `f`; nothing where it refuses, which takes one line that says what is wrong. Other exceptions end the program.
template <class F>
auto attempt(F f) -> std::optional<decltype(f())> {
    try {
        return f();
    } catch (const echo::error& e) {
        require(std::string_view(e.what()).find_first_of("\n\r") == std::string_view::npos, "one line");
        require(!e.problem().empty(), "an error says what is wrong");
        return std::nullopt;
    }
}

} // namespace fuzz
