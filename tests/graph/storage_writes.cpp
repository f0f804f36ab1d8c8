// SPDX-License-Identifier: BSL-1.0
// Nodes that write into storage which is there already: a plan's steps, carried out on numbers, end with the numbers of
// the graph's own order.
#include "support/properties.hpp"
#include "support/sanitized.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/verify.hpp>
#include <echo/graph/dead_nodes.hpp>
#include <echo/graph/read.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace {

struct op {
    echo::phase phase = echo::phase::forward;
    std::vector<std::size_t> reads{};
    std::optional<std::size_t> base{}; ///< the input that its output lies on
    bool writes = false;               ///< into that storage; else it is a view
};
struct tape {
    std::vector<op> nodes{};
    std::vector<std::size_t> kept{};
};

/// A forward pass in which some ops write over what was made, or over a cache, a backward pass that reads its values,
/// and results of both.
tape random_tape(std::uint32_t seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    tape g;
    for (int i = 0; i < 2; ++i) g.nodes.push_back({.phase = echo::phase::input});
    const std::size_t forward = 8 + below(14), all = 2 * forward;
    for (std::size_t i = 2; i < all; ++i) {
        op n{.phase = i < forward ? echo::phase::forward : echo::phase::backward};
        n.reads = {i - 1 - below(std::min<std::size_t>(i, 3)), below(std::min(i, forward))};
        const std::size_t what = below(6);
        if (what < 2) n.base = what, n.writes = below(3) > 0;
        g.nodes.push_back(n);
    }
    g.kept = {all - 1, forward - 1};
    return g;
}

/// The numbers in storage while nodes run.
class machine {
public:
    explicit machine(const tape& g) : g_(g) {}
    /// A node runs and reads these storages; gives the one that its output lies on.
    std::size_t run(std::size_t n, const std::vector<std::size_t>& read) {
        std::uint64_t number = 0x9E3779B97F4A7C15 * (n + 1);
        for (const std::size_t at : read) number = (number ^ numbers_[at]) * 0xBF58476D1CE4E5B9 + 1;
        const op& what = g_.nodes[n];
        if (!what.base) {
            numbers_.push_back(number);
            return numbers_.size() - 1;
        }
        if (what.writes) numbers_[read[*what.base]] = number;
        return read[*what.base];
    }
    std::uint64_t operator[](std::size_t storage) const { return numbers_[storage]; }

private:
    const tape& g_;
    std::vector<std::uint64_t> numbers_;
};

std::vector<std::uint64_t> results_of(const tape& g, const echo::schedule& steps) {
    machine run(g);
    std::vector<std::size_t> storage, latest(g.nodes.size());
    for (const auto t : steps.steps()) {
        std::vector<std::size_t> read;
        for (const echo::copy_id c : steps.inputs(t)) read.push_back(storage[c.step.index()]);
        storage.push_back(run.run(steps[t].node.index(), read));
        latest[steps[t].node.index()] = storage.back();
    }
    std::vector<std::uint64_t> all;
    for (const std::size_t n : g.kept) all.push_back(run[latest[n]]);
    return all;
}

} // namespace

template <>
struct echo::graph_traits<tape> {
    using node = std::size_t;
    using value = echo::value_of<node>;
    static std::vector<node> nodes(const tape& g) {
        std::vector<node> all;
        for (node n = 0; n < g.nodes.size(); ++n) all.push_back(n);
        return all;
    }
    static std::vector<value> inputs(const tape& g, node n) {
        std::vector<value> all;
        for (const node from : g.nodes[n].reads) all.push_back({from, 0});
        return all;
    }
    static std::vector<tensor> outputs(const tape& g, node n) {
        tensor t{.bytes = 64 + n % 3};
        t.view_of = g.nodes[n].base;
        return {t};
    }
    static echo::phase phase(const tape& g, node n) { return g.nodes[n].phase; }
    static std::vector<value> results(const tape& g) {
        std::vector<value> all;
        for (const node n : g.kept) all.push_back({n, 0});
        return all;
    }
    static op_facts facts(const tape& g, node n) {
        const op& what = g.nodes[n];
        return {.kind = what.base && !what.writes ? op_kind::view : op_kind::light,
                .rerun = rerun_kind::pure};
    }
    static std::vector<std::size_t> writes(const tape& g, node n) {
        const op& what = g.nodes[n];
        return what.writes ? std::vector<std::size_t>{*what.base} : std::vector<std::size_t>{};
    }
};

