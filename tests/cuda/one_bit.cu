// SPDX-License-Identifier: BSL-1.0
// The kernels of bitmask.cuh and dropout.cuh on the device give, byte for byte, what their bodies give on the
// host: every element type, all 2^16 halves, heads, tails, alignments, in place; nothing around the arrays
// changes.
#include "device_test.cuh"

#include <echo/cuda/bitmask.cuh>
#include <echo/cuda/dropout.cuh>
#include <echo/cuda/kernel/launch.hpp>

#include <cmath>

namespace {

using namespace echo::cuda;
using device_test::expect;
using device_test::image;

/// Two arrays of n elements and a mask, somewhere in an image, with bytes of nobody's between them.
template <class T>
struct arrays {
    T* x;
    T* y;
    std::uint32_t* mask;

    static std::size_t bytes(std::int64_t n) {
        return 3 * 512 + 2 * static_cast<std::size_t>(n) * sizeof(T) +
               static_cast<std::size_t>(bytes_required(n));
    }
    arrays(std::byte* base, std::int64_t n, std::size_t skip_x, std::size_t skip_y, std::size_t skip_mask) {
        const std::size_t data = (static_cast<std::size_t>(n) * sizeof(T) + 255) / 256 * 256;
        x = reinterpret_cast<T*>(base + 128) + skip_x;
        y = reinterpret_cast<T*>(base + 384 + data) + skip_y;
        mask = reinterpret_cast<std::uint32_t*>(base + 640 + 2 * data) + skip_mask;
    }
};

struct where {
    std::size_t x = 0, y = 0, mask = 0;
};

constexpr host_grid some_grid{.blocks = 3, .warps_per_block = 2};

/// Each kernel once on both sides, over random bits: numbers of all kinds, NaN and subnormals too.
template <class T>
void every_kernel(std::int64_t n, where at, const stream& own, const std::string& type) {
    image all(arrays<T>::bytes(n) + 1024, static_cast<std::uint64_t>(n) + at.x);
    const arrays<T> h(all.host(), n, at.x, at.y, at.mask), d(all.device(), n, at.x, at.y, at.mask);
    const std::string what = type + ", n = " + std::to_string(n) + ", at " + std::to_string(at.x) + ", " +
                             std::to_string(at.y) + ", " + std::to_string(at.mask) + ": ";
    const dropout_seed seed{42, 7};
    const auto compare = [&](const char* name) {
        own.wait();
        all.expect_same(what + name);
    };

    host_launch(kernel::encode(h.x, h.mask, n), some_grid);
    encode(d.x, d.mask, n, own);
    compare("encode");
    host_launch(kernel::decode(h.mask, h.y, n), some_grid);
    decode(d.mask, d.y, n, own);
    compare("decode");
    host_launch(kernel::relu_forward(h.x, h.y, h.mask, n), some_grid);
    relu_forward(d.x, d.y, d.mask, n, own);
    compare("relu_forward");
    host_launch(kernel::relu_backward(h.x, h.mask, h.y, n), some_grid);
    relu_backward(d.x, d.mask, d.y, n, own);
    compare("relu_backward");
    for (const double p : {0.0, 1e-6, 0.1, 0.5, 0.999}) {
        host_launch(kernel::dropout_forward(h.x, h.y, h.mask, n, p, seed), some_grid);
        dropout_forward(d.x, d.y, d.mask, n, p, seed, own);
        compare("dropout_forward with a mask");
        host_launch(kernel::dropout_backward(h.x, h.mask, h.y, n, p), some_grid);
        dropout_backward(d.x, d.mask, d.y, n, p, own);
        compare("dropout_backward from a mask");
        host_launch(kernel::dropout_forward(h.x, h.y, n, p, seed), some_grid);
        dropout_forward(d.x, d.y, n, p, seed, own);
        compare("dropout_forward");
        host_launch(kernel::dropout_backward(h.y, h.x, n, p, seed), some_grid);
        dropout_backward(d.y, d.x, n, p, seed, own);
        compare("dropout_backward by replay");
    }
    host_launch(kernel::relu_forward(h.x, h.x, h.mask, n), some_grid);
    relu_forward(d.x, d.x, d.mask, n, own);
    compare("relu_forward in place");
    host_launch(kernel::relu_backward(h.y, h.mask, h.y, n), some_grid);
    relu_backward(d.y, d.mask, d.y, n, own);
    compare("relu_backward in place");
    host_launch(kernel::dropout_forward(h.y, h.y, h.mask, n, 0.3, seed), some_grid);
    dropout_forward(d.y, d.y, d.mask, n, 0.3, seed, own);
    compare("dropout_forward in place");
}

template <class T>
void every_size(bool small, const stream& own, const std::string& type) {
    const std::int64_t few[] = {0, 1, 31, 33, 1023, 4097};
    const std::int64_t many[] = {2, 7, 8, 32, 63, 64, 65, 127, 1024, 1025, 100003, (1 << 20) + 5};
    for (const auto n : few) every_kernel<T>(n, {}, own, type);
    if (!small)
        for (const auto n : many) every_kernel<T>(n, {}, own, type);
    const std::size_t period = 16 / sizeof(T);
    for (std::size_t x = 0; x < period; x += small ? 3 : 1)
        for (const std::size_t y : {x, (x + 1) % period, std::size_t{0}})
            every_kernel<T>(small ? 517 : 2051, {x, y, x % 4}, own, type);
}

/// Every bit pattern of 16 bits at once.
template <class T>
void every_pattern(const stream& own, const std::string& type) {
    constexpr std::int64_t n = 1 << 16;
    image all(arrays<T>::bytes(n) + 1024);
    const arrays<T> h(all.host(), n, 0, 0, 0), d(all.device(), n, 0, 0, 0);
    for (std::int64_t i = 0; i < n; ++i) h.x[i] = T::from_bits(static_cast<std::uint16_t>(i));
    all.upload();
    host_launch(kernel::relu_forward(h.x, h.y, h.mask, n), some_grid);
    relu_forward(d.x, d.y, d.mask, n, own);
    own.wait();
    all.expect_same(type + ", every pattern: relu_forward");
    host_launch(kernel::dropout_forward(h.x, h.y, h.mask, n, 0.3, {}), some_grid);
    dropout_forward(d.x, d.y, d.mask, n, 0.3, {}, own);
    own.wait();
    all.expect_same(type + ", every pattern: dropout_forward");
}

__global__ void count_bits(const std::uint32_t* mask, std::int64_t words, unsigned long long* sum) {
    unsigned long long own = 0;
    for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < words;
         i += std::int64_t{gridDim.x} * blockDim.x)
        own += static_cast<unsigned long long>(__popc(mask[i]));
    atomicAdd(sum, own);
}

