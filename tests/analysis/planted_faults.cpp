// SPDX-License-Identifier: BSL-1.0
// Faults that a planner could have, each planted alone into what a right plan says, and each caught: by
// `verify`, and by a law that shares no code with it. What is not spoilt passes both.
#include "support/exhaustive.hpp"
#include "support/laws.hpp"
#include "support/toy_graph.hpp"

#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/plan/strategies/min_cut.hpp>
#include <echo/analysis/plan/strategies/mirror.hpp>

#include <catch2/catch.hpp>

#include <functional>

namespace {

using Catch::Matchers::Contains;
using support::toy_graph;
using value = toy_graph::value;

/// A schedule open to change.
struct draft {
    struct step {
        echo::step_record record;
        std::vector<echo::copy_id> inputs;
    };
    std::vector<step> steps;

    explicit draft(const echo::schedule& from) {
        for (const auto t : from.steps()) {
            const auto in = from.inputs(t);
            steps.push_back({from[t], {in.begin(), in.end()}});
        }
    }
    std::size_t find(echo::node_id n, echo::step_kind kind = echo::step_kind::run) const {
        for (std::size_t t = 0; t < steps.size(); ++t)
            if (steps[t].record.node == n && steps[t].record.kind == kind) return t;
        FAIL("the plan has no such step");
        return 0;
    }
    bool has(echo::node_id n, echo::step_kind kind) const {
        return std::any_of(steps.begin(), steps.end(),
                           [&](const step& s) { return s.record.node == n && s.record.kind == kind; });
    }
    /// A step in front of step `at`.
    void insert(std::size_t at, step made) {
        for (auto& s : steps)
            for (auto& c : s.inputs)
                if (c.step.index() >= at) c.step = echo::step_id(c.step.index() + 1);
        steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(at), std::move(made));
    }
    /// Two neighbours change places.
    void swap(std::size_t at) {
        std::swap(steps[at], steps[at + 1]);
        for (auto& s : steps)
            for (auto& c : s.inputs) {
                if (c.step.index() == at)
                    c.step = echo::step_id(at + 1);
                else if (c.step.index() == at + 1)
                    c.step = echo::step_id(at);
            }
    }
    /// The step at `from` moves behind the step at `to`.
    void move_behind(std::size_t from, std::size_t to) {
        for (; from < to; ++from) swap(from);
    }
    echo::schedule operator()() const {
        echo::schedule all;
        for (const auto& s : steps) {
            all.add(s.record);
            for (const auto c : s.inputs) all.read(c);
        }
        return all;
    }
};

/// A plan of these steps that reports what the replay finds.
echo::plan reported(const echo::snapshot& s, const echo::schedule& steps,
                    const std::function<void(echo::plan_report&)>& lie = {}) {
    const auto c = echo::detail::find_candidates(s);
    echo::plan_report r;
    const auto before = echo::footprint(s, echo::baseline_schedule(s));
    try {
        const auto after = echo::footprint(s, steps);
        r.peak_bytes = after.peak_bytes;
        r.stash_bytes = after.stash_bytes;
    } catch (const echo::error&) { // the replay refuses it too; `verify` must see for itself
        r.peak_bytes = before.peak_bytes;
    }
    r.baseline_peak_bytes = before.peak_bytes;
    r.baseline_stash_bytes = before.stash_bytes;
    r.resident_bytes = echo::resident_bytes(s);
    for (const auto t : steps.steps()) {
        r.recomputed_nodes += steps[t].kind == echo::step_kind::recompute;
        r.encoded_values += steps[t].kind == echo::step_kind::encode;
    }
    r.recompute_time_ratio = c.times.part(echo::detail::recompute_time(c, steps));
    if (lie) lie(r);
    return {echo::strategy::min_cut, steps, {}, r};
}

std::string verdict(const echo::snapshot& s, const echo::plan& p) {
    try {
        echo::verify(s, p);
        return "accepted";
    } catch (const echo::error& e) {
        return e.what();
    }
}

