// SPDX-License-Identifier: BSL-1.0
/// @file
/// What a fused kernel runs over and what it reads and writes: extents, and operands with a stride for each axis.
#pragma once

#include <echo/cuda/kernel/arguments.hpp>
#include <echo/cuda/kernel/element.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <type_traits>

namespace echo::cuda::fused {

/// How an operand is stored. The numbers are those of the generated source (source.hpp).
///
/// `draws`: uniform numbers in [0, 1) that lie nowhere, for generated kernels. `data` is their 64-bit key, and element
/// i of the operand is word i % 4 of Philox's counter i / 4 (philox.hpp): its upper 24 bits, over 2^24. So the same key
/// and strides give a recomputed dropout its mask again, in whatever kernel.
enum class storage : std::uint8_t { f32 = 0, f16 = 1, bf16 = 2, i32 = 3, bit = 4, draws = 5 };

/// Bits of one element, as it is worked with.
constexpr std::uint64_t element_bits(storage s) noexcept {
    return s == storage::bit ? 1 : s == storage::f16 || s == storage::bf16 ? 16 : 32;
}
/// Bytes of the smallest thing that is loaded: the element, a mask's word, or a key.
constexpr std::uint64_t unit_bytes(storage s) noexcept {
    return s == storage::bit ? 4 : s == storage::draws ? 8 : element_bits(s) / 8;
}
/// Bytes of that many contiguous elements.
constexpr std::uint64_t bytes_of(storage s, std::uint64_t elements) noexcept {
    if (s == storage::draws) return elements == 0 ? 0 : 8;
    return s == storage::bit ? (elements + 31) / 32 * 4 : elements * unit_bytes(s);
}

/// Word of a packed mask: element i is bit i % 32 of word i / 32. A set bit reads as 1, a clear one as 0.
enum class mask_word : std::uint32_t {};

namespace detail {

template <class T>
constexpr storage find_storage() noexcept {
    if constexpr (std::is_same_v<T, mask_word>)
        return storage::bit;
    else if constexpr (std::is_same_v<T, std::int32_t>)
        return storage::i32;
    else if constexpr (std::is_same_v<element_of_t<T>, float>)
        return storage::f32;
    else
        return std::is_same_v<element_of_t<T>, half> ? storage::f16 : storage::bf16;
}

} // namespace detail

/// How elements of `T` (float, fp16, bf16, labels of 32 bits, or `mask_word`) are stored.
template <class T>
inline constexpr storage storage_of = detail::find_storage<std::remove_const_t<T>>();

/// Axes of one call at most, before neighbouring ones are merged.
inline constexpr std::size_t most_axes = 8;
/// … and afterwards.
inline constexpr std::size_t merged_axes = 4;

/// The extents that a kernel covers, outermost first. A kernel that reduces does so over the last `row_axes` of them:
/// `extents{batch, length}` over the last; `extents{channels, images, pixels}.with_rows_of(2)` over all but the first.
struct extents {
    std::array<std::int64_t, most_axes> of{}; ///< The extents, of which the first `rank` count.
    std::size_t rank = 0;                     ///< How many axes there are.
    std::size_t row_axes = 1;                 ///< How many of the last axes make up a row.

    constexpr extents() = default;
    /// These extents; a row is the last one. Errors: `argument_error` for more than 8.
    constexpr extents(std::initializer_list<std::int64_t> axes) {
        if (axes.size() > most_axes)
            throw argument_error("extents", std::to_string(axes.size()) + " axes are more than 8",
                                 "merge axes");
        for (const auto extent : axes) of[rank++] = extent;
    }
    /// The same extents, where a row is the last `axes` of them.
    constexpr extents with_rows_of(std::size_t axes) const {
        extents e = *this;
        e.row_axes = axes;
        return e;
    }
    /// Elements of all axes, or of those before `end`. Meant for checked extents.
    constexpr std::int64_t elements(std::size_t begin = 0, std::size_t end = most_axes) const noexcept {
        std::int64_t n = 1;
        for (std::size_t a = begin; a < rank && a < end; ++a) n *= of[a];
        return n;
    }
};

namespace detail {

/// `rank` is there to be set: it may say more than there is.
inline void check_rank(const extents& e) {
    if (e.rank > most_axes)
        throw argument_error("extents", std::to_string(e.rank) + " axes are more than 8", "merge axes");
}

} // namespace detail

using strides = std::array<std::int64_t, most_axes>; ///< Elements between neighbours along each axis.

/// An operand or a result: `data` and, for each axis of the kernel's extents, how many elements lie between neighbours;
/// 0 repeats it along that axis.
template <class T>
struct operand {
    using element = T; ///< What it is made of.
    T* data = nullptr; ///< Where it lies.
    strides step{};    ///< Elements between neighbours along each axis; 0 repeats.
};

/// Strides of a tensor of these extents without gaps, laid over `over` from the last axis on: an extent of 1, or an
/// axis that it lacks, is repeated. Errors: an extent that is negative or neither 1 nor that of `over`, strides beyond
/// 63 bits.
inline strides laid_over(const extents& own, const extents& over) {
    detail::check_rank(own);
    detail::check_rank(over);
    if (own.rank > over.rank)
        throw argument_error("operand", "has more axes than the kernel's extents",
                             "give the kernel all axes");
    strides s{};
    std::int64_t step = 1;
    for (std::size_t back = 1; back <= own.rank; ++back) {
        const auto extent = own.of[own.rank - back], whole = over.of[over.rank - back];
        if (extent != 1 && extent != whole)
            throw argument_error("operand",
                                 "an extent of " + std::to_string(extent) + " cannot be repeated to " +
                                     std::to_string(whole),
                                 "give it 1, or that of the kernel");
        if (extent < 0)
            throw argument_error("operand", "an extent is negative: " + std::to_string(extent),
                                 "give extents of 0 or more");
        s[over.rank - back] = extent == 1 ? 0 : step;
        if (back == own.rank) break;
        if (extent != 0 && step > std::numeric_limits<std::int64_t>::max() / extent)
            throw argument_error("operand", "its strides do not fit in 63 bits", "check the extents");
        step *= extent;
    }
    return s;
}

/// A tensor without gaps that covers the kernel's extents.
template <class T>
operand<T> whole(T* data, const extents& e) {
    return {data, laid_over(e, e)};
}
/// A tensor without gaps of extents `own`, repeated along the axes where it has 1 or none.
template <class T>
operand<T> spread(T* data, const extents& own, const extents& e) {
    return {data, laid_over(own, e)};
}
/// One element for each row, without gaps.
template <class T>
operand<T> per_row(T* data, const extents& e) {
    extents own = e;
    for (std::size_t a = e.rank - (e.row_axes < e.rank ? e.row_axes : e.rank); a < e.rank; ++a) own.of[a] = 1;
    return {data, laid_over(own, e)};
}
/// Any strides, one for each axis.
template <class T>
operand<T> strided(T* data, std::initializer_list<std::int64_t> steps) {
    operand<T> o{data, {}};
    if (steps.size() > most_axes) throw argument_error("operand", "has more than 8 strides", "merge axes");
    std::size_t axis = 0;
    for (const auto s : steps) o.step[axis++] = s;
    return o;
}

} // namespace echo::cuda::fused
