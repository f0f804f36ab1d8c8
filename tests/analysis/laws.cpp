// SPDX-License-Identifier: BSL-1.0
// The laws that every plan keeps, on random training graphs, for every strategy and every kind of host. What
// the random graphs and their plans cover is printed at the end, and asserted.
#include "support/laws.hpp"
#include "support/processor_time.hpp"
#include "support/properties.hpp"
#include "support/random_graph.hpp"
#include "support/toy_graph.hpp"

#include <echo/analysis/fused_profile.hpp>
#include <echo/analysis/plan/decision/candidates.hpp>

#include <algorithm>

namespace {

using support::lines;
using support::recipe;
using support::require;
using support::trait;

support::coverage graphs_seen, plans_seen, fused_seen;

/// Bits say what the host lacks: 0 is a host that can do everything.
echo::host_abilities host_lacking(unsigned bits) {
    return {.recompute = !(bits & 1U),
            .recompute_results = !(bits & 2U),
            .move = !(bits & 4U),
            .encode = !(bits & 8U),
            .erase = !(bits & 16U)};
}

void cover_graph(const echo::snapshot& s, const support::definition& before) {
    bool view = false, back_view = false, seeded = false, bit = false, update = false, early = false,
         control = false, several = false, inside = false, late = false, resident = false, zero = false,
         kept = false, timed = false;
    bool backward = false;
    const auto c = echo::detail::find_candidates(s);
    for (const auto n : s.nodes()) {
        const auto& node = s[n];
        if (node.phase == echo::phase::input) continue;
        view |= node.phase == echo::phase::forward && node.kind == echo::op_kind::view;
        back_view |= node.phase == echo::phase::backward && node.kind == echo::op_kind::view;
        seeded |= node.rerun == echo::rerun_kind::seeded;
        early |= update && node.phase == echo::phase::backward;
        update |= node.phase == echo::phase::update;
        inside |= backward && node.phase == echo::phase::forward;
        backward |= node.phase == echo::phase::backward;
        control |= !s.control(n).empty();
        several |= s.outputs(n).size() > 1;
        kept |= node.keep;
        timed |= node.time_us >= 0;
        for (std::size_t i = 0; i < s.inputs(n).size(); ++i) {
            const auto v = s.inputs(n)[i];
            require(s.sources(n)[i] == echo::edge_source{s[v].producer, s.output_index(v)},
                    "an input has another source than the value's producer");
            bit |= s.one_bit(n, i);
        }
        for (const auto v : s.outputs(n)) zero |= s[v].bytes == 0;
        late |= node.phase == echo::phase::forward && c.live[n] && c.late_is_free(n);
        resident |= node.phase == echo::phase::forward && before.writes_resident[n.index()];
    }
    const auto dead = support::dead_by_definition(s, before);
    auto& g = graphs_seen;
    g.of("forward views", view);
    g.of("views in the backward pass", back_view);
    g.of("writes in place", before.in_place);
    g.of("forward writes on residents", resident);
    g.of("seeded ops", seeded);
    g.of("one-bit reads", bit);
    g.of("updates between gradients", early);
    g.of("control dependencies", control);
    g.of("nodes with several outputs", several);
    g.of("forward nodes within the backward pass", inside);
    g.of("nodes that may run late", late);
    bool some_dead = false;
    for (const auto n : s.nodes()) some_dead |= dead[n.index()] && s[n].phase != echo::phase::input;
    g.of("dead nodes", some_dead);
    g.of("empty values", zero);
    g.of("wishes to keep", kept);
    g.of("measured times", timed);
}

void cover_plan(const echo::snapshot& s, const echo::plan& p, const support::definition& before) {
    if (p.chosen_by() == echo::strategy::baseline) return;
    bool late = false;
    echo::node_id latest = echo::node_id(0);
    for (const auto t : p.steps().steps()) {
        if (p.steps()[t].kind != echo::step_kind::run) continue;
        late |= p.steps()[t].node < latest;
        latest = std::max(latest, p.steps()[t].node);
    }
    bool seeded = false;
    for (const auto n : p.mirrored()) seeded |= s[n].rerun == echo::rerun_kind::seeded;
    auto& c = plans_seen;
    c.of("recompute", p.report().recomputed_nodes > 0);
    c.of("recompute a seeded op", seeded);
    c.of("encode", p.report().encoded_values > 0);
    c.of("run late", late);
    c.of("rolled back", std::ranges::any_of(p.report().notes, [](const std::string& note) {
             return note.find("rolled back") != note.npos;
         }));
    c.of("improve the peak", p.report().peak_bytes < before.peak_bytes);
    if (p.chosen_by() == echo::strategy::min_cut && p.host() == echo::host_abilities{})
        c.of("min_cut, able host: improve the peak", p.report().peak_bytes < before.peak_bytes);
}

void cover_fusion(const echo::snapshot& s, const echo::plan& p, const echo::plan& plain) {
    if (plain.report().recomputed_nodes == 0) return;
    bool chain = false, view = false, early = false, in_place = false, draws = false;
    const auto& steps = p.steps();
    for (const auto t : steps.steps()) {
        bool reads_fused = false, writes = false;
        for (const auto c : steps.inputs(t)) reads_fused |= steps[c.step].fused;
        if (steps[t].kind != echo::step_kind::encode)
            for (const auto v : s.outputs(steps[t].node)) writes |= s[v].inplace != echo::no_input;
        in_place |= reads_fused && writes;
        if (!steps[t].fused) continue;
        chain |= reads_fused;
        view |= s[steps[t].node].kind == echo::op_kind::view;
        early |= s[steps[t].node].phase == echo::phase::backward;
        draws |= s[steps[t].node].rerun == echo::rerun_kind::seeded;
    }
    auto& c = fused_seen;
    require(echo::profile_fused(s, steps).bytes_saved() >= 0, "with fusion more bytes are moved");
    c.of("fuse", p.report().fused_nodes > 0);
    c.of("fuse what draws random numbers", draws);
    c.of("fuse a chain", chain);
    c.of("fuse a view", view);
    c.of("run a view of the backward pass early for it", early);
    c.of("fuse into an op that may write in place", in_place);
    c.of("have a lower peak by it", p.report().peak_bytes < plain.report().peak_bytes);
    c.of("recompute less by it", p.report().recompute_time_ratio < plain.report().recompute_time_ratio);
}

} // namespace

