// SPDX-License-Identifier: BSL-1.0
/// @file
/// Bodies of dropout's kernels. Forward and backward do the same to different tensors, y = x / (1 - p) where
/// the element is kept, else 0; they differ in where the bits come from and go to.
#pragma once

#include <echo/config.hpp>
#include <echo/cuda/kernel/arguments.hpp>
#include <echo/cuda/kernel/bitmask.hpp>
#include <echo/cuda/kernel/dropout_mask.hpp>
#include <echo/cuda/kernel/element.hpp>
#include <echo/cuda/kernel/tile.hpp>

#include <bit>
#include <cstdint>
#include <string_view>

namespace echo::cuda {

/// A select, not a product: NaN and infinity of dropped elements do not come through. Computed in `float` and
/// rounded once. A kept NaN is written as the device writes the result of arithmetic on one, on the host too:
/// 0x7fffffff or 0x7fff.
template <element T>
ECHO_HOST_DEVICE constexpr T dropped(T x, bool kept, float scale) noexcept {
    const float product = static_cast<float>(x) * scale;
#if !defined(__CUDA_ARCH__)
    if (kept && product != product) return T(std::bit_cast<float>(0x7fffffffu));
#endif
    return kept ? T(product) : zero<T>();
}

namespace kernel {

/// Draws the bits. Forward with `WithMask` (keeps them), forward without, and backward by seed replay.
template <element T, bool WithMask>
struct dropout_draw_body {
    const T* x;
    T* y; ///< may be x
    std::uint32_t* mask;
    std::int64_t n;
    tile_alignment at;
    float scale;
    dropout_seed seed;        ///< What the draws depend on.
    drop_threshold threshold; ///< Below it an element is dropped.

    ECHO_HOST_DEVICE constexpr std::int64_t tiles() const noexcept { return tiles_of(n); }

    template <class Warp>
    ECHO_HOST_DEVICE void operator()(Warp& w) const {
        for_each_tile<T>(w, n, at, [&](auto access, std::int64_t first) {
            typename Warp::template value<std::uint32_t> words;
            const auto first_word = static_cast<std::uint64_t>(first / 32);
            w.lanes([&](int lane) {
                words[lane] = keep_word(first_word + static_cast<std::uint64_t>(lane), seed, threshold);
            });
            if constexpr (WithMask) store_words(w, mask + first / 32, access.count(), words);
            map_kept<true>(w, access, x + first, y + first, access.unpack(w, words),
                           [&](T v, bool kept) { return dropped(v, kept, scale); });
        });
    }
};

/// Reads the bits: backward from one bit.
template <element T>
struct dropout_apply_body {
    const T* dy;
    const std::uint32_t* mask;
    T* dx; ///< may be dy
    std::int64_t n;
    tile_alignment at;
    float scale;

    ECHO_HOST_DEVICE constexpr std::int64_t tiles() const noexcept { return tiles_of(n); }

    template <class Warp>
    ECHO_HOST_DEVICE void operator()(Warp& w) const {
        for_each_tile<T>(w, n, at, [&](auto access, std::int64_t first) {
            const auto bits = access.unpack(w, load_words(w, mask + first / 32, access.count()));
            map_kept<true>(w, access, dy + first, dx + first, bits,
                           [&](T v, bool kept) { return dropped(v, kept, scale); });
        });
    }
};

/// The arguments of the functions of dropout.cuh, checked; they are documented there. Without a mask it is
/// also the backward pass by seed replay, under the name `operation`.
template <class T>
dropout_draw_body<element_of_t<T>, true> dropout_forward(const T* x, T* y, std::uint32_t* mask,
                                                         std::int64_t n, double p, const dropout_seed& seed) {
    check_count("dropout_forward", n);
    check_probability("dropout_forward", p);
    check_arrays("dropout_forward",
                 {detail::data("x", x, n), detail::data("y", y, n, true), detail::bits(mask, n, true)}, "x",
                 "y");
    return {detail::elements(x),
            detail::elements(y),
            mask,
            n,
            alignment_of<element_of_t<T>>({detail::elements(x), detail::elements(y)}),
            dropout_scale(p),
            seed,
            threshold_of(p)};
}

/// Checks and body of what draws its bits anew. Errors: `argument_error`.
template <class T>
dropout_draw_body<element_of_t<T>, false>
dropout_draw(std::string_view operation, const T* in, std::string_view in_name, T* out,
             std::string_view out_name, std::int64_t n, double p, const dropout_seed& seed) {
    check_count(operation, n);
    check_probability(operation, p);
    check_arrays(operation, {detail::data(in_name, in, n), detail::data(out_name, out, n, true)}, in_name,
                 out_name);
    return {detail::elements(in),
            detail::elements(out),
            nullptr,
            n,
            alignment_of<element_of_t<T>>({detail::elements(in), detail::elements(out)}),
            dropout_scale(p),
            seed,
            threshold_of(p)};
}

/// Forward without a mask. Errors: `argument_error`.
template <class T>
dropout_draw_body<element_of_t<T>, false> dropout_forward(const T* x, T* y, std::int64_t n, double p,
                                                          const dropout_seed& seed) {
    return dropout_draw("dropout_forward", x, "x", y, "y", n, p, seed);
}

/// Backward by seed replay: the same bits as forward drew. Errors: `argument_error`.
template <class T>
dropout_draw_body<element_of_t<T>, false> dropout_backward(const T* dy, T* dx, std::int64_t n, double p,
                                                           const dropout_seed& seed) {
    return dropout_draw("dropout_backward", dy, "dy", dx, "dx", n, p, seed);
}

/// Backward from the mask. Errors: `argument_error`.
template <class T>
dropout_apply_body<element_of_t<T>> dropout_backward(const T* dy, const std::uint32_t* mask, T* dx,
                                                     std::int64_t n, double p) {
    check_count("dropout_backward", n);
    check_probability("dropout_backward", p);
    check_arrays("dropout_backward",
                 {detail::data("dy", dy, n), detail::bits(mask, n), detail::data("dx", dx, n, true)}, "dy",
                 "dx");
    return {detail::elements(dy),
            mask,
            detail::elements(dx),
            n,
            alignment_of<element_of_t<T>>({detail::elements(dy), detail::elements(dx)}),
            dropout_scale(p)};
}

} // namespace kernel

} // namespace echo::cuda
