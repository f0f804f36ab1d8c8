// SPDX-License-Identifier: BSL-1.0
// What is applied is what was planned: a host graph after `apply`, read again, replays to the plan's peak.
#include "hosts/boost_host.hpp"
#include "hosts/pointer_host.hpp"
#include "hosts/random_graph.hpp"
#include "hosts/vector_host.hpp"
#include "support/sanitized.hpp"

#include <echo/analysis/apply.hpp>
#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/schedule/footprint.hpp>
#include <echo/analysis/verify.hpp>
#include <echo/vocabulary/aten.hpp>

#include <catch2/catch.hpp>
#include <format/read_file.hpp>

#include <filesystem>

namespace {

echo::plan plan_of(echo::schedule steps) { return {echo::strategy::min_cut, std::move(steps), {}, {}}; }

template <class G>
G& view(G& g) {
    return g;
}
template <class Vertices>
auto view(hosts::boost_host<Vertices>& g) {
    return g.view();
}

/// Whether node t of `g` is what step t of the schedule runs, reading what that step reads.
bool is_step(const echo::snapshot& g, const echo::snapshot& s, const echo::schedule& steps, echo::step_id t) {
    const echo::node_id n(t.index());
    const std::string_view op = g.op_name(g[n].op);
    const bool same = steps[t].kind == echo::step_kind::encode ? op.ends_with("encode")
                                                               : op == s.op_name(s[steps[t].node].op);
    if (!same || g.inputs(n).size() != steps.inputs(t).size()) return false;
    for (std::size_t i = 0; i < steps.inputs(t).size(); ++i) {
        const auto v = g.inputs(n)[i];
        const echo::copy_id copy{echo::step_id(g[v].producer.index()), g.output_index(v)};
        if (copy != steps.inputs(t)[i]) return false;
    }
    return true;
}

template <class G>
void require_round_trip(const echo::snapshot& s, const echo::plan& p, G owner) {
    auto&& g = view(owner);
    const auto planned = echo::footprint(s, p.steps());
    const auto made = echo::apply(p, g);
    const echo::snapshot again = echo::read(g);
    const auto& steps = p.steps();
    REQUIRE(again.node_count() == steps.size());
    std::size_t clones = 0, encodes = 0;
    for (const auto t : steps.steps()) {
        clones += steps[t].kind == echo::step_kind::recompute;
        encodes += steps[t].kind == echo::step_kind::encode;
        if (!is_step(again, s, steps, t))
            FAIL("step " << t.index() << " is not " << again.name(echo::node_id(t.index())));
    }
    REQUIRE(made.clones.size() == clones);
    REQUIRE(made.encodes.size() == encodes);
    const auto replayed = echo::footprint(again, echo::baseline_schedule(again));
    REQUIRE(replayed.peak_bytes == planned.peak_bytes);
    REQUIRE(replayed.stash_bytes == planned.stash_bytes);
    REQUIRE(echo::resident_bytes(again) <= echo::resident_bytes(s));
}

/// x → y → z → dz → dy, which also reads one bit of y; nothing reads `unused`. y is a graph output.
struct small_model {
    echo::snapshot s;
    small_model() {
        echo::snapshot_builder b;
        const echo::tensor big{.shape = {64}, .type = echo::dtype::f32};
        const auto add = [&](const char* name, echo::phase what, std::vector<echo::value_id> in,
                             echo::positions one_bit = {}) {
            echo::node_description d{.name = name, .op = name, .phase = what};
            d.kind = echo::op_kind::light;
            d.rerun = what == echo::phase::forward ? echo::rerun_kind::pure : echo::rerun_kind::never;
            d.inputs = in;
            d.one_bit_inputs = one_bit;
            d.outputs = {&big, 1};
            return b.output(b.add(d), 0);
        };
        const auto v0 = add("x", echo::phase::input, {});
        const auto v1 = add("y", echo::phase::forward, {v0});
        const auto v2 = add("z", echo::phase::forward, {v1});
        add("unused", echo::phase::forward, {v2});
        const auto v4 = add("dz", echo::phase::backward, {v2});
        const auto v5 = add("dy", echo::phase::backward, {v4, v1}, {1});
        b.add_result(v5);
        b.add_result(v1);
        s = std::move(b).finish();
    }
    enum : std::size_t { x, y, z, unused, dz, dy };
};

/// One step of a schedule by hand; `reads` are positions of earlier steps, all outputs being 0.
struct hand_step {
    std::size_t node;
    echo::step_kind kind;
    std::vector<std::size_t> reads;
    bool fused = false;
};
echo::plan by_hand(const std::vector<hand_step>& steps) {
    echo::schedule all;
    for (const auto& step : steps) {
        all.add({echo::node_id(step.node), step.kind, step.fused,
                 step.kind == echo::step_kind::encode ? 8u : 0u});
        for (const auto r : step.reads) all.read({echo::step_id(r), 0});
    }
    return plan_of(all);
}

using m = small_model;
constexpr auto run = echo::step_kind::run, again = echo::step_kind::recompute,
               encode = echo::step_kind::encode;

/// y runs again behind the first run of everything, which makes the copy the graph output.
const std::vector<hand_step> copy_at_the_end{{m::x, run, {}},       {m::y, run, {0}},  {m::z, run, {1}},
                                             {m::unused, run, {2}}, {m::dz, run, {2}}, {m::dy, run, {4, 1}},
                                             {m::y, again, {0}}};
const std::vector<hand_step> copy_before_reader{{m::x, run, {}},       {m::y, run, {0}},  {m::z, run, {1}},
                                                {m::unused, run, {2}}, {m::dz, run, {2}}, {m::y, again, {0}},
                                                {m::dy, run, {4, 5}}};
const std::vector<hand_step> packed{{m::x, run, {}},     {m::y, run, {0}},      {m::y, encode, {1}},
                                    {m::z, run, {1}},    {m::unused, run, {3}}, {m::dz, run, {3}},
                                    {m::dy, run, {5, 2}}};
const std::vector<hand_step> late{{m::x, run, {}},   {m::y, run, {0}},      {m::z, run, {1}},
                                  {m::dz, run, {2}}, {m::unused, run, {2}}, {m::dy, run, {3, 1}}};
const std::vector<hand_step> lean{
    {m::x, run, {}}, {m::y, run, {0}}, {m::z, run, {1}}, {m::dz, run, {2}}, {m::dy, run, {3, 1}}};

/// dz recomputes z inside.
const std::vector<hand_step> inside{{m::x, run, {}},       {m::y, run, {0}},         {m::z, run, {1}},
                                    {m::unused, run, {2}}, {m::z, again, {1}, true}, {m::dz, run, {4}},
                                    {m::dy, run, {5, 1}}};

/// Offers no more than `rewritable_graph` asks.
struct bare_host : hosts::vector_host {};

std::string refusal(const echo::plan& p, auto& g) {
    const auto before = echo::read(g);
    try {
        echo::apply(p, g);
        return "applied";
    } catch (const echo::error& e) {
        // All or nothing.
        const auto after = echo::read(g);
        REQUIRE(echo::baseline_schedule(before) == echo::baseline_schedule(after));
        REQUIRE(std::equal(before.results().begin(), before.results().end(), after.results().begin()));
        return e.what();
    }
}

} // namespace

