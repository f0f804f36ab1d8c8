// SPDX-License-Identifier: BSL-1.0
// Values that wait in the host's memory: clocks by hand, every rule of the moves broken alone, and the laws on random
// graphs for random links and hosts.
#include "support/laws.hpp"
#include "support/properties.hpp"
#include "support/random_graph.hpp"
#include "support/toy_graph.hpp"

#include <echo/analysis/plan/bound/budget_bound.hpp>
#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/analysis/plan/most_away.hpp>
#include <echo/analysis/plan/offload/copy_clocks.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace {

using echo::copy_id;
using echo::step_id;
using echo::step_kind;
using support::recipe;
using support::require;

support::coverage seen;

using read_values = std::vector<support::toy_graph::value>;

/// A heavy op that takes so long and makes one value of so many bytes.
support::toy_graph::value add_timed(support::toy_graph& g, echo::phase phase, read_values in,
                                    std::uint64_t bytes, double us) {
    return g.add(
        {.phase = phase, .kind = echo::op_kind::heavy, .rerun = echo::rerun_kind::pure, .time_us = us},
        std::move(in), {{.bytes = bytes}});
}

/// a → b, and gradients that read b, then a: each takes 10 µs, each value 1000 bytes. The seed takes no time.
struct two_maps {
    echo::snapshot s;
    echo::node_id x{0}, a{1}, b{2}, seed{3}, back_b{4}, back_a{5};

    two_maps() {
        support::toy_graph g;
        const auto timed = [&](echo::phase phase, read_values in, double us) {
            return add_timed(g, phase, std::move(in), 1000, us);
        };
        const auto input = g.input(8);
        const auto first = timed(echo::phase::forward, {input}, 10);
        const auto second = timed(echo::phase::forward, {first}, 10);
        const auto one = timed(echo::phase::backward, {}, 0);
        const auto of_b = timed(echo::phase::backward, {second, one}, 10);
        s = g.finish({timed(echo::phase::backward, {first, of_b}, 10)});
    }

    /// The graph's own order, but a is away between b and the last gradient. `early`: it comes back before the gradient
    /// of b runs.
    echo::schedule away(bool early) const {
        echo::schedule steps;
        const auto run = [&](echo::node_id n, std::vector<copy_id> in) {
            const step_id t = steps.add({.node = n});
            for (const auto c : in) steps.read(c);
            return copy_id{t, 0};
        };
        const auto cx = run(x, {}), ca = run(a, {cx}), cb = run(b, {ca});
        const copy_id out{steps.add({.node = a, .kind = step_kind::offload, .bytes = 1000}), 0};
        steps.read(ca);
        const auto cs = run(seed, {});
        const auto bring = [&] {
            const copy_id in{steps.add({.node = a, .kind = step_kind::reload, .bytes = 1000}), 0};
            steps.read(out);
            return in;
        };
        copy_id back{};
        if (early) back = bring();
        const auto cg = run(back_b, {cb, cs});
        if (!early) back = bring();
        run(back_a, {back, cg});
        return steps;
    }
};

constexpr echo::link_model slow_out{.out_bytes_per_us = 50, .in_bytes_per_us = 100};

double stall_us(const two_maps& g, const echo::schedule& steps, const echo::link_model& link) {
    const auto times = echo::times_of(g.s);
    return times.microseconds(echo::replay_copies(steps, times, link).stall);
}

/// A plan of the steps with a report that is true, but for what `change` makes of it.
echo::plan plan_of(const echo::snapshot& s, const echo::schedule& steps, const echo::link_model& link,
                   const std::function<void(echo::plan_report&)>& change = {}) {
    const auto before = echo::footprint(s, echo::baseline_schedule(s)), after = echo::footprint(s, steps);
    const auto times = echo::times_of(s);
    const auto copies = echo::replay_copies(steps, times, link);
    echo::plan_report r{.baseline_peak_bytes = before.peak_bytes,
                        .peak_bytes = after.peak_bytes,
                        .resident_bytes = echo::resident_bytes(s),
                        .baseline_stash_bytes = before.stash_bytes,
                        .stash_bytes = after.stash_bytes,
                        .link = link,
                        .offloaded_values = copies.offloads,
                        .offloaded_bytes = copies.out_bytes,
                        .host_bytes = copies.host_bytes,
                        .stall_time_ratio = times.part(copies.stall)};
    if (change) change(r);
    return {echo::strategy::budget, steps, {.offload = true}, r};
}

