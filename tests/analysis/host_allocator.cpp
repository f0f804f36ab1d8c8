// SPDX-License-Identifier: BSL-1.0
// Plans for a host that keeps its own allocator: here NNVM's pool, which ends above Echo's peak.
#include "support/laws.hpp"
#include "support/properties.hpp"
#include "support/random_graph.hpp"
#include "support/sanitized.hpp"
#include "support/toy_graph.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan_memory.hpp>
#include <echo/analysis/schedule/footprint.hpp>
#include <echo/analysis/verify.hpp>

#include <algorithm>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace {

using support::require;

/// Bytes of NNVM's pool for schedules of one graph.
struct pool {
    const echo::snapshot& s;
    std::size_t questions = 0;
    std::uint64_t operator()(const echo::schedule& steps) {
        ++questions;
        return echo::plan_memory(s, steps, {.pool = echo::nnvm_pool{}}).bytes();
    }
};

static_assert(std::is_convertible_v<pool&, echo::host_allocator>);
static_assert(!std::is_convertible_v<pool, echo::host_allocator>); // it would be gone at the semicolon

} // namespace

TEST_CASE("a copy of nothing is nothing", "[host_allocator]") {
    echo::host_allocator nothing;
    const echo::host_allocator copy(nothing);
    CHECK_FALSE(copy);
}

TEST_CASE("what the host's allocator takes decides", "[host_allocator]") {
    support::coverage seen;
    support::check(support::sanitized ? 0.05 : 1, [&](bool fuse) {
        const echo::snapshot s = support::build(*support::recipes());
        pool allocate{s};
        echo::plan_options options;
        options.host.fuse = fuse;
        const echo::plan without = echo::make_plan(s, options);
        options.allocator = allocate;
        const echo::plan p = echo::make_plan(s, options);
        echo::verify(s, p);
        const std::uint64_t baseline = allocate(echo::baseline_schedule(s));
        const auto& r = p.report();
        require(r.baseline_allocated_bytes == baseline, "the graph's own order is asked of first");
        require(r.allocated_bytes == allocate(p.steps()), "the report says what is taken");
        require(r.allocated_bytes <= baseline, "no plan takes more than none");
        require(r.peak_bytes <= r.baseline_peak_bytes, "the peak is no higher");
        require(r.recompute_time_ratio <= 0.05 + 1e-9, "the price is kept");
        if (!fuse) require(r.allocated_bytes <= allocate(without.steps()), "who asks takes no more");
        require(allocate.questions < 64 + 2 * options.spare_run_questions, "questions are few");
        options.spare_run_questions = 0;
        const echo::plan all_runs = echo::make_plan(s, options);
        // Where the host fuses, what is left out can decide which of two plans is chosen.
        require(r.allocated_bytes <= allocate(all_runs.steps()) || fuse, "leaving out runs takes no more");
        require(r.recomputed_nodes <= all_runs.report().recomputed_nodes || fuse, "and runs no more");
        seen.of("leave out a run", r.recomputed_nodes < all_runs.report().recomputed_nodes);
        options.spare_run_questions = 32;
        seen.of("take less by asking", r.allocated_bytes < allocate(without.steps()));

        options.budget = r.allocated_bytes;
        const echo::plan again = echo::make_plan(s, options);
        echo::verify(s, again);
        require(again.report().allocated_bytes == allocate(again.steps()), "the report says what is taken");
        require(again.report().allocated_bytes <= baseline, "no plan takes more than none");
        require(!again.met() || allocate(again.steps()) <= options.budget, "a budget is one of its bytes");
        seen.of("meet a budget", again.met());
    });
    if (!support::sanitized)
        seen.require({{"take less by asking", 0.03}, {"leave out a run", 0.004}, {"meet a budget", 0.5}});
}

TEST_CASE("a schedule that the host cannot run is not chosen", "[host_allocator]") {
    support::toy_graph g;
    const auto data = g.input(1);
    const auto x = g.heavy({data}, 100);
    const auto a = g.light({x}, 100);
    const auto loss = g.light({a}, 0);
    const auto d = g.backward({g.seed(), a, x}, 8);
    const echo::snapshot s = g.finish({loss, d});
    const echo::schedule own = echo::baseline_schedule(s);
    const auto only_own = [&](const echo::schedule& steps) {
        return steps == own ? std::uint64_t{1000} : echo::any_peak;
    };
    for (const auto how : {echo::strategy::budget, echo::strategy::min_cut, echo::strategy::mirror}) {
        const echo::plan p = echo::make_plan(s, {.how = how, .max_overhead = 10, .allocator = only_own});
        CHECK(p.steps() == own);
        CHECK(p.report().allocated_bytes == 1000);
    }
}

TEST_CASE("where the allocator takes more than a budget, lower peaks are tried until it does not",
          "[host_allocator]") {
    // Two maps that two gradients read, far apart, and the peak between them: 608 bytes, or 508, or 408.
    support::toy_graph g;
    const auto x = g.heavy({g.input(1)}, 100), a = g.light({x}, 100), loss = g.light({a}, 0);
    const auto d1 = g.backward({g.seed(), a, x}, 8);
    const auto d2 = g.heavy_backward({g.heavy_backward({d1}, 400)}, 8);
    const echo::snapshot s = g.finish({loss, g.backward({d2, a, x}, 8)});
    const auto takes = [&](const echo::schedule& steps) { return echo::footprint(s, steps).peak_bytes + 90; };
    const echo::plan p = echo::make_plan(s, {.budget = 608, .allocator = takes});
    CHECK(p.met());
    CHECK(p.report().peak_bytes == 508);
    CHECK(p.report().allocated_bytes == 598);
}

TEST_CASE("what the host's allocator throws goes through", "[host_allocator]") {
    support::toy_graph g;
    const auto loss = g.light({g.input(1)}, 8);
    const echo::snapshot s = g.finish({loss});
    const auto fail = [](const echo::schedule&) -> std::uint64_t { throw std::runtime_error("no pool"); };
    CHECK_THROWS_WITH(echo::make_plan(s, {.allocator = fail}), "no pool");
}