/// What the laws say, `verify` left out.
std::string law(const echo::snapshot& s, const echo::plan& p) {
    const auto faults = support::wrong(s, p.steps());
    if (!faults.empty()) return "law 2: " + support::lines(faults);
    try {
        const auto before = support::by_definition(s, echo::baseline_schedule(s));
        const auto after = support::by_definition(s, p.steps());
        support::require_lean(s, p, before, after);
        support::require(after.peak_bytes <= before.peak_bytes, "law 1: the peak rose");
        support::require(after.peak_bytes == p.report().peak_bytes, "the report's peak is not the replay's");
        return "kept";
    } catch (const support::law_broken& e) {
        return e.what();
    }
}

void accepted(const echo::snapshot& s, const echo::plan& p) {
    CHECK(verdict(s, p) == "accepted");
    CHECK(law(s, p) == "kept");
}

/// Everything there is: x → f (light, as dropout) → y; a state that is written in place; a parameter that is
/// updated in the middle of the backward pass; a view of it; a control dependency; an encoding; a dead node.
struct model {
    struct options {
        echo::rerun_kind dropout = echo::rerun_kind::seeded;
        bool sign_is_enough = true;
    };
    echo::snapshot s;
    value x, weight, scaled, dropped, normal, relu, late, gx, updated, g_scaled, g_last, seen, dead;
    echo::node_id at(value v) const { return s[v].producer; }

    model() : model(options{}) {}
    explicit model(const options& o) {
        toy_graph g;
        const auto data = g.input(8);
        weight = g.input(512);
        const auto state = g.input(64);
        seen = g.view(weight);
        x = g.heavy({data}, 1024);
        scaled = g.light({x, seen}, 1024);
        dropped = g.add({.kind = echo::op_kind::light, .rerun = o.dropout}, {x}, {{.bytes = 2048}});
        normal = g.add({.kind = echo::op_kind::light, .rerun = echo::rerun_kind::never}, {dropped, state},
                       {{.bytes = 1024}, {.bytes = 64, .inplace = 1}});
        relu = g.light({g.heavy({normal}, 4096)}, 4096);
        const echo::node_id before[] = {g.node(normal)};
        late = g.add({.kind = echo::op_kind::light, .rerun = echo::rerun_kind::pure, .control = before}, {x},
                     {{.bytes = 256}});
        dead = g.light({x}, 512);
        const auto loss = g.light({relu, scaled}, 0);
        auto dy = g.seed();
        dy = g.heavy_backward({dy}, 4096);
        gx = dy = g.backward({dy, relu}, 2048, o.sign_is_enough ? echo::positions{1} : echo::positions{});
        dy = g.backward({dy, dropped, late}, 1024);
        g_scaled = dy = g.backward({dy, scaled, seen}, 1024);
        updated = g.add(
            {.phase = echo::phase::update, .kind = echo::op_kind::light, .rerun = echo::rerun_kind::never},
            {weight, dy}, {{.bytes = 512, .inplace = 0}});
        g_last = g.backward({dy, x}, 1024);
        s = g.finish({loss, g_last});
    }
};

constexpr auto run = echo::step_kind::run, again = echo::step_kind::recompute,
               encode = echo::step_kind::encode;

} // namespace

TEST_CASE("what is not spoilt passes", "[planted_faults]") {
    const model m;
    for (const auto how : echo::all_strategies) {
        const auto p = echo::make_plan(m.s, {.how = how});
        CHECK(verdict(m.s, p) == "accepted");
        if (how != echo::strategy::baseline) CHECK(law(m.s, p) == "kept");
    }
    // The one that most faults are planted in does it all.
    const auto p = echo::make_plan(m.s, {.how = echo::strategy::min_cut});
    accepted(m.s, p);
    accepted(m.s, reported(m.s, p.steps()));
    const draft d(p.steps());
    CHECK(d.has(m.at(m.dropped), again));
    CHECK(d.has(m.at(m.relu), encode));
    CHECK_FALSE(d.has(m.at(m.dead), run));
    CHECK(d.find(m.at(m.late)) > d.find(m.at(m.gx)));
}

