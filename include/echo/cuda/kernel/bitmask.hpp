// SPDX-License-Identifier: BSL-1.0
/// @file
/// Bodies of the one-bit kernels: encode, decode, ReLU with its mask, ReLU's gradient from the mask. Made by
/// functions that check their arguments, so that the checks and the bodies are proved where there is no GPU.
#pragma once

#include <echo/config.hpp>
#include <echo/cuda/kernel/arguments.hpp>
#include <echo/cuda/kernel/bits.hpp>
#include <echo/cuda/kernel/element.hpp>
#include <echo/cuda/kernel/tile.hpp>

#include <cstdint>
#include <string_view>

namespace echo::cuda::kernel {

/// x → mask of x > 0; with `WithRelu` also y = max(x, 0), where y may be x.
template <element T, bool WithRelu>
struct positive_body {
    const T* x;
    T* y;
    std::uint32_t* mask;
    std::int64_t n;
    tile_alignment at;

    ECHO_HOST_DEVICE constexpr std::int64_t tiles() const noexcept { return tiles_of(n); }

    template <class Warp>
    ECHO_HOST_DEVICE void operator()(Warp& w) const {
        for_each_tile<T>(w, n, at, [&](auto access, std::int64_t first) {
            using access_type = decltype(access);
            typename Warp::template value<typename access_type::votes_type> votes;
            w.lanes([&](int lane) { votes[lane] = {}; });
            access.parts([&](auto part) {
                typename Warp::template value<typename access_type::part_type> v;
                access.load(w, part, x + first, v);
                access.vote(w, part, votes, [&](int lane, int k) { return is_positive(v[lane].get(k)); });
                if constexpr (WithRelu)
                    access.store(w, part, y + first, [&](int lane, int k) { return relu(v[lane].get(k)); });
            });
            store_words(w, mask + first / 32, access.count(), access.words(w, votes));
        });
    }
};
/// Writes the mask alone.
template <element T>
using encode_body = positive_body<T, false>;
/// Writes the mask and y.
template <element T>
using relu_forward_body = positive_body<T, true>;

/// mask → y = 1 where the bit is set, else 0.
template <element T>
struct decode_body {
    const std::uint32_t* mask;
    T* y;
    std::int64_t n;
    tile_alignment at;

    ECHO_HOST_DEVICE constexpr std::int64_t tiles() const noexcept { return tiles_of(n); }

    template <class Warp>
    ECHO_HOST_DEVICE void operator()(Warp& w) const {
        for_each_tile<T>(w, n, at, [&](auto access, std::int64_t first) {
            const auto bits = access.unpack(w, load_words(w, mask + first / 32, access.count()));
            access.parts([&](auto part) {
                access.template store<true>(w, part, y + first, [&](int lane, int k) {
                    return (bits[lane] >> access.bit_of(part, k) & 1u) != 0 ? one<T>() : zero<T>();
                });
            });
        });
    }
};

/// dy, mask → dx = dy where the bit is set, else 0; dx may be dy. A select, not a product: NaN and infinity
/// of masked elements do not come through.
template <element T>
struct relu_backward_body {
    const T* dy;
    const std::uint32_t* mask;
    T* dx;
    std::int64_t n;
    tile_alignment at;

    ECHO_HOST_DEVICE constexpr std::int64_t tiles() const noexcept { return tiles_of(n); }

    template <class Warp>
    ECHO_HOST_DEVICE void operator()(Warp& w) const {
        for_each_tile<T>(w, n, at, [&](auto access, std::int64_t first) {
            const auto bits = access.unpack(w, load_words(w, mask + first / 32, access.count()));
            map_kept<false>(w, access, dy + first, dx + first, bits,
                            [](T v, bool kept) { return kept ? v : zero<T>(); });
        });
    }
};

namespace detail {

template <class T>
argument data(std::string_view name, const T* at, std::int64_t n, bool written = false) {
    return {name, at, static_cast<std::uint64_t>(n) * sizeof(element_of_t<T>), sizeof(element_of_t<T>),
            written};
}
inline argument bits(const std::uint32_t* mask, std::int64_t n, bool written = false) {
    return {"mask", mask, static_cast<std::uint64_t>(bytes_required(n)), sizeof(std::uint32_t), written};
}

template <class T>
element_of_t<T>* elements(T* at) noexcept {
    return reinterpret_cast<element_of_t<T>*>(at);
}

} // namespace detail

/// The arguments of the functions of bitmask.cuh, checked; they are documented there.
template <class T>
encode_body<element_of_t<T>> encode(const T* x, std::uint32_t* mask, std::int64_t n) {
    check_count("encode", n);
    check_arrays("encode", {detail::data("x", x, n), detail::bits(mask, n, true)});
    return {detail::elements(x), nullptr, mask, n, alignment_of({detail::elements(x)})};
}

/// The arguments of `decode` in bitmask.cuh, checked. Errors: `argument_error`.
template <class T>
decode_body<element_of_t<T>> decode(const std::uint32_t* mask, T* y, std::int64_t n) {
    check_count("decode", n);
    check_arrays("decode", {detail::bits(mask, n), detail::data("y", y, n, true)});
    return {mask, detail::elements(y), n, alignment_of<element_of_t<T>>({detail::elements(y)})};
}

/// The arguments of `relu_forward` in bitmask.cuh, checked. Errors: `argument_error`.
template <class T>
relu_forward_body<element_of_t<T>> relu_forward(const T* x, T* y, std::uint32_t* mask, std::int64_t n) {
    check_count("relu_forward", n);
    check_arrays("relu_forward",
                 {detail::data("x", x, n), detail::data("y", y, n, true), detail::bits(mask, n, true)}, "x",
                 "y");
    return {detail::elements(x), detail::elements(y), mask, n,
            alignment_of<element_of_t<T>>({detail::elements(x), detail::elements(y)})};
}

/// The arguments of `relu_backward` in bitmask.cuh, checked. Errors: `argument_error`.
template <class T>
relu_backward_body<element_of_t<T>> relu_backward(const T* dy, const std::uint32_t* mask, T* dx,
                                                  std::int64_t n) {
    check_count("relu_backward", n);
    check_arrays("relu_backward",
                 {detail::data("dy", dy, n), detail::bits(mask, n), detail::data("dx", dx, n, true)}, "dy",
                 "dx");
    return {detail::elements(dy), mask, detail::elements(dx), n,
            alignment_of<element_of_t<T>>({detail::elements(dy), detail::elements(dx)})};
}

} // namespace echo::cuda::kernel