std::string refusal(const echo::snapshot& s, const echo::plan& p) {
    try {
        echo::verify(s, p);
    } catch (const echo::error& e) {
        return e.what();
    }
    return "accepted";
}

/// The steps of `from`, each as `change` makes it: its record and its inputs.
echo::schedule
changed(const echo::schedule& from,
        const std::function<void(step_id, echo::step_record&, std::vector<copy_id>&)>& change) {
    echo::schedule to;
    for (const auto t : from.steps()) {
        echo::step_record record = from[t];
        std::vector<copy_id> inputs(from.inputs(t).begin(), from.inputs(t).end());
        change(t, record, inputs);
        to.add(record);
        for (const auto c : inputs) to.read(c);
    }
    return to;
}

} // namespace

TEST_CASE("copies travel beside the computation, and steps wait for them", "[offload]") {
    const two_maps g;
    // a is made at 10; its copy travels from 10 to 30, while b runs to 20.
    CHECK(stall_us(g, g.away(true), slow_out) == Approx(10).epsilon(1e-6));
    // It comes back from 40 to 50, behind the gradient of b, and its reader waits.
    CHECK(stall_us(g, g.away(false), slow_out) == Approx(20).epsilon(1e-6));
    CHECK(stall_us(g, g.away(true), {.out_bytes_per_us = 100, .in_bytes_per_us = 100}) ==
          Approx(0).margin(1e-6));
    // One engine: the copy back begins when the copy out has ended, which the computation has waited for.
    CHECK(stall_us(g, g.away(true), {.out_bytes_per_us = 50, .in_bytes_per_us = 100, .both_ways = false}) ==
          Approx(10).epsilon(1e-6));
    const auto copies = echo::replay_copies(g.away(true), echo::times_of(g.s), slow_out);
    CHECK(copies.offloads == 1);
    CHECK(copies.out_bytes == 1000);
    CHECK(copies.host_bytes == 1000);
    // b, its gradient and the seed; without the move also a.
    CHECK(echo::footprint(g.s, g.away(false)).peak_bytes == 3000);
    CHECK(echo::footprint(g.s, echo::baseline_schedule(g.s)).peak_bytes == 4000);
    CHECK(refusal(g.s, plan_of(g.s, g.away(true), slow_out)) == "accepted");
    CHECK(refusal(g.s, plan_of(g.s, g.away(false), slow_out)) == "accepted");
}

TEST_CASE("what is away leaves before a gradient and comes back behind it", "[offload][bound]") {
    const two_maps g;
    const auto c = echo::detail::find_candidates(g.s);
    const auto bytes_away = [&](echo::node_id at, const echo::link_model& link, double part) {
        return static_cast<double>(echo::detail::most_away(g.s, c, link, c.times.at_most(part))(at));
    };
    const echo::link_model fast{.out_bytes_per_us = 100, .in_bytes_per_us = 100};
    CHECK(bytes_away(g.back_b, fast, 0) == Approx(1000).margin(2));    // 10 µs behind it
    CHECK(bytes_away(g.back_b, fast, 0.25) == Approx(2000).margin(2)); // a wait of 10 µs more
    CHECK(bytes_away(g.back_a, fast, 0) == Approx(0).margin(2));       // nothing runs behind it
    CHECK(bytes_away(g.back_b, {.out_bytes_per_us = 10, .in_bytes_per_us = 100}, 0) ==
          Approx(200).margin(2)); // 20 µs before it
    CHECK(bytes_away(g.back_b, {.out_bytes_per_us = 100, .in_bytes_per_us = 100, .host_bytes = 300}, 0) ==
          300);
}

