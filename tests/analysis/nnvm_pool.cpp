// SPDX-License-Identifier: BSL-1.0
// NNVM's pool: every rule on a case small enough to add up by hand, with the sum that it would have without the rule;
// the laws of memory plans; and NNVM's pass, written down once more from its rules alone, on random graphs.
#include "hosts/random_graph.hpp"
#include "support/interval_sets.hpp"
#include "support/toy_graph.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/memory/arena/nnvm_pool.hpp>
#include <echo/analysis/memory/arena/place.hpp>
#include <echo/analysis/memory/nnvm_sharing.hpp>
#include <echo/analysis/plan_memory.hpp>
#include <echo/analysis/verify.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <map>
#include <random>
#include <set>

namespace {

using echo::arena::interval;
using intervals = std::vector<interval>;
using offsets = std::vector<std::uint64_t>;
using support::toy_graph;
using value = toy_graph::value;

constexpr echo::nnvm_pool bare{.overhead = 0};

/// The pool's bytes without those that each block takes beside its own.
std::uint64_t pool(const intervals& items, std::uint64_t match_range = 16) {
    return echo::arena::place_in_pool(items, {.match_range = match_range, .overhead = 0}).bytes;
}

echo::memory_plan pool_of(const echo::snapshot& s, const echo::nnvm_pool& options = bare) {
    return echo::plan_memory(s, echo::baseline_schedule(s), {.pool = options});
}

std::size_t beyond(const echo::snapshot& s) {
    return echo::not_shared_by_nnvm(s, echo::baseline_schedule(s)).size();
}

/// A node that no other test needs: one output that may lie on an input's storage.
value light(toy_graph& g, std::vector<value> in, echo::tensor out) {
    return g.add({.kind = echo::op_kind::light, .rerun = echo::rerun_kind::pure}, in, {out});
}

// ---- NNVM's pass from its rules

/// What the pass would allot, with a count of what it did.
class letter {
public:
    std::size_t in_place = 0, shared_views = 0, larger = 0, grown = 0, fresh = 0;

    /// Bytes of the pool.
    std::uint64_t operator()(const echo::snapshot& s, const echo::schedule& steps,
                             const echo::nnvm_pool& options) {
        range_ = options.match_range;
        blocks_.clear(), references_.clear(), free_.clear(), outside_.clear();
        std::map<echo::copy_id, std::size_t> reads;
        std::map<echo::copy_id, std::optional<std::size_t>> block; // of values in the pool
        std::map<std::uint32_t, echo::step_id> latest;
        for (const auto t : steps.steps()) {
            for (const auto c : steps.inputs(t)) ++reads[c];
            if (steps[t].kind != echo::step_kind::encode) latest[steps[t].node.index()] = t;
        }
        for (const auto v : std::set<value>(s.results().begin(), s.results().end()))
            if (const auto at = latest.find(s[v].producer.index()); at != latest.end())
                ++reads[{at->second, s.output_index(v)}];

        for (const auto t : steps.steps()) {
            const auto in = steps.inputs(t);
            std::vector<std::pair<std::uint64_t, echo::copy_id>> requests;
            std::vector<bool> taken(in.size(), false);
            if (steps[t].kind == echo::step_kind::encode) {
                requests.push_back({steps[t].bytes, {t, 0}});
            } else {
                for (const auto v : s.outputs(steps[t].node)) {
                    const echo::copy_id out{t, s.output_index(v)};
                    const bool view = s[v].view_of != echo::no_input;
                    const auto k = view ? s[v].view_of : s[v].inplace;
                    if (s[v].resident) continue;
                    if (k != echo::no_input && is_resident(s, steps, in[k]) && !view) {
                        outside_.insert(out); // a parameter's new value
                        continue;
                    }
                    if (k != echo::no_input && !taken[k] && block[in[k]] && reads[out] > 0 &&
                        s[s.inputs(steps[t].node)[k]].bytes == s[v].bytes &&
                        steps[in[k].step].kind != echo::step_kind::encode &&
                        (view || references_[*block[in[k]]] == 1)) {
                        taken[k] = true;
                        block[out] = block[in[k]];
                        references_[*block[out]] += reads[out];
                        ++(view ? shared_views : in_place);
                        continue;
                    }
                    requests.push_back({s[v].bytes, out});
                }
            }
            std::sort(requests.begin(), requests.end());
            for (auto r = requests.rbegin(); r != requests.rend(); ++r) {
                if (!r->first) continue;
                block[r->second] = request(r->first);
                references_[*block[r->second]] = reads[r->second];
            }
            for (const auto c : in)
                if (block[c] && --references_[*block[c]] == 0) release(*block[c]);
            for (const auto& [bytes, out] : requests)
                if (bytes && reads[out] == 0) release(*block[out]);
        }
        std::uint64_t sum = 0;
        for (const auto bytes : blocks_) sum += bytes + options.overhead;
        return sum;
    }

private:
    bool is_resident(const echo::snapshot& s, const echo::schedule& steps, echo::copy_id c) const {
        if (outside_.count(c)) return true;
        if (steps[c.step].kind == echo::step_kind::encode) return false;
        return s[s.output(steps[c.step].node, c.output)].resident;
    }