TEST_CASE("every plan keeps the laws", "[laws]") {
    support::check(1, [](bool encode) {
        const recipe r = *support::recipes();
        const auto lacking = *support::numbers(64); // half of the hosts can do everything
        const auto host = host_lacking(lacking < 32 ? lacking : 0);
        const echo::snapshot s = support::build(r), nameless = support::build(r, false);
        const auto before = support::require_sound(s, echo::baseline_schedule(s));
        cover_graph(s, before);
        std::vector<echo::plan_options> all;
        for (const auto how : echo::all_strategies) all.push_back({.how = how});
        const auto part = *support::numbers(100); // of the baseline's peak
        all.push_back({.how = echo::strategy::budget, .budget = before.peak_bytes * part / 100});
        // A dozen searches each.
        if (part % 16 == 0)
            all.push_back({.how = echo::strategy::budget, .max_overhead = static_cast<double>(part) / 400});
        for (auto& options : all) {
            options.encode = !encode;
            options.host = host;
            const auto p = echo::make_plan(s, options);
            RC_LOG() << "strategy " << echo::name_of(p.chosen_by()) << ", " << s.node_count() << " nodes\n";
            support::require_laws(s, p, before);
            support::require_budget(s, p, options);
            cover_plan(s, p, before);
            require(p == echo::make_plan(s, options), "law 8: planned twice, two plans");
            require(p.steps() == echo::make_plan(nameless, options).steps(), "law 8: names change the plan");
            support::require_applied(s, p);
        }
    });
}

TEST_CASE("fused plans keep the laws, and are never worse than those without", "[laws][fused]") {
    support::check(0.2, [](bool encode) {
        const recipe r = *support::recipes();
        const auto lacking = *support::numbers(64);
        auto host = host_lacking(lacking < 48 ? 0 : lacking - 32); // a quarter of the hosts lack something
        const echo::snapshot s = support::build(r), nameless = support::build(r, false);
        const auto before = support::require_sound(s, echo::baseline_schedule(s));
        std::vector<echo::plan_options> all;
        for (const auto how : echo::all_strategies) all.push_back({.how = how});
        const auto part = *support::numbers(100);
        all.push_back({.how = echo::strategy::budget, .budget = before.peak_bytes * part / 100});
        if (part % 16 == 0)
            all.push_back({.how = echo::strategy::budget, .max_overhead = static_cast<double>(part) / 400});
        for (auto& options : all) {
            options.encode = !encode;
            options.host = host;
            const auto plain = echo::make_plan(s, options);
            options.host.fuse = true;
            const auto p = echo::make_plan(s, options);
            RC_LOG() << "strategy " << echo::name_of(p.chosen_by()) << ", " << s.node_count() << " nodes\n";
            support::require_laws(s, p, before);
            support::require_budget(s, p, options);
            support::require_no_worse(p, plain, options);
            support::require_fusion_limits(s, p.steps());
            cover_fusion(s, p, plain);
            require(p == echo::make_plan(s, options), "law 8: planned twice, two plans");
            require(p.steps() == echo::make_plan(nameless, options).steps(), "law 8: names change the plan");
            support::require_applied(s, p);
        }
    });
}