TEST_CASE("writes run once and in order, and nobody reads again what was overwritten", "[storage_writes]") {
    using enum echo::phase;
    const tape g{.nodes = {{.phase = input},
                           {.reads = {0}},                               // 1: is written into
                           {.reads = {1}},                               // 2: reads what was there
                           {.reads = {1, 0}, .base = 0, .writes = true}, // 3
                           {.reads = {1}, .base = 0},                    // 4: a view
                           {.reads = {4}, .base = 0, .writes = true},    // 5
                           {.reads = {1}},                               // 6: reads what 5 has written
                           {.reads = {0}},                               // 7: has no part in it
                           {.phase = backward, .reads = {2, 6, 7}}},
                 .kept = {8}};
    const echo::snapshot s = echo::read(g);
    const auto once = [&](std::size_t n) { return s[echo::node_id(n)].rerun == echo::rerun_kind::never; };
    for (const std::size_t n : {1U, 2U, 3U, 5U}) CHECK(once(n));
    for (const std::size_t n : {4U, 6U, 7U}) CHECK(!once(n));
    const auto behind = [&](std::size_t n) {
        const auto control = s.control(echo::node_id(n));
        return std::vector<echo::node_id>(control.begin(), control.end());
    };
    CHECK(behind(2).empty());
    CHECK(behind(4).empty());
    CHECK(behind(5) == std::vector{echo::node_id(3)});
    CHECK(behind(6) == std::vector{echo::node_id(5)});
    CHECK(behind(7).empty());
}

TEST_CASE("what is written last is not dead where it is there in the end", "[storage_writes]") {
    using enum echo::phase;
    const tape g{
        .nodes = {{.phase = input},
                  {.reads = {0}},                                                  // 1: a result
                  {.reads = {0}},                                                  // 2: nobody's in the end
                  {.phase = backward, .reads = {1}},                               // 3: a result
                  {.phase = backward, .reads = {0, 1}, .base = 0, .writes = true}, // 4: into an input
                  {.phase = backward, .reads = {1}, .base = 0, .writes = true},    // 5: into the result
                  {.phase = backward, .reads = {2}, .base = 0, .writes = true}}, // 6: into what is gone then
        .kept = {1, 3}};
    const auto live = echo::detail::live_nodes(echo::read(g));
    for (const std::size_t n : {1U, 3U, 4U, 5U}) CHECK(live[echo::node_id(n)]);
    for (const std::size_t n : {2U, 6U}) CHECK(!live[echo::node_id(n)]);
}

TEST_CASE("a plan ends with the numbers of the graph's own order", "[storage_writes]") {
    support::coverage seen;
    const std::uint32_t count = support::sanitized ? 60 : 300;
    for (std::uint32_t seed = 0; seed < count; ++seed) {
        INFO("seed " << seed);
        const tape g = random_tape(seed);
        const echo::snapshot s = echo::read(g);
        const echo::plan p = echo::make_plan(s, {.max_overhead = 1, .encode = false});
        echo::verify(s, p);
        CHECK(results_of(g, p.steps()) == results_of(g, echo::baseline_schedule(s)));
        seen.of("run something again", p.report().recomputed_nodes > 0);
        seen.of("write", std::any_of(g.nodes.begin(), g.nodes.end(), [](const op& n) { return n.writes; }));
    }
    seen.require({{"run something again", 0.3}, {"write", 0.8}});
}

TEST_CASE("a write that names no input is refused", "[storage_writes]") {
    tape g{.nodes = {{.phase = echo::phase::input}, {.reads = {0}, .base = 1, .writes = true}}, .kept = {1}};
    CHECK_THROWS_WITH(echo::read(g), Catch::Contains("input"));
}