    std::size_t request(std::uint64_t bytes) {
        if (range_ != 0) {
            auto at = free_.lower_bound(bytes);
            if (at != free_.end() && at->first <= bytes * range_) return ++larger, take(at);
            if (at != free_.begin() && (--at)->first >= bytes / range_) {
                ++grown;
                blocks_[at->second] = bytes;
                return take(at);
            }
        }
        ++fresh;
        blocks_.push_back(bytes);
        references_.push_back(0);
        return blocks_.size() - 1;
    }
    std::size_t take(std::multimap<std::uint64_t, std::size_t>::iterator at) {
        const std::size_t b = at->second;
        free_.erase(at);
        return b;
    }
    void release(std::size_t b) { free_.insert({blocks_[b], b}); }

    std::uint64_t range_ = 16;
    std::vector<std::uint64_t> blocks_;
    std::vector<std::size_t> references_; ///< by block: reads still to come
    std::multimap<std::uint64_t, std::size_t> free_;
    std::set<echo::copy_id> outside_;
};

/// Few sizes, so that much fits in place. `unequal`: per cent of what NNVM shares otherwise: outputs whose size is not
/// that of the input they may lie on, or that nobody reads, and those on residents.
echo::snapshot graph_of_few_sizes(hosts::dice& d, std::size_t unequal) {
    static constexpr std::uint64_t sizes[] = {4, 8, 60, 64, 68, 128, 1024, 1088, 4096, 0};
    toy_graph g;
    std::vector<value> made{g.input(64), g.input(128)};
    std::set<value> unread;
    const std::size_t nodes = 8 + d.below(40);
    for (std::size_t n = 0; n < nodes; ++n) {
        std::vector<value> in;
        for (std::size_t i = 1 + d.below(2); i > 0; --i) {
            const bool oldest = !unread.empty() && d.chance(60);
            in.push_back(oldest ? *unread.begin()
                                : made[made.size() - 1 - d.below(std::min<std::size_t>(made.size(), 5))]);
            unread.erase(in.back());
        }
        std::vector<echo::tensor> out;
        const bool view = d.chance(15);
        for (std::size_t k = 1 + d.below(5) / 4; k > 0; --k) {
            echo::tensor t{.bytes = sizes[d.below(std::size(sizes))]};
            const std::size_t on = d.below(in.size());
            const bool fixed = g.so_far()[in[on]].resident;
            if ((view || d.chance(50)) && (!fixed || d.chance(unequal))) {
                if (!d.chance(unequal)) t.bytes = g.so_far()[in[on]].bytes;
                (view ? t.view_of : t.inplace) = on;
            }
            t.resident = !t.view_of && !t.inplace && d.chance(5);
            out.push_back(t);
        }
        echo::node_description what{.kind = view ? echo::op_kind::view : echo::op_kind::light,
                                    .rerun = echo::rerun_kind::pure};
        if (n > nodes / 2) what.phase = echo::phase::backward;
        if (n > nodes / 2 && !view && d.chance(40)) what.one_bit_inputs.insert(0);
        support::fit_residents(g.builder(), in, out);
        const value first = g.add(what, in, out);
        for (std::size_t k = 0; k < out.size(); ++k) {
            made.push_back(toy_graph::output(first, k));
            if (!d.chance(unequal)) unread.insert(made.back());
        }
    }
    std::vector<value> results{g.backward({unread.begin(), unread.end()}, 64)};
    if (d.chance(50)) results.push_back(made[d.below(made.size())]);
    return g.finish(results);
}

} // namespace

