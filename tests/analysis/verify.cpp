// SPDX-License-Identifier: BSL-1.0
// Every rule of the format's section "Storage" on a graph small enough to add up by hand; every kind of fault in
// a plan, planted alone and found; and two replays that share no code, compared on random schedules.
#include "support/fit_residents.hpp"
#include "support/sanitized.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan_memory.hpp>
#include <echo/analysis/schedule/footprint.hpp>
#include <echo/analysis/verify.hpp>
#include <echo/analysis/verify/check_arena.hpp>
#include <echo/analysis/verify/checked_replay.hpp>
#include <echo/analysis/verify/neighbour_set.hpp>
#include <echo/analysis/verify/replay_machine.hpp>
#include <echo/analysis/verify/resolved_steps.hpp>
#include <echo/analysis/verify/step_resolver.hpp>
#include <echo/graph/dead_nodes.hpp>
#include <echo/graph/snapshot_builder.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

using echo::phase;
constexpr auto run = echo::step_kind::run;
constexpr auto recompute = echo::step_kind::recompute;
constexpr auto encode = echo::step_kind::encode;

// ---- Graphs and schedules by hand

echo::tensor sized(std::uint64_t bytes) { return {.bytes = bytes}; }
echo::tensor view_of(std::size_t input, std::uint64_t bytes = 1000) {
    return {.bytes = bytes, .view_of = input};
}
echo::tensor inplace(std::size_t input, std::uint64_t bytes) { return {.bytes = bytes, .inplace = input}; }
echo::tensor resident(std::uint64_t bytes) { return {.bytes = bytes, .resident = true}; }

/// What most tests leave alone about a node.
struct node_facts {
    echo::op_kind kind = echo::op_kind::light;
    echo::rerun_kind rerun = echo::rerun_kind::pure;
    echo::positions one_bit{};
    std::vector<std::size_t> control{};
    std::uint64_t workspace = 0;
    bool keep = false;
    bool draws_by_element = false;
};

/// Builds a graph; a node is its index, an input `{node, output}`.
class graph {
public:
    struct source {
        std::size_t node = 0, output = 0;
        source(std::size_t n, std::size_t k = 0)
            : node(n), output(k) {} // NOLINT: `{2}` and `2` mean the same
    };

    std::size_t input(std::uint64_t bytes) { return add(phase::input, {}, {sized(bytes)}, {.rerun = never}); }
    std::size_t forward(std::vector<source> in, std::vector<echo::tensor> out, node_facts facts = {}) {
        return add(phase::forward, in, out, facts);
    }
    std::size_t backward(std::vector<source> in, std::vector<echo::tensor> out, node_facts facts = {}) {
        return add(phase::backward, in, out, facts);
    }
    std::size_t update(std::vector<source> in, std::vector<echo::tensor> out) {
        return add(phase::update, in, out, {.rerun = never});
    }
    echo::snapshot operator()(std::vector<source> results = {}) {
        for (const auto r : results) builder_.add_result(builder_.output(echo::node_id(r.node), r.output));
        return std::move(builder_).finish();
    }

private:
    static constexpr auto never = echo::rerun_kind::never;

    std::size_t add(phase what, const std::vector<source>& in, const std::vector<echo::tensor>& out,
                    const node_facts& facts) {
        std::vector<echo::value_id> values;
        for (const auto i : in) values.push_back(builder_.output(echo::node_id(i.node), i.output));
        std::vector<echo::node_id> control;
        for (const auto c : facts.control) control.emplace_back(c);
        return builder_
            .add({.phase = what,
                  .kind = facts.kind,
                  .rerun = facts.rerun,
                  .keep = facts.keep,
                  .draws_by_element = facts.draws_by_element,
                  .inputs = values,
                  .one_bit_inputs = facts.one_bit,
                  .control = control,
                  .outputs = out,
                  .workspace = facts.workspace})
            .index();
    }

    echo::snapshot_builder builder_;
};

struct draft_step {
    std::size_t node = 0;
    echo::step_kind kind = run;
    std::vector<echo::copy_id> inputs{};
    std::uint64_t bytes = 0;
    bool fused = false;
};

echo::copy_id copy(std::size_t step, std::uint32_t output = 0) { return {echo::step_id(step), output}; }

/// A schedule open to change.
class draft {
public:
    explicit draft(const echo::snapshot& s) : s_(&s), latest_(s.node_count()) {}

    /// Reads the latest copies.
    draft& operator()(std::size_t n, echo::step_kind kind = run) {
        std::vector<echo::copy_id> in;
        for (const auto v : s_->inputs(echo::node_id(n)))
            in.push_back({latest_[(*s_)[v].producer.index()], s_->output_index(v)});
        return (*this)(n, kind, in);
    }
    draft& operator()(std::size_t n, echo::step_kind kind, std::vector<echo::copy_id> in) {
        latest_[n] = echo::step_id(steps.size());
        steps.push_back({n, kind, std::move(in)});
        return *this;
    }
    /// Runs the node again inside its readers.
    draft& fuse(std::size_t n) {
        (*this)(n, recompute);
        steps.back().fused = true;
        return *this;
    }
    draft& pack(echo::copy_id c, std::uint64_t bytes) {
        steps.push_back({steps[c.step.index()].node, encode, {c}, bytes});
        return *this;
    }
    draft& runs(std::size_t first, std::size_t last) {
        for (std::size_t n = first; n <= last; ++n) (*this)(n);
        return *this;
    }
    echo::schedule operator()() const {
        echo::schedule made;
        for (const auto& step : steps) {
            made.add({echo::node_id(step.node), step.kind, step.fused, step.bytes});
            for (const auto c : step.inputs) made.read(c);
        }
        return made;
    }

    std::vector<draft_step> steps;

private:
    const echo::snapshot* s_;
    std::vector<echo::step_id> latest_;
};

/// A plan whose report is what the planner's own replay says.
echo::plan honest(const echo::snapshot& s, const echo::schedule& steps, echo::host_abilities host = {}) {
    const auto before = echo::footprint(s, echo::baseline_schedule(s)), after = echo::footprint(s, steps);
    echo::plan_report report{.baseline_peak_bytes = before.peak_bytes,
                             .peak_bytes = after.peak_bytes,
                             .resident_bytes = echo::resident_bytes(s),
                             .baseline_stash_bytes = before.stash_bytes,
                             .stash_bytes = after.stash_bytes,
                             .lower_bound_bytes = after.peak_bytes};
    const auto times = echo::times_of(s);
    echo::ticks again = 0;
    for (const auto t : steps.steps()) {
        if (steps[t].kind == recompute && !steps[t].fused) again += times.of_node[steps[t].node];
        report.fused_nodes += steps[t].fused;
        report.recomputed_nodes += steps[t].kind == recompute;
        report.encoded_values += steps[t].kind == encode;
    }
    report.recompute_time_ratio = times.part(again);
    return {echo::strategy::min_cut, steps, host, report};
}

/// Both replays find this peak.
void require_peak(const echo::snapshot& s, const echo::schedule& steps, std::uint64_t peak) {
    CHECK(echo::footprint(s, steps).peak_bytes == peak);
    CHECK(echo::detail::checked_replay(s, steps, {.fuse = true}).after.peak_bytes == peak);
}
void require_peak(const echo::snapshot& s, std::uint64_t peak) {
    require_peak(s, echo::baseline_schedule(s), peak);
}

std::string complaint(const std::function<void()>& what) {
    try {
        what();
    } catch (const echo::error& e) {
        return e.what();
    }
    return {};
}

/// Both replays refuse the steps: something is read after it was written over.
void require_stale(const echo::snapshot& s, const echo::schedule& steps) {
    CHECK_THROWS_AS(echo::footprint(s, steps), echo::error);
    CHECK_THAT(complaint([&] { echo::detail::checked_replay(s, steps, {.fuse = true}); }),
               Catch::Contains("wrote over it in place"));
}
void require_stale(const echo::snapshot& s) { require_stale(s, echo::baseline_schedule(s)); }

} // namespace

// ---- Storage

TEST_CASE("a storage is live from its maker to its last reader", "[storage]") {
    graph g;
    const auto x = g.input(1000); // resident: counts nowhere
    const auto a = g.forward({x}, {sized(10)});
    const auto b = g.forward({a}, {sized(20)});
    const auto c = g.forward({b}, {sized(40)});
    g.forward({a, c}, {sized(80)});
    const auto s = g({c});
    // a is read by the last step, c is a graph output, b dies at c's step: 10+20+40 | 10+40+80
    require_peak(s, 130);
    CHECK(echo::detail::checked_replay(s, echo::baseline_schedule(s)).before.resident_bytes == 1000);
}