template <>
struct echo::graph_traits<bare_host> : private echo::graph_traits<hosts::vector_host> {
    using base = echo::graph_traits<hosts::vector_host>;
    using base::name, base::clone, base::redirect;
    using base::node, base::value, base::nodes, base::inputs, base::outputs, base::phase, base::results,
        base::facts;
};

TEMPLATE_TEST_CASE("random schedules survive the round trip", "[apply]", hosts::vector_host,
                   hosts::pointer_host, hosts::boost_host<boost::vecS>, hosts::boost_host<boost::listS>) {
    hosts::dice d(1);
    hosts::random_schedule chance(d, {});
    std::size_t graphs = 0;
    for (; graphs < support::rounds(400); ++graphs) {
        const echo::snapshot s = hosts::random_graph(d)(4 + d.below(30));
        const auto p = plan_of(chance(s));
        CAPTURE(graphs);
        require_round_trip(s, p, TestType::from_snapshot(s));
    }
    CHECK(chance.recomputed > 10 * graphs / 10);
    CHECK(chance.encoded > graphs);
    CHECK(chance.late > graphs / 4);
    CHECK(chance.dropped > graphs / 4);
    CHECK(chance.results_again > support::rounds(10));
}

TEST_CASE("plans for random graphs survive the round trip, and what they make can be planned again",
          "[apply]") {
    hosts::dice d(2);
    std::size_t better = 0;
    for (std::size_t i = 0; i < support::rounds(150); ++i) {
        const echo::snapshot s = hosts::random_graph(d)(4 + d.below(40));
        for (const auto how : echo::all_strategies) {
            CAPTURE(i, echo::name_of(how));
            const auto p = echo::make_plan(s, {.how = how});
            REQUIRE_NOTHROW(echo::verify(s, p));
            require_round_trip(s, p, hosts::vector_host::from_snapshot(s));
            require_round_trip(s, p, hosts::boost_host<boost::listS>::from_snapshot(s));
            better += p.report().peak_bytes < p.report().baseline_peak_bytes;

            auto g = hosts::pointer_host::from_snapshot(s);
            echo::apply(p, g);
            const auto rewritten = echo::read(g);
            const auto q = echo::make_plan(rewritten, {.how = how});
            REQUIRE(q.report().peak_bytes <= p.report().peak_bytes);
            require_round_trip(rewritten, q, hosts::vector_host::from_snapshot(rewritten));
        }
    }
    CHECK(better > support::rounds(200));
}