TEST_CASE("the smallest block that is large enough, up to the match range", "[nnvm_pool]") {
    // Blocks of 100, 150 and 200 are free: a request of 100 takes the first, so that those that follow fit.
    CHECK(pool({{0, 0, 100}, {0, 0, 200}, {0, 0, 150}, {1, 3, 100}, {2, 3, 150}, {3, 3, 200}}) == 450);
    CHECK(pool({{0, 0, 100}, {0, 0, 200}, {0, 0, 150}, {1, 3, 101}, {2, 3, 151}, {3, 3, 100}}) == 450);
    // 16 times as large, and no more.
    CHECK(pool({{0, 0, 1600}, {1, 1, 100}}) == 1600);
    CHECK(pool({{0, 0, 1601}, {1, 1, 100}}) == 1701);
    // A larger block comes before a smaller one, however near that is.
    CHECK(pool({{0, 0, 99}, {0, 0, 1600}, {1, 1, 100}}) == 1699); // grown: 1700
    CHECK(pool({{0, 0, 99}, {0, 0, 1600}, {1, 2, 100}, {2, 2, 1600}}) == 3299);
}

TEST_CASE("else the largest smaller block, down to the match range, grows", "[nnvm_pool]") {
    CHECK(pool({{0, 0, 100}, {1, 1, 1600}}) == 1600);
    CHECK(pool({{0, 0, 99}, {1, 1, 1600}}) == 1699);
    CHECK(pool({{0, 0, 100}, {1, 1, 1615}}) == 1615); // 1615 ÷ 16 is rounded down
    CHECK(pool({{0, 0, 100}, {1, 1, 1616}}) == 1716);
    // The largest of them: 50 + 300, not 300 + 80.
    CHECK(pool({{0, 0, 50}, {0, 0, 80}, {1, 1, 300}}) == 350);
    // A block too large does not keep one that may grow from being found.
    CHECK(pool({{0, 0, 5}, {0, 0, 1000}, {1, 1, 10}}) == 1010);
    // What has grown stays so: it serves 300 again; and is known by its new size: a request of 20 may take 300, not
    // 400.
    CHECK(pool({{0, 0, 100}, {1, 1, 300}, {2, 2, 300}}) == 300);
    CHECK(pool({{0, 0, 100}, {1, 1, 400}, {2, 2, 20}}) == 420);
    // What was large stays so, whatever lay in it last.
    CHECK(pool({{0, 0, 1600}, {1, 1, 100}, {2, 2, 1600}}) == 1600);
    CHECK(pool({{0, 0, 1600}, {1, 1, 100}, {2, 2, 99}}) == 1699);
}

TEST_CASE("a block holds one storage at a time", "[nnvm_pool]") {
    // An arena planner would put both 50s where the 100 was.
    const auto made = echo::arena::place_in_pool(intervals{{0, 0, 100}, {1, 1, 50}, {1, 1, 50}}, bare);
    CHECK(made.bytes == 150);
    CHECK(made.offsets == offsets{0, 100, 0});
    CHECK(made.bound == 100);
}

TEST_CASE("inputs are released after outputs are allocated", "[nnvm_pool]") {
    CHECK(pool({{0, 1, 100}, {1, 2, 100}}) == 200); // before: 100
    CHECK(pool({{0, 1, 100}, {2, 2, 100}}) == 100);
    CHECK(pool({{0, 0, 100}, {1, 1, 100}}) == 100); // nobody reads the first: it goes after its own step
}

TEST_CASE("of one step the largest output comes first", "[nnvm_pool]") {
    // One block of 100 is free, and one of 1000: in the order given, 90 would take the 100 and leave 100 the 1000.
    CHECK(pool({{0, 0, 100}, {1, 1, 10}, {1, 1, 100}}) ==
          110); // in order: 10 takes the 100, and 100 a new one
    CHECK(pool({{0, 0, 100}, {1, 1, 100}, {1, 1, 10}}) == 110);
    // Of equal ones the last: it takes 90, and frees it for 120 (130 in all); the first takes 10, and grows it to 80.
    CHECK(pool({{0, 0, 90}, {0, 0, 10}, {1, 3, 80}, {1, 1, 80}, {2, 2, 120}}) == 200);
    CHECK(pool({{0, 0, 90}, {0, 0, 10}, {1, 1, 80}, {1, 3, 80}, {2, 2, 120}}) == 210);
    CHECK(pool({{0, 0, 100}, {1, 1, 10}, {2, 2, 100}}) == 100); // of two steps, not
    CHECK(pool({{0, 0, 100}, {1, 2, 10}, {2, 2, 100}}) == 200); // the earlier step comes first
}

