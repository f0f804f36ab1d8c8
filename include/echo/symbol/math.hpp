// SPDX-License-Identifier: BSL-1.0
/// @file
/// Elementary functions that work in constant expressions too, where the standard ones do not yet. At run
/// time they are the standard ones.
#pragma once

#include <echo/config.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace echo::symbol::math {

/// Series good to about 1e-15 relative, for constant evaluation only. Sources: Taylor series after range
/// reduction; erfc by its continued fraction (Abramowitz and Stegun 7.1.14).
namespace series {

inline constexpr double ln2 = 0.693147180559945309417232121458;
inline constexpr double pi = 3.141592653589793238462643383280;
inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

constexpr double exp(double x) {
    if (x != x) return x;
    if (x > 709.79) return infinity;
    if (x < -745.2) return 0;
    const int n = static_cast<int>(x / ln2 + (x < 0 ? -0.5 : 0.5));
    const double r = x - n * ln2;
    double term = 1, sum = 1;
    for (int k = 1; k < 20; ++k) sum += term *= r / k;
    for (int k = 0; k < n; ++k) sum *= 2;
    for (int k = 0; k > n; --k) sum /= 2;
    return sum;
}

constexpr double log(double x) {
    if (x != x || x < 0) return not_a_number;
    if (x == 0) return -infinity;
    if (x == infinity) return x;
    int n = 0;
    while (x > 1.5) x /= 2, ++n;
    while (x < 0.75) x *= 2, --n;
    const double s = (x - 1) / (x + 1);
    double power = s, sum = 0;
    for (int k = 1; k < 40; k += 2, power *= s * s) sum += power / k;
    return 2 * sum + n * ln2;
}

constexpr double sqrt(double x) {
    if (x != x || x < 0) return not_a_number;
    if (x == 0 || x == infinity) return x;
    double scale = 1;
    while (x > 4) x /= 4, scale *= 2;
    while (x < 1) x *= 4, scale /= 2;
    double root = x;
    for (int k = 0; k < 7; ++k) root = (root + x / root) / 2;
    return root * scale;
}

constexpr double tanh(double x) {
    if (x != x) return x;
    if (x > 20) return 1;
    if (x < -20) return -1;
    if (x * x > 0.25) {
        const double e = exp(2 * x);
        return (e - 1) / (e + 1);
    }
    double sinh = 0, cosh = 0, term = 1;
    for (int k = 1; k < 20; k += 2) {
        cosh += term;
        term *= x / k;
        sinh += term;
        term *= x / (k + 1);
    }
    return sinh / cosh;
}

constexpr double erf(double x) {
    if (x < 0) return -erf(-x);
    if (x > 6) return 1;
    const double scale = 2 / sqrt(pi);
    if (x < 2.5) {
        double term = x, sum = x;
        for (int k = 1; k < 60; ++k) {
            term *= -x * x / k;
            sum += term / (2 * k + 1);
        }
        return scale * sum;
    }
    double fraction = x;
    for (int k = 60; k > 0; --k) fraction = x + k / (2 * fraction);
    return 1 - exp(-x * x) * scale / (2 * fraction);
}

constexpr double sin(double x) {
    if (x - x != 0) return not_a_number;
    const double turns = x / (2 * pi);
    if (turns > 1e15 || turns < -1e15) return not_a_number; // no digits are left
    const double r = x - 2 * pi * static_cast<double>(static_cast<std::int64_t>(turns));
    double term = r, sum = r;
    for (int k = 2; k < 60; k += 2) sum += term *= -r * r / (k * (k + 1));
    return sum;
}

constexpr double pow(double x, double y) {
    if (y == 0) return 1;
    if (y < 0) return 1 / pow(x, -y);
    const bool integral = y < 9e15 && y == static_cast<double>(static_cast<std::int64_t>(y));
    if (integral && y < 1024) {
        double result = 1;
        for (int k = 0; k < static_cast<int>(y); ++k) result *= x;
        return result;
    }
    if (x == 0) return 0;
    if (x < 0 && !integral) return not_a_number;
    const double magnitude = exp(y * log(x < 0 ? -x : x));
    return x < 0 && static_cast<std::int64_t>(y) % 2 != 0 ? -magnitude : magnitude;
}

} // namespace series

template <class T>
ECHO_HOST_DEVICE constexpr T exp(T x) {
    return std::is_constant_evaluated() ? static_cast<T>(series::exp(x)) : std::exp(x);
}
template <class T>
ECHO_HOST_DEVICE constexpr T log(T x) {
    return std::is_constant_evaluated() ? static_cast<T>(series::log(x)) : std::log(x);
}
template <class T>
ECHO_HOST_DEVICE constexpr T sqrt(T x) {
    return std::is_constant_evaluated() ? static_cast<T>(series::sqrt(x)) : std::sqrt(x);
}
template <class T>
ECHO_HOST_DEVICE constexpr T tanh(T x) {
    return std::is_constant_evaluated() ? static_cast<T>(series::tanh(x)) : std::tanh(x);
}
template <class T>
ECHO_HOST_DEVICE constexpr T erf(T x) {
    return std::is_constant_evaluated() ? static_cast<T>(series::erf(x)) : std::erf(x);
}
template <class T>
ECHO_HOST_DEVICE constexpr T sin(T x) {
    return std::is_constant_evaluated() ? static_cast<T>(series::sin(x)) : std::sin(x);
}
template <class T>
ECHO_HOST_DEVICE constexpr T cos(T x) {
    return std::is_constant_evaluated() ? static_cast<T>(series::sin(x + series::pi / 2)) : std::cos(x);
}
template <class T>
ECHO_HOST_DEVICE constexpr T pow(T x, T y) {
    return std::is_constant_evaluated() ? static_cast<T>(series::pow(x, y)) : std::pow(x, y);
}

} // namespace echo::symbol::math