TEST_CASE("what nobody reads is live for its own step", "[storage]") {
    graph g;
    const auto x = g.input(1);
    g.forward({x}, {sized(64)});
    g.forward({x}, {sized(32)});
    require_peak(g(), 64);
}

TEST_CASE("a graph output lives to the end", "[storage]") {
    graph g;
    const auto x = g.input(1);
    const auto a = g.forward({x}, {sized(64)});
    g.forward({x}, {sized(32)});
    require_peak(g({a}), 96);
}

TEST_CASE("a view costs nothing and keeps its base", "[storage]") {
    graph g;
    const auto x = g.input(1);
    const auto a = g.forward({x}, {sized(8)});
    const auto v = g.forward({a}, {view_of(0)});
    const auto w = g.forward({v}, {view_of(0)}); // a view of a view
    const auto b = g.forward({x}, {sized(16)});
    g.forward({b}, {sized(32)});
    SECTION("dead before b without readers") { require_peak(g(), 48); }
    SECTION("alive with a reader of the second view") {
        g.forward({w}, {sized(64)});
        require_peak(g(), 72); // 8 + 16 + 32 is less than 8 + 64
    }
    SECTION("alive to the end as a graph output") { require_peak(g({w}), 56); }
}

TEST_CASE("a view of resident storage is resident, whatever it is named", "[storage]") {
    graph g;
    const auto x = g.input(100);
    const auto v = g.forward({x}, {view_of(0, 100)});
    auto named = view_of(0, 7);
    named.resident = true;
    const auto a = g.forward({v}, {sized(5)});
    g.forward({a}, {named});
    const auto s = g();
    require_peak(s, 5);
    CHECK(echo::resident_bytes(s) == 100);
    CHECK(echo::detail::checked_replay(s, echo::baseline_schedule(s)).before.resident_bytes == 100);
}

TEST_CASE("workspace counts for its step only, outside the arena", "[storage]") {
    graph g;
    const auto x = g.input(1);
    const auto a = g.forward({x}, {sized(10)}, {.workspace = 500});
    g.forward({a}, {sized(300)});
    const auto s = g();
    require_peak(s, 510);
    CHECK(echo::detail::checked_replay(s, echo::baseline_schedule(s)).after.load_bytes == 310);
}

TEST_CASE("outputs of one node live and die apart", "[storage]") {
    graph g;
    const auto x = g.input(1);
    const auto a = g.forward({x}, {sized(10), sized(20), sized(40)});
    const auto b = g.forward({{a, 1}}, {sized(100)});
    g.forward({b, {a, 2}}, {sized(1000)});
    require_peak(g(), 1140);
}

TEST_CASE("in place on a dying storage", "[storage][inplace]") {
    graph g;
    const auto x = g.input(1);
    const auto a = g.forward({x}, {sized(100)});

    SECTION("is taken, and keeps the maker's size") {
        const auto b = g.forward({a}, {inplace(0, 60)});
        g.forward({b}, {inplace(0, 100)});
        require_peak(g(), 100);
    }
    SECTION("is taken by one that is as large, through a view that is smaller") {
        const auto v = g.forward({a}, {view_of(0, 10)});
        g.forward({v}, {inplace(0, 100)});
        require_peak(g(), 100);
    }
    SECTION("is not, if a later step reads it") {
        const auto b = g.forward({a}, {inplace(0, 100)});
        g.forward({a, b}, {sized(1)});
        require_peak(g(), 201);
    }
    SECTION("is not, if a later step reads a view of it") {
        const auto v = g.forward({a}, {view_of(0)});
        const auto b = g.forward({a}, {inplace(0, 100)});
        g.forward({v, b}, {sized(1)});
        require_peak(g(), 201);
    }
    SECTION("is, if the view had its last reader") {
        const auto v = g.forward({a}, {view_of(0)});
        g.forward({v}, {sized(1)});
        g.forward({a}, {inplace(0, 100)});
        require_peak(g(), 101);
    }
    SECTION("is not, if a graph output lies on it") {
        g.forward({a}, {inplace(0, 100)});
        require_peak(g({a}), 200);
    }
    SECTION("is not, if a graph output is a view of it") {
        const auto v = g.forward({a}, {view_of(0)});
        g.forward({a}, {inplace(0, 100)});
        require_peak(g({v}), 200);
    }
    SECTION("is, if the graph output is what is written") {
        const auto b = g.forward({a}, {inplace(0, 100)});
        require_peak(g({b}), 100);
    }
    SECTION("is not, if it is too small") {
        g.forward({a}, {inplace(0, 101)});
        require_peak(g(), 201);
    }
    SECTION("is not, if another input is the same value") {
        g.forward({a, a}, {inplace(0, 100)});
        require_peak(g(), 200);
    }
    SECTION("is not, if another input is a view of it") {
        const auto v = g.forward({a}, {view_of(0)});
        g.forward({a, v}, {inplace(0, 100)});
        require_peak(g(), 200);
    }
    SECTION("is not, if an earlier output has taken it") {
        g.forward({a}, {inplace(0, 50), inplace(0, 50)});
        require_peak(g(), 150);
    }
    SECTION("is not, if an earlier output is a view of it") {
        g.forward({a}, {view_of(0), inplace(0, 100)});
        require_peak(g(), 200);
    }
    SECTION("is not, if a later output is a view of it") {
        g.forward({a}, {inplace(0, 100), view_of(0)});
        require_peak(g(), 200);
    }
    SECTION("is, if the earlier output was refused") {
        g.forward({a}, {inplace(0, 101), inplace(0, 100)});
        require_peak(g(), 201);
    }
    SECTION("of two inputs each is taken by its own output") {
        const auto b = g.forward({x}, {sized(7)});
        g.forward({a, b}, {inplace(1, 7), inplace(0, 100)});
        require_peak(g(), 107);
    }
    SECTION("is not, if it is named a view as well: that is what it is") {
        g.forward({a}, {{.bytes = 100, .view_of = 0, .inplace = 0}});
        require_peak(g(), 100);
    }
}

TEST_CASE("a view that is named in place writes nothing", "[storage][inplace]") {
    graph g;
    const auto x = g.input(100);
    g.forward({x}, {{.bytes = 100, .view_of = 0, .inplace = 0}});
    g.forward({x}, {sized(1)});
    require_peak(g(), 1);
}

TEST_CASE("in place on an encoding gets fresh storage", "[storage][inplace]") {
    graph g;
    const auto x = g.input(1);
    const auto a = g.forward({x}, {sized(128)}); // 32 elements of 4 bytes: 4 bytes packed
    const auto b = g.forward({a}, {inplace(0, 4)}, {.one_bit = {0}});
    const auto s = g({b});
    draft d(s);
    d(x)(a).pack(copy(1), 4)(b, run, {copy(2)});
    require_peak(s, d(), 132); // when it is packed; after that 4 + 4
    const auto checked = echo::detail::checked_replay(s, d());
    REQUIRE(checked.after.storages.size() == 4);
}

TEST_CASE("encode steps read: what they pack is not taken over before", "[storage][inplace]") {
    graph g;
    const auto x = g.input(1);
    const auto a = g.forward({x}, {sized(128)});
    const auto b = g.forward({a}, {inplace(0, 128)});
    const auto c = g.backward({b, a}, {sized(1)}, {.one_bit = {1}});
    const auto s = g({c});
    draft early(s), late(s);
    early(x)(a).pack(copy(1), 4)(b, run, {copy(1)})(c, run, {copy(3), copy(2)});
    require_peak(s, early(), 133); // b takes a's storage: 128 + 4, then 128 + 4 + 1
    late(x)(a)(b).pack(copy(1), 4)(c, run, {copy(2), copy(3)});
    require_peak(s, late(), 260); // it cannot: 128 + 128 + 4
}

TEST_CASE("a view may run before its value is packed", "[storage]") {
    graph g;
    const auto x = g.input(1);
    const auto a = g.forward({x}, {sized(128)});
    const auto v = g.forward({a}, {view_of(0, 128)});
    const auto c = g.backward({v}, {sized(1)}, {.one_bit = {0}});
    const auto s = g({c});
    draft d(s);
    d(x)(a)(v).pack(copy(2), 4)(c, run, {copy(3)});
    require_peak(s, d(), 132);
    CHECK(complaint([&] { echo::verify(s, honest(s, d(), {})); }) ==
          "report.peak_bytes: 132 is more than the baseline's 129; report what the steps achieve");

    draft wrong(s); // the packed base is not the view
    wrong(x)(a)(v).pack(copy(1), 4)(c, run, {copy(3)});
    CHECK_THAT(complaint([&] { echo::detail::checked_replay(s, wrong()); }),
               Catch::Contains("takes output 0 of '#1', but reads output 0 of '#2'"));
}

