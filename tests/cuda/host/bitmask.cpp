// SPDX-License-Identifier: BSL-1.0
/// @file
/// The bodies of the one-bit kernels on the host launcher: every size, alignment and grid gives the bits of a
/// plain loop, touches nothing else and may run in place; and what their arguments are refused for.
#include "support/cuda_arrays.hpp"

#include <echo/cuda/kernel/bitmask.hpp>
#include <echo/cuda/kernel/launch.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

using namespace echo::cuda;
using support::any_numbers;
using support::guarded;
using support::sparse;

// Sizes of masks are what plans count with.
static_assert(bytes_required(0) == 0 && bytes_required(1) == 4 && bytes_required(32) == 4 &&
              bytes_required(33) == 8);
static_assert(bytes_required(std::int64_t{1} << 40) == std::int64_t{1} << 37);
static_assert(bytes_required(1000003) == static_cast<std::int64_t>(echo::encoded_bytes(1000003)));

// Votes over vectors, put in order.
static_assert(detail::spread<4>(0xff) == 0x11111111 && detail::spread<4>(0x181) == 0x10000001);
static_assert(detail::spread<8>(0xf) == 0x01010101 && detail::spread<8>(0x1a) == 0x01000100);
static_assert([] {
    for (int q = 0; q < 4; ++q) {
        const std::uint32_t four[] = {0x01020408, 0x80402010, 0xffff0000, 0x0000ffff};
        const std::uint32_t word = detail::word_of_votes<4>(four, q);
        for (int lane = 0; lane < 8; ++lane)
            for (int c = 0; c < 4; ++c)
                if ((word >> (4 * lane + c) & 1) != (four[c] >> (8 * q + lane) & 1)) return false;
    }
    return true;
}());
static_assert(detail::straddle(0x80000001, 0x00000003, 31) == 0x7 && detail::straddle(5, 6, 0) == 5);
static_assert(detail::lowest_bits(-5) == 0 && detail::lowest_bits(0) == 0 &&
              detail::lowest_bits(31) == 0x7fffffff && detail::lowest_bits(32) == ~0u &&
              detail::lowest_bits(1024) == ~0u);

// A lane's place in its tile: each of 1,024 positions once.
static_assert(tiles_of(0) == 0 && tiles_of(1) == 1 && tiles_of(1024) == 1 && tiles_of(1025) == 2);
static_assert(tiles_of(std::int64_t{1} << 40) == std::int64_t{1} << 30);

// Grids: no more blocks than are resident, each warp gets equally many tiles, and all tiles are taken.
static_assert(grid_for(1, 1056) == 1 && grid_for(4, 1056) == 1 && grid_for(5, 1056) == 2);
static_assert(grid_for(4 * 1056, 1056) == 1056 && grid_for(4 * 1057, 1056) == 529);
static_assert(grid_for(16384, 1056) == 1024 && grid_for(std::int64_t{1} << 30, 1056) == 1056);
static_assert(grid_for(std::int64_t{1} << 30, 1) == 1);