TEST_CASE("the match range", "[nnvm_pool]") {
    // A feature map of 256 is free where 32 are asked for, and 256 then where it is taken: at 16 the small one takes
    // the large block, at 2 it gets its own.
    const intervals squatter{{0, 0, 256}, {1, 2, 32}, {2, 2, 256}};
    CHECK(pool(squatter, 16) == 512);
    CHECK(pool(squatter, 2) == 288);
    CHECK(pool(squatter, 8) == 512);
    CHECK(pool(squatter, 7) == 288);
    // And the other way round: a narrow range shares less.
    const intervals chain{{0, 0, 32}, {1, 1, 256}, {2, 2, 32}};
    CHECK(pool(chain, 16) == 256);
    CHECK(pool(chain, 2) == 288);
    CHECK(pool(chain, 1) == 288); // equal sizes only
    CHECK(pool({{0, 0, 33}, {1, 1, 32}}, 1) == 65);
    CHECK(pool(chain, 0) == 320); // nothing is used twice
    CHECK(pool({{0, 0, 1}, {1, 1, std::uint64_t{1} << 61}}, ~std::uint64_t{0}) == std::uint64_t{1} << 61);
}

TEST_CASE("bytes beside those of a block, and alignment", "[nnvm_pool]") {
    const intervals items{{0, 0, 100}, {0, 1, 50}, {1, 1, 60}};
    const auto made = echo::arena::place_in_pool(items);
    CHECK(made.bytes == 100 + 32 + 50 + 32);
    CHECK(made.offsets == offsets{0, 132, 0});
    const auto aligned = echo::arena::place_in_pool(items, {}, 64);
    CHECK(aligned.offsets == offsets{0, 192, 0});
    CHECK(aligned.bytes == 192 + 82);
    CHECK(echo::arena::place_in_pool({}) == echo::arena::placement{});
    CHECK(echo::arena::place_in_pool(intervals{{0, 3, 0}, {1, 2, 7}, {0, 0, 0}}).offsets == offsets{0, 0, 0});
    CHECK(echo::arena::place_in_pool(intervals{{0, 3, 0}, {1, 2, 7}}).bytes == 39);
}

TEST_CASE("the pool as a memory plan", "[nnvm_pool]") {
    toy_graph g;
    const auto x = g.input(1000);        // resident: no block, at any size
    const auto a = g.light({x}, 400);    // block 0
    const auto b = g.light({a}, 300);    // block 1: a is read by this step
    const auto c = g.light({b}, 390);    // block 0, which stays at 400
    const auto d = g.light({c, x}, 500); // block 1 grows
    const auto s = g.finish({d});
    const auto m = pool_of(s, {});
    CHECK(m.bytes() == 400 + 32 + 500 + 32);
    CHECK(m.lower_bound() == 890);
    const auto at = [&](value v) { return m.offset(echo::step_id(s[v].producer.index())); };
    CHECK_FALSE(at(x));
    CHECK(at(a) == 0);
    CHECK(at(b) == 432);
    CHECK(at(c) == 0);
    CHECK(at(d) == 432);
    REQUIRE(m.blocks().size() == 4);
    CHECK(m.blocks()[2].bytes == 390);
    CHECK(m.arenas().empty());
    CHECK(beyond(s) == 0);
    CHECK(pool_of(s, {.match_range = 1}).bytes() == 400 + 300 + 390 + 500 + 4 * 32);

    const auto steps = echo::baseline_schedule(s);
    const auto rough =
        echo::plan_memory(s, steps, {.align = 64, .granularity = 256, .pool = echo::nnvm_pool{}});
    CHECK(rough.bytes() == 512 + 64 + 512 + 32); // all are 512 bytes
    CHECK(rough.align() == 64);
    CHECK(echo::plan_memory(s, steps).bytes() < m.bytes()); // nothing is a pool unless it is asked for
}

