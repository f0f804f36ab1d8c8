// SPDX-License-Identifier: BSL-1.0
/// @file
/// Memory for tests of fused kernels: buffers without a byte to spare, random numbers, strides and grids.
#pragma once

#include <echo/cuda/kernel/fused_operand.hpp>
#include <echo/cuda/kernel/launch.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <utility>
#include <vector>

namespace support {

using echo::cuda::fused::extents;
using echo::cuda::fused::operand;
using echo::cuda::fused::strides;

/// Elements without a byte behind them, `early` elements behind a 16-byte boundary.
template <class T>
class exact {
public:
    exact(std::size_t size, std::size_t early = 0)
        : bytes_(new char[(early + size) * sizeof(T)]), data_(reinterpret_cast<T*>(bytes_.get()) + early),
          size_(size) {
        std::memset(bytes_.get(), 0x55, (early + size) * sizeof(T));
    }
    T* data() const { return data_; }
    std::size_t size() const { return size_; }
    T& operator[](std::size_t i) const { return data_[i]; }

private:
    std::unique_ptr<char[]> bytes_;
    T* data_;
    std::size_t size_;
};

/// Address space for `size` elements, of which only what is touched becomes memory. Zeros.
template <class T>
class reserved {
public:
    explicit reserved(std::int64_t size) : bytes_(static_cast<std::size_t>(size) * sizeof(T)) {
        void* at =
            mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) throw std::bad_alloc();
        data_ = static_cast<T*>(at);
    }
    reserved(const reserved&) = delete;
    reserved& operator=(const reserved&) = delete;
    ~reserved() { munmap(data_, bytes_); }
    T* data() const { return data_; }
    T& operator[](std::int64_t i) const { return data_[i]; }

private:
    std::size_t bytes_;
    T* data_ = nullptr;
};

/// Bit i of words.
inline bool bit_of(const std::uint32_t* words, std::int64_t i) {
    return (words[i / 32] >> (i % 32) & 1) != 0;
}

template <class T>
float as_float(T x) {
    return static_cast<float>(x);
}

/// Numbers of every kind; one in eight is an edge case.
class numbers {
public:
    explicit numbers(std::uint32_t seed) : engine_(seed) {}
    float operator()() {
        constexpr float infinity = std::numeric_limits<float>::infinity();
        static constexpr float edges[] = {0.0f,   -0.0f,    1.0f,
                                          -1.0f,  infinity, -infinity,
                                          1e-40f, 3e38f,    std::numeric_limits<float>::quiet_NaN()};
        if (engine_() % 8 == 0) return edges[engine_() % std::size(edges)];
        return std::uniform_real_distribution<float>(-4, 4)(engine_);
    }
    std::size_t below(std::size_t n) { return engine_() % n; }

private:
    std::mt19937 engine_;
};

inline bool same_bits(float a, float b) {
    return (std::isnan(a) && std::isnan(b)) ||
           std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

using map = std::vector<float>;

/// Where each element of an operand lies, and memory that ends behind the last.
template <class T>
struct placed {
    exact<T> memory;
    strides step{};
    operand<T> as() const { return {memory.data(), step}; }
    operand<const T> as_const() const { return {memory.data(), step}; }
};

/// Calls f(element number, place) for every element of e in order.
template <class Function>
void each_element(const extents& e, const strides& step, Function f) {
    const std::int64_t n = e.elements();
    for (std::int64_t i = 0; i < n; ++i) {
        std::int64_t rest = i, place = 0;
        for (std::size_t a = e.rank; a-- > 0;) {
            place += rest % e.of[a] * step[a];
            rest /= e.of[a];
        }
        f(static_cast<std::size_t>(i), static_cast<std::size_t>(place));
    }
}

inline std::size_t reach(const extents& e, const strides& step) {
    std::int64_t last = 0;
    for (std::size_t a = 0; a < e.rank; ++a) {
        if (e.of[a] == 0) return 0;
        last += (e.of[a] - 1) * step[a];
    }
    return static_cast<std::size_t>(last + 1);
}

/// Random strides: a permutation of the axes, gaps, and (for operands) repeated axes.
inline strides random_strides(const extents& e, numbers& draw, bool repeats) {
    std::array<std::size_t, echo::cuda::fused::most_axes> order{};
    for (std::size_t a = 0; a < e.rank; ++a) order[a] = e.rank - 1 - a;
    if (draw.below(4) == 0)
        for (std::size_t a = e.rank; a > 1; --a) std::swap(order[a - 1], order[draw.below(a)]);
    strides step{};
    std::int64_t next = draw.below(6) == 0 ? 2 : 1;
    for (std::size_t k = 0; k < e.rank; ++k) {
        const std::size_t a = order[k];
        if (repeats && draw.below(3) == 0) continue;
        step[a] = next;
        next *= std::max<std::int64_t>(e.of[a], 1);
        if (draw.below(4) == 0) next += static_cast<std::int64_t>(draw.below(9));
    }
    return step;
}

template <class T>
placed<T> random_operand(const extents& e, numbers& draw, bool repeats, map& values) {
    const strides step = random_strides(e, draw, repeats);
    placed<T> p{exact<T>(reach(e, step), draw.below(9)), step};
    for (std::size_t i = 0; i < p.memory.size(); ++i) p.memory[i] = static_cast<T>(draw());
    values.resize(static_cast<std::size_t>(e.elements()));
    each_element(e, step, [&](std::size_t i, std::size_t at) { values[i] = as_float(p.memory[at]); });
    return p;
}

inline echo::cuda::host_grid random_grid(numbers& draw) {
    return {1 + static_cast<std::int64_t>(draw.below(4)), 1 + static_cast<std::int64_t>(draw.below(4)),
            draw.below(2) == 0, draw.below(2) == 0};
}

inline extents random_extents(numbers& draw, std::size_t most_rank, std::int64_t most) {
    extents e;
    e.rank = draw.below(most_rank + 1);
    for (std::size_t a = 0; a < e.rank; ++a)
        e.of[a] = static_cast<std::int64_t>(draw.below(static_cast<std::size_t>(most) + 1));
    if (draw.below(8) != 0)
        for (std::size_t a = 0; a < e.rank; ++a) e.of[a] = std::max<std::int64_t>(e.of[a], 1);
    return e;
}

} // namespace support
