// SPDX-License-Identifier: BSL-1.0
// Arena ÷ load, side by side: the greedy planners of the field as they are described, and `place` at three limits, on
// the published hard instances (their folder in ECHO_PLANNER_DATA) and on the plans of the committed graphs. `ms` is
// the time to place all, of one run.
#include "format/file_graph.hpp"
#include "format/read_file.hpp"
#include "support/interval_sets.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/memory/arena/place.hpp>
#include <echo/analysis/schedule/liveness.hpp>
#include <echo/graph/read.hpp>
#include <echo/vocabulary/aten.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using echo::arena::interval;
using intervals = std::vector<interval>;
using order = std::vector<std::size_t>;

/// Places in order, each at the lowest gap that fits (first fit) or at the smallest one (best fit), else on top.
std::uint64_t fill_gaps(const intervals& items, const order& in, bool best_fit,
                        std::vector<std::uint64_t>* offsets = nullptr) {
    std::vector<std::pair<std::uint64_t, std::size_t>> placed, beside; // by offset
    std::uint64_t arena = 0;
    for (const auto i : in) {
        std::uint64_t at = 0, end = 0, least = ~std::uint64_t{0};
        bool found = false;
        for (const auto& [offset, j] : placed) {
            if (items[j].first > items[i].last || items[i].first > items[j].last) continue;
            if (offset > end && offset - end >= items[i].bytes && offset - end < least) {
                at = end;
                least = offset - end;
                found = true;
                if (!best_fit) break;
            }
            end = std::max(end, offset + items[j].bytes);
        }
        if (!found) at = end;
        placed.insert(std::ranges::upper_bound(placed, std::pair{at, i}), {at, i});
        arena = std::max(arena, at + items[i].bytes);
        if (offsets) (*offsets)[i] = at;
    }
    return arena;
}

order sorted(const intervals& items, bool (*before)(const interval&, const interval&)) {
    order in(items.size());
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = i;
    std::ranges::stable_sort(in, [&](std::size_t a, std::size_t b) { return before(items[a], items[b]); });
    return in;
}

/// TFLite Micro: by size, then by start; the lowest gap that fits.
std::uint64_t size_first_fit(const intervals& items) {
    return fill_gaps(items,
                     sorted(items,
                            [](const interval& a, const interval& b) {
                                return a.bytes != b.bytes ? a.bytes > b.bytes : a.first < b.first;
                            }),
                     false);
}

/// TFLite: by size; the smallest gap that fits.
std::uint64_t size_best_fit(const intervals& items) {
    return fill_gaps(
        items, sorted(items, [](const interval& a, const interval& b) { return a.bytes > b.bytes; }), true);
}

/// XLA's global decreasing size: by size, then the longer life; the smallest gap that fits.
std::uint64_t xla(const intervals& items) {
    return fill_gaps(items,
                     sorted(items,
                            [](const interval& a, const interval& b) {
                                return a.bytes != b.bytes ? a.bytes > b.bytes
                                                          : a.last - a.first > b.last - b.first;
                            }),
                     true);
}

/// TVM's hill climbing: first fit by size; then the order is changed around what lies on top, and the change kept if
/// the arena is no larger, or, ever more rarely, if it is.
std::uint64_t hill_climb(const intervals& items) {
    std::mt19937_64 engine(1);
    order in = sorted(items, [](const interval& a, const interval& b) { return a.bytes > b.bytes; });
    std::vector<std::uint64_t> offsets(items.size());
    std::uint64_t now = fill_gaps(items, in, false, &offsets), best = now;
    const std::uint64_t load = echo::arena::peak_load(items);
    for (int attempt = 0; attempt < 500 && best > load; ++attempt) {
        std::vector<std::size_t> top, below; // positions
        for (std::size_t k = 0; k < in.size(); ++k)
            if (offsets[in[k]] + items[in[k]].bytes == now) top.push_back(k);
        const std::size_t chosen = top[engine() % top.size()];
        const interval& x = items[in[chosen]];
        for (std::size_t k = 0; k < chosen; ++k)
            if (items[in[k]].first <= x.last && x.first <= items[in[k]].last) below.push_back(k);
        order changed = in;
        if (below.empty()) break;
        std::swap(changed[chosen], changed[below[engine() % below.size()]]);
        std::vector<std::uint64_t> at(items.size());
        const std::uint64_t arena = fill_gaps(items, changed, false, &at);
        if (arena > now && engine() % 100 >= static_cast<std::uint64_t>(50 * (500 - attempt) / 500)) continue;
        in = std::move(changed);
        offsets = std::move(at);
        now = arena;
        best = std::min(best, now);
    }
    return best;
}