TEST_CASE("in place: nothing else may read the input", "[nnvm_pool]") {
    const auto bytes = [](bool other_reader, bool twice, bool result) {
        toy_graph g;
        const auto x = g.input(8);
        const auto a = g.light({x}, 100);
        const auto b = light(g, twice ? std::vector{a, a} : std::vector{a}, {.bytes = 100, .inplace = 0});
        const auto c = other_reader ? g.light({b, a}, 1) : g.light({b}, 1);
        const auto s = result ? g.finish({c, a}) : g.finish({c});
        CHECK(beyond(s) == 0);
        return pool_of(s).bytes();
    };
    CHECK(bytes(false, false, false) == 101); // a and b share a block; c
    CHECK(bytes(true, false, false) == 201);
    CHECK(bytes(false, true, false) == 201);
    CHECK(bytes(false, false, true) == 201);
}

TEST_CASE("an identity needs no last reader", "[nnvm_pool]") {
    toy_graph g;
    const auto a = g.light({g.input(8)}, 100);
    const auto b = g.view(a);
    const auto c = g.light({b}, 50);
    const auto d = g.light({c, a}, 60); // a is read after its view
    const auto s = g.finish({d});
    CHECK(beyond(s) == 0);
    CHECK(pool_of(s).bytes() == 100 + 50 + 60);
    CHECK(pool_of(s).blocks().size() == 3);
}

TEST_CASE("where more shares a storage than with NNVM", "[nnvm_pool]") {
    const auto shared = [](std::uint64_t bytes, echo::tensor out, bool read) {
        toy_graph g;
        const auto x = g.input(bytes);
        const auto a = g.light({x}, bytes);
        const auto b = light(g, {a}, out);
        return g.finish({g.light(read ? std::vector{b} : std::vector{x}, 200)});
    };
    // In place at one size; NNVM would give a smaller one its own block, as if it were not named.
    CHECK(beyond(shared(100, {.bytes = 100, .inplace = 0}, true)) == 0);
    CHECK(beyond(shared(100, {.bytes = 99, .inplace = 0}, true)) == 1);
    CHECK(beyond(shared(100, {.bytes = 101, .inplace = 0}, true)) ==
          0); // too large: it has its own here, too
    const auto smaller = shared(100, {.bytes = 99, .inplace = 0}, true);
    CHECK(pool_of(smaller).bytes() == 300);
    CHECK(letter{}(smaller, echo::baseline_schedule(smaller), bare) == 299); // b; d in a's block
    // One that nobody reads has a block for its step.
    CHECK(beyond(shared(100, {.bytes = 100, .inplace = 0}, false)) == 1);
    // Slices and expansions are no identities.
    CHECK(beyond(shared(100, {.bytes = 100, .view_of = 0}, true)) == 0);
    CHECK(beyond(shared(100, {.bytes = 50, .view_of = 0}, true)) == 1);
    CHECK(beyond(shared(100, {.bytes = 200, .view_of = 0}, true)) == 1);
    // What is resident lies outside the pool.
    toy_graph g;
    const auto x = g.input(100);
    const auto v = g.view(x);
    const auto read = g.light({v}, 1);
    const auto w = light(g, {x}, {.bytes = 100, .inplace = 0}); // an update
    CHECK(beyond(g.finish({read, w})) == 1);
    // Two outputs on one input: NNVM lets the first have it.
    toy_graph h;
    const auto a = h.light({h.input(100)}, 100);
    const auto two = h.add({.kind = echo::op_kind::view, .rerun = echo::rerun_kind::pure}, {a},
                           {{.bytes = 100, .view_of = 0}, {.bytes = 100, .view_of = 0}});
    const auto s = h.finish({h.light({two, toy_graph::output(two, 1)}, 1)});
    const auto found = echo::not_shared_by_nnvm(s, echo::baseline_schedule(s));
    REQUIRE(found.size() == 1);
    CHECK(found[0] == echo::copy_id{echo::step_id(2), 1});
}

