// SPDX-License-Identifier: BSL-1.0
// A plan's arena with memory of the host's: every copy lies where the plan says, and what is alive is never
// written over.
#include "hosts/random_graph.hpp"
#include "support/toy_graph.hpp"

#include <echo/analysis/plan/decision/schedule_builder.hpp>
#include <echo/analysis/plan_memory.hpp>
#include <echo/cuda/arena.hpp>

#include <catch2/catch.hpp>

#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

namespace {

using Catch::Contains;
using echo::copy_id;
using echo::step_id;
using echo::cuda::stream_ref;

struct book {
    std::map<void*, std::size_t> held;
    std::size_t calls = 0, most = ~std::size_t{0};
    std::vector<std::size_t> alignments;
    bool skewed = false;
};

/// Memory of the host's, and who has it. What is given is full of rubbish.
struct host_allocator {
    book* kept;

    void* allocate(std::size_t bytes, std::size_t alignment, stream_ref) {
        ++kept->calls;
        kept->alignments.push_back(alignment);
        if (bytes > kept->most) throw std::bad_alloc();
        const std::size_t whole = (bytes + 2 * alignment - 1) / alignment * alignment;
        auto* const memory = static_cast<std::byte*>(std::aligned_alloc(alignment, whole));
        std::memset(memory, 0xa5, whole);
        void* const given = kept->skewed ? memory + 16 : memory;
        kept->held[given] = bytes;
        return given;
    }
    void deallocate(void* memory, std::size_t bytes, stream_ref) {
        REQUIRE(kept->held.at(memory) == bytes);
        kept->held.erase(memory);
        std::free(kept->skewed ? static_cast<std::byte*>(memory) - 16 : memory);
    }
};
static_assert(echo::cuda::device_allocator<host_allocator>);

struct no_deallocate {
    void* allocate(std::size_t, std::size_t, stream_ref);
};
static_assert(!echo::cuda::device_allocator<no_deallocate>);

using arena = echo::cuda::device_arena<host_allocator>;
static_assert(std::is_move_constructible_v<arena> && !std::is_copy_constructible_v<arena>);

std::byte stamp(copy_id copy, std::size_t at) {
    return static_cast<std::byte>((copy.step.index() * 131 + copy.output * 31 + at * 7 + 1) & 255);
}

void fill(void* data, std::uint64_t bytes, copy_id by) {
    for (std::size_t i = 0; i < bytes; ++i) static_cast<std::byte*>(data)[i] = stamp(by, i);
}

bool intact(const void* data, std::uint64_t bytes, copy_id by) {
    for (std::size_t i = 0; i < bytes; ++i)
        if (static_cast<const std::byte*>(data)[i] != stamp(by, i)) return false;
    return true;
}

/// Runs the steps: each reads all its inputs, then writes what it makes. Checks that every input is as it was
/// written.
void run_steps(const echo::snapshot& s, const echo::schedule& steps, const arena& memory) {
    echo::liveness_analysis analysis;
    const auto& live = analysis(s, steps);
    std::vector<copy_id> written(live.storage_count()); // by whom, last
    const auto check = [&](copy_id c) {
        const auto on = live.storage(c);
        if (live[on].resident || live[on].bytes == 0) return true;
        return intact(memory.at(c), live[on].bytes, written[on.index()]);
    };
    for (const auto t : steps.steps()) {
        for (const auto c : steps.inputs(t)) REQUIRE(check(c));
        for (std::uint32_t k = 0; k < echo::copy_count(s, steps[t]); ++k) {
            const copy_id made{t, k};
            const auto on = live.storage(made);
            REQUIRE(memory.holds(made) == !live[on].resident);
            if (live[on].resident || live[on].bytes == 0) continue;
            CHECK(memory.plan().bytes(made) >= live[on].bytes);
            CHECK(memory.elements<std::byte>(made, live[on].bytes).data() == memory.at(made));
            if (steps[t].kind != echo::step_kind::encode) {
                const echo::value_id v((*s.outputs(steps[t].node).begin()).index() + k);
                if (s[v].view_of != echo::no_input) continue; // writes nothing
            }
            written[on.index()] = made;
            fill(memory.at(made), live[on].bytes, made);
        }
    }
    for (const auto i : live.storages())
        if (live[i].holds_result && !live[i].resident && live[i].bytes)
            REQUIRE(intact(memory.at(live[i].maker), live[i].bytes, written[i.index()]));
}

const stream_ref anywhere(echo::cuda::default_stream);

/// A graph with all that an arena has to know: a view, a result in place, an encoding and residents.
struct small {
    support::toy_graph g;
    echo::snapshot s;
    echo::schedule steps;
    small() {
        const auto x = g.heavy({g.input(64)}, 512);              // 0 1
        const auto y = g.light({x}, 256), z = g.light({y}, 128); // 2 3
        g.backward({g.seed(), z}, 64);                           // 4 5
        s = g.finish({z});
        steps = echo::baseline_schedule(s);
    }
};

} // namespace