TEST_CASE("facts made pessimistic make no plan wrong", "[laws]") {
    support::check(0.2, [] {
        const recipe r = *support::recipes();
        recipe worse = r;
        const auto at = *support::numbers(static_cast<unsigned>(r.ops.size()));
        auto& op = worse.ops[at];
        if (op[trait::kind] == 0) op[trait::kind] = 1;
        op[trait::rerun] = 2;
        op[trait::one_bit] = 0;
        const echo::snapshot s = support::build(r), pessimistic = support::build(worse);
        const auto before = support::by_definition(s, echo::baseline_schedule(s));
        for (const auto how : echo::all_strategies) {
            const auto p = echo::make_plan(pessimistic, {.how = how});
            support::require_laws(pessimistic, p, before);
            const auto faults = support::wrong(s, p.steps());
            require(faults.empty(),
                    "a plan for pessimistic facts is wrong for the true ones: " + lines(faults));
        }
    });
}

TEST_CASE("graphs at the edges keep the laws", "[laws]") {
    using support::toy_graph;
    std::vector<echo::snapshot> edges;
    edges.push_back(toy_graph().finish({}));
    {
        toy_graph g;
        const auto x = g.input(8);
        edges.push_back(g.finish({x})); // nothing but an input, which is a graph output
    }
    {
        toy_graph g;
        const auto y = g.light({g.input(8)}, 8);
        edges.push_back(g.finish({y})); // no backward pass
    }
    {
        toy_graph g;
        g.backward({g.input(8)}, 8);
        edges.push_back(g.finish({})); // all dead
    }
    {
        toy_graph g;
        g.backward_view(g.light({g.input(8)}, 8));
        edges.push_back(g.finish({}));
    }
    {
        toy_graph g; // sizes of which no fraction fits into a capacity
        const auto x = g.heavy({g.input(8)}, std::uint64_t{1} << 59);
        const auto y = g.light({x}, (std::uint64_t{1} << 60) + 5);
        const auto loss = g.light({y}, 0);
        edges.push_back(g.finish({loss, g.backward({g.backward({g.seed(), y}, 1), x}, 1)}));
    }
    for (std::size_t i = 0; i < edges.size(); ++i) {
        const auto& s = edges[i];
        const auto before = support::require_sound(s, echo::baseline_schedule(s));
        for (const auto how : echo::all_strategies) {
            CAPTURE(i, echo::name_of(how));
            CHECK_NOTHROW(support::require_laws(s, echo::make_plan(s, {.how = how}), before));
        }
    }
}