TEST_CASE("an updated parameter stays where it is", "[storage][inplace]") {
    graph g;
    const auto w = g.input(100);

    SECTION("even if it is read twice and is a graph output") {
        const auto u = g.update({w, w}, {inplace(0, 100)});
        const auto s = g({u});
        require_peak(s, 0);
        CHECK(echo::resident_bytes(s) == 100);
    }
    SECTION("and the value before may no longer be read") {
        g.update({w}, {inplace(0, 100)});
        g.forward({w}, {sized(1)});
        require_stale(g());
    }
    SECTION("nor through a view made before") {
        const auto v = g.forward({w}, {view_of(0)});
        g.update({w}, {inplace(0, 100)});
        g.forward({v}, {sized(1)});
        require_stale(g());
    }
    SECTION("nor by making a view of it") {
        g.update({w}, {inplace(0, 100)});
        g.forward({w}, {view_of(0)});
        require_stale(g());
    }
    SECTION("nor may it be a graph output") {
        g.update({w}, {inplace(0, 100)});
        require_stale(g({w}));
    }
    SECTION("but a view of the value after may") {
        const auto u = g.update({w}, {inplace(0, 100)});
        const auto v = g.forward({u}, {view_of(0)});
        g.forward({v}, {sized(3)});
        require_peak(g({v}), 3);
    }
    SECTION("nor may the first of two updates") {
        const auto u = g.update({w}, {inplace(0, 100)});
        g.update({u}, {inplace(0, 100)});
        g.forward({u}, {sized(3)});
        require_stale(g());
    }
    SECTION("but may not grow") {
        CHECK_THAT(complaint([&] { g.update({w}, {inplace(0, 101)}); }),
                   Catch::Contains("101 bytes do not fit in the resident storage of"));
    }
    SECTION("nor be taken by two outputs") {
        CHECK_THAT(complaint([&] {
                       g.update({w}, {inplace(0, 100), inplace(0, 100)});
                   }),
                   Catch::Contains("outputs[1].inplace: takes the resident storage of"));
    }
    SECTION("even if another output is a view of it") {
        const auto u = g.update({w}, {inplace(0, 100), view_of(0)});
        const auto s = g({u, {u, 1}});
        CHECK(echo::detail::checked_replay(s, echo::baseline_schedule(s)).after.peak_bytes == 0);
    }
}

TEST_CASE("an output that is named resident", "[storage]") {
    graph g;
    const auto x = g.input(8);
    SECTION("is, where it makes the storage") {
        g.forward({x}, {resident(50)});
        const auto s = g();
        require_peak(s, 0);
        CHECK(echo::detail::checked_replay(s, echo::baseline_schedule(s)).before.resident_bytes == 58);
    }
    SECTION("is not, where it takes one that is not") {
        const auto a = g.forward({x}, {sized(50)});
        auto named = inplace(0, 50);
        named.resident = true;
        g.forward({a}, {named});
        const auto s = g();
        require_peak(s, 50);
        CHECK(echo::detail::checked_replay(s, echo::baseline_schedule(s)).before.resident_bytes == 8);
    }
}

TEST_CASE("storage is judged in the schedule that is replayed", "[storage][inplace]") {
    graph g;
    const auto x = g.input(1);
    const auto a = g.forward({x}, {sized(100)});
    const auto b = g.forward({a}, {inplace(0, 100)});
    const auto c = g.backward({a, b}, {sized(1)});
    const auto s = g({c});
    require_peak(s, 201);
    draft d(s); // with a made again for c, b takes the first copy's storage
    d(x)(a)(b)(a, recompute)(c);
    require_peak(s, d(), 201);
    draft other(s); // b from the second copy; c reads the first
    other(x)(a)(a, recompute)(b, run, {copy(2)})(c, run, {copy(1), copy(3)});
    require_peak(s, other(), 201);
}

TEST_CASE("the graph output is the latest copy", "[storage]") {
    graph g;
    const auto x = g.input(1);
    const auto a = g.forward({x}, {sized(100)});
    const auto b = g.forward({a}, {sized(10)});
    const auto c = g.forward({b}, {sized(200)});
    const auto s = g({a});
    draft d(s);
    d(x)(a)(b)(c)(a, recompute);
    require_peak(s, d(), 210); // the first copy dies at b
    draft dropped(s);
    dropped(x)(a);
    require_peak(s, dropped(), 100);
}

TEST_CASE("dead nodes: only what nothing needs", "[dead]") {
    graph g;
    const auto w = g.input(10);                                   // needed by the write in place
    const auto unused = g.input(10);                              // dead
    const auto a = g.forward({w}, {sized(10)});                   // needed by c's control
    const auto b = g.forward({a}, {sized(10)});                   // dead
    const auto c = g.forward({w}, {sized(10)}, {.control = {a}}); // result
    const auto e = g.forward({w, c}, {view_of(0)});               // base of the write
    const auto f = g.backward({e}, {inplace(0, 10)});             // writes in place on w
    const auto h = g.update({}, {sized(0)});                      // an update
    const auto s = g({c});
    const auto own = echo::detail::replay_machine(s, echo::detail::resolve_own_order(s))();
    const auto dead = echo::detail::dead_nodes(s, own);
    for (const auto n : {w, a, c, e, f, h}) CHECK(!dead[echo::node_id(n)]);
    for (const auto n : {unused, b}) CHECK(dead[echo::node_id(n)]);
    draft d(s);
    d(w)(a)(c)(e)(f)(h);
    CHECK_NOTHROW(echo::verify(s, honest(s, d())));
    CHECK_THAT(complaint([&] { echo::verify(s, honest(s, d(), {.erase = false})); }),
               Catch::Contains("erases no nodes"));
}

TEST_CASE("an update is not dead though nothing stands before it", "[dead]") {
    graph g;
    const auto u = g.update({}, {sized(0)});
    const auto s = g();
    const auto own = echo::detail::replay_machine(s, echo::detail::resolve_own_order(s))();
    CHECK(!echo::detail::dead_nodes(s, own)[echo::node_id(u)]);
    CHECK_THAT(complaint([&] { echo::detail::checked_replay(s, draft(s)()); }),
               Catch::Contains("runs in no step, though it is not dead"));
}

TEST_CASE("stash: what crosses the first gradient that is no view", "[storage]") {
    graph g;
    const auto x = g.input(1);
    const auto a = g.forward({x}, {sized(10)});                                  // read at the boundary
    const auto b = g.forward({a}, {sized(20)});                                  // read before it only
    const auto c = g.forward({b}, {sized(40)});                                  // a result that nobody reads
    const auto e = g.forward({b}, {sized(80)});                                  // read through the view
    const auto v = g.backward({e}, {view_of(0)}, {.kind = echo::op_kind::view}); // no boundary
    const auto f = g.backward({a}, {sized(160)});                                // the boundary
    g.backward({v, f}, {sized(320)});
    const auto s = g({c});
    CHECK(echo::footprint(s, echo::baseline_schedule(s)).stash_bytes == 90);
    CHECK(echo::detail::checked_replay(s, echo::baseline_schedule(s)).after.stash_bytes == 90);
}

namespace {

/// x → a → b, a light chain, → c, heavy; then the gradient of b, which reads b and is followed by one of a.
struct chain {
    enum node : std::size_t { x, a, b, c, d_b, d_a };
    static echo::snapshot make(std::uint64_t of_a, std::uint64_t of_b, echo::tensor of_d_b,
                               node_facts of_reader = {}) {
        graph g;
        g.input(8);
        g.forward({x}, {sized(of_a)});
        g.forward({a}, {sized(of_b)});
        g.forward({b}, {sized(2)}, {.kind = echo::op_kind::heavy});
        g.backward({c, b}, {of_d_b}, of_reader);
        g.backward({d_b, x}, {sized(3)});
        return g({d_a});
    }
};

} // namespace