TEST_CASE("a dropout without a seed is drawn again", "[planted_faults]") {
    const model seeded, unseeded({.dropout = echo::rerun_kind::never});
    const auto p = reported(unseeded.s, echo::make_plan(seeded.s, {.how = echo::strategy::min_cut}).steps());
    CHECK_THAT(verdict(unseeded.s, p), Contains("may never rerun"));
    CHECK_THAT(law(unseeded.s, p), Contains("law 2") && Contains("computes something else"));
    accepted(unseeded.s, echo::make_plan(unseeded.s, {.how = echo::strategy::min_cut}));
}

TEST_CASE("a node that may never rerun runs again for its statistics", "[planted_faults]") {
    const model m;
    draft d(echo::make_plan(m.s, {.how = echo::strategy::min_cut}).steps());
    const auto first = d.find(m.at(m.normal)), reader = d.find(m.at(m.gx));
    d.insert(reader, {{m.at(m.normal), again, 0}, d.steps[first].inputs});
    const auto p = reported(m.s, d());
    CHECK_THAT(verdict(m.s, p), Contains("may never rerun"));
    CHECK_THAT(law(m.s, p), Contains("law 2"));

    SECTION("and were it pure, it would still write the state twice") {
        echo::snapshot_builder b;
        const echo::tensor state{.bytes = 64}, out[] = {{.bytes = 64}, {.bytes = 64, .inplace = 1}};
        const auto in = b.add({.phase = echo::phase::input, .outputs = {&state, 1}});
        const value read[] = {b.output(in, 0), b.output(in, 0)};
        const auto n = b.add({.name = "norm",
                              .kind = echo::op_kind::light,
                              .rerun = echo::rerun_kind::pure,
                              .inputs = read,
                              .outputs = out});
        const value made[] = {b.output(n, 0)};
        const auto g = b.add({.phase = echo::phase::backward, .inputs = made, .outputs = {&state, 1}});
        b.add_result(b.output(g, 0));
        const auto s = std::move(b).finish();
        draft twice(echo::baseline_schedule(s));
        accepted(s, reported(s, twice()));
        twice.insert(2, {{n, again, 0}, twice.steps[1].inputs});
        twice.steps[3].inputs = {{echo::step_id(2), 0}};
        CHECK_THAT(verdict(s, reported(s, twice())), Contains("norm"));
        CHECK_THAT(law(s, reported(s, twice())), Contains("law 2"));
    }
}

TEST_CASE("a recomputation behind the update of what it reads", "[planted_faults]") {
    // As if `scaled` were made again for a reader behind the update.
    const model m;
    draft d(echo::make_plan(m.s, {.how = echo::strategy::min_cut}).steps());
    const auto first = d.find(m.at(m.scaled)), reader = d.find(m.at(m.g_last));
    d.insert(reader, {{m.at(m.scaled), again, 0}, d.steps[first].inputs});
    const auto p = reported(m.s, d());
    CHECK_THAT(verdict(m.s, p), Contains("wrote over it in place"));
    CHECK_THAT(law(m.s, p), Contains("law 2") && Contains("after it was written over"));
}

TEST_CASE("an encoding where all bits are needed", "[planted_faults]") {
    const model signs, bits({.sign_is_enough = false});
    const auto p = reported(bits.s, echo::make_plan(signs.s, {.how = echo::strategy::min_cut}).steps());
    CHECK_THAT(verdict(bits.s, p), Contains("needs all bits"));
    CHECK_THAT(law(bits.s, p), Contains("law 2") && Contains("needs them all"));
    accepted(bits.s, echo::make_plan(bits.s, {.how = echo::strategy::min_cut}));
}

TEST_CASE("a stash freed too early, another value in its place", "[planted_faults]") {
    const model m;
    draft d(echo::make_plan(m.s, {.how = echo::strategy::min_cut}).steps());
    const auto reader = d.find(m.at(m.g_last)), other = d.find(m.at(m.g_scaled));
    d.steps[reader].inputs[1] = {echo::step_id(other), 0}; // x's memory, so to say
    const auto p = reported(m.s, d());
    CHECK_THAT(verdict(m.s, p), Contains("but reads"));
    CHECK_THAT(law(m.s, p), Contains("law 2") && Contains("computes something else"));
}