TEST_CASE("the baseline changes nothing", "[apply]") {
    const small_model m;
    auto g = hosts::vector_host::from_snapshot(m.s);
    const auto order = g.order;
    const auto made = echo::apply(plan_of(echo::baseline_schedule(m.s)), g);
    CHECK(g.order == order);
    CHECK(made.clones.empty());
    CHECK(made.moved.empty());
    CHECK(made.erased == 0);
}

TEST_CASE("copies are made where the schedule has them", "[apply]") {
    const small_model model;
    auto g = hosts::vector_host::from_snapshot(model.s);
    SECTION("before a reader") {
        const auto made = echo::apply(by_hand(copy_before_reader), g);
        REQUIRE(made.clones.size() == 1);
        CHECK(g.order == std::vector<std::size_t>{m::x, m::y, m::z, m::unused, m::dz, made.clones[0], m::dy});
        CHECK(g.nodes[m::dy].inputs[1].producer == made.clones[0]);
        CHECK(g.results[1].producer == made.clones[0]); // the latest copy is the graph output
        CHECK(made.moved.empty());
    }
    SECTION("behind the last node") {
        const auto made = echo::apply(by_hand(copy_at_the_end), g);
        CHECK(g.order.back() == made.clones.at(0));
        CHECK(g.results[1].producer == made.clones[0]);
        CHECK(g.nodes[m::dy].inputs[1].producer == m::y);
    }
    SECTION("packed") {
        const auto made = echo::apply(by_hand(packed), g);
        CHECK(g.order[2] == made.encodes.at(0));
        CHECK(g.nodes[m::dy].inputs[1].producer == made.encodes[0]);
        CHECK(echo::read(g).one_bit(echo::node_id(6), 1) == false); // not to be packed twice
    }
    SECTION("late") {
        const auto made = echo::apply(by_hand(late), g);
        CHECK(made.moved.size() == 1);
        CHECK(g.order == std::vector<std::size_t>{m::x, m::y, m::z, m::dz, m::unused, m::dy});
    }
    SECTION("nowhere: its reader recomputes it") {
        const auto made = echo::apply(by_hand(inside), g);
        CHECK(made.fused == 1);
        CHECK(made.clones.empty());
        CHECK(g.order == std::vector<std::size_t>{m::x, m::y, m::z, m::unused, m::dz, m::dy});
        CHECK(g.nodes[m::dz].inputs == std::vector<hosts::vector_host::value>{{m::y, 0}});
    }
    SECTION("left out") {
        CHECK(echo::apply(by_hand(lean), g).erased == 1);
        CHECK(g.order == std::vector<std::size_t>{m::x, m::y, m::z, m::dz, m::dy});
    }
}

TEST_CASE("a plan that needs more than the host offers is refused before anything changes", "[apply]") {
    using Catch::Matchers::Contains;
    const small_model model;
    bare_host g{hosts::vector_host::from_snapshot(model.s)};
    STATIC_REQUIRE(echo::rewritable_graph<bare_host>);
    CHECK_THAT(refusal(by_hand(late), g), Contains("move"));
    CHECK_THAT(refusal(by_hand(packed), g), Contains("encode"));
    CHECK_THAT(refusal(by_hand(lean), g), Contains("'unused', erase"));
    CHECK_THAT(refusal(by_hand(inside), g),
               Contains("'z', fuse") && Contains("recomputes a node inside its readers"));
    CHECK_THAT(refusal(by_hand(copy_before_reader), g), Contains("'y', redirect_result"));
    auto steps = copy_at_the_end;
    steps.back() = {m::z, again, {1}}; // no graph output
    CHECK_THAT(refusal(by_hand(steps), g), Contains("'z', move") && Contains("ends with a copy"));
}

