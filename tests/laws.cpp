// SPDX-License-Identifier: BSL-1.0
// The laws that every plan keeps, on random training graphs, for every strategy and every kind of host. What
// the random graphs and their plans cover is printed at the end, and asserted.
#include "support/laws.hpp"
#include "support/properties.hpp"
#include "support/random_graph.hpp"

#include <chrono>
#include <cstring>

namespace {

using support::lines;
using support::recipe;
using support::require;
using support::trait;

support::coverage graphs_seen, plans_seen;

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
    const auto c = echo::find_candidates(s);
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
        timed |= node.time_us == node.time_us;
        for (std::size_t i = 0; i < s.inputs(n).size(); ++i) bit |= s.one_bit(n, i);
        for (const auto v : s.outputs(n)) zero |= s[v].bytes == 0;
        late |= node.phase == echo::phase::forward && c.live[n.index()] && c.late_is_free(n);
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
    g.of("dead nodes", std::find(dead.begin(), dead.end(), 1) != dead.end());
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
    c.of("rolled back", !p.report().notes.empty());
    c.of("improve the peak", p.report().peak_bytes < before.peak_bytes);
    if (p.chosen_by() == echo::strategy::min_cut && p.host() == echo::host_abilities{})
        c.of("min_cut, able host: improve the peak", p.report().peak_bytes < before.peak_bytes);
}

} // namespace

TEST_CASE("every plan keeps the laws", "[laws]") {
    support::check(1, [](bool encode) {
        const recipe r = *support::recipes();
        const unsigned lacking = *rc::gen::inRange(0U, 64U) % 32; // 0 twice as often would be nice
        const bool able = *rc::gen::arbitrary<bool>();
        const auto host = host_lacking(able ? 0 : lacking);
        const echo::snapshot s = support::build(r), nameless = support::build(r, false);
        const auto before = support::require_sound(s, echo::baseline_schedule(s));
        cover_graph(s, before);
        for (const auto how : echo::all_strategies) {
            const echo::plan_options options{.how = how, .encode = !encode, .host = host};
            const auto p = echo::make_plan(s, options);
            RC_LOG() << "strategy " << echo::name_of(how) << ", " << s.node_count() << " nodes\n";
            support::require_laws(s, p, before);
            cover_plan(s, p, before);
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
        const auto at = *rc::gen::inRange<std::size_t>(0, r.ops.size());
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
            require(faults.empty(), "a plan for pessimistic facts is wrong for the true ones: " + lines(faults));
        }
    });
}

TEST_CASE("the random graphs cover what the laws are about", "[laws]") {
    if (graphs_seen.empty()) return; // this case alone was asked for
    std::printf("random graphs with\n");
    graphs_seen.print();
    std::printf("plans that\n");
    plans_seen.print();
}