TEST_CASE("plans that move wrongly are refused", "[offload][verify]") {
    const two_maps g;
    const auto steps = g.away(true);
    const auto refused = [&](const echo::schedule& wrong) {
        return refusal(g.s, plan_of(g.s, wrong, slow_out));
    };
    const auto with = [&](auto change) { return refused(changed(steps, change)); };
    using Catch::Matchers::Contains;

    CHECK_THAT(with([](step_id, echo::step_record& r, auto&) {
                   if (r.kind == step_kind::offload || r.kind == step_kind::reload) r.bytes = 999;
               }),
               Contains("the storage has 1000"));
    CHECK_THAT(with([](step_id, echo::step_record& r, auto&) {
                   if (r.kind == step_kind::reload) r.bytes = 999;
               }),
               Contains("1000 left"));
    CHECK_THAT(with([](step_id t, echo::step_record&, std::vector<copy_id>& in) {
                   if (t.index() == 7) in[0] = {step_id(3), 0};
               }),
               Contains("lies in the host's memory"));
    CHECK_THAT(with([](step_id, echo::step_record& r, std::vector<copy_id>& in) {
                   if (r.kind == step_kind::reload) in[0] = {step_id(1), 0};
               }),
               Contains("never left"));
    CHECK_THAT(with([](step_id t, echo::step_record& r, std::vector<copy_id>& in) {
                   if (t.index() == 7) in[0] = {step_id(1), 0};
                   if (r.kind != step_kind::offload && r.kind != step_kind::reload) return;
                   r.node = echo::node_id(0);
                   r.bytes = 8;
                   if (r.kind == step_kind::offload) in[0] = {step_id(0), 0};
               }),
               Contains("resident"));
    const auto sound = plan_of(g.s, steps, slow_out);
    CHECK_THAT(refusal(g.s, {echo::strategy::budget, steps, {}, sound.report()}),
               Contains("the host moves nothing"));
    for (const auto& [what, change] :
         std::vector<std::pair<std::string, std::function<void(echo::plan_report&)>>>{
             {"stall_time_ratio", [](auto& r) { r.stall_time_ratio *= 0.99; }},
             {"host_bytes", [](auto& r) { r.host_bytes -= 1; }},
             {"offloaded_values", [](auto& r) { r.offloaded_values += 1; }},
             {"offloaded_bytes", [](auto& r) { r.offloaded_bytes += 1; }}}) {
        CAPTURE(what);
        CHECK_THAT(refusal(g.s, plan_of(g.s, steps, slow_out, change)), Contains(what));
    }
    CHECK_THROWS_AS(echo::make_plan(g.s, {.host = {.offload = true}, .link = {.out_bytes_per_us = 1}}),
                    echo::error);
    // A rate need be no whole number, nor near one.
    for (const double rate : {1901.32, 0.0123, 1e9 / 3}) {
        const echo::link_model link{.out_bytes_per_us = rate, .in_bytes_per_us = rate / 7};
        CHECK(refusal(g.s, plan_of(g.s, steps, link)) == "accepted");
    }
}

TEST_CASE("the planner moves what recomputation cannot save", "[offload]") {
    const two_maps g;
    const echo::plan_options fast{.max_overhead = 0.3,
                                  .host = {.recompute = false, .offload = true},
                                  .link = {.out_bytes_per_us = 100, .in_bytes_per_us = 100}};
    const auto moved = echo::make_plan(g.s, fast);
    CHECK(moved.report().peak_bytes == 3000);
    CHECK(moved.report().offloaded_values == 1);
    CHECK(moved.report().stall_time_ratio == Approx(0.25).epsilon(1e-6)); // while a comes back
    auto full = fast;
    full.link.host_bytes = 999;
    CHECK(echo::make_plan(g.s, full).report().offloaded_values == 0);
    auto other = fast;
    other.host.offload = false;
    CHECK(echo::make_plan(g.s, other).report().peak_bytes == 4000);
}

