// SPDX-License-Identifier: BSL-1.0
// Time per storage and arena ÷ load of the greedy orders of `place`, from 10^3 to 10^6 storages; how good the search
// is, is measured by arena.cpp.
#include "support/interval_sets.hpp"

#include <echo/analysis/memory/arena/place.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace {

using intervals = std::vector<echo::arena::interval>;

intervals training_chain(std::size_t n) {
    std::mt19937_64 engine(1);
    return support::training_chain(engine, static_cast<std::uint32_t>(n / 3));
}

/// One value a step; a third are stashed until about the mirrored step, the rest die soon.
intervals loose_chain(std::size_t n) {
    std::mt19937_64 engine(1);
    intervals items;
    const auto steps = static_cast<std::uint32_t>(n);
    for (std::uint32_t i = 0; i < steps; ++i) {
        std::uint32_t last = i + static_cast<std::uint32_t>(engine() % 5);
        if (i < steps / 2 && engine() % 3 == 0)
            last = std::max(steps / 2, steps - 1 - i + static_cast<std::uint32_t>(engine() % 200));
        items.push_back({i, std::min(last, steps - 1), 256 * (1 + engine() % 100'000)});
    }
    return items;
}

/// No structure at all: short and long lives anywhere.
intervals wild(std::size_t n) {
    std::mt19937_64 engine(1);
    intervals items;
    const auto steps = static_cast<std::uint32_t>(n);
    for (std::size_t i = 0; i < n; ++i) {
        const auto first = static_cast<std::uint32_t>(engine() % steps);
        const auto life = static_cast<std::uint32_t>(engine() % (engine() % 2 ? 30 : steps / 4));
        items.push_back({first, std::min(first + life, steps - 1), 256 * (1 + engine() % 100'000)});
    }
    return items;
}

void place(benchmark::State& state, intervals (*make)(std::size_t)) {
    const intervals items = make(static_cast<std::size_t>(state.range(0)));
    echo::arena::placement made;
    for (auto _ : state) made = echo::arena::place(items, {.limit = 0});
    using benchmark::Counter;
    const auto n = static_cast<double>(items.size());
    state.counters["storages/s"] = Counter(n, Counter::kIsIterationInvariantRate);
    state.counters["arena/load"] =
        static_cast<double>(made.bytes) / static_cast<double>(echo::arena::peak_load(items));
    state.SetComplexityN(state.range(0));
}

} // namespace

#define SIZES                                                                                                \
    ->Arg(1'000)                                                                                             \
        ->Arg(16'000)                                                                                        \
        ->Arg(60'000)                                                                                        \
        ->Arg(100'000)                                                                                       \
        ->Arg(1'000'000)                                                                                     \
        ->Unit(benchmark::kMillisecond)                                                                      \
        ->Complexity()
BENCHMARK_CAPTURE(place, training_chain, training_chain) SIZES;
BENCHMARK_CAPTURE(place, loose_chain, loose_chain) SIZES;
BENCHMARK_CAPTURE(place, wild, wild) SIZES;
#undef SIZES
