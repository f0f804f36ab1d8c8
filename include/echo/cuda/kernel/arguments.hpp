// SPDX-License-Identifier: BSL-1.0
/// @file
/// What every launcher checks before it launches: counts, pointers, alignment, overlap. Host code, no CUDA
/// header.
#pragma once

#include <echo/error.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace echo::cuda {

/// An argument that cannot be used. `what()` is one line: `ARGUMENT: PROBLEM; ADVICE`.
class argument_error : public echo::error {
public:
    /// Each part of the message by itself.
    argument_error(std::string_view argument, std::string_view problem, std::string_view advice = {})
        : echo::error({}, argument, problem, advice) {}
};

/// Elements of one call at most: 2^40. All index arithmetic is 64 bits wide and proved up to here.
inline constexpr std::int64_t most_elements = std::int64_t{1} << 40;

/// An array that a kernel reads or writes, as the checks see it.
struct argument {
    std::string_view name; ///< What the caller's documentation calls it.
    const void* at;        ///< Where it lies.
    std::uint64_t bytes;   ///< How much is read or written.
    std::size_t align;     ///< What its address must be a multiple of, in bytes.
    bool written = false;  ///< Whether the kernel writes it.

    /// Its first address, as a number.
    std::uintptr_t first() const noexcept { return reinterpret_cast<std::uintptr_t>(at); }
};

namespace detail {

inline std::string named(std::string_view operation, std::string_view name) {
    return std::string(operation) + ", " + std::string(name);
}

inline bool overlap(const argument& a, const argument& b) noexcept {
    return a.bytes != 0 && b.bytes != 0 && a.first() < b.first() + b.bytes && b.first() < a.first() + a.bytes;
}

} // namespace detail

/// Throws `argument_error` for n < 0 and for n > `most_elements`.
inline void check_count(std::string_view operation, std::int64_t n) {
    if (n < 0)
        throw argument_error(detail::named(operation, "n"), "is negative: " + std::to_string(n),
                             "give the number of elements");
    if (n > most_elements)
        throw argument_error(detail::named(operation, "n"), "is more than 2^40: " + std::to_string(n),
                             "call once for each part");
}

/// Throws `argument_error` for a null array that is not empty, for one that is no multiple of its element's
/// alignment, and for one that is written and overlaps another. The pair (`in_place`[0], `in_place`[1]) may
/// be one and the same array. Looks at every pair: a launcher has few.
inline void check_arrays(std::string_view operation, std::initializer_list<argument> arrays,
                         std::string_view input = {}, std::string_view output = {}) {
    for (const argument& a : arrays) {
        if (a.bytes != 0 && !a.at)
            throw argument_error(detail::named(operation, a.name), "is null",
                                 "give " + std::to_string(a.bytes) + " bytes of device memory");
        if (a.first() % a.align != 0)
            throw argument_error(detail::named(operation, a.name),
                                 "is not aligned to its " + std::to_string(a.align) + "-byte elements",
                                 "give a pointer to whole elements");
    }
    for (const argument* a = arrays.begin(); a != arrays.end(); ++a)
        for (const argument* b = a + 1; b != arrays.end(); ++b) {
            if (!(a->written || b->written) || !detail::overlap(*a, *b)) continue;
            const bool pair =
                (a->name == input && b->name == output) || (a->name == output && b->name == input);
            if (pair && a->at == b->at && a->bytes == b->bytes) continue;
            throw argument_error(detail::named(operation, a->name), "overlaps " + std::string(b->name),
                                 pair ? "give separate arrays, or the very same one for both"
                                      : "give separate arrays");
        }
}

/// Throws `argument_error` unless 0 ≤ p < 1; NaN is refused too.
inline void check_probability(std::string_view operation, double p) {
    if (!(p >= 0 && p < 1))
        throw argument_error(detail::named(operation, "p"), "is not in [0, 1): " + std::to_string(p),
                             "give the share of elements to drop");
}

} // namespace echo::cuda