TEST_CASE("what is fused has no storage, and its readers read its inputs", "[storage][fused]") {
    const auto s = chain::make(100, 20, sized(5));
    draft plain(s), one(s), both(s), inner(s);
    plain.runs(chain::x, chain::c)(chain::b, recompute)(chain::d_b)(chain::d_a);
    require_peak(s, plain(), 122); // a, which was kept for it, with b and c
    one.runs(chain::x, chain::c).fuse(chain::b)(chain::d_b)(chain::d_a);
    require_peak(s, one(), 122); // a with b and c; at the gradient a with its 5 and c
    const auto found = echo::detail::checked_replay(s, one(), {.fuse = true});
    CHECK(found.after.storage_of[4] == std::numeric_limits<std::uint32_t>::max());
    CHECK(found.after.storages[1].last == 5); // of a: live to the gradient
    CHECK(found.after.stash_bytes == 102);
    CHECK(echo::footprint(s, one()).stash_bytes == 102);
    both.runs(chain::x, chain::c).fuse(chain::a).fuse(chain::b)(chain::d_b)(chain::d_a);
    require_peak(s, both(), 120); // in the forward pass; the gradient reads x, which is resident
    CHECK(echo::footprint(s, both()).stash_bytes == 2);
    inner.runs(chain::x, chain::c).fuse(chain::a)(chain::b, recompute)(chain::d_b)(chain::d_a);
    require_peak(s, inner(), 120);

    const auto p = honest(s, both(), {.fuse = true});
    CHECK(p.report().fused_nodes == 2);
    CHECK(p.report().recomputed_nodes == 2);
    CHECK(p.report().recompute_time_ratio == 0);
    CHECK_NOTHROW(echo::verify(s, p, echo::plan_memory(s, p, {.align = 16})));
    const auto m = echo::plan_memory(s, p);
    CHECK_FALSE(m.offset(echo::step_id(4)));
    CHECK(m.offset(echo::step_id(6)));
}

TEST_CASE("what is read inside a step is not taken over by it", "[storage][inplace][fused]") {
    SECTION("nor is what is fused") {
        const auto s = chain::make(20, 20, inplace(1, 20));
        draft plain(s), fused(s);
        plain.runs(chain::x, chain::c)(chain::b, recompute)(chain::d_b)(chain::d_a);
        require_peak(s, plain(), 42); // a and b with c; then b becomes the gradient
        fused.runs(chain::x, chain::c).fuse(chain::b)(chain::d_b)(chain::d_a);
        require_peak(s, fused(), 42); // a with c, and 20 of its own
        CHECK(echo::detail::checked_replay(s, fused(), {.fuse = true}).after.storages.size() == 6);
        CHECK(echo::detail::checked_replay(s, plain()).after.storages.size() == 6);
    }
    SECTION("through a fused step") {
        graph g;
        const auto x = g.input(8);
        const auto a = g.forward({x}, {sized(20)});
        const auto b = g.forward({a}, {sized(20)});
        const auto d = g.backward({a, b}, {inplace(0, 20)});
        const auto s = g({d});
        draft kept(s), fused(s);
        kept(x)(a)(b)(b, recompute)(d);
        require_peak(s, kept(), 40); // a becomes the gradient
        fused(x)(a)(b).fuse(b)(d);
        require_peak(s, fused(), 40); // b is gone, but the gradient has storage of its own
        CHECK(echo::footprint(s, fused()).peak_step == echo::step_id(2));
        CHECK(echo::detail::checked_replay(s, fused(), {.fuse = true}).after.storages.size() == 4);
        CHECK(echo::detail::checked_replay(s, kept()).after.storages.size() == 4);
    }
}

TEST_CASE("what a fused step reads must be there when its readers run", "[storage][fused]") {
    graph g;
    const auto w = g.input(8);
    const auto a = g.forward({w}, {sized(20)});
    const auto u = g.update({w}, {inplace(0, 8)});
    const auto d = g.backward({a}, {sized(5)});
    const auto s = g({d, u});
    draft again(s), fused(s), behind(s);
    again(w)(a)(a, recompute)(u)(d);
    require_peak(s, again(), 25); // the first copy of a is gone
    fused(w)(a).fuse(a)(u)(d);
    require_stale(s, fused());
    behind(w)(a)(u).fuse(a)(d);
    behind.steps[3].inputs = {copy(0)};
    require_stale(s, behind());
    draft before(s);
    before(w)(a).fuse(a)(d)(u);
    require_peak(s, before(), 20);
}

TEST_CASE("views of what is fused are fused", "[storage][fused]") {
    graph g;
    const auto x = g.input(8);
    const auto a = g.forward({x}, {sized(20)});
    const auto v = g.forward({a}, {view_of(0, 20)}, {.kind = echo::op_kind::view});
    const auto d = g.backward({v}, {sized(5)});
    const auto s = g({d});
    draft both(s), base(s), only(s);
    both(x)(a)(v).fuse(a).fuse(v)(d);
    require_peak(s, both(), 20);
    CHECK_NOTHROW(echo::verify(s, honest(s, both(), {.fuse = true})));
    only(x)(a)(v)(a, recompute).fuse(v)(d);
    require_peak(s, only(), 25); // the second copy of a with the gradient
    base(x)(a)(v).fuse(a)(v, recompute)(d);
    CHECK_THROWS_AS(echo::footprint(s, base()), echo::error);
    CHECK_THAT(complaint([&] { echo::detail::checked_replay(s, base(), {.fuse = true}); }),
               Catch::Contains("is fused, but the step, a view of it, is not"));
}

TEST_CASE("what may not be fused is refused", "[faults][fused]") {
    const echo::host_abilities able{.fuse = true};
    const auto refused = [&](const echo::snapshot& s, const draft& d, const std::string& words,
                             const echo::host_abilities& host) {
        CHECK_THAT(complaint([&] { echo::detail::checked_replay(s, d(), host); }), Catch::Contains(words));
    };
    const auto s = chain::make(100, 20, sized(5));
    draft d(s);
    SECTION("for a host that fuses nothing") {
        d.runs(chain::x, chain::c).fuse(chain::b)(chain::d_b)(chain::d_a);
        CHECK(complaint([&] { echo::detail::checked_replay(s, d(), able); }).empty());
        refused(s, d, "schedule[4].fused: is fused, but the host fuses nothing", {});
    }
    SECTION("a first run") {
        d.runs(chain::x, chain::d_a);
        d.steps[2].fused = true;
        refused(s, d, "schedule[2].fused: is fused, but is no recompute", able);
    }
    SECTION("an encode step") {
        d.runs(chain::x, chain::b).pack(copy(2), 4)(chain::c)(chain::d_b)(chain::d_a);
        d.steps[3].fused = true;
        refused(s, d, "schedule[3].fused: is fused, but is no recompute", able);
    }
    SECTION("a heavy op") {
        d.runs(chain::x, chain::c).fuse(chain::c)(chain::d_b)(chain::d_a);
        refused(s, d, "schedule[4].fused: is fused, but heavy", able);
    }
    SECTION("into a heavy op") {
        const auto heavy = chain::make(100, 20, sized(5), {.kind = echo::op_kind::heavy});
        draft into(heavy);
        into.runs(chain::x, chain::c).fuse(chain::b)(chain::d_b)(chain::d_a);
        refused(heavy, into, "schedule[5].inputs[1]: is recomputed inside the step, which is heavy", able);
    }
    SECTION("a graph output") {
        d.runs(chain::x, chain::d_a).fuse(chain::d_a);
        refused(s, d, "schedule[6].fused: is fused, but makes a graph output", able);
        CHECK_THROWS_AS(echo::footprint(s, d()), echo::error);
    }
    SECTION("what is packed") {
        graph g;
        const auto x = g.input(128);
        const auto a = g.forward({x}, {sized(128)});
        const auto b = g.backward({a}, {sized(5)}, {.one_bit = {0}});
        const auto packing = g({b});
        draft p(packing);
        p(x)(a).fuse(a).pack(copy(2), 4)(b, run, {copy(3)});
        refused(packing, p, "schedule[3].encode: takes what a fused step makes, which is nowhere", able);
        CHECK_THROWS_AS(echo::footprint(packing, p()), echo::error);
    }
    SECTION("what draws random numbers") {
        graph g;
        const auto x = g.input(128);
        const auto a = g.forward({x}, {sized(128)}, {.rerun = echo::rerun_kind::seeded});
        const auto b = g.backward({a}, {sized(5)});
        const auto random = g({b});
        draft r(random);
        r(x)(a).fuse(a)(b);
        refused(random, r, "schedule[2].fused: is fused, but draws random numbers", able);

        graph counted;
        const auto y = counted.input(128);
        const auto drawn =
            counted.forward({y}, {sized(128)}, {.rerun = echo::rerun_kind::seeded, .draws_by_element = true});
        const auto by_element = counted({counted.backward({drawn}, {sized(5)})});
        CHECK_NOTHROW(echo::verify(by_element, honest(by_element, r(), {.fuse = true})));
    }
    SECTION("what makes or writes over resident storage") {
        graph g;
        const auto w = g.input(128);
        const auto a = g.forward({w}, {resident(128)});
        const auto c = g.backward({a}, {sized(5)});
        const auto u = g.forward({w}, {inplace(0, 128)});
        const auto e = g.backward({u}, {sized(5)});
        const auto states = g({c, e});
        draft made(states), written(states);
        made(w)(a).fuse(a)(c)(u)(e);
        refused(states, made, "makes or writes over a resident storage", able);
        written(w)(a)(c)(u).fuse(u)(e);
        written.steps[4].inputs = {copy(0)};
        refused(states, written, "wrote over it in place", able);
    }
    SECTION("what would make resident storage, had it nothing to take") {
        graph g;
        const auto x = g.input(8);
        const auto a = g.forward({x}, {sized(20)});
        auto named = inplace(0, 20);
        named.resident = true;
        const auto b = g.forward({a}, {named});
        const auto c = g.backward({b}, {sized(5)});
        const auto states = g({c});
        draft taken(states), made(states);
        taken(x)(a)(b)(a, recompute)(b, recompute)(c);
        CHECK_NOTHROW(echo::detail::checked_replay(states, taken(), able));
        made(x)(a)(b)(a, recompute).fuse(b)(c);
        refused(states, made, "makes or writes over a resident storage", able);
    }
    SECTION("a block for it, and a false count") {
        d.runs(chain::x, chain::c).fuse(chain::a).fuse(chain::b)(chain::d_b)(chain::d_a);
        const auto p = honest(s, d(), able);
        auto parts = echo::plan_memory(s, p).parts();
        parts.blocks.insert(parts.blocks.begin() + 3, {copy(4), 0, 20});
        CHECK_THAT(complaint([&] { echo::verify(s, p, echo::memory_plan(parts)); }),
                   Catch::Contains("is of what a fused step makes, which has no storage"));
        auto report = p.report();
        report.fused_nodes = 0;
        CHECK_THAT(complaint([&] {
                       echo::verify(s, {p.chosen_by(), p.steps(), able, report});
                   }),
                   Catch::Contains("report.fused_nodes"));
        report = p.report();
        report.recompute_time_ratio += 0.01;
        CHECK_THAT(complaint([&] {
                       echo::verify(s, {p.chosen_by(), p.steps(), able, report});
                   }),
                   Catch::Contains("recompute_time_ratio"));
    }
}