TEST_CASE("the pool is NNVM's wherever no more is shared", "[nnvm_pool]") {
    hosts::dice d(1);
    hosts::random_schedule chance(d, {.recompute = 5, .late = 5, .tail = 2});
    letter nnvm;
    std::size_t baselines = 0, with_recompute = 0, with_encode = 0, different = 0;
    for (int graph = 0; graph < 6000; ++graph) {
        const echo::snapshot s = graph_of_few_sizes(d, graph % 4 ? 0 : 20);
        const echo::schedule baseline = echo::baseline_schedule(s);
        if (!hosts::legal(s, baseline)) continue;
        const echo::schedule steps = graph % 3 ? chance(s) : baseline;
        const echo::nnvm_pool options{.match_range = d.chance(50) ? 16 : d.below(6),
                                      .overhead = d.below(3) * 16};
        const auto bytes = echo::plan_memory(s, steps, {.pool = options}).bytes();
        CAPTURE(graph);
        if (!echo::not_shared_by_nnvm(s, steps).empty()) {
            different += bytes != letter{}(s, steps, options);
            continue;
        }
        REQUIRE(bytes == nnvm(s, steps, options));
        const auto some = [&](echo::step_kind kind) {
            const auto all = steps.steps();
            return std::any_of(all.begin(), all.end(), [&](auto t) { return steps[t].kind == kind; });
        };
        baselines += steps == baseline;
        with_recompute += some(echo::step_kind::recompute);
        with_encode += some(echo::step_kind::encode);
    }
    INFO(baselines << " baselines, " << with_recompute << " with recompute, " << with_encode
                   << " with encode, " << different << " where more is shared; in place " << nnvm.in_place
                   << ", views " << nnvm.shared_views << ", blocks larger " << nnvm.larger << ", grown "
                   << nnvm.grown << ", new " << nnvm.fresh);
    for (const auto count : {baselines, with_recompute, with_encode, different}) CHECK(count > 200);
    for (const auto count : {nnvm.in_place, nnvm.shared_views, nnvm.larger, nnvm.grown, nnvm.fresh})
        CHECK(count > 1000);
}