TEST_CASE("random plans run in their arenas", "[cuda][arena]") {
    hosts::dice d(6);
    std::size_t blocks = 0, several = 0, encoded = 0, recomputed = 0;
    for (int round = 0; round < 300; ++round) {
        const auto s = hosts::random_graph(d)(4 + d.below(20));
        echo::schedule steps;
        if (d.chance(50)) {
            hosts::random_schedule make(d, {});
            steps = make(s);
            encoded += make.encoded;
            recomputed += make.recomputed;
        } else {
            auto chosen = echo::detail::decision::nothing(s);
            for (const auto n : s.nodes()) chosen.again[n] = d.chance(60);
            for (const auto v : s.values()) chosen.encoded[v] = d.chance(40);
            steps = echo::detail::schedule_builder(s, echo::detail::find_candidates(s, {}))(chosen);
        }
        echo::memory_options options{.align = d.chance(80) ? 256u : 16u, .limit = 0.0};
        auto plan = echo::plan_memory(s, steps, options);
        if (d.chance(30)) {
            options.capacities = {plan.bytes() / 2 / 256 * 256, plan.bytes()};
            plan = echo::plan_memory(s, steps, options);
            ++several;
        }
        book kept;
        {
            const arena memory(plan, host_allocator{&kept}, anywhere);
            std::uint64_t needed = 0;
            for (const auto& a : plan.arenas()) needed += a.bytes;
            CHECK(memory.bytes() == (plan.arenas().empty() ? plan.bytes() : needed));
            CHECK(kept.calls == kept.held.size());
            for (const auto& b : plan.blocks()) {
                auto* const first = static_cast<std::byte*>(memory.at(b.maker));
                auto in = kept.held.upper_bound(first);
                REQUIRE(in != kept.held.begin());
                --in;
                CHECK(first + b.bytes <= static_cast<std::byte*>(in->first) + in->second);
                CHECK(reinterpret_cast<std::uintptr_t>(first) % plan.align() == 0);
                CHECK(memory.plan().bytes(b.maker) == b.bytes);
                ++blocks;
            }
            const auto calls = kept.calls;
            run_steps(s, steps, memory);
            CHECK(kept.calls == calls); // nothing is allocated later
        }
        CHECK(kept.held.empty());
    }
    CHECK(blocks > 3000);
    CHECK(several > 50);
    CHECK(encoded > 50);
    CHECK(recomputed > 50);
}

TEST_CASE("an arena asks for 256 bytes of alignment, or for what the plan needs", "[cuda][arena]") {
    const small graph;
    for (const std::uint64_t align : {1u, 16u, 256u, 1024u}) {
        book kept;
        const arena memory(echo::plan_memory(graph.s, graph.steps, {.align = align}), host_allocator{&kept},
                           anywhere);
        CHECK(kept.alignments == std::vector<std::size_t>{align > 256 ? align : 256});
    }
    book kept;
    kept.skewed = true;
    CHECK_THROWS_WITH(
        arena(echo::plan_memory(graph.s, graph.steps, {.align = 256}), host_allocator{&kept}, anywhere),
        Contains("no multiple of 256"));
    CHECK(kept.held.empty());
}

TEST_CASE("an arena moves, and gives its memory back once", "[cuda][arena]") {
    const small graph;
    book kept;
    {
        arena first(echo::plan_memory(graph.s, graph.steps), host_allocator{&kept}, anywhere);
        void* const at = first.at(step_id(1));
        const arena second(std::move(first));
        CHECK(second.at(step_id(1)) == at);
        CHECK(kept.held.size() == 1);
    }
    CHECK(kept.held.empty());
}