TEST_CASE("sums that 64 bits do not hold are refused", "[storage]") {
    graph g;
    const auto x = g.input(1);
    const auto a = g.forward({x}, {sized(128)});
    const auto b = g.backward({a, a}, {sized(1)}, {.one_bit = {0, 1}});
    const auto s = g({b});
    draft d(s); // two encodings whose bytes wrap around to little
    d(x)(a).pack(copy(1), std::uint64_t{1} << 63).pack(copy(1), std::uint64_t{1} << 63);
    d(b, run, {copy(2), copy(3)});
    CHECK_THAT(complaint([&] { echo::detail::checked_replay(s, d()); }),
               Catch::Contains("64 bits do not hold"));
}

// ---- Planted faults

namespace {

/// A graph with something of everything, a plan for it and its arena; a fault is one change.
struct specimen {
    enum node : std::size_t {
        x,
        w,
        fc,
        relu,
        mean,
        variance,
        dropout,
        loss,
        unread,
        d_loss,
        d_dropout,
        d_relu,
        d_w,
        step_w,
        statistics
    };
    echo::snapshot s;
    draft steps{s};
    echo::host_abilities host{};
    echo::plan_report report{};
    echo::memory_plan_parts arena{};

    specimen() : s(make()), steps(s) {
        steps.runs(x, variance); // 0 to 5
        steps.pack(copy(relu), 4);
        steps(dropout)(loss)(d_loss)(fc, recompute)(relu, recompute)(dropout, recompute); // 7 to 12
        steps(d_dropout)(d_relu, run, {copy(13), copy(6)})(d_w)(step_w)(statistics);      // 13 to 17
        const auto p = honest(s, steps());
        report = p.report();
        arena = echo::plan_memory(s, p, {.align = 16, .granularity = 32}).parts();
    }

    void verify() const {
        const echo::plan p(echo::strategy::min_cut, steps(), host, report);
        echo::verify(s, p, echo::memory_plan(arena));
    }

private:
    static echo::snapshot make() {
        const auto never = echo::rerun_kind::never;
        const echo::tensor t{.shape = {32}, .type = echo::dtype::f32};
        graph g;
        g.input(128);
        g.input(128);
        g.forward({x, w}, {t}, {.kind = echo::op_kind::heavy, .workspace = 16});
        g.forward({fc}, {t});
        g.forward({fc}, {sized(16)}, {.rerun = never});
        g.forward({relu}, {sized(16)}, {.rerun = never, .control = {mean}});
        g.forward({relu}, {t}, {.rerun = echo::rerun_kind::seeded});
        g.forward({dropout}, {sized(4)});
        g.forward({dropout}, {sized(32)}, {});
        g.backward({loss}, {t});
        g.backward({d_loss, dropout}, {t, view_of(0)}, {.control = {variance}});
        g.backward({d_dropout, relu}, {t}, {.one_bit = {1}});
        g.backward({x, d_relu}, {t}, {.kind = echo::op_kind::heavy});
        g.update({w, d_w}, {inplace(0, 128)});
        g.update({mean, variance}, {sized(0)});
        return g({loss, step_w});
    }
};

/// The specimen with one fault is refused in these words.
void require_found(const std::string& words, const std::function<void(specimen&)>& plant) {
    specimen faulty;
    plant(faulty);
    INFO("expected: " << words);
    const auto found = complaint([&] { faulty.verify(); });
    CHECK_THAT(found, Catch::Contains(words));
}

} // namespace

TEST_CASE("the specimen is accepted", "[faults]") {
    specimen sound;
    CHECK(complaint([&] { sound.verify(); }) == "");
    // Copies that read other copies of the same value are sound too.
    sound.steps.steps[10].inputs[0] = copy(0);
    sound.steps.steps[14].inputs[1] = copy(6);
    CHECK(complaint([&] { sound.verify(); }) == "");
}

TEST_CASE("faults in the steps are found", "[faults]") {
    using n = specimen;
    SECTION("steps") {
        require_found("runs in no step", [](specimen& f) { f.steps.steps.pop_back(); });
        require_found("node '#8'", [](specimen& f) { f.host.erase = false; });
        require_found("a second time", [](specimen& f) { f.steps(n::statistics); });
        require_found("a second time", [](specimen& f) { f.steps(n::unread)(n::unread); });
        require_found("before it has run",
                      [](specimen& f) { std::swap(f.steps.steps[2].kind, f.steps.steps[10].kind); });
        require_found("names no node", [](specimen& f) { f.steps.steps[3].node = 99; });
        require_found("is no run",
                      [](specimen& f) { f.steps.steps[3].kind = static_cast<echo::step_kind>(9); });
        require_found("belongs to steps that run no node", [](specimen& f) { f.steps.steps[3].bytes = 4; });
    }
    SECTION("recomputes") {
        require_found("may never rerun", [](specimen& f) { f.steps(n::mean, recompute); });
        require_found("is an input node", [](specimen& f) { f.steps(n::x, recompute); });
        require_found("nothing needs it", [](specimen& f) { f.steps(n::unread)(n::unread, recompute); });
        require_found("schedule[10]: is recomputed, but the host",
                      [](specimen& f) { f.host.recompute = false; });
        require_found("cannot redirect", [](specimen& f) {
            f.host.recompute_results = false;
            f.steps(n::loss, recompute);
        });
    }
    SECTION("inputs") {
        require_found("does not stand earlier",
                      [](specimen& f) { std::swap(f.steps.steps[7], f.steps.steps[8]); });
        require_found("does not stand earlier", [](specimen& f) { f.steps.steps[7].inputs[0] = copy(7); });
        require_found("does not stand earlier", [](specimen& f) { f.steps.steps[7].inputs[0] = copy(11); });
        require_found("does not stand earlier", [](specimen& f) {
            f.steps.steps[7].inputs[0] = {echo::step_id::none(), 0};
        });
        require_found("takes output 1 of step 3, which has 1",
                      [](specimen& f) { f.steps.steps[7].inputs[0] = copy(3, 1); });
        require_found("but reads output 0 of '#3'",
                      [](specimen& f) { f.steps.steps[7].inputs[0] = copy(2); });
        require_found("but reads output 0 of '#10'",
                      [](specimen& f) { f.steps.steps[14].inputs[0] = copy(13, 1); });
        require_found("are 0, but the node has 1", [](specimen& f) { f.steps.steps[7].inputs.clear(); });
        require_found("are 2, but the node has 1",
                      [](specimen& f) { f.steps.steps[7].inputs.push_back(copy(3)); });
    }
    SECTION("encodes") {
        require_found("needs all bits", [](specimen& f) { f.steps.steps[7].inputs[0] = copy(6); });
        require_found("takes output 1 of step 6",
                      [](specimen& f) { f.steps.steps[14].inputs[1] = copy(6, 1); });
        require_found("one bit for each element takes 4", [](specimen& f) { f.steps.steps[6].bytes = 3; });
        require_found("takes output 0 of '#2'", [](specimen& f) { f.steps.steps[6].inputs[0] = copy(2); });
        require_found("but reads output 0 of '#3'", [](specimen& f) {
            f.steps.steps[6] = {n::fc, encode, {copy(2)}, 4};
        });
        require_found("takes 0 values", [](specimen& f) { f.steps.steps[6].inputs.clear(); });
        require_found("packs what is packed", [](specimen& f) { f.steps.pack(copy(6), 4); });
        require_found("the host encodes nothing", [](specimen& f) { f.host.encode = false; });
        require_found("the replay finds 428", [](specimen& f) { f.steps.steps[6].bytes = 8; });
    }
    SECTION("order") {
        require_found("it must run after", [](specimen& f) { // variance before mean, which control forbids
            std::swap(f.steps.steps[4], f.steps.steps[5]);
        });
        require_found("it must run after", [](specimen& f) { // d_dropout, in its two places, before variance
            draft d(f.s);
            d.runs(n::x, n::mean)(n::dropout)(n::loss)(n::d_loss)(n::d_dropout);
            f.steps = d;
        });
        require_found("nodes that never rerun keep their order",
                      [](specimen& f) { std::swap(f.steps.steps[16], f.steps.steps[17]); });
        require_found("the host moves no nodes", [](specimen& f) {
            f.host.move = false;
            f.steps(n::unread);
        });
    }
}