TEST_CASE("a recomputation that reads a copy of the wrong value", "[planted_faults]") {
    const model m;
    draft d(echo::make_plan(m.s, {.how = echo::strategy::min_cut}).steps());
    const auto repeated = d.find(m.at(m.dropped), again);
    d.steps[repeated].inputs[0] = {echo::step_id(d.find(m.at(m.gx))), 0};
    const auto p = reported(m.s, d());
    CHECK_THAT(verdict(m.s, p), Contains("but reads"));
    CHECK_THAT(law(m.s, p), Contains("law 2"));
}

TEST_CASE("a control dependency that is dropped", "[planted_faults]") {
    const model m;
    draft d(echo::make_plan(m.s, {.how = echo::strategy::min_cut}).steps());
    // `late` may run late, but not before what it must run after.
    auto at = d.find(m.at(m.late));
    for (const auto target = d.find(m.at(m.x)) + 1; at > target; --at) d.swap(at - 1);
    const auto p = reported(m.s, d());
    CHECK_THAT(verdict(m.s, p), Contains("control") && Contains("must run after"));
    CHECK_THAT(law(m.s, p), Contains("law 2") && Contains("runs before what it must run after"));
}

TEST_CASE("a view whose base was written over", "[planted_faults]") {
    const model m;
    draft d(echo::make_plan(m.s, {.how = echo::strategy::min_cut}).steps());
    // The update runs before the last reader of a view of the parameter.
    const auto reader = d.find(m.at(m.g_scaled));
    REQUIRE(d.find(m.at(m.updated)) == reader + 1);
    d.insert(reader, {{m.at(m.updated), run, 0}, d.steps[reader + 1].inputs});
    d.steps[reader].inputs[1] = {echo::step_id(d.find(m.at(m.gx))), 0};
    d.steps.erase(d.steps.begin() + static_cast<std::ptrdiff_t>(reader + 2));
    for (auto& s : d.steps)
        for (auto& c : s.inputs)
            if (c.step.index() > reader + 1) c.step = echo::step_id(c.step.index() - 1);
    const auto p = reported(m.s, d());
    CHECK(verdict(m.s, p) != "accepted");
    CHECK_THAT(law(m.s, p), Contains("law 2") && Contains("after it was written over"));
}

TEST_CASE("a recomputation that raises the peak is kept", "[planted_faults]") {
    toy_graph g;
    const auto data = g.input(8);
    const auto x = g.heavy({data}, 1000), y = g.heavy({data}, 1000);
    const auto z = g.light({g.light({x, y}, 1000)}, 1000);
    const auto end = g.light({z}, 0);
    const auto s = g.finish({end, g.backward({g.heavy_backward({g.seed()}, 1000), z}, 8)});
    const auto c = echo::detail::find_candidates(s);
    echo::detail::schedule_builder lay_out(s, c);
    accepted(s, echo::make_plan(s, {.how = echo::strategy::mirror}));
    const auto p = reported(s, lay_out(echo::detail::mirror(s, c))); // without roll-back
    CHECK_THAT(verdict(s, p), Contains("is more than the baseline's"));
    CHECK_THAT(law(s, p), Contains("law 1"));
}

TEST_CASE("a cut that is not minimal", "[planted_faults]") {
    toy_graph g;
    const auto z = g.light({g.light({g.heavy({g.input(1)}, 10)}, 20)}, 15);
    const auto loss = g.light({z}, 0);
    const auto s = g.finish({loss, g.backward({g.seed(), z}, 1)});
    const auto c = echo::detail::find_candidates(s);
    const auto stash = [&](const echo::detail::decision& chosen) {
        return echo::footprint(s, echo::detail::schedule_builder(s, c)(chosen)).stash_bytes;
    };
    std::uint64_t least = ~std::uint64_t{0};
    support::choices(s, c, true).for_each(s, false, [&](const auto& chosen) {
        least = std::min(least, stash(chosen));
    });
    auto chosen = echo::detail::decision::nothing(s);
    echo::detail::min_cut(s, c)(echo::detail::anchor_finder(s, c)(echo::detail::no_anchor), {}, chosen);
    CHECK(stash(chosen) == least);
    for (const auto n : {2U, 1U}) { // every node but one of those that the cut has made again
        auto spoilt = chosen;
        spoilt.again.erase(echo::node_id(s.node_count() - 3 - n));
        CHECK(stash(spoilt) > least);
    }
}