TEST_CASE("what is away at one peak stays away for the next", "[offload]") {
    support::toy_graph g;
    const auto timed = [&](echo::phase phase, read_values in, std::uint64_t bytes) {
        return add_timed(g, phase, std::move(in), bytes, 10);
    };
    using enum echo::phase;
    const auto a = timed(forward, {g.input(8)}, 1000);
    const auto b = timed(forward, {a}, 8);
    const auto c = timed(forward, {b}, 8000); // four steps at the peak, while a waits
    const auto d = timed(forward, {c}, 8);
    const auto e = timed(forward, {d}, 8000);
    const auto f = timed(forward, {e}, 8);
    const auto back = timed(backward, {f}, 8);
    const auto s = g.finish({timed(backward, {a, back}, 8)});
    echo::plan_options how{.max_overhead = 0.4,
                           .host = {.recompute = false, .offload = true},
                           .link = {.out_bytes_per_us = 1000, .in_bytes_per_us = 25}};
    const auto p = echo::make_plan(s, how);
    echo::verify(s, p);
    const auto own = echo::footprint(s, echo::baseline_schedule(s)).peak_bytes;
    CHECK(p.report().peak_bytes == own - 1000);
    CHECK(p.report().offloaded_values == 1);
    CHECK(p.report().stall_time_ratio == Approx(0.375).epsilon(1e-6)); // 40 µs back, 10 of them beside `back`
    how.max_overhead = 0.3;
    CHECK(echo::make_plan(s, how).report().peak_bytes == own);
}

TEST_CASE("views of what was away run again where they are read", "[offload]") {
    support::toy_graph g;
    const auto timed = [&](echo::phase phase, read_values in, std::uint64_t bytes) {
        return add_timed(g, phase, std::move(in), bytes, 10);
    };
    using enum echo::phase;
    const auto x = g.input(8);
    const auto a = timed(forward, {x}, 1000);
    const auto v = g.view(a);
    const auto b = timed(forward, {v}, 8);
    const auto c = timed(forward, {b}, 8000); // the peak, while a waits
    const auto d = timed(forward, {c}, 8);
    const auto back = timed(backward, {d}, 8);
    const auto last = timed(backward, {a, v, back}, 8);
    const auto s = g.finish({last});
    const auto p = echo::make_plan(s, {.max_overhead = 0,
                                       .host = {.offload = true},
                                       .link = {.out_bytes_per_us = 200, .in_bytes_per_us = 200}});
    echo::verify(s, p);
    const auto own = echo::footprint(s, echo::baseline_schedule(s)).peak_bytes;
    CHECK(p.report().peak_bytes == own - 1000);
    CHECK(p.report().offloaded_values == 1);
    CHECK(p.mirrored() == std::vector{s[v].producer});
    CHECK(p.report().stall_time_ratio == 0);
}

