// SPDX-License-Identifier: BSL-1.0
// The kernels of bitmask.cuh and dropout.cuh as nvcc makes them, interpreted, give what their bodies give on the
// host, byte for byte: every element type, numbers of all kinds, heads, tails, alignments, in place. Each array is
// an allocation by itself.
#include "cases.hpp"

#include <echo/cuda/bitmask.cuh>
#include <echo/cuda/dropout.cuh>
#include <echo/cuda/kernel/launch.hpp>
#include <echo/cuda/stream.hpp>

namespace {

using namespace echo::cuda;
using cases::array;

constexpr host_grid some_grid{.blocks = 3, .warps_per_block = 2};
constexpr dropout_seed seed{0x9e3779b97f4a7c15, 0xd1b54a32d192ed03};

template <class T>
T of_bits(std::uint64_t bits) {
    T out;
    std::memcpy(&out, &bits, sizeof(T));
    return out;
}

/// Random bits, and among them zeros of both signs, infinities, NaNs with payloads, the largest and smallest numbers.
template <class T>
T number(dice& roll) {
    constexpr std::uint32_t single[] = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000,
                                        0xffc12345, 0x7f800001, 0x00000001, 0x80000001, 0x007fffff,
                                        0x00800000, 0x7f7fffff, 0xff7fffff, 0x3f800000};
    constexpr std::uint32_t half_precision[] = {0,      0x8000, 0x7c00, 0xfc00, 0x7e00, 0xfe12, 0x7c01,
                                                0x0001, 0x8001, 0x03ff, 0x0400, 0x7bff, 0xfbff, 0x3c00};
    const auto bits = roll();
    if (bits % 5 != 0) return of_bits<T>(bits >> 20);
    constexpr std::uint32_t brain[] = {0,      0x8000, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7f81,
                                       0x0001, 0x8001, 0x007f, 0x0080, 0x7f7f, 0xff7f, 0xff81};
    const auto which = bits / 5 % 14;
    return of_bits<T>(sizeof(T) == 4            ? single[which]
                      : std::is_same_v<T, half> ? half_precision[which]
                                                : brain[which]);
}

struct where {
    std::size_t x = 0, y = 0, mask = 0;
};

template <class T>
void every_kernel(std::int64_t n, where at, const stream& own, const std::string& type) {
    array<T> x("x", n, at.x), y("y", n, at.y), z("z", n, at.x);
    array<std::uint32_t> mask("mask", bytes_required(n) / 4, at.mask);
    dice roll(static_cast<std::uint64_t>(n) * 64 + at.x);
    const std::string what = type + ", n = " + std::to_string(n) + ", at " + std::to_string(at.x) + ", " +
                             std::to_string(at.y) + ", " + std::to_string(at.mask);
    const auto fresh = [&] {
        x.fill([&](std::int64_t) { return number<T>(roll); });
        y.forget();
        z.fill([&](std::int64_t i) { return x.host()[i]; });
    };
    const auto bits = [&] {
        mask.fill([&](std::int64_t i) {
            const auto word = static_cast<std::uint32_t>(roll() >> 13);
            return word & detail::lowest_bits(static_cast<int>(std::min<std::int64_t>(n - 32 * i, 32)));
        });
    };
    const auto count = static_cast<std::uint64_t>(n);
    const auto both = [&](const char* name, auto&& make, auto&& launch, auto&&... results) {
        host_launch(make(), some_grid);
        cases::check(what + ", " + name, count, launch,
                     [&] { return (results.same(what + ", " + name) & ...); });
    };
    fresh(), mask.forget();
    both(
        "encode", [&] { return kernel::encode(x.host(), mask.host(), n); },
        [&] { encode(x.device(), mask.device(), n, own); }, mask);
    y.forget();
    both(
        "decode", [&] { return kernel::decode(mask.host(), y.host(), n); },
        [&] { decode(mask.device(), y.device(), n, own); }, y);
    y.forget(), mask.forget();
    both(
        "relu_forward", [&] { return kernel::relu_forward(x.host(), y.host(), mask.host(), n); },
        [&] { relu_forward(x.device(), y.device(), mask.device(), n, own); }, y, mask, x);
    bits(), y.forget();
    both(
        "relu_backward", [&] { return kernel::relu_backward(x.host(), mask.host(), y.host(), n); },
        [&] { relu_backward(x.device(), mask.device(), y.device(), n, own); }, y, mask);
    // With 1 / 3 what is kept becomes half as much again: every second number lies between two of 16 bits.
    for (const double p : {0.0, 1e-6, 0.1, 1.0 / 3, 0.5, 0.999}) {
        y.forget(), mask.forget();
        both(
            "dropout_forward with a mask",
            [&] { return kernel::dropout_forward(x.host(), y.host(), mask.host(), n, p, seed); },
            [&] { dropout_forward(x.device(), y.device(), mask.device(), n, p, seed, own); }, y, mask);
        bits(), y.forget();
        both(
            "dropout_backward from a mask",
            [&] { return kernel::dropout_backward(x.host(), mask.host(), y.host(), n, p); },
            [&] { dropout_backward(x.device(), mask.device(), y.device(), n, p, own); }, y);
        y.forget();
        both(
            "dropout_forward", [&] { return kernel::dropout_forward(x.host(), y.host(), n, p, seed); },
            [&] { dropout_forward(x.device(), y.device(), n, p, seed, own); }, y);
    }
    mask.forget();
    both(
        "relu_forward in place", [&] { return kernel::relu_forward(z.host(), z.host(), mask.host(), n); },
        [&] { relu_forward(z.device(), z.device(), mask.device(), n, own); }, z, mask);
    fresh(), bits();
    both(
        "relu_backward in place", [&] { return kernel::relu_backward(z.host(), mask.host(), z.host(), n); },
        [&] { relu_backward(z.device(), mask.device(), z.device(), n, own); }, z);
    fresh();
    both(
        "dropout_backward by replay, in place",
        [&] { return kernel::dropout_backward(z.host(), z.host(), n, 0.3, seed); },
        [&] { dropout_backward(z.device(), z.device(), n, 0.3, seed, own); }, z);
}

