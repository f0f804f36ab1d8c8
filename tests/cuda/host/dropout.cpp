// SPDX-License-Identifier: BSL-1.0
/// @file
/// Dropout: the mask is the documented function of seed, offset and element, its rate is p, and the bodies
/// apply it at every size, alignment and on every grid; backward from one bit and by replay are the same.
#include "support/cuda_arrays.hpp"

#include <echo/cuda/kernel/dropout.hpp>
#include <echo/cuda/kernel/dropout_choice.hpp>
#include <echo/cuda/kernel/launch.hpp>
#include <echo/ops/dropout.hpp>
#include <echo/symbol/real.hpp>

#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

using namespace echo::cuda;
using support::any_numbers;
using support::guarded;

static_assert(threshold_of(0).top == 0 && threshold_of(0).rest == 0);
static_assert(threshold_of(0.5).top == 128 && threshold_of(0.5).rest == 0);
static_assert(threshold_of(1.0 / 256).top == 1 && threshold_of(1.0 / 256).rest == 0);
static_assert(threshold_of(1e-6).top == 0 && threshold_of(1e-6).rest == 1099511);
static_assert(threshold_of(1 - 0x1p-53).top == 255 && threshold_of(1 - 0x1p-53).rest == ~0u);
static_assert(threshold_of(0x1p-41).top == 0 && threshold_of(0x1p-41).rest == 0);
static_assert(dropout_scale(0) == 1 && dropout_scale(0.5) == 2);
// A word of the mask is a constant expression too; p = 0 keeps all.
static_assert(keep_word(3, {1, 2}, threshold_of(0)) == ~0u);
static_assert(keep_word(3, {1, 2}, threshold_of(0.3)) != keep_word(4, {1, 2}, threshold_of(0.3)));

namespace {

constexpr double rates[] = {0, 1e-6, 1.0 / 256, 0.1, 0.5, 0.75, 0.999, 1 - 0x1p-41};

/// As the head of dropout_mask.hpp tells it, and by no other code of the library than Philox.
bool kept_by_definition(std::uint64_t e, const dropout_seed& s, double p) {
    const auto words = [&](std::uint64_t index) {
        return philox({{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                        static_cast<std::uint32_t>(s.offset), static_cast<std::uint32_t>(s.offset >> 32)}},
                      s.seed);
    };
    const std::uint64_t i = e % 32;
    const std::uint64_t top = words(2 * (e / 32) + i / 4 % 2).at[i % 4] >> (8 * (i / 8)) & 255;
    const std::uint64_t rest = words((std::uint64_t{1} << 63) + e / 4).at[e % 4];
    return static_cast<double>(top << 32 | rest) >= std::floor(p * 0x1p40);
}

} // namespace

TEST_CASE("a mask is what its documentation says, word by word and element by element") {
    const dropout_seed seeds[] = {{0, 0}, {1, 0}, {0, 1}, {0x0123456789abcdef, 0xfedcba9876543210}};
    const std::uint64_t first_words[] = {0, (std::uint64_t{1} << 26) - 3, (std::uint64_t{1} << 27) - 3,
                                         (std::uint64_t{1} << 35) - 1000};
    std::size_t refined = 0, dropped = 0, all = 0;
    for (const auto& seed : seeds)
        for (const double p : rates) {
            const auto threshold = threshold_of(p);
            for (const std::uint64_t first : first_words)
                for (std::uint64_t word = first; word < first + 300; ++word) {
                    std::uint32_t expected = 0;
                    for (std::uint64_t i = 0; i < 32; ++i) {
                        const bool kept = kept_by_definition(32 * word + i, seed, p);
                        expected |= (kept ? 1u : 0u) << i;
                        if (keep_element(32 * word + i, seed, threshold) != kept) FAIL(word << " + " << i);
                    }
                    const auto found = keep_word(word, seed, threshold);
                    if (found != expected) FAIL("word " << word << " at p = " << p);
                    // What the top 8 bits alone would give.
                    refined += found != keep_word(word, seed, {threshold.top, 0});
                    dropped += static_cast<std::size_t>(std::popcount(~found));
                    all += 32;
                }
        }
    CHECK(refined > 1000); // else the lower bits are not tested
    CHECK(dropped > all / 4);
}