TEST_CASE("a host that moves nothing may still recompute and erase", "[faults]") {
    specimen sound;
    sound.host.move = false;
    sound.host.recompute_results = false;
    CHECK(complaint([&] { sound.verify(); }) == "");
}

TEST_CASE("what a host wishes to keep is not recomputed", "[faults]") {
    graph g;
    const auto x = g.input(1);
    const auto a = g.forward({x}, {sized(100)}, {.keep = true});
    const auto s = g({a});
    draft d(s);
    d(x)(a)(a, recompute);
    CHECK_THAT(complaint([&] { echo::verify(s, honest(s, d())); }), Catch::Contains("wishes to keep"));
}

TEST_CASE("a node that makes or writes over resident storage runs once", "[faults]") {
    graph g;
    const auto x = g.input(1);
    SECTION("makes") { g.forward({x}, {resident(100)}); }
    SECTION("writes over") { g.forward({x}, {inplace(0, 1)}); }
    SECTION("makes, but only where it cannot take the storage it would rather have") {
        const auto a = g.forward({x}, {sized(100)});
        auto named = inplace(0, 100);
        named.resident = true;
        const auto b = g.forward({a}, {named});
        g.forward({a, b}, {sized(1)});
        const auto s = g({b, 3});
        draft d(s); // each run of b has a copy of a to itself; in the graph's own order it has none
        d(x)(a)(b)(a, recompute)(b, recompute)(a, recompute)(3);
        CHECK_THAT(complaint([&] { echo::verify(s, honest(s, d())); }), Catch::Contains("resident storage"));
        return;
    }
    const auto s = g({1});
    draft d(s);
    d(x)(1)(1, recompute, {copy(0)});
    const auto found = complaint([&] { echo::detail::checked_replay(s, d()); });
    CHECK((found.find("resident storage") != found.npos || found.find("wrote over it") != found.npos));
}

TEST_CASE("a step that reads what another has written over is found", "[faults]") {
    graph g;
    const auto w = g.input(100);
    const auto a = g.forward({w}, {sized(50)});
    const auto b = g.backward({a}, {sized(50)});
    const auto u = g.update({w, b}, {inplace(0, 100)});
    const auto c = g.backward({a}, {sized(1)});
    const auto s = g({c, u});
    draft d(s);
    d(w)(a)(b)(u)(a, recompute, {copy(0)})(c);
    require_stale(s, d());
    draft early(s);
    early(w)(a)(b)(a, recompute)(u)(c);
    CHECK_NOTHROW(echo::detail::checked_replay(s, early()));
}

TEST_CASE("a stale read is the plan's fault, or that of the graph's own order", "[faults]") {
    graph g;
    const auto w = g.input(100);
    const auto a = g.forward({w}, {sized(50)});
    const auto u = g.update({w}, {inplace(0, 100)});
    SECTION("the plan's") {
        const auto s = g({a, u});
        draft d(s);
        d(w)(a)(u)(a, recompute, {copy(0)});
        CHECK(complaint([&] { echo::detail::checked_replay(s, d()); }) ==
              "node '#1', schedule[3].inputs: reads '#0' after '#2' (step 2) wrote over it in place; "
              "read the value before it is written over");
    }
    SECTION("the graph's") {
        g.forward({w}, {sized(50)});
        const auto s = g({a, u});
        CHECK(complaint([&] { echo::detail::checked_replay(s, echo::baseline_schedule(s)); }) ==
              "node '#3', inputs: reads '#0' after '#2' (step 2) wrote over it in place; "
              "the order of the graph itself is wrong: read the value before it is written over");
    }
}

TEST_CASE("faults in the report are found", "[faults]") {
    const auto fault = [](const std::string& key, auto member) {
        require_found("report." + key, [&](specimen& f) { f.report.*member += 1; });
        require_found("report." + key, [&](specimen& f) { f.report.*member -= 1; });
    };
    fault("peak_bytes", &echo::plan_report::peak_bytes);
    fault("baseline_peak_bytes", &echo::plan_report::baseline_peak_bytes);
    fault("resident_bytes", &echo::plan_report::resident_bytes);
    fault("stash_bytes", &echo::plan_report::stash_bytes);
    fault("baseline_stash_bytes", &echo::plan_report::baseline_stash_bytes);
    fault("recomputed_nodes", &echo::plan_report::recomputed_nodes);
    fault("encoded_values", &echo::plan_report::encoded_values);
    require_found("report.lower_bound_bytes", [](specimen& f) { f.report.lower_bound_bytes += 1; });
    for (const double off : {1e-8, -1e-8, std::numeric_limits<double>::quiet_NaN()})
        require_found("report.recompute_time_ratio",
                      [&](specimen& f) { f.report.recompute_time_ratio += off; });
    specimen sound;
    sound.report.recompute_time_ratio += 1e-10;
    sound.report.lower_bound_bytes = 0;
    CHECK(complaint([&] { sound.verify(); }) == "");
}

TEST_CASE("a plan made for another device has other times", "[faults]") {
    const specimen sound;
    const echo::device_model slow{.launch_us = 2, .flops_per_us = 15e3, .bytes_per_us = 1};
    const echo::plan p(echo::strategy::min_cut, sound.steps(), {}, sound.report);
    CHECK_THAT(complaint([&] { echo::verify(sound.s, p, slow); }),
               Catch::Contains("report.recompute_time_ratio"));
}

TEST_CASE("a peak above the baseline's is found, however honest", "[faults]") {
    graph g;
    const auto x = g.input(1);
    const auto a = g.forward({x}, {sized(100)});
    const auto b = g.backward({a}, {sized(1)});
    const auto s = g({b});
    draft d(s);
    d(x)(a)(a, recompute)(b, run, {copy(1)});
    CHECK_THAT(complaint([&] { echo::verify(s, honest(s, d())); }),
               Catch::Contains("more than the baseline's"));
}

