// SPDX-License-Identifier: BSL-1.0
/// @file
/// Regret: by how much a step takes longer than by the best plan within the limit that is known.
///
///   bench-regret GRAPH…               files; 40 limits each
///   bench-regret random FIRST COUNT   random graphs number FIRST to FIRST + COUNT, 5 of their limits each
///   bench-regret larger FIRST COUNT   the same of those above 256 nodes, where no whole front is searched
///
/// Limits lie evenly from the least peak of `front` to the baseline's, and at the peak of each plan that is known: the
/// points of the front, every named strategy's plan, the plans within 1, 2, 3, 5, 7 and 10 % of recomputation. To them
/// come the plans of all limits, so a smaller limit should not cost less either. A limit is regretted where its plan
/// misses it though a known plan does not (`missed`), or takes more than 0.5 % of a step longer. Prints JSON: one
/// object for each file, or one for all random graphs; the first random graphs with regret on standard error.
/// `bench/run regret` splits the work over the cores and keeps the results.

#include "format/read_file.hpp"
#include "support/numbered_graph.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/graph/read.hpp>
#include <echo/vocabulary/aten.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr double allowed = 0.005; // of a step

struct known_plan {
    std::string made_by;
    std::uint64_t peak_bytes = 0;
    double overhead = 0;
};

/// One limit, its plan, and the known plan that keeps to it with the least recomputation.
struct checked {
    std::uint64_t limit = 0;
    known_plan got, best;
    bool met() const { return got.peak_bytes <= limit; }
    /// How much longer a step takes, as a part of it.
    double regret() const { return (1 + got.overhead) / (1 + best.overhead) - 1; }
    bool is_regretted() const { return !met() || regret() > allowed; }
};

struct outcome {
    std::size_t points = 0, regretted = 0, missed = 0;
    std::optional<checked> worst{}; ///< of those that are met
    std::optional<checked> miss{};  ///< the first

    void add(const checked& c) {
        ++points;
        regretted += c.is_regretted();
        missed += !c.met();
        keep(c);
    }
    void add(const outcome& o) {
        points += o.points;
        regretted += o.regretted;
        missed += o.missed;
        if (o.worst) keep(*o.worst);
        if (o.miss) keep(*o.miss);
    }
    double most() const { return worst ? worst->regret() : 0; }

private:
    void keep(const checked& c) {
        if (!c.met())
            miss = miss ? miss : c;
        else if (c.regret() > most())
            worst = c;
    }
};

known_plan planned(const echo::snapshot& s, const echo::plan_options& options, std::string made_by) {
    const auto p = echo::make_plan(s, options);
    return {std::move(made_by), p.report().peak_bytes, p.report().recompute_time_ratio};
}

std::vector<known_plan> front_of(const echo::snapshot& s) {
    std::vector<known_plan> found;
    for (const auto& p : echo::front(s, {.how = echo::strategy::budget}).points)
        found.push_back({"front", p.peak_bytes, p.recompute_time_ratio});
    return found;
}

/// What is known without a limit in bytes, the front apart.
std::vector<known_plan> other_plans(const echo::snapshot& s) {
    std::vector<known_plan> found;
    for (const auto how : echo::all_strategies)
        found.push_back(planned(s, {.how = how}, std::string(echo::name_of(how))));
    for (const int percent : {1, 2, 3, 5, 7, 10})
        found.push_back(planned(s, {.how = echo::strategy::budget, .max_overhead = percent / 100.0},
                                fmt::format("within {} %", percent)));
    return found;
}

/// In rising order, each once: `count` of them from the least peak of the front to the baseline's, and all known peaks.
std::vector<std::uint64_t> limits_of(const std::vector<known_plan>& front,
                                     const std::vector<known_plan>& known, std::size_t count) {
    const std::uint64_t most = front.front().peak_bytes, least = front.back().peak_bytes;
    std::vector<std::uint64_t> limits;
    for (std::size_t i = 0; i < count; ++i) limits.push_back(least + (most - least) / count * i);
    for (const auto& k : known) limits.push_back(k.peak_bytes);
    std::ranges::sort(limits);
    limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
    return limits;
}