TEST_CASE("the share of dropped elements lies within 3 standard errors of p") {
    constexpr std::uint64_t words = 1 << 20; // 3.4e7 elements
    for (const double p : {1e-6, 1.0 / 256, 0.1, 0.5, 0.999}) {
        const auto threshold = threshold_of(p);
        std::uint64_t kept = 0;
        for (std::uint64_t word = 0; word < words; ++word)
            kept += static_cast<std::uint64_t>(std::popcount(keep_word(word, {2024, 7}, threshold)));
        const double n = 32.0 * words;
        const double dropped = n - static_cast<double>(kept), error = std::sqrt(n * p * (1 - p));
        INFO("p = " << p << ": " << dropped / n << ", " << (dropped - n * p) / error << " standard errors");
        CHECK(std::fabs(dropped - n * p) < 3 * error);
    }
}

TEST_CASE("elements, neighbours, seeds and offsets are independent") {
    constexpr std::uint64_t words = 1 << 16;
    constexpr double p = 0.3;
    const auto threshold = threshold_of(p);
    std::uint64_t dropped_at[32] = {}, both_neighbours = 0, both_seeds = 0, both_offsets = 0, both_words = 0;
    std::uint32_t before = 0;
    for (std::uint64_t word = 0; word < words; ++word) {
        const std::uint32_t drop = ~keep_word(word, {5, 5}, threshold);
        for (std::uint32_t i = 0; i < 32; ++i) dropped_at[i] += drop >> i & 1;
        const auto count = [&](std::uint32_t other) {
            return static_cast<std::uint64_t>(std::popcount(drop & other));
        };
        both_neighbours += count(drop >> 1);
        both_seeds += count(~keep_word(word, {6, 5}, threshold));
        both_offsets += count(~keep_word(word, {5, 6}, threshold));
        both_words += count(before);
        before = drop;
    }
    const auto close = [](std::uint64_t found, double n, double share) {
        return std::fabs(static_cast<double>(found) - n * share) < 4 * std::sqrt(n * share * (1 - share));
    };
    for (const auto found : dropped_at) CHECK(close(found, words, p));
    CHECK(close(both_neighbours, 31.0 * words, p * p));
    CHECK(close(both_seeds, 32.0 * words, p * p));
    CHECK(close(both_offsets, 32.0 * words, p * p));
    CHECK(close(both_words, 32.0 * (words - 1), p * p));
}

namespace {

constexpr host_grid grids[] = {
    {1, 1, false, false}, {1, 4, true, false}, {3, 2, false, true}, {7, 1, true, true}};

template <class T>
T nan_as_written() {
    return T(std::numeric_limits<float>::quiet_NaN());
}
template <>
float nan_as_written<float>() {
    return std::bit_cast<float>(0x7fffffffu);
}

struct place {
    std::size_t in = 0, out = 0, guards = 0, mask = 0;
};

/// All four kernels at one size and place.
template <class T>
bool every_kernel_is_right(std::int64_t n, double p, const place& at, const host_grid& grid) {
    const dropout_seed seed{static_cast<std::uint64_t>(n), 3};
    const auto threshold = threshold_of(p);
    const auto x = any_numbers<T>(n, static_cast<std::uint64_t>(n) + 11);
    std::vector<T> want(x.size());
    std::vector<std::uint32_t> want_mask((x.size() + 31) / 32);
    for (std::size_t i = 0; i < x.size(); ++i) {
        const bool kept = keep_element(i, seed, threshold);
        if (kept) want_mask[i / 32] |= 1u << (i % 32);
        const float product = static_cast<float>(x[i]) * static_cast<float>(1 / (1 - p));
        want[i] = !kept ? T(0.0f) : std::isnan(product) ? nan_as_written<T>() : T(product);
    }
    guarded<T> in(n, at.in, at.guards), out(n, at.out, at.guards);
    guarded<std::uint32_t> mask(bytes_required(n) / 4, at.mask, at.guards);
    const auto fresh = [&] {
        in = x;
        out = std::vector<T>(x.size(), T(-7.0f));
    };
    bool right = true;

    fresh();
    mask = std::vector<std::uint32_t>(mask.size(), 0xdeadbeef);
    host_launch(kernel::dropout_forward(in.data(), out.data(), mask.data(), n, p, seed), grid);
    right = right && out == want && mask == want_mask && in == x;
    fresh();
    host_launch(kernel::dropout_forward(in.data(), out.data(), n, p, seed), grid);
    right = right && out == want && in == x;
    fresh();
    host_launch(kernel::dropout_backward(in.data(), mask.data(), out.data(), n, p), grid);
    right = right && out == want && in == x && mask == want_mask;
    fresh();
    host_launch(kernel::dropout_backward(in.data(), out.data(), n, p, seed), grid);
    right = right && out == want && in == x;

    // In place, each of them.
    mask = std::vector<std::uint32_t>(mask.size(), 0xdeadbeef);
    host_launch(kernel::dropout_forward(in.data(), in.data(), mask.data(), n, p, seed), grid);
    right = right && in == want && mask == want_mask;
    fresh();
    host_launch(kernel::dropout_backward(in.data(), mask.data(), in.data(), n, p), grid);
    right = right && in == want;
    fresh();
    host_launch(kernel::dropout_backward(in.data(), in.data(), n, p, seed), grid);
    right = right && in == want;

    return right && in.guards_intact() && out.guards_intact() && mask.guards_intact();
}

} // namespace