TEST_CASE("too little memory says what was asked, for which arena", "[cuda][arena]") {
    const small graph;
    const auto whole = echo::plan_memory(graph.s, graph.steps, {.align = 256});
    book kept;
    kept.most = 100;
    CHECK_THROWS_AS(arena(whole, host_allocator{&kept}, anywhere), echo::cuda::out_of_memory);
    CHECK_THROWS_WITH(arena(whole, host_allocator{&kept}, anywhere),
                      Contains(std::to_string(whole.bytes()) + " bytes asked for the arena; "));

    struct device_like {
        int* live;
        void* allocate(std::size_t bytes, std::size_t alignment, stream_ref) {
            if (*live == 1)
                throw echo::cuda::out_of_memory(2, "cudaMalloc", {.asked = bytes, .free = 10, .total = 99});
            ++*live;
            return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
        }
        void deallocate(void* memory, std::size_t, stream_ref) {
            --*live;
            std::free(memory);
        }
    };
    const auto two = echo::plan_memory(graph.s, graph.steps,
                                       {.align = 256, .capacities = {whole.bytes() - 256, whole.bytes()}});
    REQUIRE(two.arenas()[1].bytes > 0);
    int live = 0;
    try {
        const echo::cuda::device_arena<device_like> memory(two, device_like{&live}, anywhere);
        FAIL("there was memory");
    } catch (const echo::cuda::out_of_memory& e) {
        CHECK(e.shortage() == echo::cuda::memory_shortage{two.arenas()[1].bytes, 10, 99, "arena 1 of 2"});
        CHECK(e.code() == 2);
        CHECK(e.kind() == echo::cuda::fault::out_of_memory);
        CHECK_THAT(e.what(), Contains("cudaMalloc: ") && Contains("for arena 1 of 2, 10 free of 99"));
    }
    CHECK(live == 0); // the first arena was given back
}

TEST_CASE("what an arena does not hold is refused", "[cuda][arena]") {
    const small graph;
    book kept;
    const auto plan = echo::plan_memory(graph.s, graph.steps);
    const arena memory(plan, host_allocator{&kept}, anywhere);
    CHECK_FALSE(memory.holds({step_id(0), 0}));
    CHECK_THROWS_WITH(memory.at(step_id(0)), Contains("output 0 of step 0: is resident"));
    CHECK_FALSE(memory.holds({step_id(1), 1}));
    CHECK_THROWS_WITH(memory.at(step_id(1), 1), Contains("output 1 of step 1: is none"));
    CHECK_THROWS_AS(memory.at(step_id(99)), echo::cuda::argument_error);
    CHECK_THROWS_AS(memory.at(step_id::none()), echo::cuda::argument_error);
    CHECK(memory.elements<float>({step_id(1), 0}, 128).size() == 128);
    CHECK_THROWS_WITH(memory.elements<float>({step_id(1), 0}, 129),
                      Contains("too few for 129 elements of 4"));
    CHECK_THROWS_AS(memory.elements<float>({step_id(1), 0}, ~std::uint64_t{0}), echo::cuda::argument_error);
}

TEST_CASE("a graph without storages needs no memory", "[cuda][arena]") {
    book kept;
    const arena memory(echo::plan_memory(echo::snapshot{}, echo::schedule{}), host_allocator{&kept},
                       anywhere);
    CHECK(memory.bytes() == 0);
    CHECK(kept.calls == 0);
    CHECK_THROWS_AS(memory.at(step_id(0)), echo::cuda::argument_error);
}

TEST_CASE("a plan that is wrong binds nothing", "[cuda][arena]") {
    const small graph;
    const auto right = echo::plan_memory(graph.s, graph.steps, {.align = 256});
    alignas(256) static std::byte memory[8192];
    REQUIRE(right.bytes() <= sizeof memory);
    const auto bind = [&](const echo::memory_plan& plan, std::vector<void*> bases) {
        return echo::cuda::bound_plan(plan, bases);
    };
    CHECK(bind(right, {memory}).at(step_id(1)) == memory + *right.offset(step_id(1)));
    CHECK_THROWS_WITH(bind(right, {}), Contains("0 addresses for 1 arenas"));
    CHECK_THROWS_WITH(bind(right, {memory, memory}), Contains("2 addresses"));
    CHECK_THROWS_WITH(bind(right, {nullptr}), Contains("base 0: is null"));
    CHECK_THROWS_WITH(bind(right, {memory + 16}), Contains("no multiple of 256"));

    auto parts = right.parts();
    parts.bytes -= 1;
    CHECK_THROWS_WITH(bind(echo::memory_plan(parts), {memory}), Contains("beyond the end of arena 0"));
    parts = right.parts();
    parts.blocks[0].bytes = ~std::uint64_t{0};
    CHECK_THROWS_WITH(bind(echo::memory_plan(parts), {memory}), Contains("output 0 of step 1: lies beyond"));
    parts = right.parts();
    parts.offsets[1] = ~std::uint64_t{0} - 255;
    CHECK_THROWS_WITH(bind(echo::memory_plan(parts), {memory}), Contains("lies beyond the end"));
    parts = right.parts();
    parts.blocks.back().maker.step = step_id(1000);
    CHECK_THROWS_WITH(bind(echo::memory_plan(parts), {memory}), Contains("none of its steps makes"));
}