TEST_CASE("faults in the arena are found", "[faults]") {
    SECTION("blocks") {
        require_found("has no block", [](specimen& f) { f.arena.blocks.pop_back(); });
        require_found("has no block", [](specimen& f) { f.arena.blocks.erase(f.arena.blocks.begin()); });
        require_found("is of the same storage",
                      [](specimen& f) { f.arena.blocks.push_back(f.arena.blocks[0]); });
        require_found("names no output",
                      [](specimen& f) { f.arena.blocks[0].maker.step = echo::step_id(99); });
        require_found("names no output", [](specimen& f) { f.arena.blocks[0].maker.output = 9; });
        require_found("is of resident storage", [](specimen& f) { f.arena.blocks[0].maker = copy(0); });
        require_found("without any bytes", [](specimen& f) { f.arena.blocks.push_back({copy(17), 0, 32}); });
        require_found("its storage 128", [](specimen& f) { f.arena.blocks[0].bytes = 127; });
        require_found("no multiple of 16", [](specimen& f) {
            f.arena.bytes += 8;
            f.arena.blocks[0].offset += 8;
        });
        require_found("align: is 0", [](specimen& f) { f.arena.align = 0; });
        require_found("ends behind the arena", [](specimen& f) { f.arena.bytes -= 1; });
        require_found("ends behind the arena",
                      [](specimen& f) { f.arena.blocks[0].offset = ~std::uint64_t{0} - 127; });
    }
    SECTION("overlaps") {
        require_found("overlaps", [](specimen& f) { f.arena.blocks[1].offset = f.arena.blocks[0].offset; });
        specimen sound;
        // Storages live at once, pair by pair: each moved onto the other is found; others need not be.
        const auto figures = echo::detail::checked_replay(sound.s, sound.steps()).after;
        const auto storage = [&](std::size_t b) {
            const auto c = sound.arena.blocks[b].maker;
            return figures.storages[figures.storage_of[sound.arena.first_copy[c.step.index()] + c.output]];
        };
        std::size_t pairs = 0;
        for (std::size_t a = 0; a < sound.arena.blocks.size(); ++a) {
            for (std::size_t b = 0; b < sound.arena.blocks.size(); ++b) {
                if (a == b || storage(a).last < storage(b).first || storage(b).last < storage(a).first)
                    continue;
                ++pairs;
                // Room for all, so that nothing but the pair can be wrong; the last byte of one is in the other.
                specimen f;
                std::uint64_t at = 0;
                for (auto& block : f.arena.blocks) block.offset = std::exchange(at, at + 256);
                f.arena.align = 1;
                f.arena.bytes = at;
                f.arena.blocks[a].offset = f.arena.blocks[b].offset + f.arena.blocks[b].bytes - 1;
                CHECK_THAT(complaint([&] { f.verify(); }), Catch::Contains("overlaps"));
                f.arena.blocks[a].offset += 1; // beside it: only the offsets of copies are wrong now
                CHECK_THAT(complaint([&] { f.verify(); }),
                           Catch::Contains("the offset of one of its copies"));
            }
        }
        CHECK(pairs > 20);
    }
    SECTION("what hosts ask for") {
        require_found("the offset of one of its copies", [](specimen& f) { f.arena.offsets[2] += 16; });
        require_found("the offset of one of its copies", [](specimen& f) {
            f.arena.offsets[0] = 0; // resident
        });
        require_found("belong to other steps", [](specimen& f) { f.arena.offsets.pop_back(); });
        require_found("belong to other steps", [](specimen& f) { f.arena.first_copy[3] += 1; });
        require_found("belong to other steps", [](specimen& f) { f.arena.first_copy = {0}; });
        require_found("arena_lower_bound_bytes", [](specimen& f) { f.arena.lower_bound -= 1; });
        require_found("arena_lower_bound_bytes", [](specimen& f) { f.arena.lower_bound += 1; });
    }
}

TEST_CASE("a block may be named by any value on its storage", "[faults]") {
    specimen sound;
    for (auto& block : sound.arena.blocks)
        if (block.maker == copy(9)) block.maker = copy(13, 1); // the view of d_loss
    std::ranges::stable_sort(sound.arena.blocks, {}, &echo::memory_block::maker);
    CHECK(complaint([&] { sound.verify(); }) == "");
}

TEST_CASE("neighbours among the blocks in use", "[faults]") {
    std::mt19937_64 engine(1);
    for (const std::size_t limit : {0UL, 1UL, 63UL, 64UL, 65UL, 4095UL, 4096UL, 4097UL, 300000UL}) {
        echo::detail::neighbour_set found(limit);
        std::set<std::size_t> expected;
        CHECK(found.next(0) == found.none);
        CHECK(found.previous(limit) == found.none);
        for (int i = 0; i < 2000 && limit; ++i) {
            const std::size_t at = engine() % limit;
            if (expected.insert(at).second) {
                found.insert(at);
            } else {
                expected.erase(at);
                found.erase(at);
            }
            const std::size_t from = engine() % (limit + 1);
            const auto next = expected.lower_bound(from);
            REQUIRE(found.next(from) == (next == expected.end() ? found.none : *next));
            REQUIRE(found.previous(from) == (next == expected.begin() ? found.none : *std::prev(next)));
        }
    }
}

// ---- Two replays

namespace {

/// Random graphs without regard to sense: whatever the builder accepts may come.
class anything {
public:
    explicit anything(std::uint64_t seed) : engine_(seed) {}

    std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
    bool chance(std::size_t percent) { return below(100) < percent; }

    echo::snapshot make_graph() {
        echo::snapshot_builder b;
        std::vector<echo::value_id> values;
        const std::size_t size = 4 + below(20), inputs = 1 + below(3), forward = inputs + below(size);
        for (std::size_t i = 0; i < size + inputs; ++i) {
            const phase what = i < inputs    ? phase::input
                               : i < forward ? phase::forward
                               : chance(80)  ? phase::backward
                                             : phase::update;
            std::vector<echo::value_id> in;
            for (std::size_t k = what == phase::input ? 0 : below(4); k-- > 0 && !values.empty();)
                in.push_back(values[chance(60) && values.size() > 5 ? values.size() - 1 - below(5)
                                                                    : below(values.size())]);
            add(b, what, in, values);
        }
        for (std::size_t r = below(4); r-- > 0 && !values.empty();)
            b.add_result(values[below(values.size())]);
        return std::move(b).finish();
    }

    /// Sound but for what storage has to say: values written over, reruns of what touches resident storage.
    draft make_steps(const echo::snapshot& s, const echo::id_set<echo::node_id>& dead) {
        draft d(s);
        std::vector<std::vector<std::size_t>> copies(s.node_count()), encodings(s.value_count());
        const std::size_t again = below(60), late = below(50);
        std::vector<std::size_t> waiting;
        for (std::size_t n = 0; n < s.node_count(); ++n)
            if (!dead[echo::node_id(n)] || chance(30)) waiting.push_back(n);
        while (!waiting.empty()) {
            std::size_t at = 0;
            while (at + 1 < waiting.size() && chance(late)) ++at;
            while (!ready(s, waiting, at)) --at;
            const std::size_t n = waiting[at];
            if (!reachable(s, copies, n)) { // it needs a dead node that was left out
                waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(at));
                continue;
            }
            step(s, d, copies, encodings, n, run);
            waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(at));
            for (std::size_t tries = 0; tries < 3 && chance(again); ++tries) {
                const std::size_t m = below(s.node_count());
                const auto& node = s[echo::node_id(m)];
                if (copies[m].empty() || dead[echo::node_id(m)] || node.phase == phase::input ||
                    node.rerun == echo::rerun_kind::never)
                    continue;
                step(s, d, copies, encodings, m, recompute);
            }
        }
        fuse(s, d);
        return d;
    }

