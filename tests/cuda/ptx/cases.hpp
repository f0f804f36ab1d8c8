// SPDX-License-Identifier: BSL-1.0
/// @file
/// What programs of cases share: arrays that end where they end, comparisons that say who wrote a wrong byte, and
/// counting. A program returns 0 if all cases are equal; faults and differences are one line each.
#pragma once

#include "../dice.hpp"
#include "device.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace cases {

inline long checked = 0;
inline int failed = 0;

inline void fail(const std::string& what) {
    if (++failed <= 200) std::printf("  DIFFERS: %s\n", what.c_str());
    if (std::getenv("ECHO_PTX_PLANT")) { // a planted fault is found
        std::fflush(stdout);
        std::_Exit(1);
    }
}

/// Whether the cases of this name are to run: all, or those that ECHO_PTX_ONLY names.
inline bool group(const std::string& name) {
    const char* only = std::getenv("ECHO_PTX_ONLY");
    if (only && name != only) return false;
    echo_ptx_group(name.c_str());
    return true;
}

/// How far a number of the device is from the host's.
enum class distance { none, a_rounding, different };

/// The same n elements twice, for the host and for the device, `skip` elements behind a multiple of 256 bytes. The
/// device's are an allocation of their own, so that an access beside them is a fault.
template <class T>
class array {
public:
    array(std::string name, std::int64_t n, std::size_t skip = 0)
        : n_(static_cast<std::size_t>(n)), name_(std::move(name)) {
        const std::size_t bytes = (n_ + skip) * sizeof(T);
        for (auto* side : {&host_, &device_}) {
            side->reset(static_cast<std::byte*>(std::aligned_alloc(256, bytes / 256 * 256 + 512)));
            std::memset(side->get(), 0xcd, bytes / 256 * 256 + 512);
        }
        at_ = skip * sizeof(T);
        echo_ptx_add(device(), n_ * sizeof(T), name_.c_str());
    }
    array(const array&) = delete;
    array& operator=(const array&) = delete;
    ~array() { echo_ptx_remove(device()); }

    T* host() const { return reinterpret_cast<T*>(host_.get() + at_); }
    T* device() const { return reinterpret_cast<T*>(device_.get() + at_); }
    std::int64_t size() const { return static_cast<std::int64_t>(n_); }

    /// Fills the host's elements by f(i), and copies them.
    template <class F>
    array& fill(F&& f) {
        for (std::size_t i = 0; i < n_; ++i) host()[i] = f(static_cast<std::int64_t>(i));
        return upload();
    }
    array& upload() {
        std::memcpy(device(), host(), n_ * sizeof(T));
        echo_ptx_written(device(), n_ * sizeof(T));
        return *this;
    }
    /// As if nobody had written the device's elements: a kernel must write each.
    array& forget() {
        echo_ptx_forget(device(), n_ * sizeof(T));
        std::memset(device(), 0xcd, n_ * sizeof(T));
        return *this;
    }

    /// Whether each element is the same, or as `near(found, expected)` says; says the first that is not, and who wrote
    /// it. Where both sides round nearly the same number to 16 bits, a few may be a step apart: not one in 64.
    template <class Near>
    bool same(const std::string& what, Near&& near) const {
        std::size_t apart = 0;
        for (std::size_t i = 0; i < n_; ++i) {
            if (std::memcmp(device() + i, host() + i, sizeof(T)) == 0) continue;
            const distance how = near(device()[i], host()[i]);
            if (how == distance::none || (how == distance::a_rounding && ++apart <= 1 + n_ / 64)) continue;
            std::uint64_t found = 0, expected = 0;
            std::memcpy(&found, device() + i, sizeof(T)), std::memcpy(&expected, host() + i, sizeof(T));
            char bits[80];
            std::snprintf(bits, sizeof bits, "0x%llx, expected 0x%llx",
                          static_cast<unsigned long long>(found), static_cast<unsigned long long>(expected));
            fail(std::string(echo_ptx_kernel()) + ": " + what + ": " + name_ + "[" + std::to_string(i) +
                 "] is " + bits + "; " + echo_ptx_writer(device() + i));
            return false;
        }
        return true;
    }
    bool same(const std::string& what) const {
        return same(what, [](const T&, const T&) { return distance::different; });
    }

private:
    struct free_memory {
        void operator()(std::byte* at) const { std::free(at); }
    };
    std::unique_ptr<std::byte, free_memory> host_, device_;
    std::size_t n_, at_ = 0;
    std::string name_;
};

/// The distance between `x` and the next number of 16 bits; 0 for single precision.
template <class T>
float step_of([[maybe_unused]] float x) {
    if constexpr (sizeof(T) == 4) {
        return 0;
    } else {
        const bool half_precision = static_cast<float>(T(65504.0f)) == 65504.0f; // bfloat16 rounds it
        const int digits = half_precision ? 10 : 7, least = half_precision ? -24 : -133;
        return std::ldexp(1.0f, std::max(x == 0 ? least : std::ilogb(x) - digits, least));
    }
}

/// Whether the bits are the NaN that the device's arithmetic makes of any other, 0x7fffffff, as the type has it. The
/// host keeps sign and payload of an operand's instead.
template <class T>
bool is_made_by_arithmetic(const T& x) {
    std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t> bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits == (sizeof(T) == 4 ? 0x7fffffffu : 0x7fffu);
}

/// Two numbers are the same, byte for byte; where both are NaN, the device's may be the one that its arithmetic makes.
template <class T>
distance exactly(const T& found, const T& expected) {
    if (std::memcmp(&found, &expected, sizeof(T)) == 0) return distance::none;
    const bool none = std::isnan(static_cast<float>(expected)) && is_made_by_arithmetic(found);
    return none ? distance::none : distance::different;
}

/// Two numbers are as near as approximations allow, `most` of the larger of 1 and the expected one; of a type of 16
/// bits, to which both are rounded, they may be a step apart beyond that. NaN is near NaN, and 0 near −0: how the
/// functions treat them is theirs. `most` of 0: exactly.
template <class T>
auto within(float most) {
    return [most](const T& found, const T& expected) {
        if (most == 0) return exactly(found, expected);
        const auto a = static_cast<float>(found), b = static_cast<float>(expected);
        if ((std::isnan(a) && std::isnan(b)) || a == b) return distance::none;
        if (!std::isfinite(a) || !std::isfinite(b)) return distance::different;
        const float off = std::fabs(a - b), allowed = most * std::max(1.0f, std::fabs(b));
        if (off <= allowed) return distance::none;
        const float step = step_of<T>(std::max(std::fabs(a), std::fabs(b)));
        return off <= allowed + step ? distance::a_rounding : distance::different;
    };
}

/// One case: `run` launches, `equal` compares. `elements`: of the result.
template <class Run, class Equal>
void check(const std::string& what, std::uint64_t elements, Run&& run, Equal&& equal) {
    ++checked;
    bool same = false;
    const auto before = echo_ptx_warp_instructions();
    try {
        run();
        same = equal();
    } catch (const std::exception& e) {
        const std::string fault = echo_ptx_fault();
        fail(what + ": " + (fault.empty() ? e.what() : fault));
    }
    if (echo_ptx_warp_instructions() != before) echo_ptx_elements(elements, same);
}

template <class All>
int main(const char* name, All&& all) {
    try {
        all();
    } catch (const std::exception& e) {
        fail(std::string("stopped: ") + e.what());
    }
    std::printf("%s: %ld cases, %d differ\n", name, checked, failed);
    return failed ? 1 : 0;
}

} // namespace cases
