// SPDX-License-Identifier: BSL-1.0
/// @file
/// What the benchmarks on a device share: two things timed in turn by events, the median of their ratios, and
/// one line of JSON for each figure. run (in tests/cuda) reads the lines; report.py knows the bars.
#pragma once

#include "../cards/power.hpp"

#include <echo/cuda/device.hpp>
#include <echo/cuda/event.hpp>
#include <echo/cuda/stream.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bench {

/// Device memory that is freed at its end, filled with bytes that are no zeros.
class memory {
public:
    explicit memory(std::size_t bytes) {
        echo::cuda::check_allocation(cudaMalloc(&data_, bytes), "cudaMalloc", bytes);
        echo::cuda::check(cudaMemset(data_, 0x3c, bytes), "cudaMemset");
        echo::cuda::wait_for_default_stream(); // streams of a benchmark do not
    }
    memory(memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
    memory& operator=(memory&&) = delete;
    ~memory() { static_cast<void>(cudaFree(data_)); }
    template <class T>
    T* as() const {
        return static_cast<T*>(data_);
    }

private:
    void* data_ = nullptr;
};

/// How many sets of this many bytes it takes for a cache to have forgotten the first when it comes again: at
/// least 3.
inline std::size_t sets_beyond_cache(std::size_t bytes) {
    const auto cache = echo::cuda::properties_of(echo::cuda::current_device()).level_2_cache;
    return std::clamp<std::size_t>(4 * cache / std::max<std::size_t>(bytes, 1) + 1, 3, 64);
}

/// Numbers of all signs for a benchmark's inputs: half of them positive, in no order that a branch could
/// learn.
template <class T>
__global__ void fill_kernel(T* at, std::int64_t n, std::uint32_t seed) {
    for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < n;
         i += std::int64_t{gridDim.x} * blockDim.x) {
        auto x = static_cast<std::uint32_t>(i) * 2654435761u + seed;
        x ^= x >> 15;
        x *= 2246822519u;
        x ^= x >> 13;
        at[i] = T(static_cast<float>(static_cast<std::int32_t>(x)) * 0x1p-31f);
    }
}
template <class T>
void fill(T* at, std::int64_t n, std::uint32_t seed, echo::cuda::stream_ref stream) {
    fill_kernel<<<2048, 256, 0, stream.get()>>>(at, n, seed);
    echo::cuda::check_launch("fill");
}

/// Medians of both, in milliseconds of one call, and of time(b) / time(a) round by round.
struct paired {
    double a = 0, b = 0, ratio = 0;
};

inline double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

/// Times `a(i)` and `b(i)` in turn, each `calls` times behind one another in a round, in changing order; `i`
/// counts up, for choosing a set of buffers. A first round warms up.
template <class A, class B>
paired compare(const echo::cuda::stream& own, A&& a, B&& b, int rounds = 21, int calls = 8) {
    echo::cuda::event begin, end;
    std::size_t i = 0;
    const auto time = [&](auto& call) {
        begin.record(own);
        for (int k = 0; k < calls; ++k) call(i++);
        end.record(own);
        end.wait();
        return echo::cuda::milliseconds_between(begin, end) / calls;
    };
    std::vector<double> of_a, of_b, ratios;
    for (int round = 0; round <= rounds; ++round) {
        double ta = 0, tb = 0;
        if (round % 2) {
            ta = time(a);
            tb = time(b);
        } else {
            tb = time(b);
            ta = time(a);
        }
        if (round == 0) continue;
        of_a.push_back(ta);
        of_b.push_back(tb);
        ratios.push_back(tb / ta);
    }
    return {median(of_a), median(of_b), median(ratios)};
}

/// Runs a part that smaller cards have too little memory for, and says so there.
template <class Part>
void where_it_fits(Part&& part) {
    try {
        part();
    } catch (const echo::cuda::out_of_memory& e) {
        std::printf("left out: %s\n", e.what());
    }
}

/// One figure: `value` is what the bar is for. Names and units are plain words without quotation marks.
inline void print(std::string_view benchmark, std::string_view name, std::string_view type,
                  std::uint64_t bytes, std::string_view quantity, double value, double milliseconds,
                  std::string_view against, double against_milliseconds) {
    std::printf("{\"benchmark\": \"%.*s\", \"name\": \"%.*s\", \"type\": \"%.*s\", \"bytes\": %llu, "
                "\"quantity\": \"%.*s\", \"value\": %.6g, \"milliseconds\": %.6g, \"against\": \"%.*s\", "
                "\"against_milliseconds\": %.6g}\n",
                static_cast<int>(benchmark.size()), benchmark.data(), static_cast<int>(name.size()),
                name.data(), static_cast<int>(type.size()), type.data(),
                static_cast<unsigned long long>(bytes), static_cast<int>(quantity.size()), quantity.data(),
                value, milliseconds, static_cast<int>(against.size()), against.data(), against_milliseconds);
    std::fflush(stdout);
}

/// Runs a benchmark and says on which card, with its clocks right behind the load. 77: there is no device.
template <class Benchmark>
int run(const char* name, Benchmark&& benchmark) {
    try {
        echo::cuda::device_count();
    } catch (const echo::cuda::error& e) {
        std::printf("%s: not run: %s\n", name, e.what());
        return 77;
    }
    try {
        const auto card = echo::cuda::properties_of(echo::cuda::current_device());
        const echo::cuda::power_meter meter(card.bus);
        const echo::cuda::stream own;
        const auto joules = meter.joules();
        benchmark(own);
        own.wait();
        const auto number = [](const auto& value) {
            return value ? std::to_string(*value) : std::string("null");
        };
        const auto used =
            joules && meter.joules() ? std::to_string(*meter.joules() - *joules) : std::string("null");
        std::printf("{\"card\": \"%s\", \"architecture\": %d, \"multiprocessors\": %d, \"memory\": %llu, "
                    "\"driver\": \"%s\", \"multiprocessor_clock_mhz\": %s, \"memory_clock_mhz\": %s, "
                    "\"joules\": %s}\n",
                    card.name.c_str(), card.architecture(), card.multiprocessors,
                    static_cast<unsigned long long>(card.memory), meter.driver().value_or("").c_str(),
                    number(meter.multiprocessor_clock()).c_str(), number(meter.memory_clock()).c_str(),
                    used.c_str());
        return 0;
    } catch (const std::exception& e) {
        std::printf("%s: stopped: %s\n", name, e.what());
        return 1;
    }
}

} // namespace bench