TEMPLATE_TEST_CASE("forward, backward from one bit and by replay: sizes, alignments, grids, in place", "",
                   float, half, bfloat16) {
    constexpr std::size_t period = 16 / sizeof(TestType);
    std::size_t turn = 0;
    for (std::int64_t n = 0; n <= 600; n += n < 70 ? 1 : 7, ++turn)
        for (const place& at : {place{0, 0, 0, 0}, place{1, 1, 64, 1}, place{period - 1, 2, 0, 3}})
            if (!every_kernel_is_right<TestType>(n, rates[turn % 8], at, grids[turn % 4])) FAIL(n);
    for (const std::int64_t n : {1024, 1025, 2048 + 31, 3 * 1024 - 1})
        for (std::size_t in = 0; in < period; ++in)
            for (const std::size_t out : {in, (in + 1) % period}) {
                const place at{in, out, turn % 2 * 64, turn % 4};
                if (!every_kernel_is_right<TestType>(n, rates[turn % 8], at, grids[turn % 4])) FAIL(n);
                ++turn;
            }
    SUCCEED();
}

namespace {

/// The op's own lambda with the element kept or dropped.
template <class T>
void compare_with_the_op(T x) {
    using op = echo::dropout_op<std::ratio<1, 10>>;
    for (const bool kept : {false, true}) {
        const auto y =
            std::get<0>(decltype(op::forward){}(echo::real<T>(x), echo::real<T>(T(kept ? 0.5f : 0.0f))));
        const T found = dropped(x, kept, dropout_scale(0.1));
        const bool same = std::isnan(y.value()) ? std::isnan(static_cast<float>(found))
                                                : bits_of(found) == bits_of(static_cast<T>(y));
        if (!same) FAIL(bits_of(x) << ", kept: " << kept);
    }
}

} // namespace

TEST_CASE("an element becomes what dropout_op says: every half and bfloat16, floats of every kind") {
    for (std::uint32_t i = 0; i < 0x10000; ++i) {
        compare_with_the_op(half::from_bits(static_cast<std::uint16_t>(i)));
        compare_with_the_op(bfloat16::from_bits(static_cast<std::uint16_t>(i)));
        compare_with_the_op(std::bit_cast<float>(i << 16));
        compare_with_the_op(std::bit_cast<float>(i * 65539));
    }
}

TEST_CASE("a mask of 2^40 elements is right at its end") {
    const std::int64_t n = most_elements - 5, last = tiles_of(n) - 1;
    const dropout_seed seed{1, 2};
    support::sparse<half> x(n);
    support::sparse<std::uint32_t> mask(bytes_required(n) / 4);
    if (!x.data() || !mask.data()) {
        WARN("no address space for 2^40 elements: left out");
        return;
    }
    for (std::int64_t i = n - 1600; i < n; ++i) x.data()[i] = half(1.0f);
    const auto body = kernel::dropout_forward(x.data(), x.data(), mask.data(), n, 0.5, seed);
    for (const std::int64_t tile : {last - 1, last}) {
        host_warp w(tile, tiles_of(n));
        body(w);
    }
    for (std::int64_t i = n - 1600; i < n; ++i) {
        const bool kept = keep_element(static_cast<std::uint64_t>(i), seed, threshold_of(0.5));
        if (mask_bit(mask.data(), i) != kept || static_cast<float>(x.data()[i]) != (kept ? 2.0f : 0.0f))
            FAIL(i);
    }
    CHECK(mask.data()[n / 32] >> (n % 32) == 0); // bits behind the last
}

TEST_CASE("the mean stays") {
    const std::int64_t n = 1 << 18;
    std::vector<float> x(n, 1.0f), y(n);
    for (const double p : {0.1, 0.5, 0.9}) {
        host_launch(kernel::dropout_forward(x.data(), y.data(), n, p, {99, 1}));
        double sum = 0;
        for (const float v : y) sum += v;
        CHECK(std::fabs(sum / n - 1) < 4 * std::sqrt(p / (1 - p) / n));
    }
}