const known_plan& least_within(std::uint64_t limit, const std::vector<known_plan>& known) {
    const known_plan* best = nullptr;
    for (const auto& k : known)
        if (k.peak_bytes <= limit && (!best || k.overhead < best->overhead)) best = &k;
    return *best; // a limit is never below the least peak that is known
}

/// `count` of the limits, evenly around; the graph's number tells where that begins, so over many graphs every place
/// has its turn.
std::vector<std::uint64_t> some_of(const std::vector<std::uint64_t>& limits, std::size_t count,
                                   std::uint64_t number) {
    count = std::min(count, limits.size());
    std::vector<std::uint64_t> some;
    for (std::size_t i = 0; i < count; ++i)
        some.push_back(limits[(number + i * limits.size() / count) % limits.size()]);
    return some;
}

/// At `count` limits between the least peak and the most, and at all peaks that are known; of a random graph, which has
/// a number, at `count` of those.
outcome check(const echo::snapshot& s, std::size_t count,
              std::optional<std::uint64_t> number = std::nullopt) {
    const auto front = front_of(s);
    auto known = other_plans(s);
    known.insert(known.end(), front.begin(), front.end());
    auto limits = limits_of(front, known, count);
    if (number) limits = some_of(limits, count, *number);
    std::vector<known_plan> got;
    for (const auto limit : limits)
        got.push_back(
            planned(s, {.how = echo::strategy::budget, .budget = limit}, fmt::format("limit {}", limit)));
    known.insert(known.end(), got.begin(), got.end());
    outcome seen;
    for (std::size_t i = 0; i < limits.size(); ++i)
        seen.add({limits[i], got[i], least_within(limits[i], known)});
    return seen;
}

std::string text(const std::optional<checked>& c) {
    if (!c) return "null";
    return fmt::format(
        R"({{"limit": {}, "peak": {}, "overhead": {}, "best": {}, "best_peak": {}, "by": "{}"}})", c->limit,
        c->got.peak_bytes, c->got.overhead, c->best.overhead, c->best.peak_bytes, c->best.made_by);
}

std::string text(const outcome& o) {
    return fmt::format(R"("points": {}, "regretted": {}, "missed": {}, "most": {}, "worst": {}, "miss": {})",
                       o.points, o.regretted, o.missed, o.most(), text(o.worst), text(o.miss));
}

void check_file(const std::string& path) {
    const auto s = echo::read(
        echo::format::read_graph_file(path, [](std::string_view op) { return echo::aten.find(op); }));
    const std::string name = std::filesystem::path(path).stem().stem().string();
    fmt::print("{{\"graph\": \"{}\", \"nodes\": {}, {}}}\n", name, s.node_count(), text(check(s, 40)));
    std::fflush(stdout);
}

/// Random graphs of up to 140 nodes, or those of 257 to 1,200.
void check_random(std::uint64_t first, std::uint64_t count, bool larger) {
    outcome all;
    std::size_t broken = 0;
    for (std::uint64_t i = first; i < first + count; ++i) {
        const auto s = support::numbered_graph(i, larger ? 1200 : i / 3 % 3 == 2 ? 140 : 60);
        if (larger && s.node_count() <= 256) continue;
        const outcome one = check(s, 5, i);
        all.add(one);
        if (one.regretted > 0 && ++broken <= 10)
            fmt::print(stderr, "graph {}, {} nodes: {}\n", i, s.node_count(), text(one));
    }
    fmt::print("{{\"graphs\": {}, \"broken\": {}, {}}}\n", count, broken, text(all));
}

int usage() {
    fmt::print(stderr, "usage: bench-regret GRAPH… | bench-regret random|larger FIRST COUNT\n");
    return 2;
}

} // namespace

int main(int arguments, char** argument) {
    const std::vector<std::string> given(argument + 1, argument + arguments);
    const bool random = !given.empty() && (given[0] == "random" || given[0] == "larger");
    if (given.empty() || (random && given.size() != 3)) return usage();
    try {
        if (random) {
            check_random(std::strtoull(argument[2], nullptr, 10), std::strtoull(argument[3], nullptr, 10),
                         given[0] == "larger");
        } else {
            for (const auto& path : given) check_file(path);
        }
    } catch (const std::exception& e) {
        fmt::print(stderr, "bench-regret: {}\n", e.what());
        return 1;
    }
}