/// The share that is dropped lies within 3 standard errors of p over 2^30 elements, or as many as there is
/// memory for at a time.
void drop_rates(bool small, const stream& own) {
    const std::int64_t part = small ? 1 << 16 : 1 << 27, parts = small ? 1 : 8;
    half* x = nullptr;
    std::uint32_t* mask = nullptr;
    unsigned long long* sum = nullptr;
    check(cudaMalloc(&x, static_cast<std::size_t>(part) * sizeof(half)), "cudaMalloc");
    check(cudaMalloc(&mask, static_cast<std::size_t>(bytes_required(part))), "cudaMalloc");
    check(cudaMalloc(&sum, sizeof *sum), "cudaMalloc");
    check(cudaMemsetAsync(x, 0, static_cast<std::size_t>(part) * sizeof(half), own.get()), "cudaMemsetAsync");
    for (const double p : {1e-6, 1.0 / 256, 0.1, 0.5, 0.999}) {
        check(cudaMemsetAsync(sum, 0, sizeof *sum, own.get()), "cudaMemsetAsync");
        for (std::int64_t i = 0; i < parts; ++i) {
            dropout_forward(x, x, mask, part, p, {.seed = 1234, .offset = static_cast<std::uint64_t>(i)},
                            own);
            count_bits<<<1024, 256, 0, own.get()>>>(mask, part / 32, sum);
            check_launch("count_bits");
        }
        unsigned long long kept = 0;
        check(cudaMemcpyAsync(&kept, sum, sizeof kept, cudaMemcpyDeviceToHost, own.get()), "cudaMemcpyAsync");
        own.wait();
        const double n = static_cast<double>(part * parts), dropped = n - static_cast<double>(kept);
        const double errors = (dropped - n * p) / std::sqrt(n * p * (1 - p));
        std::printf("  p = %g: %.9f dropped of %.0f, %+.2f standard errors\n", p, dropped / n, n, errors);
        expect(std::fabs(errors) <= 3, "the rate at p = " + std::to_string(p));
    }
    static_cast<void>(cudaFree(x));
    static_cast<void>(cudaFree(mask));
    static_cast<void>(cudaFree(sum));
}