TEST_CASE("a dead node is left, and copies that nobody reads", "[planted_faults]") {
    const model m;
    draft d(echo::make_plan(m.s, {.how = echo::strategy::min_cut}).steps());
    SECTION("dead") {
        const auto at = d.find(m.at(m.x));
        d.insert(at + 1, {{m.at(m.dead), run, 0}, {{echo::step_id(at), 0}}});
        const auto p = reported(m.s, d());
        CHECK_THAT(law(m.s, p), Contains("law 3") && Contains("dead"));
        CHECK(verdict(m.s, p) == "accepted"); // allowed, but waste
    }
    SECTION("made again for nobody") {
        const auto at = d.find(m.at(m.g_last));
        d.insert(at, {{m.at(m.dropped), again, 0}, {{echo::step_id(d.find(m.at(m.x))), 0}}});
        const auto p = reported(m.s, d());
        CHECK_THAT(law(m.s, p), Contains("law 3") && Contains("nobody reads it"));
    }
}

TEST_CASE("a node that must run is left out, or runs twice", "[planted_faults]") {
    const model m;
    draft d(echo::make_plan(m.s, {.how = echo::strategy::min_cut}).steps());
    const auto at = d.find(m.at(m.updated));
    SECTION("left out") {
        REQUIRE(at + 2 == d.steps.size());
        std::swap(d.steps[at], d.steps[at + 1]); // nobody reads either
        d.steps.pop_back();
        CHECK_THAT(verdict(m.s, reported(m.s, d())), Contains("runs in no step"));
        CHECK_THAT(law(m.s, reported(m.s, d())), Contains("law 2") && Contains("never runs"));
    }
    SECTION("twice") {
        d.steps.push_back(d.steps[at]);
        CHECK(verdict(m.s, reported(m.s, d())) != "accepted");
        CHECK_THAT(law(m.s, reported(m.s, d())), Contains("law 2"));
    }
}

TEST_CASE("a report that is not true", "[planted_faults]") {
    const model m;
    const auto steps = echo::make_plan(m.s, {.how = echo::strategy::min_cut}).steps();
    const auto lied = [&](const std::function<void(echo::plan_report&)>& lie) {
        return reported(m.s, steps, lie);
    };
    const auto lower = lied([](auto& r) { r.peak_bytes -= 4; });
    CHECK_THAT(verdict(m.s, lower), Contains("report.peak_bytes"));
    CHECK_THAT(law(m.s, lower), Contains("not the replay's"));
    CHECK_THAT(verdict(m.s, lied([](auto& r) { r.stash_bytes += 4; })), Contains("report.stash_bytes"));
    CHECK_THAT(verdict(m.s, lied([](auto& r) { ++r.recomputed_nodes; })), Contains("recomputed_nodes"));
    CHECK_THAT(verdict(m.s, lied([](auto& r) { r.lower_bound_bytes = r.peak_bytes + 1; })),
               Contains("lower_bound_bytes"));
}

TEST_CASE("an arena in which two live storages overlap", "[planted_faults]") {
    const model m;
    const auto p = echo::make_plan(m.s, {.how = echo::strategy::min_cut});
    const auto right = echo::plan_memory(m.s, p);
    CHECK_NOTHROW(echo::verify(m.s, p, right));
    std::size_t caught = 0;
    for (std::size_t b = 0; b < right.blocks().size(); ++b) {
        auto parts = right.parts();
        parts.blocks[b].offset += parts.blocks[b].offset >= 4 ? ~std::uint64_t{0} - 3 : 4; // 4 up or down
        try {
            echo::verify(m.s, p, echo::memory_plan(parts));
        } catch (const echo::error&) {
            ++caught;
        }
    }
    CHECK(caught == right.blocks().size());
}