namespace {

constexpr host_grid grids[] = {
    {1, 1, false, false}, {1, 4, true, false}, {3, 2, false, true}, {7, 1, true, true}};

template <class T>
struct expected {
    explicit expected(const std::vector<T>& x) : mask((x.size() + 31) / 32), relu(x), decoded(x) {
        for (std::size_t i = 0; i < x.size(); ++i) {
            const bool positive = static_cast<float>(x[i]) > 0;
            if (positive) mask[i / 32] |= 1u << (i % 32);
            if (static_cast<float>(x[i]) < 0) relu[i] = T(0.0f);
            decoded[i] = T(positive ? 1.0f : 0.0f);
        }
    }
    std::vector<std::uint32_t> mask;
    std::vector<T> relu, decoded;
};

struct place {
    std::size_t in = 0, out = 0; ///< elements behind a 16-byte boundary
    std::size_t guards = 0;      ///< bytes behind each array; for 0 a sanitizer is the guard
    std::size_t mask = 0;        ///< words behind a 16-byte boundary
};

/// All four kernels at one size and place.
template <class T>
bool every_kernel_is_right(std::int64_t n, const place& at, const host_grid& grid) {
    const auto x = any_numbers<T>(n, static_cast<std::uint64_t>(n) + 3), dy = any_numbers<T>(n, 77);
    const expected<T> want(x);
    auto want_dx = dy;
    for (std::size_t i = 0; i < x.size(); ++i)
        if (!mask_bit(want.mask.data(), static_cast<std::int64_t>(i))) want_dx[i] = T(0.0f);

    guarded<T> in(n, at.in, at.guards), out(n, at.out, at.guards);
    guarded<std::uint32_t> mask(bytes_required(n) / 4, at.mask, at.guards);
    const auto fresh_mask = [&] { mask = std::vector<std::uint32_t>(mask.size(), 0xdeadbeef); };
    bool right = true;

    in = x;
    fresh_mask();
    host_launch(kernel::encode(in.data(), mask.data(), n), grid);
    right = right && mask == want.mask && in == x;
    host_launch(kernel::decode(mask.data(), out.data(), n), grid);
    right = right && out == want.decoded && mask == want.mask;

    fresh_mask();
    host_launch(kernel::relu_forward(in.data(), out.data(), mask.data(), n), grid);
    right = right && mask == want.mask && out == want.relu && in == x;
    fresh_mask();
    host_launch(kernel::relu_forward(in.data(), in.data(), mask.data(), n), grid);
    right = right && mask == want.mask && in == want.relu;

    in = dy;
    host_launch(kernel::relu_backward(in.data(), mask.data(), out.data(), n), grid);
    right = right && out == want_dx && in == dy && mask == want.mask;
    host_launch(kernel::relu_backward(in.data(), mask.data(), in.data(), n), grid);
    right = right && in == want_dx;

    return right && in.guards_intact() && out.guards_intact() && mask.guards_intact();
}

template <class T>
std::string name(std::int64_t n, const place& at) {
    return "n = " + std::to_string(n) + ", " + std::to_string(sizeof(T)) + " bytes, in + " +
           std::to_string(at.in) + ", out + " + std::to_string(at.out);
}

} // namespace

TEMPLATE_TEST_CASE("sizes from 0 on, tails and tail bits included", "", float, half, bfloat16) {
    constexpr std::size_t period = 16 / sizeof(TestType);
    for (std::int64_t n = 0; n <= 600; ++n) {
        const auto& grid = grids[n % 4];
        for (const place& at :
             {place{0, 0, 0, 0}, place{1, 1, 0, 1}, place{period - 1, 2, 0, 3}, place{0, 0, 64, 2}})
            if (!every_kernel_is_right<TestType>(n, at, grid)) FAIL(name<TestType>(n, at));
    }
    SUCCEED();
}

TEMPLATE_TEST_CASE("every alignment of input and output around whole tiles", "", float, half, bfloat16) {
    constexpr std::size_t period = 16 / sizeof(TestType);
    std::size_t turn = 0;
    for (const std::int64_t n : {1023, 1024, 1025, 2048 + 31, 3 * 1024 - 1, 4 * 1024 + 7})
        for (std::size_t in = 0; in < period; ++in)
            for (std::size_t out = 0; out < period; ++out) {
                const place at{in, out, turn % 2 * 64, turn % 4};
                if (!every_kernel_is_right<TestType>(n, at, grids[turn++ % 4])) FAIL(name<TestType>(n, at));
            }
    SUCCEED();
}

TEST_CASE("the grid changes nothing") {
    const std::int64_t n = 21 * 1024 + 333;
    for (std::int64_t blocks = 1; blocks < 30; ++blocks)
        for (const bool backwards : {false, true})
            for (const std::size_t skip : {0u, 3u}) {
                const host_grid grid{blocks, 1 + blocks % 3, backwards, !backwards};
                if (!every_kernel_is_right<half>(n, {skip, skip}, grid)) FAIL(blocks);
            }
    SUCCEED();
}