TEST_CASE("plans that move keep the laws, and are never worse than those without", "[laws][offload]") {
    support::check(0.5, [](bool encode) {
        const recipe r = *support::recipes();
        const echo::snapshot s = support::build(r), nameless = support::build(r, false);
        const auto before = support::require_sound(s, echo::baseline_schedule(s));
        const auto part = *support::numbers(100), rate = *support::numbers(8),
                   lacking = *support::numbers(16);
        echo::plan_options plain{.encode = !encode,
                                 .host = {.recompute = lacking != 1,
                                          .move = lacking != 2,
                                          .encode = lacking != 3,
                                          .erase = lacking != 4,
                                          .fuse = lacking > 11}};
        if (part % 2 == 0)
            plain.budget = before.peak_bytes * part / 100;
        else
            plain.max_overhead = static_cast<double>(part) / 400;
        auto options = plain;
        options.host.offload = true;
        options.link = {.out_bytes_per_us = static_cast<double>(1U << (2 * rate)) + 0.3217,
                        .in_bytes_per_us = static_cast<double>(1U << (2 * rate)) / 3,
                        .both_ways = part % 3 != 0};
        if (part % 5 == 0) options.link.host_bytes = 300;
        const auto p = echo::make_plan(s, options), without = echo::make_plan(s, plain);
        const auto &now = p.report(), &was = without.report();
        support::require_laws(s, p, before);
        support::require_applied(s, p);
        require(p == echo::make_plan(s, options), "law 8: planned twice, two plans");
        require(p.steps() == echo::make_plan(nameless, options).steps(), "law 8: names change the plan");
        require(now.host_bytes <= options.link.host_bytes,
                "more of the host's memory is taken than there is");
        const double time = now.recompute_time_ratio + now.stall_time_ratio;
        if (plain.budget == echo::any_peak) {
            require(time <= plain.max_overhead + 1e-9, "recomputation and waits go beyond their limit");
            require(now.peak_bytes <= was.peak_bytes, "with moves the peak is higher");
        } else {
            require(std::max(now.peak_bytes, plain.budget) <= std::max(was.peak_bytes, plain.budget),
                    "with moves the budget is missed by more");
            require(!was.met() || time <= was.recompute_time_ratio + 1e-9, "with moves more time is spent");
        }
        if (plain.budget == echo::any_peak) {
            // Wherever it is looked for.
            const auto c = echo::detail::find_candidates(s, options.host);
            std::vector<echo::node_id> at(s.nodes().begin(), s.nodes().end());
            const auto most = c.times.at_most(plain.max_overhead);
            const echo::detail::most_away away(s, c, options.link, most);
            const auto bound = echo::detail::budget_bound(s, c, options.encode).within(most, at, 1000, away);
            require(bound <= now.peak_bytes, "the bound of moves lies above a peak");
            seen.of("bound by the link", bound > now.lower_bound_bytes / 2);
        }
        // The bound holds for whatever plan keeps the same limits: this one is found by a search without its passes.
        auto less = options;
        less.search = {.growth = false,
                       .nearest = false,
                       .polish = false,
                       .recreate = false,
                       .exchange = false,
                       .front = false};
        require(echo::make_plan(s, less).report().lower_bound_bytes <= now.peak_bytes,
                "the bound lies above the peak of another plan");
        bool view = false, packed = false, again = false;
        for (const auto t : p.steps().steps()) {
            const auto& step = p.steps()[t];
            if (step.kind == step_kind::offload) {
                packed |= echo::is_encoding(p.steps(), {t, 0});
                again |= p.steps()[p.steps().inputs(t)[0].step].kind == step_kind::recompute;
            }
            if (step.kind == step_kind::recompute && s[step.node].kind == echo::op_kind::view)
                for (const auto c : p.steps().inputs(t)) view |= p.steps()[c.step].kind == step_kind::reload;
        }
        seen.of("move", now.offloaded_values > 0);
        seen.of("move several", now.offloaded_values > 2);
        seen.of("wait", now.stall_time_ratio > 0);
        seen.of("move and recompute", now.offloaded_values > 0 && now.recomputed_nodes > 0);
        seen.of("move an encoding", packed);
        seen.of("move what was made again", again);
        seen.of("look anew at what came back", view);
        seen.of("lower the peak", now.peak_bytes < was.peak_bytes);
        seen.of("fuse and move", now.fused_nodes > 0 && now.offloaded_values > 0);
    });
}

TEST_CASE("the random plans that move cover what they should", "[offload]") {
    if (seen.empty()) return; // the case above was not run
    seen.print();
    seen.require({{"move", 0.1},
                  {"move several", 0.01},
                  {"wait", 0.01},
                  {"move and recompute", 0.01},
                  {"bound by the link", 0.05},
                  {"lower the peak", 0.05}});
}