namespace {

/// A chain of light ops and its gradients; each op reads what the last made.
echo::snapshot chain(std::size_t length) {
    support::toy_graph g;
    std::vector<support::toy_graph::value> made{g.heavy({g.input(64)}, 64)};
    for (std::size_t i = 1; i < length; ++i)
        made.push_back(i % 50 ? g.light({made.back()}, 64) : g.heavy({made.back()}, 128));
    const auto loss = g.light({made.back()}, 4);
    auto dy = g.seed();
    for (std::size_t i = length; i-- > 0;) dy = g.backward({dy, made[i]}, 64);
    return g.finish({loss, dy});
}
/// One light chain without a heavy op in between and a single reader.
echo::snapshot lone_chain(std::size_t length) {
    support::toy_graph g;
    auto x = g.heavy({g.input(64)}, 64);
    for (std::size_t i = 0; i < 2 * length; ++i) x = g.light({x}, 64 + i % 7);
    const auto loss = g.light({x}, 4);
    return g.finish({loss, g.backward({g.seed(), x}, 64)});
}
/// One value that all ops read, and one node that reads all they make.
echo::snapshot fan(std::size_t width) {
    support::toy_graph g;
    const auto x = g.heavy({g.input(64)}, 64);
    std::vector<support::toy_graph::value> made;
    for (std::size_t i = 0; i < width; ++i) made.push_back(g.light({x}, 64));
    const auto loss = g.light(made, 4);
    auto dy = g.seed();
    for (std::size_t i = width; i-- > 0;) dy = g.backward({dy, made[i]}, 64);
    return g.finish({loss, dy});
}
/// Two chains that read each other, as a recurrence of two states.
echo::snapshot ladder(std::size_t rungs) {
    support::toy_graph g;
    const auto data = g.input(64);
    std::vector<support::toy_graph::value> a{g.heavy({data}, 64)}, b{g.heavy({data}, 64)};
    for (std::size_t i = 1; i < rungs / 2; ++i) {
        a.push_back(g.light({a.back(), b.back()}, 64));
        b.push_back(i % 10 ? g.light({b.back(), a.back()}, 32) : g.heavy({b.back(), a.back()}, 32));
    }
    const auto loss = g.light({a.back(), b.back()}, 4);
    auto dy = g.seed();
    for (std::size_t i = a.size(); i-- > 0;) dy = g.backward({g.heavy_backward({dy, b[i]}, 64), a[i]}, 64);
    return g.finish({loss, dy});
}

void require_scales(std::size_t small, std::size_t large, double most_seconds) {
    const struct {
        const char* name;
        echo::snapshot (*make)(std::size_t);
    } shapes[] = {{"chain", chain}, {"lone chain", lone_chain}, {"fan", fan}, {"ladder", ladder}};
    for (const auto& [name, make] : shapes) {
        std::vector<echo::plan_options> all{{.how = echo::strategy::min_cut, .host = {.fuse = true}}};
        for (const auto how : echo::all_strategies) all.push_back({.how = how});
        for (const auto& options : all) {
            // As printed, an op looks at all that read what it reads.
            if (options.how == echo::strategy::echo_printed && make == fan) continue;
            CAPTURE(name, echo::name_of(options.how), options.host.fuse);
            const auto time = [&, make = make](std::size_t size) {
                const auto s = make(size / 2);
                echo::plan p;
                const double took = support::processor_seconds([&] { p = echo::make_plan(s, options); });
                CHECK_NOTHROW(echo::verify(s, p));
                return took;
            };
            const double first = time(small), second = time(large);
            CAPTURE(first, second);
            CHECK(second < most_seconds);
            // Linear would be large ÷ small; a quadratic step anywhere would be its square.
            const double grown = static_cast<double>(large) / static_cast<double>(small);
            CHECK(second < 8 * grown * std::max(first, 0.005));
        }
    }
}

} // namespace

TEST_CASE("a hundred thousand nodes take near-linear time, fewer with a sanitizer", "[laws]") {
    require_scales(ECHO_LAWS_NODES / 10, ECHO_LAWS_NODES, 30);
}

TEST_CASE("a million nodes neither overflow the stack nor take quadratic time", "[.slow][laws]") {
    require_scales(100000, 1000000, 300);
}

TEST_CASE("the random graphs cover what the laws are about", "[laws]") {
    if (graphs_seen.empty()) return; // this case alone was asked for
    std::printf("random graphs with\n");
    graphs_seen.print();
    std::printf("plans that\n");
    plans_seen.print();
    graphs_seen.require({{"forward views", 0.4},
                         {"views in the backward pass", 0.4},
                         {"writes in place", 0.7},
                         {"forward writes on residents", 0.3},
                         {"seeded ops", 0.5},
                         {"one-bit reads", 0.6},
                         {"updates between gradients", 0.3},
                         {"control dependencies", 0.25},
                         {"nodes with several outputs", 0.7},
                         {"forward nodes within the backward pass", 0.05},
                         {"nodes that may run late", 0.35},
                         {"dead nodes", 0.3},
                         {"empty values", 0.4},
                         {"wishes to keep", 0.15},
                         {"measured times", 0.6}});
    plans_seen.require({{"recompute", 0.3},
                        {"recompute a seeded op", 0.08},
                        {"encode", 0.1},
                        {"run late", 0.15},
                        {"rolled back", 0.01},
                        {"improve the peak", 0.4},
                        {"min_cut, able host: improve the peak", 0.55}});
}

TEST_CASE("the fused plans cover what fusion is about", "[laws][fused]") {
    if (fused_seen.empty()) return; // this case alone was asked for
    std::printf("plans that recompute, for hosts that fuse, which\n");
    fused_seen.print();
    fused_seen.require({{"fuse", 0.3}});
}
