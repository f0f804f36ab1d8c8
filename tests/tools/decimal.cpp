// SPDX-License-Identifier: BSL-1.0
/// @file
/// Numbers as the programs print them: what the C library makes of them, whatever the locale.

#include "plan/decimal.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <string>

namespace {

std::string printed(const char* how, int precision, double value) {
    std::array<char, 512> text{};
    std::snprintf(text.data(), text.size(), how, precision, value);
    return text.data();
}

} // namespace

TEST_CASE("Decimals are those of the C library") {
    std::mt19937 draw(1);
    std::uniform_real_distribution<double> exponent(-7, 18), mantissa(-10, 10);
    for (int i = 0; i < 20'000; ++i) {
        const double value = mantissa(draw) * std::pow(10.0, exponent(draw));
        for (const int digits : {0, 1, 2, 5})
            CHECK(echo::format::decimal(value, digits) == printed("%.*f", digits, value));
        CHECK(echo::format::shortest(value) == printed("%.*g", 6, value));
        for (const int digits : {3, 4})
            CHECK(echo::format::significant(value, digits) == printed("%#.*g", digits, value));
    }
}

TEST_CASE("Decimals of numbers at the edges") {
    for (const double value :
         {0.0, 0.5, 9.995, 999.95, 1e-5, 1e300, std::numeric_limits<double>::denorm_min()}) {
        CHECK(echo::format::decimal(value, 2) == printed("%.*f", 2, value));
        CHECK(echo::format::shortest(value) == printed("%.*g", 6, value));
        CHECK(echo::format::significant(value, 4) == printed("%#.*g", 4, value));
    }
    CHECK(echo::format::significant(std::numeric_limits<double>::infinity(), 4) == "inf");
}