TEST_CASE("every half and bfloat16 through the kernels") {
    const auto check = [](auto any) {
        using T = decltype(any);
        std::vector<T> x;
        for (std::uint32_t i = 0; i < 0x10000; ++i) x.push_back(T::from_bits(static_cast<std::uint16_t>(i)));
        const expected<T> want(x);
        std::vector<T> y(x.size());
        std::vector<std::uint32_t> mask(x.size() / 32);
        host_launch(kernel::relu_forward(x.data(), y.data(), mask.data(), 0x10000));
        CHECK(mask == want.mask);
        const auto same = [](T a, T b) { return bits_of(a) == bits_of(b); };
        CHECK(std::equal(y.begin(), y.end(), want.relu.begin(), same));
    };
    check(half{});
    check(bfloat16{});
}

TEST_CASE("vector accesses are taken where alignment allows, and only there") {
    alignas(16) static float data[64];
    const auto of = [](std::size_t a, std::size_t b) { return alignment_of<float>({data + a, data + b}); };
    CHECK(of(0, 4).wide);
    CHECK(of(0, 4).head == 0);
    CHECK(of(1, 5).wide);
    CHECK(of(1, 5).head == 3);
    CHECK_FALSE(of(1, 2).wide);
    CHECK(of(3, 3).head == 1);
    const auto* halves = reinterpret_cast<const half*>(data);
    CHECK(alignment_of<half>({halves + 1}).head == 7);
    CHECK_FALSE(alignment_of<half>({halves + 2, halves + 3}).wide);
    // The host's warp refuses what the device would fault on.
    host_warp w(0, 1);
    CHECK_THROWS_AS(w.load<detail::sixteen_bytes>(data + 1), std::logic_error);
    CHECK_NOTHROW(w.load<detail::sixteen_bytes>(data + 4));
}

namespace {

/// One warp of a grid: it takes tiles `index`, `index` + `count`, … and no others.
template <kernel_body Body>
void run_warp(const Body& body, std::int64_t index, std::int64_t count) {
    host_warp w(index, count);
    body(w);
}

/// Around element `at` of n: ReLU forward and backward on the tiles there; the bits and values of their own
/// elements only.
template <class T>
bool right_around(sparse<T>& x, sparse<std::uint32_t>& mask, std::int64_t n, std::int64_t skip,
                  std::int64_t at) {
    T* const data = x.data() + skip;
    const std::int64_t first = std::max<std::int64_t>(0, at - 1500), last = std::min(n, at + 1500);
    const auto value = [](std::int64_t i) { return T(static_cast<float>(i % 7) - 3.0f); };
    for (std::int64_t i = first; i < last; ++i) data[i] = value(i);
    const std::int64_t count = tiles_of(n); // as many warps as tiles, so that each takes one
    const auto forward = kernel::relu_forward(data, data, mask.data(), n);
    // Half as many: the stride is more than 2^31 elements, and a warp takes two tiles.
    const std::int64_t stride = count / 2 + count % 2;
    const auto backward = kernel::relu_backward(data, mask.data(), data, n);
    for (std::int64_t tile = first / 1024; tile <= (last - 1) / 1024; ++tile) {
        run_warp(forward, tile, count);
        run_warp(backward, tile % stride, stride);
    }
    for (std::int64_t i = first; i < last; ++i) {
        const bool positive = static_cast<float>(value(i)) > 0;
        if (mask_bit(mask.data(), i) != positive) return false;
        if (static_cast<float>(data[i]) != (positive ? static_cast<float>(value(i)) : 0.0f)) return false;
    }
    return true;
}

} // namespace

TEMPLATE_TEST_CASE("index arithmetic is right around 2^31, 2^32 and 2^40 elements", "", float, half) {
    for (const std::int64_t n : {most_elements, most_elements - 77, (std::int64_t{1} << 31) + 5}) {
        sparse<TestType> x(n + 8);
        sparse<std::uint32_t> mask(bytes_required(n) / 4);
        if (!x.data() || !mask.data()) {
            WARN("no address space for " << n << " elements: left out");
            continue;
        }
        for (const std::int64_t skip : {0, 3})
            for (const std::int64_t at : {std::int64_t{0}, std::int64_t{1} << 31, std::int64_t{1} << 32,
                                          std::int64_t{1} << 36, std::int64_t{1} << 39, n})
                if (at <= n) CHECK(right_around(x, mask, n, skip, at));
    }
}

namespace {

template <class F>
std::string refusal(F&& f) {
    try {
        f();
    } catch (const argument_error& e) {
        return e.what();
    }
    return "no error";
}

} // namespace

