// SPDX-License-Identifier: BSL-1.0
// NNVM's memory planner, each rule on a case small enough to add up by hand, beside the sum without what makes the rule
// hold; and on random chains, what `plan_memory` with NNVM's pool takes for the same steps.
#include "support/toy_graph.hpp"

#include <echo/analysis/memory/arena/nnvm_plan.hpp>
#include <echo/analysis/memory/nnvm_sharing.hpp>
#include <echo/analysis/plan_memory.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace {

using echo::arena::nnvm_entry;
using echo::arena::nnvm_op;
using ops = std::vector<nnvm_op>;
using entries = std::vector<nnvm_entry>;

std::uint64_t bytes_of(const ops& all, const entries& outputs, const entries& own_memory = {}) {
    return echo::arena::plan_by_nnvm({.ops = all, .outputs = outputs, .own_memory = own_memory}).bytes;
}

const nnvm_op data{.bytes = {1000}, .variable = true};

} // namespace

TEST_CASE("an output lies on an input that dies there", "[nnvm_plan]") {
    const nnvm_op first{.inputs = {{0, 0}}, .bytes = {64}},
        over{.inputs = {{1, 0}}, .bytes = {64}, .inplace = {{0, 0}}};
    CHECK(bytes_of({data, first, over}, {{2, 0}}) == 64);
    auto apart = over;
    apart.inplace = {};
    CHECK(bytes_of({data, first, apart}, {{2, 0}}) == 128);
    CHECK(bytes_of({data, first, over}, {{2, 0}, {1, 0}}) == 128); // it is read in the end
    auto identity = over;
    identity.identity = true;
    CHECK(bytes_of({data, first, identity}, {{2, 0}, {1, 0}}) == 64); // even so
    auto larger = over;
    larger.bytes = {65};
    CHECK(bytes_of({data, first, larger}, {{2, 0}}) == 64 + 65);
    CHECK(bytes_of({data, over}, {{1, 0}}) == 0 + 64); // a variable is not of the pool
}

TEST_CASE("an input serves one output, and one that is ignored none", "[nnvm_plan]") {
    const nnvm_op first{.inputs = {{0, 0}}, .bytes = {64}};
    const nnvm_op two{.inputs = {{1, 0}}, .bytes = {64, 64}, .inplace = {{0, 0}, {0, 1}}};
    CHECK(bytes_of({data, first, two}, {{2, 0}, {2, 1}}) == 128);
    nnvm_op like{.inputs = {{0, 0}, {1, 0}}, .bytes = {64}, .inplace = {{1, 0}}};
    CHECK(bytes_of({data, first, like}, {{2, 0}}) == 64);
    like.ignored = 1;
    CHECK(bytes_of({data, first, like}, {{2, 0}}) == 64); // given back at once, and taken again
    CHECK(bytes_of({data, first, like}, {{2, 0}, {1, 0}}) == 128);
}

TEST_CASE("blocks are taken again, and grow", "[nnvm_plan]") {
    const auto chain = [](std::vector<std::uint64_t> sizes) {
        ops all{data};
        for (std::uint32_t i = 0; i < sizes.size(); ++i)
            all.push_back({.inputs = {{i, 0}}, .bytes = {sizes[i]}});
        return bytes_of(all, {{static_cast<std::uint32_t>(sizes.size()), 0}});
    };
    CHECK(chain({64, 64, 64, 64}) == 128);
    CHECK(chain({64, 32, 16}) == 96);                     // the third in the first's block
    CHECK(chain({64, 32, 128}) == 128 + 32);              // which grows
    CHECK(chain({64, 32, 64 * 17}) == 64 + 32 + 64 * 17); // by no more than 16 times
}

TEST_CASE("what nothing hangs on does not run, and memory of its own is not of the pool", "[nnvm_plan]") {
    const nnvm_op first{.inputs = {{0, 0}}, .bytes = {64}}, other{.inputs = {{0, 0}}, .bytes = {32}};
    CHECK(bytes_of({data, first, other}, {{1, 0}}) == 64);
    nnvm_op behind = first;
    behind.control = {2};
    CHECK(bytes_of({data, behind, other}, {{1, 0}}) == 64); // in the block that `other` has left, which grows
    CHECK(bytes_of({data, first, other}, {{1, 0}}, {{2, 0}}) == 64);
    CHECK(echo::arena::nnvm_order({.ops = ops{data, behind, other}, .outputs = entries{{1, 0}}}) ==
          std::vector<std::uint32_t>{0, 2, 1});
}

TEST_CASE("it takes what plan_memory takes with the same pool", "[nnvm_plan]") {
    std::mt19937 random(7);
    for (int graph = 0; graph < 300; ++graph) {
        INFO("graph " << graph);
        support::toy_graph g;
        ops all{data};
        std::vector<echo::value_id> values{g.input(1000)};
        const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
        std::array<std::array<std::uint32_t, 2>, 20> reads{};
        std::array<std::uint32_t, 20> last_reader{};
        for (std::uint32_t i = 1; i < 20; ++i) {
            reads[i] = {i - 1 - below(std::min(i, 3U)), below(i)};
            for (const std::uint32_t x : reads[i]) last_reader[x] = i;
        }
        for (std::uint32_t i = 1; i < 20; ++i) {
            const auto [a, b] = reads[i];
            const std::uint64_t bytes = std::uint64_t{16} << below(3);
            echo::tensor t{.bytes = bytes};
            nnvm_op op{.inputs = {{a, 0}, {b, 0}}, .control = {i - 1}, .bytes = {bytes}};
            if (a != b && a != 0 && last_reader[a] == i && below(2)) op.inplace = {{0, 0}}, t.inplace = 0;
            values.push_back(g.add({.kind = echo::op_kind::light, .rerun = echo::rerun_kind::pure},
                                   {values[a], values[b]}, {t}));
            all.push_back(op);
        }
        const echo::snapshot s = g.finish({values.back()});
        const echo::schedule steps = echo::baseline_schedule(s);
        if (!echo::not_shared_by_nnvm(s, steps).empty()) continue; // Echo shares more there
        const auto pool = echo::plan_memory(s, steps, {.pool = echo::nnvm_pool{.overhead = 0}});
        CHECK(bytes_of(all, {{19, 0}}) == pool.bytes());
    }
}