template <class T>
void every_case(const stream& own, const std::string& type) {
    if (!cases::group(type)) return;
    for (const std::int64_t n : {0, 1, 31, 32, 33, 1023, 1024, 1025, 4099}) every_kernel<T>(n, {}, own, type);
    // A tail that ends within each of the 32 words of a tile.
    for (std::int64_t word = 0; word < 32; ++word)
        every_kernel<T>(32 * word + 1 + 7 * word % 31, {}, own, type);
    const std::size_t period = 16 / sizeof(T);
    for (std::size_t skip = 0; skip < period; skip += 1 + (skip > 1)) {
        every_kernel<T>(2051, {skip, skip, skip % 4}, own, type);
        every_kernel<T>(1100, {skip, (skip + 1) % period, 1}, own, type);
    }
    // More tiles than warps: each warp takes several.
    every_kernel<T>(60 * 1024 + 5, {3, 3, 0}, own, type);
}

/// All numbers of 16 bits.
template <class T>
void every_number(const stream& own, const std::string& type) {
    if (!cases::group(type)) return;
    constexpr std::int64_t n = 1 << 16;
    array<T> x("x", n), y("y", n);
    array<std::uint32_t> mask("mask", n / 32);
    x.fill([](std::int64_t i) { return T::from_bits(static_cast<std::uint16_t>(i)); });
    host_launch(kernel::relu_forward(x.host(), y.host(), mask.host(), n), some_grid);
    cases::check(
        type + ", every number, relu_forward", n,
        [&] { relu_forward(x.device(), y.device(), mask.device(), n, own); },
        [&] { return y.same(type) & mask.same(type); });
    y.forget(), mask.forget();
    host_launch(kernel::dropout_forward(x.host(), y.host(), mask.host(), n, 0.3, seed), some_grid);
    cases::check(
        type + ", every number, dropout_forward", n,
        [&] { dropout_forward(x.device(), y.device(), mask.device(), n, 0.3, seed, own); },
        [&] { return y.same(type) & mask.same(type); });
}

} // namespace

int main() {
    return cases::main("one_bit", [] {
        const stream own;
        every_case<float>(own, "float");
        every_case<half>(own, "half");
        every_case<bfloat16>(own, "bfloat16");
        every_number<half>(own, "half");
        every_number<bfloat16>(own, "bfloat16");
    });
}
