// SPDX-License-Identifier: BSL-1.0
/// @file
/// What each pass of the search for budgets is worth: every graph is planned with all passes, and with each switched
/// off.
///
///   bench-ablation GRAPH…
///
/// Asked are the least peak within 2, 5 and 10 % of recomputation, and the least recomputation within 70, 50 and 40 %
/// of the baseline's peak. Prints JSON: for each graph, and each pass that was off ("" for none), what each question
/// came to: the peak in bytes, the step's time (1 is that of the graph without recomputation), whether the limit was
/// kept, the replays, and the processor time of planning in seconds. `bench/run ablation` compares them.

#include "format/read_file.hpp"
#include "support/processor_time.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/graph/read.hpp>
#include <echo/vocabulary/aten.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace {

/// A pass, and its switch.
struct pass {
    std::string_view name;
    bool echo::search_options::*on;
};
constexpr pass passes[] = {
    {"growth", &echo::search_options::growth},     {"nearest", &echo::search_options::nearest},
    {"polish", &echo::search_options::polish},     {"recreate", &echo::search_options::recreate},
    {"exchange", &echo::search_options::exchange}, {"front", &echo::search_options::front},
};

/// The answer to a question as JSON.
std::string answered(const echo::snapshot& s, const echo::plan_options& options) {
    echo::plan_report r;
    const double seconds = support::processor_seconds([&] { r = echo::make_plan(s, options).report(); });
    return fmt::format(R"({{"peak":{},"step":{:.9f},"met":{},"replays":{},"s":{:.6f}}})", r.peak_bytes,
                       1 + r.recompute_time_ratio, r.met(), r.replays, seconds);
}

/// All answers without one pass, or with all of them.
std::string asked_of(const echo::snapshot& s, const echo::search_options& search) {
    const auto whole = echo::make_plan(s, {.how = echo::strategy::baseline}).report().baseline_peak_bytes;
    std::vector<std::string> all;
    for (const int percent : {2, 5, 10})
        all.push_back(fmt::format(R"("{} %":{})", percent,
                                  answered(s, {.max_overhead = percent / 100.0, .search = search})));
    for (const std::uint64_t percent : {70, 50, 40})
        all.push_back(fmt::format(R"("budget {} %":{})", percent,
                                  answered(s, {.budget = whole / 100 * percent, .search = search})));
    return fmt::format("{{{}}}", fmt::join(all, ","));
}

void print_file(const std::string& path, bool first) {
    const auto s = echo::read(
        echo::format::read_graph_file(path, [](std::string_view op) { return echo::aten.find(op); }));
    fmt::print("{}\"{}\":{{\"\":{}", first ? "" : ",\n", std::filesystem::path(path).stem().stem().string(),
               asked_of(s, {}));
    for (const pass& one : passes) {
        echo::search_options search;
        search.*one.on = false;
        fmt::print(",\n\"{}\":{}", one.name, asked_of(s, search));
    }
    fmt::print("}}");
}

} // namespace

int main(int arguments, char** argument) {
    if (arguments < 2) {
        fmt::print(stderr, "usage: bench-ablation GRAPH…\n");
        return 2;
    }
    try {
        fmt::print("{{");
        for (int i = 1; i < arguments; ++i) print_file(argument[i], i == 1);
        fmt::print("}}\n");
    } catch (const std::exception& e) {
        fmt::print(stderr, "bench-ablation: {}\n", e.what());
        return 1;
    }
}