TEST_CASE("arguments that cannot be used are refused with their names") {
    alignas(16) float x[64], y[64];
    alignas(16) std::uint32_t mask[4];
    const auto odd = [](auto* at) {
        return reinterpret_cast<decltype(at)>(reinterpret_cast<std::uintptr_t>(at) + 1);
    };
    float* const no_data = nullptr;
    std::uint32_t* const no_mask = nullptr;
    using Catch::Equals;
    using Catch::StartsWith;

    CHECK_THAT(refusal([&] { kernel::encode(x, mask, -1); }),
               Equals("encode, n: is negative: -1; give the number of elements"));
    CHECK_THAT(refusal([&] { kernel::encode(x, mask, most_elements + 1); }),
               StartsWith("encode, n: is more than 2^40"));
    CHECK_THAT(refusal([&] { kernel::encode(no_data, mask, 1); }),
               Equals("encode, x: is null; give 4 bytes of device memory"));
    CHECK_THAT(refusal([&] { kernel::encode(x, no_mask, 33); }),
               Equals("encode, mask: is null; give 8 bytes of device memory"));
    CHECK_THAT(refusal([&] { kernel::encode(odd(x), mask, 8); }),
               Equals("encode, x: is not aligned to its 4-byte elements; give a pointer to whole elements"));
    CHECK_THAT(refusal([&] { kernel::decode(odd(mask), x, 8); }), StartsWith("decode, mask: is not aligned"));
    CHECK_THAT(refusal([&] { kernel::decode(mask, odd(reinterpret_cast<half*>(x)), 8); }),
               StartsWith("decode, y: is not aligned to its 2-byte elements"));
    CHECK_THAT(refusal([&] { kernel::relu_forward(x, x + 1, mask, 8); }),
               Equals("relu_forward, x: overlaps y; give separate arrays, or the very same one for both"));
    CHECK_THAT(refusal([&] { kernel::relu_forward(x + 7, x, mask, 8); }),
               StartsWith("relu_forward, x: overlaps y"));
    CHECK_THAT(refusal([&] { kernel::relu_forward(x, y, reinterpret_cast<std::uint32_t*>(y), 8); }),
               Equals("relu_forward, y: overlaps mask; give separate arrays"));
    CHECK_THAT(refusal([&] { kernel::encode(x, reinterpret_cast<std::uint32_t*>(x), 8); }),
               StartsWith("encode, x: overlaps mask"));
    CHECK_THAT(refusal([&] { kernel::relu_backward(x, mask, x + 1, 8); }),
               StartsWith("relu_backward, dy: overlaps dx"));
    CHECK_THAT(refusal([&] { kernel::relu_backward(x, reinterpret_cast<std::uint32_t*>(x), x, 8); }),
               StartsWith("relu_backward, mask: overlaps dx"));
    CHECK_THAT(refusal([&] { static_cast<void>(bytes_required(-1)); }),
               StartsWith("bytes_required, n: is negative"));
    CHECK_THROWS_AS(kernel::encode(x, mask, -1), echo::error);
}

TEST_CASE("what is close to a refusal passes") {
    alignas(16) float x[64];
    alignas(16) std::uint32_t mask[4];
    float* const no_data = nullptr;
    CHECK(kernel::relu_forward(no_data, no_data, static_cast<std::uint32_t*>(nullptr), 0).tiles() == 0);
    CHECK(kernel::relu_forward(x, x, mask, 0).tiles() == 0);
    CHECK(kernel::relu_forward(x, x + 8, mask, 8).tiles() == 1); // side by side
    CHECK(kernel::relu_forward(x + 8, x, mask, 8).tiles() == 1);
    CHECK(kernel::relu_forward(x, x, mask, 64).tiles() == 1); // in place
    CHECK(kernel::relu_backward(x, mask, x, 64).tiles() == 1);
    // Many a host stores CUDA's own types.
    CHECK(kernel::encode(reinterpret_cast<const __half*>(x), mask, 8).n == 8);
    CHECK(kernel::encode(reinterpret_cast<const __nv_bfloat16*>(x), mask, 8).n == 8);
}