TEST_CASE("a p that is no probability is refused, and so is what bitmask.cuh refuses") {
    alignas(16) float x[64], y[64];
    alignas(16) std::uint32_t mask[4];
    for (const double p : {-0.1, -1e-300, 1.0, 1.5, 1e300, -1e300, std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
        CHECK_THROWS_AS(kernel::dropout_forward(x, y, mask, 8, p, {}), argument_error);
        CHECK_THROWS_AS(kernel::dropout_forward(x, y, 8, p, {}), argument_error);
        CHECK_THROWS_AS(kernel::dropout_backward(x, mask, y, 8, p), argument_error);
        CHECK_THROWS_AS(kernel::dropout_backward(x, y, 8, p, {}), argument_error);
    }
    for (const double p : {0.0, -0.0, 0.5, 1 - 0x1p-53})
        CHECK_NOTHROW(kernel::dropout_forward(x, y, mask, 8, p, {}));
    using Catch::Contains;
    CHECK_THROWS_WITH(kernel::dropout_forward(x, y, 8, 1.0, {}),
                      Contains("dropout_forward, p: is not in [0, 1)"));
    CHECK_THROWS_WITH(kernel::dropout_forward(x, x + 1, mask, 8, 0.1, {}),
                      Contains("dropout_forward, x: overlaps y"));
    CHECK_THROWS_WITH(kernel::dropout_backward(x, x + 1, 8, 0.1, {}),
                      Contains("dropout_backward, dy: overlaps dx"));
    CHECK_THROWS_WITH(kernel::dropout_backward(x, static_cast<const std::uint32_t*>(nullptr), y, 8, 0.1),
                      Contains("dropout_backward, mask: is null"));
    CHECK_THROWS_WITH(kernel::dropout_forward(x, y, mask, -5, 0.1, {}),
                      Contains("dropout_forward, n: is negative"));
    CHECK_THROWS_WITH(kernel::dropout_forward(x, y, -5, 0.1, {}),
                      Contains("dropout_forward, n: is negative"));
    CHECK(kernel::dropout_forward(static_cast<float*>(nullptr), static_cast<float*>(nullptr), 0, 0.1, {})
              .tiles() == 0);
}

// Where drawing hides behind memory, replay is the faster: it moves fewer bytes.
static_assert(choose_dropout_mask(1 << 20, 4, {.bytes = 1e12, .elements = 1e12}) == dropout_mask::replayed);
// Where it does not, the bit is, unless its bytes are worth the difference.
static_assert(choose_dropout_mask(1 << 20, 2, {.bytes = 4e12, .elements = 5e11}) == dropout_mask::one_bit);
static_assert(choose_dropout_mask(1 << 20, 2, {.bytes = 4e12, .elements = 5e11}, 1e-9) ==
              dropout_mask::replayed);
static_assert(choose_dropout_mask(0, 2, {.bytes = 1, .elements = 1}) == dropout_mask::replayed);
// 8 elements, 16 bytes each way, one word of mask.
static_assert(dropout_seconds(dropout_mask::replayed, 8, 2, {.bytes = 1, .elements = 1}) == 64);
static_assert(dropout_seconds(dropout_mask::one_bit, 8, 2, {.bytes = 1, .elements = 1}) == 72);
static_assert(dropout_seconds(dropout_mask::replayed, 8, 2, {.bytes = 1, .elements = 0.1}) == 160);
static_assert(dropout_seconds(dropout_mask::one_bit, 8, 2, {.bytes = 1, .elements = 0.1}) == 116);

TEST_CASE("the choice between bits and replay refuses what is no device and no price") {
    const dropout_rates good{.bytes = 1, .elements = 1};
    CHECK_THROWS_AS(choose_dropout_mask(-1, 2, good), argument_error);
    CHECK_THROWS_AS(choose_dropout_mask(1, 0, good), argument_error);
    CHECK_THROWS_AS(choose_dropout_mask(1, 2, {.bytes = 0, .elements = 1}), argument_error);
    CHECK_THROWS_AS(choose_dropout_mask(1, 2, {.bytes = 1, .elements = NAN}), argument_error);
    CHECK_THROWS_AS(choose_dropout_mask(1, 2, good, -1), argument_error);
    CHECK_THROWS_AS(choose_dropout_mask(1, 2, good, NAN), argument_error);
}