intervals planned(const std::filesystem::path& path, echo::strategy how) {
    const auto g =
        echo::format::read_graph_file(path.string(), [](std::string_view op) { return echo::aten.find(op); });
    const auto s = echo::read(g);
    const auto p = echo::make_plan(s, {.how = how});
    echo::liveness_analysis analyse;
    const auto& live = analyse(s, p.steps());
    intervals items;
    for (const auto i : live.storages())
        if (!live[i].resident && live[i].bytes)
            items.push_back({live[i].first.index(), live[i].last.index(), live[i].bytes});
    return items;
}

template <int milliseconds>
std::uint64_t here(const intervals& items) {
    return echo::arena::place(items, {.limit = milliseconds / 1e3}).bytes;
}

struct planner {
    const char* name;
    std::uint64_t (*place)(const intervals&);
    std::size_t most = 1'000'000; ///< storages: more would take minutes
};
constexpr planner planners[] = {{"size_first_fit", size_first_fit},
                                {"size_best_fit", size_best_fit},
                                {"xla_decreasing_size", xla},
                                {"tvm_hill_climb", hill_climb, 1500},
                                {"echo_0s", here<0>},
                                {"echo_0.2s", here<200>},
                                {"echo_5s", here<5000>}};

/// The ratios of one planner on the instances of one set.
struct tally {
    std::vector<double> ratios{};
    double worst() const { return ratios.empty() ? 1 : *std::ranges::max_element(ratios); }
    double mean() const {
        double sum = 0;
        for (const double r : ratios) sum += std::log(r);
        return std::exp(sum / std::max(static_cast<double>(ratios.size()), 1.0));
    }
};

void run_one(benchmark::State& state, const planner& p, const intervals& items, tally& kept) {
    std::uint64_t arena = 0;
    for (auto _ : state) arena = p.place(items);
    kept.ratios.push_back(static_cast<double>(arena) / static_cast<double>(echo::arena::peak_load(items)));
    state.counters["ratio"] = kept.ratios.back();
    state.counters["waste_ppm"] = 1e6 * (kept.ratios.back() - 1);
    state.counters["storages"] = static_cast<double>(items.size());
}

void run_all(benchmark::State& state, const tally& kept) {
    for (auto _ : state) benchmark::DoNotOptimize(kept);
    state.counters["geomean"] = kept.mean();
    state.counters["worst"] = kept.worst();
    state.counters["mean_waste_ppm"] = 1e6 * (kept.mean() - 1);
    state.counters["worst_waste_ppm"] = 1e6 * (kept.worst() - 1);
    state.counters["instances"] = static_cast<double>(kept.ratios.size());
}

/// Each instance of a set, and the geometric mean and the worst of them.
void add(const std::string& set, const std::vector<std::pair<std::string, intervals>>& instances) {
    const auto once = [](const std::string& name, auto run) {
        benchmark::RegisterBenchmark(name.c_str(), run)->Iterations(1)->Unit(benchmark::kMillisecond);
    };
    for (const auto& p : planners) {
        const auto kept = std::make_shared<tally>();
        const std::string head = set + "/" + p.name + "/";
        for (const auto& [name, items] : instances)
            if (items.size() <= p.most)
                once(head + name,
                     [p, items, kept](benchmark::State& state) { run_one(state, p, items, *kept); });
        once(head + "all", [kept](benchmark::State& state) { run_all(state, *kept); });
    }
}

[[maybe_unused]] const bool registered = [] {
    std::vector<std::pair<std::string, intervals>> hard, graphs;
    for (char name = 'A'; name <= 'K'; ++name)
        if (auto items = support::published(name); !items.empty())
            hard.emplace_back(std::string(1, name), std::move(items));
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(ECHO_SOURCE_DIR "/examples/graphs"))
        if (entry.is_regular_file()) files.push_back(entry.path());
    std::ranges::sort(files);
    for (const auto& path : files) {
        const std::string name = path.stem().stem().string();
        graphs.emplace_back(name + ".baseline", planned(path, echo::strategy::baseline));
        graphs.emplace_back(name + ".min_cut", planned(path, echo::strategy::min_cut));
    }
    add("hard", hard);
    add("graphs", graphs);
    return true;
}();

} // namespace