private:
    void add(echo::snapshot_builder& b, phase what, const std::vector<echo::value_id>& in,
             std::vector<echo::value_id>& values) {
        std::vector<echo::tensor> out;
        for (std::size_t k = chance(70) ? 1 : below(4); k-- > 0;) {
            echo::tensor t{.bytes = chance(10) ? 0 : 4 * below(40), .resident = chance(4)};
            if (!in.empty() && chance(25)) t.view_of = below(in.size());
            if (!in.empty() && chance(50)) t.inplace = below(in.size());
            out.push_back(t);
        }
        leave_resident_to_one(b.so_far(), in, out);
        support::fit_residents(b, in, out);
        echo::positions one_bit;
        for (std::size_t i = 0; i < in.size(); ++i) {
            bool base = false;
            for (const auto& t : out) base |= t.view_of == i;
            if (!base && chance(30)) one_bit.insert(i);
        }
        std::vector<echo::node_id> control;
        if (b.node_count() && chance(10)) control.emplace_back(below(b.node_count()));
        const auto kind = chance(40)   ? echo::op_kind::view
                          : chance(50) ? echo::op_kind::light
                                       : echo::op_kind::heavy;
        const auto rerun = chance(20)   ? echo::rerun_kind::never
                           : chance(50) ? echo::rerun_kind::pure
                                        : echo::rerun_kind::seeded;
        const auto n = b.add({.phase = what,
                              .kind = kind,
                              .rerun = rerun,
                              .inputs = in,
                              .one_bit_inputs = one_bit,
                              .control = control,
                              .outputs = out,
                              .workspace = chance(20) ? below(100) : 0});
        for (std::size_t k = 0; k < out.size(); ++k) values.push_back(b.output(n, k));
    }

    /// Two outputs of one node on one resident storage, one of them in place: a test of its own has that.
    static void leave_resident_to_one(const echo::snapshot& s, const std::vector<echo::value_id>& in,
                                      std::vector<echo::tensor>& out) {
        const auto may_be_resident = [&](std::optional<std::size_t> input) {
            if (!input) return false;
            std::vector<echo::value_id> from{in[*input]};
            while (!from.empty()) {
                const auto& value = s[from.back()];
                from.pop_back();
                if (value.resident) return true;
                for (const auto k : {value.view_of, value.inplace})
                    if (k != echo::no_input) from.push_back(s.inputs(value.producer)[k]);
            }
            return false;
        };
        for (auto& t : out) {
            if (!may_be_resident(t.inplace)) continue;
            for (const auto& other : out)
                if (&other != &t && (may_be_resident(other.inplace) || may_be_resident(other.view_of)))
                    t.inplace.reset();
        }
    }

    /// Nothing that still waits must run before it.
    static bool ready(const echo::snapshot& s, const std::vector<std::size_t>& waiting, std::size_t at) {
        const echo::node_id n(waiting[at]);
        for (std::size_t i = 0; i < at; ++i) {
            const echo::node_id m(waiting[i]);
            if (s[n].rerun == echo::rerun_kind::never && s[m].rerun == echo::rerun_kind::never) return false;
            for (const auto v : s.inputs(n))
                if (s[v].producer == m) return false;
            for (const auto c : s.control(n))
                if (c == m) return false;
        }
        return true;
    }

    static bool reachable(const echo::snapshot& s, const std::vector<std::vector<std::size_t>>& copies,
                          std::size_t n) {
        for (const auto v : s.inputs(echo::node_id(n)))
            if (copies[s[v].producer.index()].empty()) return false;
        for (const auto c : s.control(echo::node_id(n)))
            if (copies[c.index()].empty()) return false;
        return true;
    }

    /// Some recomputes are fused: those that may be, and whatever their readers are.
    void fuse(const echo::snapshot& s, draft& d) {
        const std::size_t share = chance(50) ? 0 : 30 + below(70);
        std::vector<std::size_t> latest(s.node_count(), d.steps.size());
        for (std::size_t t = 0; t < d.steps.size(); ++t)
            if (d.steps[t].kind != encode) latest[d.steps[t].node] = t;
        for (std::size_t t = 0; t < d.steps.size(); ++t) {
            const echo::node_id n(d.steps[t].node);
            bool result = false;
            for (const auto v : s.outputs(n)) result |= s.is_result(v) && latest[n.index()] == t;
            d.steps[t].fused = d.steps[t].kind == recompute && s[n].kind != echo::op_kind::heavy &&
                               s[n].rerun == echo::rerun_kind::pure && !result && chance(share);
        }
        // From the last on, since whether a view is fused decides whether what it is of may be.
        for (std::size_t r = d.steps.size(); r-- > 0;) {
            const echo::node_id n(d.steps[r].node);
            for (std::size_t i = 0; i < d.steps[r].inputs.size(); ++i) {
                bool may = d.steps[r].kind != encode && s[n].kind != echo::op_kind::heavy;
                for (const auto v : s.outputs(n)) may &= d.steps[r].fused || s[v].view_of != i;
                if (!may) d.steps[d.steps[r].inputs[i].step.index()].fused = false;
            }
        }
    }

    void step(const echo::snapshot& s, draft& d, std::vector<std::vector<std::size_t>>& copies,
              std::vector<std::vector<std::size_t>>& encodings, std::size_t n, echo::step_kind kind) {
        std::vector<echo::copy_id> in;
        for (std::size_t i = 0; const auto v : s.inputs(echo::node_id(n))) {
            const auto& made = copies[s[v].producer.index()];
            const std::size_t from = chance(70) ? made.back() : made[below(made.size())];
            in.push_back(copy(from, s.output_index(v)));
            if (s.one_bit(echo::node_id(n), i++) && chance(50)) {
                auto& packed = encodings[v.index()];
                if (packed.empty() || chance(50)) {
                    packed.push_back(d.steps.size());
                    d.pack(in.back(), echo::encoded_bytes(s[v].elements) + 4 * below(3));
                }
                in.back() = copy(packed[below(packed.size())]);
            }
        }
        copies[n].push_back(d.steps.size());
        d(n, kind, in);
    }

    std::mt19937_64 engine_;
};

} // namespace

TEST_CASE("both replays agree on random schedules, and on their arenas", "[differential]") {
    std::size_t refused_graphs = 0, graphs = 0, refused = 0, compared = 0, recomputed = 0, encoded = 0,
                fused = 0, late = 0;
    for (std::uint64_t seed = 1; seed <= support::rounds(20000); ++seed) {
        INFO("seed " << seed);
        anything random(seed);
        const auto s = random.make_graph();
        const auto own = echo::detail::resolve_own_order(s);
        const auto mine = complaint([&] { echo::detail::replay_machine(s, own)(); });
        const auto theirs =
            complaint([&] { static_cast<void>(echo::footprint(s, echo::baseline_schedule(s))); });
        REQUIRE(mine.empty() == theirs.empty());
        if (!mine.empty()) {
            ++refused_graphs;
            continue;
        }
        ++graphs;
        const auto before = echo::detail::replay_machine(s, own)();
        const auto dead = echo::detail::dead_nodes(s, before);
        const auto live = echo::detail::live_nodes(s);
        for (const auto n : s.nodes())
            if (!dead[n]) REQUIRE(live[n]);
        REQUIRE(before.resident_bytes == echo::resident_bytes(s));

        for (int i = 0; i < 3; ++i) {
            const auto d = random.make_steps(s, dead);
            const auto given = d();
            const auto steps = echo::detail::step_resolver(s, given, {.fuse = true}, dead)();
            const auto my = complaint([&] { echo::detail::replay_machine(s, steps)(); });
            REQUIRE(my.empty() == complaint([&] { static_cast<void>(echo::footprint(s, given)); }).empty());
            if (!my.empty()) {
                ++refused;
                continue;
            }
            const auto found = echo::detail::replay_machine(s, steps)();
            const auto judged = echo::replay{}(s, given);
            const auto& expected = judged.footprint;
            REQUIRE(found.peak_bytes == expected.peak_bytes);
            REQUIRE(found.stash_bytes == expected.stash_bytes);
            const auto& storages = judged.live;
            REQUIRE(found.storages.size() == storages.storage_count());
            for (const auto k : storages.storages()) {
                const auto& a = found.storages[k.index()];
                const auto& b = storages[k];
                REQUIRE(a.bytes == b.bytes);
                REQUIRE(a.resident == b.resident);
                REQUIRE(a.first == b.first.index());
                if (!a.resident) REQUIRE(a.last == b.last.index());
            }
            for (std::size_t t = 0, c = 0; t < d.steps.size(); ++t)
                for (std::uint32_t k = 0; k < steps.copy_count(t); ++k, ++c)
                    REQUIRE(found.storage_of[c] == storages.storage(copy(t, k)).index()); // none, if fused
            const echo::detail::checked_schedule checked{steps, before, found};
            const auto arena = echo::plan_memory(s, given, {.align = 8});
            REQUIRE(complaint([&] { echo::detail::arena_check(s, checked, arena)(); }) == "");
            ++compared;
            std::size_t latest = 0;
            for (const auto& step : d.steps) {
                recomputed += step.kind == recompute;
                encoded += step.kind == encode;
                fused += step.fused;
                if (step.kind != run) continue;
                late += step.node < latest;
                latest = std::max(latest, step.node);
            }
        }
    }
    WARN(graphs << " graphs (" << refused_graphs << " refused), " << compared << " schedules (" << refused
                << " refused): " << recomputed << " recomputed, " << fused << " of them fused, " << encoded
                << " encoded, " << late << " late");
    CHECK(graphs > support::rounds(5000));
    CHECK(compared > support::rounds(10000));
    CHECK(refused > support::rounds(500));
    CHECK(recomputed > support::rounds(10000));
    CHECK(encoded > support::rounds(10000));
    CHECK(fused > support::rounds(1000));
    CHECK(late > support::rounds(10000));
}