TEST_CASE("a plan made for another graph is refused before anything changes", "[apply]") {
    using Catch::Matchers::Contains;
    const small_model model;
    auto g = hosts::vector_host::from_snapshot(model.s);
    const auto changed = [&](auto change) {
        auto steps = packed;
        change(steps);
        return refusal(by_hand(steps), g);
    };
    const auto other_graph =
        Contains("the plan was made for another graph; read the graph and make the plan again");
    CHECK_THAT(changed([](auto& s) { s[0].node = 99; }), Contains("'#99'") && other_graph);
    CHECK_THAT(changed([](auto& s) { s[3].node = m::y; }), Contains("'y'") && other_graph);
    CHECK_THAT(changed([](auto& s) { s[3].reads = {0}; }), Contains("'z'") && other_graph);
    CHECK_THAT(changed([](auto& s) { s[3].reads = {1, 1}; }), Contains("'z'") && other_graph);
    CHECK_THAT(changed([](auto& s) { s[3].reads = {2}; }), Contains("'z'") && other_graph); // wants every bit
    CHECK_THAT(changed([](auto& s) { s[3].reads = {3}; }), Contains("'z'") && other_graph);
    CHECK_THAT(changed([](auto& s) { s[2].node = m::x; }), Contains("'x'") && other_graph);
    CHECK_THAT(changed([](auto& s) { s[2].reads = {}; }), Contains("'y'") && other_graph);
    CHECK_THAT(changed([](auto& s) { s[4] = {m::z, run, {1}}; }), Contains("runs twice"));
    CHECK_THAT(changed([](auto& s) { s[4] = {m::x, again, {}}; }), Contains("runs again but may not"));
    CHECK_THAT(changed([](auto& s) { s.pop_back(); }), Contains("'dy'") && Contains("runs in no step"));
    CHECK_THAT(changed([](auto& s) { s[3].fused = true; }),
               Contains("'z'") && Contains("is no recomputation"));
    CHECK_THAT(changed([](auto& s) { s[2].fused = true; }),
               Contains("'y'") && Contains("is no recomputation"));
    auto result = copy_before_reader;
    result[5].fused = true;
    CHECK_THAT(refusal(by_hand(result), g), Contains("makes a graph result, but is fused"));
    auto nowhere = inside;
    nowhere.insert(nowhere.begin() + 5, {m::z, encode, {4}});
    nowhere[6].reads = {4};
    nowhere[7].reads = {6, 1};
    CHECK_THAT(refusal(by_hand(nowhere), g), Contains("is packed or moved, but fused"));
    CHECK(refusal(by_hand(packed), g) == "applied");
}

TEST_CASE("a forward-only graph is told to use marks", "[apply]") {
    echo::snapshot_builder b;
    const echo::tensor t{.type = echo::dtype::f32, .bytes = 4};
    const auto w = b.add({.phase = echo::phase::input, .outputs = {&t, 1}});
    const echo::value_id in[] = {b.output(w, 0)};
    b.add_result(b.output(b.add({.inputs = in, .outputs = {&t, 1}}), 0));
    auto g = hosts::vector_host::from_snapshot(std::move(b).finish());
    const auto s = echo::read(g);
    REQUIRE(s.host_node_count() < s.node_count());
    CHECK_THAT(refusal(plan_of(echo::baseline_schedule(s)), g), Catch::Matchers::Contains("mirrored"));
}

TEST_CASE("every committed graph with every strategy goes through every host", "[apply][graphs]") {
    namespace format = echo::format;
    std::size_t plans = 0, clones = 0, fused = 0;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(ECHO_SOURCE_DIR "/examples/graphs")) {
        const std::string path = entry.path().string();
        if (!path.ends_with(".json.gz")) continue;
        const auto g = format::read_graph_file(path, [](std::string_view op) { return echo::aten.find(op); });
        const auto s = echo::read(g);
        if (s.host_node_count() < s.node_count()) continue;
        if (support::sanitized && s.node_count() > 1200) continue;
        if (path.find("/more/") != std::string::npos && s.node_count() > 400) continue;
        for (const auto how : echo::all_strategies) {
            CAPTURE(path, echo::name_of(how));
            const auto p = echo::make_plan(s, {.how = how});
            require_round_trip(s, p, g);
            require_round_trip(s, p, hosts::vector_host::from_snapshot(s));
            require_round_trip(s, p, hosts::pointer_host::from_snapshot(s));
            require_round_trip(s, p, hosts::boost_host<boost::vecS>::from_snapshot(s));
            ++plans;
            clones += p.mirrored().size();
        }
        // Its clones are gone into their readers, so step by step it is another graph.
        const auto p = echo::make_plan(
            s, {.how = echo::strategy::min_cut, .host = echo::abilities<hosts::vector_host>()});
        auto host = hosts::vector_host::from_snapshot(s);
        CHECK(echo::apply(p, host).fused == p.report().fused_nodes);
        const auto rewritten = echo::read(host);
        const auto replayed = echo::footprint(rewritten, echo::baseline_schedule(rewritten));
        CHECK(replayed.peak_bytes == p.report().peak_bytes);
        CHECK(replayed.stash_bytes == p.report().stash_bytes);
        fused += p.report().fused_nodes;
    }
    CHECK(plans >= 5 * std::size(echo::all_strategies));
    CHECK(clones > support::rounds(1000));
    CHECK(fused > (support::sanitized ? 50 : 1000));
}