/// More than 2^32 elements in one call: 2^32 + 3 elements of 16 bits, where there are 10 GB for it.
void beyond_32_bits(const stream& own) {
    const std::int64_t n = (std::int64_t{1} << 32) + 3;
    const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(half);
    if (memory_of_current_device().free < bytes + bytes / 8) {
        std::printf("  too little memory for 2^32 elements: left out\n");
        return;
    }
    half* x = nullptr;
    std::uint32_t* mask = nullptr;
    check_allocation(cudaMalloc(&x, bytes), "cudaMalloc", bytes);
    check(cudaMalloc(&mask, static_cast<std::size_t>(bytes_required(n))), "cudaMalloc");
    check(cudaMemsetAsync(x, 0, bytes, own.get()), "cudaMemsetAsync");
    check(cudaMemsetAsync(mask, 0xff, static_cast<std::size_t>(bytes_required(n)), own.get()),
          "cudaMemsetAsync");
    const half one(1.0f);
    for (const auto i : {n - 1, n - 4, std::int64_t{5}})
        check(cudaMemcpyAsync(x + i, &one, sizeof one, cudaMemcpyHostToDevice, own.get()), "cudaMemcpyAsync");
    relu_forward(x, x, mask, n, own);
    std::uint32_t words[3] = {};
    check(cudaMemcpyAsync(words, mask, 4, cudaMemcpyDeviceToHost, own.get()), "cudaMemcpyAsync");
    check(cudaMemcpyAsync(words + 1, mask + n / 32 - 1, 8, cudaMemcpyDeviceToHost, own.get()),
          "cudaMemcpyAsync");
    own.wait();
    expect(words[0] == 1u << 5, "2^32 elements: the first word");
    expect(words[1] == 1u << 31, "2^32 elements: the last whole word");
    expect(words[2] == 1u << 2, "2^32 elements: the last word, and its tail");
    static_cast<void>(cudaFree(x));
    static_cast<void>(cudaFree(mask));
}

void refused(const stream& own) {
    float* const somewhere = reinterpret_cast<float*>(std::uintptr_t{1} << 20);
    auto* const bits = reinterpret_cast<std::uint32_t*>(std::uintptr_t{1} << 24);
    using device_test::expect_error;
    expect_error<argument_error>("is negative", [&] { encode(somewhere, bits, -1, own); });
    expect_error<argument_error>("is null", [&] { encode(somewhere, nullptr, 1, own); });
    expect_error<argument_error>("not aligned", [&] {
        encode(reinterpret_cast<float*>(reinterpret_cast<char*>(somewhere) + 1), bits, 1, own);
    });
    expect_error<argument_error>("overlaps", [&] { relu_forward(somewhere, somewhere + 1, bits, 100, own); });
    expect_error<argument_error>("is null", [&] { encode(somewhere, bits, 1, cudaStream_t{}); });
    expect_error<argument_error>("[0, 1)", [&] { dropout_forward(somewhere, somewhere, 1, 1.0, {}, own); });
}

} // namespace

int main(int argc, char** argv) {
    return device_test::run(argc, argv, "one_bit", [](bool small) {
        const stream own;
        every_size<float>(small, own, "float");
        every_size<half>(small, own, "half");
        every_size<bfloat16>(small, own, "bfloat16");
        every_pattern<half>(own, "half");
        every_pattern<bfloat16>(own, "bfloat16");
        drop_rates(small, own);
        if (!small) beyond_32_bits(own);
        refused(own);
    });
}