TEST_CASE("the laws of memory plans hold for pools", "[nnvm_pool]") {
    hosts::dice d(2);
    hosts::random_schedule chance(d, {});
    std::size_t pairs = 0, above = 0, wider_is_smaller = 0, wider_is_larger = 0;
    for (int graph = 0; graph < 600; ++graph) {
        const echo::snapshot s = hosts::random_graph(d)(4 + d.below(60));
        const echo::schedule steps = chance(s);
        const echo::nnvm_pool pool{.match_range = graph % 2 ? 16U : 2U};
        const echo::memory_options options{
            .align = std::uint64_t{1} << d.below(8), .granularity = 1 + d.below(99), .pool = pool};
        const auto m = echo::plan_memory(s, steps, options);
        CAPTURE(graph);
        REQUIRE(m == echo::plan_memory(s, steps, options));

        echo::liveness_analysis analyse;
        const auto& live = analyse(s, steps);
        std::vector<echo::storage_record> storages;
        for (const auto i : live.storages())
            if (!live[i].resident && live[i].bytes) storages.push_back(live[i]);
        REQUIRE(m.blocks().size() == storages.size());
        std::map<std::uint64_t, std::uint64_t> largest; // by where a block of the pool begins
        for (std::size_t i = 0; i < storages.size(); ++i) {
            const auto& block = m.blocks()[i];
            REQUIRE(block.maker == storages[i].maker);
            REQUIRE(block.bytes >= storages[i].bytes);
            REQUIRE(block.bytes % options.granularity == 0);
            REQUIRE(block.offset % options.align == 0);
            auto& bytes = largest[block.offset];
            bytes = std::max(bytes, block.bytes);
            for (std::size_t j = 0; j < i; ++j) {
                if (storages[j].last < storages[i].first || storages[i].last < storages[j].first) continue;
                REQUIRE(m.blocks()[j].offset != block.offset);
                ++pairs;
            }
        }
        std::uint64_t end = 0; // blocks lie end to end, each as large as what it holds, and 32 bytes more
        for (const auto& [begin, bytes] : largest) {
            REQUIRE(begin == (end + options.align - 1) / options.align * options.align);
            end = begin + bytes + 32;
        }
        REQUIRE(m.bytes() == end);
        REQUIRE(m.bytes() >= m.lower_bound());
        above += m.bytes() > m.lower_bound() + 32 * largest.size();
        const auto wide = echo::plan_memory(s, steps, {.pool = echo::nnvm_pool{}}).bytes();
        const auto narrow = echo::plan_memory(s, steps, {.pool = echo::nnvm_pool{.match_range = 2}}).bytes();
        wider_is_smaller += wide < narrow;
        wider_is_larger += wide > narrow;

        for (const auto how : {echo::strategy::baseline, echo::strategy::min_cut}) {
            const echo::plan p = echo::make_plan(s, {.how = how});
            REQUIRE_NOTHROW(echo::verify(s, p, echo::plan_memory(s, p, options)));
        }
    }
    CHECK(pairs > 10'000);
    CHECK(above > 300);
    CHECK(wider_is_smaller > 30); // neither range is always better
    CHECK(wider_is_larger > 30);
}

TEST_CASE("verify finds two storages in one block of a pool", "[nnvm_pool]") {
    toy_graph g;
    const auto a = g.light({g.input(8)}, 100);
    const auto s = g.finish({g.light({a}, 100)});
    const echo::plan p = echo::make_plan(s, {.how = echo::strategy::baseline});
    auto parts = echo::plan_memory(s, p, {.pool = bare}).parts();
    CHECK_NOTHROW(echo::verify(s, p, echo::memory_plan(parts)));
    REQUIRE(parts.blocks.size() == 2);
    REQUIRE(parts.blocks[1].offset == 100);
    parts.blocks[1].offset = parts.offsets[2] = 0;
    CHECK_THROWS_WITH(echo::verify(s, p, echo::memory_plan(parts)), Catch::Contains("overlaps"));
}

TEST_CASE("the published hard instances in a pool", "[nnvm_pool]") {
    if (support::published('A').empty()) {
        WARN("no instances: name their folder in ECHO_PLANNER_DATA");
        return;
    }
    double as_outputs = 0, in_file_order = 0;
    for (char name = 'A'; name <= 'K'; ++name) {
        const auto items = support::published(name);
        auto apart = items; // what starts together, one after the other as in the file
        const auto n = static_cast<std::uint32_t>(items.size());
        for (std::uint32_t i = 0; i < n; ++i) {
            apart[i].first = items[i].first * n + i;
            apart[i].last = items[i].last * n + n - 1;
        }
        const auto load = static_cast<double>(echo::arena::peak_load(items));
        as_outputs += std::log(static_cast<double>(pool(items)) / load);
        in_file_order += std::log(static_cast<double>(pool(apart)) / load);
    }
    // Another implementation, which knows no steps, took 2.22.
    CHECK(std::exp(in_file_order / 11) == Approx(2.22).margin(0.01));
    CHECK(as_outputs < in_file_order);
}

TEST_CASE("a pool of a hundred thousand storages", "[nnvm_pool]") {
    std::mt19937_64 engine(1);
    const auto items = support::training_chain(engine, 34'000);
    CHECK(pool(items) >= echo::arena::peak_load(items));
}

TEST_CASE("pools that cannot be", "[nnvm_pool]") {
    using Catch::Contains;
    const echo::snapshot s;
    const echo::schedule none;
    CHECK_THROWS_WITH(echo::plan_memory(s, none, {.capacities = {1}, .pool = echo::nnvm_pool{}}),
                      Contains("pool: has no capacities; give a pool or capacities"));
    CHECK_THROWS_WITH(echo::plan_memory(s, none, {.align = 0, .pool = echo::nnvm_pool{}}),
                      Contains("align: is 0"));
    CHECK(echo::plan_memory(s, none, {.pool = echo::nnvm_pool{}}) == echo::memory_plan{});
    const intervals two{{0, 1, 1}, {0, 1, 1}};
    CHECK_THROWS_WITH(echo::arena::place_in_pool(two, {.overhead = std::uint64_t{1} << 63}),
                      Contains("overhead: the pool does not fit in 64 bits"));
    CHECK_THROWS_WITH(echo::arena::place_in_pool(two, {.overhead = ~std::uint64_t{0}}), Contains("64 bits"));
    CHECK_THROWS_WITH(echo::arena::place_in_pool(two, {}, 0), Contains("align: is 0"));
    CHECK_THROWS_WITH(echo::arena::place_in_pool(intervals{{1, 0, 1}}), Contains("ends before"));
}
