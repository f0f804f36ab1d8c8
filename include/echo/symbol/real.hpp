// SPDX-License-Identifier: BSL-1.0
/// @file
/// Third reading of an element-wise lambda: its value. `real<T>` is a number that offers the same functions
/// as symbols do, on the host, in constant expressions and in device code.
#pragma once

#include <echo/config.hpp>
#include <echo/symbol/math.hpp>

#include <concepts>
#include <type_traits>

namespace echo {

template <class T>
class real;

/// The outcome of comparing two `real<T>`: for `select` and for `&&`, `||`, `!`.
template <class T>
class truth {
public:
    /// This truth.
    explicit constexpr truth(bool holds) noexcept : holds_(holds) {}
    /// A comparison of tensors is no `bool`: write `select(mask, a, b)` instead of `if`.
    explicit operator bool() const = delete;
    /// Its value where one element alone is looked at: by tests, and by code that packs masks.
    ECHO_HOST_DEVICE constexpr bool holds() const noexcept { return holds_; }

    ECHO_HOST_DEVICE friend constexpr truth operator&&(truth a, truth b) noexcept {
        return truth(a.holds_ && b.holds_);
    }
    ECHO_HOST_DEVICE friend constexpr truth operator||(truth a, truth b) noexcept {
        return truth(a.holds_ || b.holds_);
    }
    ECHO_HOST_DEVICE friend constexpr truth operator!(truth a) noexcept { return truth(!a.holds_); }
    /// `a` where the mask holds, else `b`.
    ECHO_HOST_DEVICE friend constexpr real<T> select(truth m, real<T> a, real<T> b) noexcept {
        return m.holds_ ? a : b;
    }

private:
    bool holds_;
};

/// A number of element type `T`, computed with in `float` (for `float` and the half types) or in `double`
/// (for `double`), so that `tanh` of a float is a float and a literal never widens or is ambiguous. Mixes
/// with plain arithmetic values; converts to `T` explicitly.
template <class T>
class real {
    static_assert(!std::is_integral_v<T>, "echo: real<T> computes with floating-point element types only");

public:
    /// What is computed in.
    using value_type = std::conditional_t<std::is_same_v<T, double>, double, float>;

    constexpr real() = default;
    /// A number of `T`, or one that becomes one.
    template <class V>
        requires(std::is_arithmetic_v<V> || std::same_as<V, T>)
    ECHO_HOST_DEVICE constexpr real(V value) noexcept : value_(static_cast<value_type>(value)) {}

    /// In the type that is computed in: float for types of 16 bits.
    ECHO_HOST_DEVICE constexpr value_type value() const noexcept { return value_; }
    /// Rounded to `T`.
    ECHO_HOST_DEVICE explicit constexpr operator T() const noexcept { return static_cast<T>(value_); }

    ECHO_HOST_DEVICE friend constexpr real operator+(real a, real b) noexcept { return a.value_ + b.value_; }
    ECHO_HOST_DEVICE friend constexpr real operator-(real a, real b) noexcept { return a.value_ - b.value_; }
    ECHO_HOST_DEVICE friend constexpr real operator*(real a, real b) noexcept { return a.value_ * b.value_; }
    ECHO_HOST_DEVICE friend constexpr real operator/(real a, real b) noexcept { return a.value_ / b.value_; }
    ECHO_HOST_DEVICE friend constexpr real operator-(real a) noexcept { return -a.value_; }
    ECHO_HOST_DEVICE friend constexpr real operator+(real a) noexcept { return a; }

    ECHO_HOST_DEVICE friend constexpr truth<T> operator>(real a, real b) noexcept {
        return truth<T>(a.value_ > b.value_);
    }
    ECHO_HOST_DEVICE friend constexpr truth<T> operator<(real a, real b) noexcept {
        return truth<T>(a.value_ < b.value_);
    }
    ECHO_HOST_DEVICE friend constexpr truth<T> operator>=(real a, real b) noexcept {
        return truth<T>(a.value_ >= b.value_);
    }
    ECHO_HOST_DEVICE friend constexpr truth<T> operator<=(real a, real b) noexcept {
        return truth<T>(a.value_ <= b.value_);
    }
    ECHO_HOST_DEVICE friend constexpr truth<T> operator==(real a, real b) noexcept {
        return truth<T>(a.value_ == b.value_);
    }
    ECHO_HOST_DEVICE friend constexpr truth<T> operator!=(real a, real b) noexcept {
        return truth<T>(a.value_ != b.value_);
    }

    ECHO_HOST_DEVICE friend constexpr real exp(real a) noexcept { return symbol::math::exp(a.value_); }
    ECHO_HOST_DEVICE friend constexpr real log(real a) noexcept { return symbol::math::log(a.value_); }
    ECHO_HOST_DEVICE friend constexpr real tanh(real a) noexcept { return symbol::math::tanh(a.value_); }
    ECHO_HOST_DEVICE friend constexpr real erf(real a) noexcept { return symbol::math::erf(a.value_); }
    ECHO_HOST_DEVICE friend constexpr real sqrt(real a) noexcept { return symbol::math::sqrt(a.value_); }
    ECHO_HOST_DEVICE friend constexpr real rsqrt(real a) noexcept { return 1 / sqrt(a); }
    ECHO_HOST_DEVICE friend constexpr real sin(real a) noexcept { return symbol::math::sin(a.value_); }
    ECHO_HOST_DEVICE friend constexpr real cos(real a) noexcept { return symbol::math::cos(a.value_); }
    ECHO_HOST_DEVICE friend constexpr real pow(real a, real b) noexcept {
        return symbol::math::pow(a.value_, b.value_);
    }
    /// By the half angle: exp(-x) would overflow for large negative x.
    ECHO_HOST_DEVICE friend constexpr real sigmoid(real a) noexcept { return 0.5 + 0.5 * tanh(0.5 * a); }
    ECHO_HOST_DEVICE friend constexpr real abs(real a) noexcept {
        return a.value_ < 0 ? -a.value_ : a.value_;
    }
    ECHO_HOST_DEVICE friend constexpr real max(real a, real b) noexcept {
        return a.value_ < b.value_ ? b : a;
    }
    ECHO_HOST_DEVICE friend constexpr real min(real a, real b) noexcept {
        return b.value_ < a.value_ ? b : a;
    }

private:
    value_type value_ = 0;
};

} // namespace echo
