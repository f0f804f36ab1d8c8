// SPDX-License-Identifier: BSL-1.0
// Storages live at once never share a byte, the arena is never smaller than the load, and how close it comes:
// on every tiny set against exhaustive search, on published hard instances, on large forward/backward graphs.
#include "hosts/random_graph.hpp"
#include "support/interval_sets.hpp"
#include "support/sanitized.hpp"

#include <echo/analysis/memory/arena/anytime.hpp>
#include <echo/analysis/memory/arena/best_fit.hpp>
#include <echo/analysis/memory/arena/capped.hpp>
#include <echo/analysis/memory/arena/greedy.hpp>
#include <echo/analysis/memory/arena/place.hpp>
#include <echo/analysis/memory/arena/search_orders.hpp>
#include <echo/analysis/memory/arena/section_search.hpp>
#include <echo/analysis/memory/arena/sections.hpp>
#include <echo/analysis/memory/arena/skyline.hpp>
#include <echo/analysis/memory/arena/timeline.hpp>
#include <echo/analysis/memory/arena/valleys.hpp>
#include <echo/analysis/memory/arena/window_tree.hpp>
#include <echo/analysis/plan_memory.hpp>

#include <catch2/catch.hpp>
#include <rapidcheck/catch.h>

#include <cmath>
#include <map>
#include <random>
#include <set>
#include <sstream>

namespace {

using echo::arena::interval;
using intervals = std::vector<interval>;
using offsets = std::vector<std::uint64_t>;
using support::published;
using support::training_chain;

/// A sweep over time that shares nothing with the solvers. The first overlap, in words; empty if there is
/// none.
std::string overlap(const intervals& items, const offsets& at) {
    std::map<std::uint32_t, std::vector<std::size_t>> starts, ends;
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (!items[i].bytes) continue;
        starts[items[i].first].push_back(i);
        ends[items[i].last].push_back(i);
    }
    std::map<std::uint64_t, std::uint64_t> live; // offset, end
    auto ended = ends.begin();
    for (const auto& [time, started] : starts) {
        for (; ended != ends.end() && ended->first < time; ++ended)
            for (const auto i : ended->second) live.erase(at[i]);
        for (const auto i : started) {
            const auto [me, fresh] = live.emplace(at[i], at[i] + items[i].bytes);
            if (!fresh) return "two at offset " + std::to_string(at[i]);
            if (me != live.begin() && std::prev(me)->second > me->first)
                return "one reaches beyond " + std::to_string(at[i]);
            if (std::next(me) != live.end() && std::next(me)->first < me->second)
                return "one at " + std::to_string(at[i]) + " reaches into the next";
        }
    }
    return {};
}

/// The bound by definition, time by time.
std::uint64_t load_by_definition(const intervals& items) {
    std::uint64_t most = 0;
    for (const auto& at : items) {
        std::uint64_t sum = 0;
        for (const auto& x : items)
            if (x.first <= at.first && at.first <= x.last) sum += x.bytes;
        most = std::max(most, sum);
    }
    return most;
}

/// Exhaustive search. An optimal placement, taken from its lowest interval up, can be pushed down until each
/// interval rests on the bottom or on one placed before; so it is enough to try all orders in which the
/// lowest offset above what is there never falls.
class exhaustive {
public:
    explicit exhaustive(const intervals& items)
        : items_(items), load_(echo::arena::peak_load(items)), at_(items.size()) {
        search({}, 0, 0);
    }
    std::uint64_t smallest_arena() const { return best_; }

private:
    void search(const std::vector<std::size_t>& placed, std::uint64_t floor, std::uint64_t end) {
        if (placed.size() == items_.size()) best_ = end;
        for (std::size_t i = 0; i < items_.size() && best_ > load_; ++i) {
            if (std::find(placed.begin(), placed.end(), i) != placed.end()) continue;
            std::uint64_t low = 0;
            for (const auto j : placed)
                if (items_[j].first <= items_[i].last && items_[i].first <= items_[j].last)
                    low = std::max(low, at_[j] + items_[j].bytes);
            const std::uint64_t top = std::max(end, low + items_[i].bytes);
            if (low < floor || top >= best_) continue;
            at_[i] = low;
            auto more = placed;
            more.push_back(i);
            search(more, low, top);
        }
    }

    const intervals& items_;
    std::uint64_t load_;
    offsets at_;
    std::uint64_t best_ = ~std::uint64_t{0};
};

rc::Gen<intervals> some_intervals(std::uint32_t times, std::uint64_t bytes) {
    return rc::gen::container<intervals>(rc::gen::map(
        rc::gen::tuple(rc::gen::inRange<std::uint32_t>(0, times), rc::gen::inRange<std::uint32_t>(0, times),
                       rc::gen::inRange<std::uint64_t>(0, bytes)),
        [](const auto& t) {
            const auto [a, b, size] = t;
            return interval{std::min(a, b), std::max(a, b), size};
        }));
}

intervals random_intervals(std::mt19937_64& engine, std::size_t n, std::uint32_t times, std::uint64_t bytes) {
    intervals items;
    for (std::size_t i = 0; i < n; ++i) {
        const auto a = static_cast<std::uint32_t>(engine() % times);
        const auto b = static_cast<std::uint32_t>(engine() % times);
        items.push_back({std::min(a, b), std::max(a, b), 1 + engine() % bytes});
    }
    return items;
}

/// As full as can be: the same load at all times, so that every hole costs.
intervals full_intervals(std::mt19937_64& engine) {
    const std::size_t n = 4 + engine() % 8;
    const std::uint64_t load = 5 + engine() % 8;
    intervals items, live{{0, 0, load}};
    for (std::uint32_t time = 0; items.size() < n; ++time) {
        std::uint64_t freed = 0;
        std::erase_if(live, [&](interval x) {
            if (time > 0 && engine() % 2) return false;
            freed += x.bytes;
            x.last = time - 1;
            if (time > 0) items.push_back(x);
            return true;
        });
        while (freed > 0) {
            const std::uint64_t bytes = 1 + engine() % std::min<std::uint64_t>(freed, 4);
            live.push_back({time, 0, bytes});
            freed -= bytes;
        }
    }
    const auto end = items.back().last + 1;
    for (auto& x : live) x.last = end;
    items.insert(items.end(), live.begin(), live.end());
    return items;
}

/// From a text of first-last:bytes.
intervals read_intervals(const char* text) {
    std::istringstream row(text);
    intervals items;
    char dash = 0, colon = 0;
    for (interval x; row >> x.first >> dash >> x.last >> colon >> x.bytes;) items.push_back(x);
    return items;
}

/// Sets whose load no arena reaches are rare, one in 20,000 of the full ones: some of them, with one change.
intervals awkward_intervals(std::mt19937_64& engine) {
    static const char* const found[] = {"0-0:3 1-2:2 0-3:2 3-3:1 1-5:1 4-5:3 3-6:1 6-6:2 6-6:2",
                                        "0-2:2 0-3:3 0-3:1 3-4:1 4-4:2 3-5:1 4-5:2 5-6:3 6-6:3",
                                        "0-0:2 1-1:2 2-2:1 0-3:2 2-4:1 4-4:1 3-5:1 4-5:1 5-6:2 6-6:2",
                                        "0-1:2 2-3:2 0-4:2 4-6:2 5-7:1 7-7:1 5-8:1 7-8:1 8-9:2 9-9:2",
                                        "0-1:3 2-2:3 3-3:2 0-4:1 4-4:1 0-5:2 4-5:1 3-6:1 5-6:2 6-6:3",
                                        "0-0:2 0-0:2 1-1:3 0-2:1 2-2:2 1-3:1 3-3:3 2-4:1 4-4:2 4-4:2"};
    intervals items = read_intervals(found[engine() % std::size(found)]);
    interval& x = items[engine() % items.size()];
    switch (engine() % 4) {
    case 0:
        x.bytes += 1;
        break;
    case 1:
        x.last += 1;
        break;
    case 2:
        x.first -= x.first > 0;
        break;
    default: // a larger unit, and something beside it
        for (auto& y : items) y.bytes *= 8;
        x.bytes += engine() % 3;
    }
    return items;
}

double ratio(const intervals& items, double limit = 0.2) {
    return static_cast<double>(echo::arena::place(items, {.limit = limit}).bytes) /
           static_cast<double>(echo::arena::peak_load(items));
}

} // namespace

TEST_CASE("the load is what is alive at the worst time", "[plan_memory]") {
    rc::prop("for all intervals", [] {
        const auto items = *some_intervals(40, 1000);
        RC_ASSERT(echo::arena::peak_load(items) == load_by_definition(items));
        const echo::arena::timeline line(items, 1);
        RC_ASSERT(line.load() == load_by_definition(items));
    });
}

TEST_CASE("intervals alive at once never overlap", "[plan_memory]") {
    rc::prop("for all intervals and alignments", [] {
        const auto items = *some_intervals(*rc::gen::element(3u, 30u, 300u), 5000);
        const auto align = *rc::gen::element<std::uint64_t>(1, 3, 64, 256);
        const echo::arena::place_options options{.align = align, .limit = 0.01};
        const auto made = echo::arena::place(items, options);
        const auto& at = made.offsets;
        RC_ASSERT(at.size() == items.size());
        RC_ASSERT(overlap(items, at) == "");
        for (std::size_t i = 0; i < items.size(); ++i) {
            RC_ASSERT(at[i] % align == 0u);
            if (!items[i].bytes) RC_ASSERT(at[i] == 0u);
        }
        RC_ASSERT(made.bytes == echo::arena::extent(items, at));
        RC_ASSERT(made.bytes >= echo::arena::peak_load(items));
        RC_ASSERT(made.bound >= echo::arena::peak_load(items));
        RC_ASSERT(echo::arena::place(items, options) == made);
    });
}

TEST_CASE("the order of the input does not change the arena", "[plan_memory]") {
    rc::prop("for all shuffles", [] {
        auto items = *some_intervals(30, 300);
        const auto before = echo::arena::place(items, {.limit = 0.01}).bytes;
        std::mt19937_64 engine(*rc::gen::arbitrary<std::uint64_t>());
        std::shuffle(items.begin(), items.end(), engine);
        RC_ASSERT(echo::arena::place(items, {.limit = 0.01}).bytes == before);
    });
}

TEST_CASE("the free list alone keeps the law, either way in time", "[plan_memory]") {
    rc::prop("for all intervals", [](bool backwards) {
        const auto items = *some_intervals(40, 1000);
        const echo::arena::timeline line(items, 16);
        const intervals padded(line.items().begin(), line.items().end());
        const auto at = echo::arena::best_fit(line, backwards);
        RC_ASSERT(overlap(padded, at) == "");
        for (const auto offset : at) RC_ASSERT(offset % 16 == 0u);
    });
}

TEST_CASE("the tree finds the best item within a window", "[plan_memory]") {
    std::mt19937_64 engine(1);
    for (int round = 0; round < 100; ++round) {
        const echo::arena::timeline line(random_intervals(engine, 1 + engine() % 60, 30, 9), 1);
        std::vector<std::uint32_t> order(line.size());
        for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), engine);
        echo::arena::window_tree tree(line);
        tree.fill(order);
        std::vector<bool> left(line.size(), true);
        for (std::size_t removed = 0; removed <= line.size(); ++removed) {
            auto first = static_cast<std::uint32_t>(engine() % line.times());
            auto last = static_cast<std::uint32_t>(engine() % line.times());
            if (last < first) std::swap(first, last);
            auto expected = echo::arena::window_tree::none;
            for (std::uint32_t rank = 0; rank < order.size(); ++rank) {
                const auto& x = line[order[rank]];
                if (left[order[rank]] && x.first >= first && x.last <= last)
                    expected = std::min(expected, rank);
            }
            REQUIRE(tree.best(first, last) == expected);
            if (removed == line.size()) break;
            std::uint32_t gone = 0;
            do gone = static_cast<std::uint32_t>(engine() % line.size());
            while (!left[gone]);
            left[gone] = false;
            tree.remove(gone);
        }
    }
}

TEST_CASE("the tree goes to the best item without looking at the others", "[plan_memory]") {
    constexpr std::uint32_t count = 1024;
    intervals items;
    for (std::uint32_t i = 0; i < count; ++i) items.push_back({0, 0, 1 + i});
    const echo::arena::timeline line(items, 1);
    for (const bool last_is_best : {false, true}) {
        std::vector<std::uint32_t> order(count);
        for (std::uint32_t i = 0; i < count; ++i) order[i] = last_is_best ? count - 1 - i : i;
        echo::arena::window_tree tree(line);
        tree.fill(order);
        CHECK(tree.best(0, 0) == 0);
        CHECK(tree.visits() <= 4 * 10); // some nodes on each of ten levels
    }
}

TEST_CASE("free neighbours are joined, whichever of them is free first", "[plan_memory]") {
    for (const bool in_turn : {true, false}) {
        echo::arena::free_list free;
        const auto a = free.take(8), b = free.take(8);
        free.take(1); // stays in use behind them
        free.give(in_turn ? a : b);
        free.give(in_turn ? b : a);
        CHECK(free.offset(free.take(16)) == 0);
    }
}

TEST_CASE("of the free blocks that fit, one of nearly the smallest size is taken", "[plan_memory]") {
    for (const bool small_first : {true, false}) {
        echo::arena::free_list free;
        const auto small = free.take(100);
        free.take(1); // so that they are no neighbours
        const auto large = free.take(120);
        free.take(1);
        const auto expected = free.offset(small);
        free.give(small_first ? small : large);
        free.give(small_first ? large : small);
        CHECK(free.offset(free.take(90)) == expected);
    }
}

TEST_CASE("a moment that no item covers is no obstacle where no wall stands", "[plan_memory]") {
    const echo::arena::timeline line(intervals{{0, 0, 2}, {0, 0, 4}, {1, 1, 4}, {2, 2, 2}, {2, 2, 4}}, 1);
    echo::arena::sections state(line);
    state.clear(line.load());
    for (const std::uint32_t of_four_bytes : {1U, 2U, 4U}) state.put(of_four_bytes);
    echo::arena::valleys valleys(line);
    valleys.clear(line.load(), {});
    echo::arena::valleys::question asked;
    // Two items are left, at the first and at the last moment, on a floor of one height.
    REQUIRE(valleys.settle(state, 0, 2, asked) == echo::arena::valleys::finding::open);
    CHECK(asked.moment == 0);
    CHECK(state.floor(1) == 4);
}

TEST_CASE("the work of the exact search counts stretches, items and moments", "[plan_memory]") {
    intervals items;
    for (std::uint32_t i = 0; i < 10; ++i) items.push_back({i, i, 1});
    const echo::arena::timeline line(items, 1);
    echo::arena::sections state(line);
    state.clear(1);
    echo::arena::valleys valleys(line);
    valleys.clear(1, {});
    echo::arena::valleys::question asked;
    REQUIRE(valleys.settle(state, 0, 9, asked) == echo::arena::valleys::finding::open);
    CHECK(state.work() == 1 + 10 + 10);
    REQUIRE(valleys.settle(state, 0, 9, asked) == echo::arena::valleys::finding::open);
    CHECK(state.work() == 1 + 10 + 10 + 1); // what was found is kept
}

TEST_CASE("searches end when their work is done", "[plan_memory]") {
    std::mt19937_64 engine(1);
    constexpr std::uint64_t unlimited = ~std::uint64_t{0};
    const echo::arena::timeline few(random_intervals(engine, 100, 60, 1000), 1);
    echo::arena::greedy_placer greedy(few);
    greedy.run(0, 1, unlimited);
    const auto once = greedy.work();
    REQUIRE(once > 0);
    greedy.run(0, std::size_t{0} - 1, 10 * once);
    CHECK(greedy.work() >= 10 * once);
    CHECK(greedy.work() < 14 * once); // a skyline takes no more than three times another

    const echo::arena::timeline many(random_intervals(engine, 4500, 100, 1000), 1);
    constexpr std::uint64_t first_share = 500'000;
    for (const std::uint64_t most : {2 * first_share, 4 * first_share}) {
        echo::arena::anytime_placer placer(many, 0);
        placer.run(most);
        INFO(most);
        CHECK(placer.work() >= most);
        CHECK(placer.work() < most + first_share / 2);
    }
}

TEST_CASE("of many intervals, the search over orders goes on beside the exact one", "[plan_memory]") {
    constexpr std::uint64_t first_share = 500'000;
    for (const std::uint64_t seed : {1U, 2U}) {
        std::mt19937_64 engine(seed);
        const echo::arena::timeline line(random_intervals(engine, 4100, 100, 4), 1);
        echo::arena::greedy_placer orders(line);
        orders.run(line.load(), echo::arena::greedy_tries(line.size()), ~std::uint64_t{0});
        const auto soon = orders.bytes();
        orders.run(line.load(), ~std::size_t{0}, orders.work() + first_share);
        REQUIRE(orders.bytes() < soon);
        echo::arena::anytime_placer placer(line, 0);
        placer.run(first_share);
        CHECK(placer.bytes() <= orders.bytes());
    }
}

TEST_CASE("a skyline that searches too long says so", "[plan_memory]") {
    std::mt19937_64 engine(1);
    const echo::arena::timeline line(random_intervals(engine, 50, 30, 9), 1);
    std::vector<std::uint32_t> order(line.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    echo::arena::skyline sky(line);
    CHECK_FALSE(sky.place(order, 5));
    CHECK(sky.place(order, 1'000'000)); // and works again
}

TEST_CASE("archetypes", "[plan_memory]") {
    CHECK(echo::arena::place({}) == echo::arena::placement{});
    CHECK(echo::arena::place(intervals{{0, 9, 0}, {3, 4, 0}}).offsets == offsets{0, 0});
    CHECK(echo::arena::place(intervals{{7, 7, 5}}, {.align = 256}).offsets == offsets{0});
    CHECK(echo::arena::place(intervals{{7, 7, 5}}, {.align = 256}).bytes == 5);
    CHECK(echo::arena::place(intervals{{7, 7, 5}}, {.align = 256}).bound == 5);
    CHECK(echo::arena::place(intervals{{7, 7, 5}, {7, 7, 6}}, {.align = 8}).bytes <= 14);
    CHECK(echo::arena::place(intervals{{7, 7, 5}, {7, 7, 6}}, {.align = 8}).bound == 13);
    CHECK(echo::arena::place(intervals{{0, 1, 5}, {2, 3, 5}}).offsets == offsets{0, 0});

    intervals nested, stairs, together, apart;
    for (std::uint32_t i = 0; i < 100; ++i) {
        nested.push_back({i, 199 - i, 1 + i * 37 % 11});
        stairs.push_back({i, i + 3, 8});
        together.push_back({0, 5, 1 + i});
        apart.push_back({2 * i, 2 * i + 1, 1 + i});
    }
    for (const auto& items : {nested, stairs, together, apart}) CHECK(ratio(items) == 1);
    CHECK(echo::arena::peak_load(stairs) == 32);
    CHECK(echo::arena::peak_load(together) == 5050);
    CHECK(echo::arena::peak_load(apart) == 100);
    // The largest time and a start that all share.
    CHECK(ratio({{0, 0xffffffff, 3}, {0xffffffff, 0xffffffff, 4}, {0, 0, 4}}) == 1);
}

TEST_CASE("what cannot be placed is refused", "[plan_memory]") {
    using Catch::Contains;
    CHECK_THROWS_WITH(echo::arena::place(intervals{{0, 1, 5}}, {.align = 0}), Contains("align: is 0"));
    const std::uint64_t five[] = {5};
    CHECK_THROWS_WITH(echo::arena::place_capped(intervals{{0, 1, 5}}, five, {.align = 0}),
                      Contains("align: is 0"));
    for (const double limit : {-1.0, std::nan("")})
        CHECK_THROWS_WITH(echo::arena::place(intervals{{0, 1, 5}}, {.limit = limit}),
                          Contains("limit: is neg"));
    CHECK_THROWS_WITH(echo::arena::place(intervals{{0, 1, 5}, {3, 2, 5}}),
                      Contains("interval 1: ends before"));
    const std::uint64_t half = std::uint64_t{1} << 61;
    CHECK_THROWS_WITH(echo::arena::place(intervals{{0, 1, half}, {0, 1, half}, {0, 1, 1}}),
                      Contains("exceed 2^62 bytes"));
    CHECK_THROWS_WITH(echo::arena::place(intervals{{0, 1, 1}}, {.align = ~std::uint64_t{0}}),
                      Contains("exceed 2^62 bytes"));
    CHECK(echo::arena::place(intervals{{0, 1, half}, {0, 1, half}}).bytes == 2 * half);
    const echo::snapshot s;
    CHECK_THROWS_WITH(echo::plan_memory(s, echo::schedule{}, {.granularity = 0}),
                      Contains("granularity: is 0"));
    CHECK_THROWS_WITH(echo::plan_memory(s, echo::schedule{}, {.align = 0}), Contains("align: is 0"));
}

TEST_CASE("tiny sets against exhaustive search", "[plan_memory]") {
    std::mt19937_64 engine(1);
    std::size_t searched = 0, above_load = 0;
    for (std::size_t round = 0; round < support::rounds(3300); ++round) {
        intervals items;
        do items = round < support::rounds(3000) ? full_intervals(engine) : awkward_intervals(engine);
        while (items.size() > 12);
        const auto made = echo::arena::place(items);
        // As small as the load is optimal; only the rest needs a search.
        const auto load = echo::arena::peak_load(items);
        searched += echo::arena::place(items, {.limit = 0}).bytes > load;
        const auto best = made.bytes == load ? load : exhaustive(items).smallest_arena();
        above_load += best > load;
        CAPTURE(round);
        REQUIRE(overlap(items, made.offsets) == "");
        REQUIRE(made.bytes == best);
        REQUIRE(made.bound == best); // proven
    }
    CHECK(searched > support::rounds(100));
    CHECK(above_load > support::rounds(100));
}

TEST_CASE("tiny sets without structure against exhaustive search", "[plan_memory]") {
    std::mt19937_64 engine(2);
    for (std::size_t round = 0; round < support::rounds(2000); ++round) {
        const auto items = random_intervals(engine, 3 + engine() % 6, 6, 7);
        CAPTURE(round);
        REQUIRE(echo::arena::place(items).bytes == exhaustive(items).smallest_arena());
    }
}

TEST_CASE("the exact search alone decides as exhaustive search does", "[plan_memory]") {
    using echo::arena::verdict;
    constexpr std::uint64_t unlimited = ~std::uint64_t{0};
    std::mt19937_64 engine(3);
    std::size_t impossible = 0;
    for (std::size_t round = 0; round < support::rounds(200); ++round) {
        const echo::arena::timeline line(round % 2 ? awkward_intervals(engine) : full_intervals(engine), 1);
        if (line.size() > 10) continue;
        const intervals items(line.items().begin(), line.items().end());
        const auto best = exhaustive(items).smallest_arena();
        echo::arena::section_search search(line);
        echo::arena::search_orders orders(line);
        for (std::uint64_t capacity = line.load(); capacity <= best + 1; ++capacity) {
            const auto rank = orders.next();
            const auto found = search.run(capacity, rank, orders.prices(), unlimited, unlimited);
            CAPTURE(round, capacity);
            REQUIRE(found == (capacity < best ? verdict::cannot_fit : verdict::fits));
            impossible += capacity < best;
            if (capacity < best) continue;
            const offsets at(search.offsets().begin(), search.offsets().end());
            REQUIRE(overlap(items, at) == "");
            REQUIRE(echo::arena::extent(items, at) <= capacity);
        }
        const auto rank = orders.next();
        CHECK(search.run(best, rank, orders.prices(), 1, unlimited) == verdict::stopped);
        CHECK(search.run(best, rank, orders.prices(), unlimited, search.work()) == verdict::stopped);
    }
    CHECK(impossible > support::rounds(50));
}

TEST_CASE("more time never gives a larger arena, and the same time the same plan", "[plan_memory]") {
    rc::prop("for all intervals", [] {
        const auto items = *some_intervals(*rc::gen::element(10u, 60u), 60);
        auto before = echo::arena::place(items, {.limit = 0});
        for (const double limit : {0.0001, 0.001, 0.01}) {
            const auto made = echo::arena::place(items, {.limit = limit});
            RC_ASSERT(made.bytes <= before.bytes);
            RC_ASSERT(made.bound >= before.bound);
            RC_ASSERT(made.bound <= made.bytes);
            RC_ASSERT(echo::arena::place(items, {.limit = limit}) == made);
            before = made;
        }
    });
}

TEST_CASE("an arena that is small enough ends the search", "[plan_memory]") {
    std::mt19937_64 engine(5);
    for (std::size_t round = 0; round < support::rounds(50); ++round) {
        const auto items = random_intervals(engine, 100, 60, 1000);
        const auto greedy = echo::arena::place(items, {.limit = 0}).bytes;
        const auto best = echo::arena::place(items, {.limit = 0.02}).bytes;
        CHECK(echo::arena::place(items, {.limit = 1, .enough = greedy}).bytes <= greedy);
        const auto between = echo::arena::place(items, {.limit = 0.1, .enough = best + (greedy - best) / 2});
        CHECK(between.bytes <= best + (greedy - best) / 2);
        CHECK(between.bytes >= echo::arena::peak_load(items));
    }
}

TEST_CASE("the load cannot always be reached", "[plan_memory]") {
    const intervals items{{0, 0, 3}, {1, 1, 2}, {0, 2, 2}, {3, 3, 1}, {2, 4, 1}, {3, 4, 1},
                          {1, 5, 1}, {4, 5, 1}, {5, 5, 2}, {2, 6, 1}, {6, 7, 4}, {7, 7, 1}};
    CHECK(echo::arena::peak_load(items) == 5);
    CHECK(exhaustive(items).smallest_arena() == 6);
    const auto made = echo::arena::place(items);
    CHECK(made.bytes == 6);
    CHECK(made.bound == 6);

    // What is small enough lies between two arenas that there may be: the smaller one is ruled out, the larger one not.
    intervals larger = items;
    for (auto& x : larger) x.bytes *= 10;
    for (const std::uint64_t enough : {50U, 55U, 59U}) {
        const auto scaled = echo::arena::place(larger, {.enough = enough});
        CHECK(scaled.bytes == 60);
        CHECK(scaled.bound == 60);
    }
}

TEST_CASE("the published hard instances", "[plan_memory]") {
    if (published('A').empty()) {
        WARN("no instances: name their folder in ECHO_PLANNER_DATA");
        return;
    }
    double greedy = 0, soon = 0;
    for (char name = 'A'; name <= 'K'; ++name) {
        const auto items = published(name);
        REQUIRE(items.size() > 100);
        const auto made = echo::arena::place(items, {.limit = 0.2});
        CHECK(overlap(items, made.offsets) == "");
        CHECK(made.bytes == echo::arena::extent(items, made.offsets));
        const double r = ratio(items);
        UNSCOPED_INFO(name << ": " << r);
        CHECK(made.bytes <= 1'048'576); // the capacity that the exact solvers were measured with
        greedy += std::log(ratio(items, 0));
        soon += std::log(r);
    }
    INFO("geometric means " << std::exp(greedy / 11) << ", " << std::exp(soon / 11));
    CHECK(std::exp(greedy / 11) <= 1.12);
    CHECK(std::exp(soon / 11) <= 1.012); // minimalloc, at some seconds each
}

TEST_CASE("a large training chain", "[plan_memory]") {
    std::mt19937_64 engine(1);
    const auto items = training_chain(engine, 70'000);
    CHECK(overlap(items, echo::arena::place(items).offsets) == "");
    CHECK(ratio(items) <= 1.001);
}

TEST_CASE("a million intervals", "[.][soak][plan_memory]") {
    std::mt19937_64 engine(1);
    CHECK(ratio(training_chain(engine, 340'000)) <= 1.001);
    intervals nested;
    for (std::uint32_t i = 0; i < 1'000'000; ++i) nested.push_back({i, 2'000'000 - i, 1 + engine() % 9});
    CHECK(ratio(nested) == 1);
    const auto wild = random_intervals(engine, 1'000'000, 1'000'000, 1 << 20);
    CHECK(overlap(wild, echo::arena::place(wild).offsets) == "");
}

TEST_CASE("blocks are the storages of the schedule", "[plan_memory]") {
    hosts::dice d(1);
    hosts::random_schedule chance(d, {});
    std::size_t on_others = 0, residents = 0, empty = 0, reached = 0;
    constexpr std::size_t graphs = support::rounds(500);
    for (std::size_t graph = 0; graph < graphs; ++graph) {
        const echo::snapshot s = hosts::random_graph(d)(4 + d.below(60));
        const echo::schedule steps = chance(s);
        const echo::memory_options options{.align = std::uint64_t{1} << d.below(8),
                                           .granularity = 1 + d.below(99)};
        const auto m = echo::plan_memory(s, steps, options);
        CAPTURE(graph);
        REQUIRE(m == echo::plan_memory(s, echo::plan(echo::strategy::echo, steps, {}, {}), options));
        REQUIRE(m.align() == options.align);

        echo::liveness_analysis analyse;
        const auto& live = analyse(s, steps);
        intervals exact, reserved;
        offsets at;
        std::size_t next = 0;
        for (const auto i : live.storages()) {
            const auto& storage = live[i];
            residents += storage.resident;
            empty += !storage.resident && !storage.bytes;
            if (storage.resident || !storage.bytes) continue;
            REQUIRE(next < m.blocks().size());
            const auto& block = m.blocks()[next++];
            REQUIRE(block.maker == storage.maker);
            REQUIRE(block.bytes >= storage.bytes);
            REQUIRE(block.bytes < storage.bytes + options.granularity);
            REQUIRE(block.bytes % options.granularity == 0);
            REQUIRE(block.offset % options.align == 0);
            REQUIRE(block.offset + block.bytes <= m.bytes());
            exact.push_back({storage.first.index(), storage.last.index(), storage.bytes});
            reserved.push_back({storage.first.index(), storage.last.index(), block.bytes});
            at.push_back(block.offset);
        }
        REQUIRE(next == m.blocks().size());
        REQUIRE(overlap(reserved, at) == "");
        REQUIRE(m.lower_bound() == load_by_definition(exact));
        REQUIRE(m.bytes() == echo::arena::extent(reserved, at));
        REQUIRE(m.bytes() >= m.lower_bound());
        for (auto& x : reserved) x.bytes += (options.align - x.bytes % options.align) % options.align;
        reached += m.bytes() <= echo::arena::peak_load(reserved);

        for (const auto t : steps.steps()) {
            for (std::uint32_t k = 0; k < echo::copy_count(s, steps[t]); ++k) {
                const auto& storage = live[live.storage({t, k})];
                REQUIRE(m.offset({t, k}).has_value() == !storage.resident);
                if (storage.resident) continue;
                REQUIRE(m.offset(t, k) == m.offset(storage.maker));
                on_others += storage.maker != echo::copy_id{t, k};
            }
            REQUIRE_FALSE(m.offset(t, static_cast<std::uint32_t>(echo::copy_count(s, steps[t]))));
        }
        REQUIRE_FALSE(m.offset(echo::step_id(steps.size())));
        REQUIRE_FALSE(m.offset(echo::step_id::none()));
        for (const auto& block : m.blocks()) REQUIRE(m.offset(block.maker) == block.offset);
    }
    CHECK(on_others > graphs);
    CHECK(residents > graphs);
    CHECK(empty > graphs / 10);
    CHECK(reached > graphs * 9 / 10);
}

TEST_CASE("several arenas, each within its capacity", "[plan_memory]") {
    std::mt19937_64 engine(7);
    std::size_t all_in = 0, left_over = 0, several = 0;
    for (std::size_t round = 0; round < support::rounds(300); ++round) {
        auto items = random_intervals(engine, 2 + engine() % 40, 30, 500);
        if (round % 5 == 0) items[0].bytes = 0;
        const auto load = echo::arena::peak_load(items);
        std::vector<std::uint64_t> capacities;
        for (std::size_t k = 1 + engine() % 4; k > 0; --k) capacities.push_back(engine() % (load + 1));
        const std::uint64_t align = std::uint64_t{1} << engine() % 5;
        const echo::arena::place_options options{.align = align, .limit = 0.01};
        const auto made = echo::arena::place_capped(items, capacities, options);
        const auto again = echo::arena::place_capped(items, capacities, options);
        CAPTURE(round);
        REQUIRE((again.arenas == made.arenas && again.offsets == made.offsets));
        std::uint64_t left = 0;
        std::set<std::uint32_t> used;
        for (std::uint32_t k = 0; k < capacities.size(); ++k) {
            intervals inside;
            offsets at;
            for (std::size_t i = 0; i < items.size(); ++i) {
                if (made.arenas[i] != k) continue;
                inside.push_back(items[i]);
                at.push_back(made.offsets[i]);
                REQUIRE(made.offsets[i] % align == 0);
                used.insert(k);
            }
            REQUIRE(overlap(inside, at) == "");
            REQUIRE(echo::arena::extent(inside, at) <= capacities[k]);
        }
        for (std::size_t i = 0; i < items.size(); ++i)
            if (made.arenas[i] == echo::arena::capped_placement::nowhere) left += items[i].bytes;
        REQUIRE(made.left_over == left);
        all_in += left == 0;
        left_over += left > 0;
        several += left == 0 && used.size() > 1;
    }
    CHECK(all_in > support::rounds(30));
    CHECK(left_over > support::rounds(30));
    CHECK(several > support::rounds(20));
}

TEST_CASE("one capacity is met if it can be, and no smaller one is", "[plan_memory]") {
    std::mt19937_64 engine(8);
    for (std::size_t round = 0; round < support::rounds(60); ++round) {
        const auto items = awkward_intervals(engine);
        const auto best = exhaustive(items).smallest_arena();
        for (const auto capacity : {best, best - 1}) {
            const std::uint64_t capacities[] = {capacity};
            CHECK((echo::arena::place_capped(items, capacities).left_over == 0) == (capacity == best));
        }
    }
}

TEST_CASE("a memory plan over several arenas", "[plan_memory]") {
    hosts::dice d(3);
    hosts::random_schedule chance(d, {});
    std::size_t split = 0, refused = 0;
    for (std::size_t graph = 0; graph < support::rounds(300); ++graph) {
        const echo::snapshot s = hosts::random_graph(d)(10 + d.below(50));
        const echo::schedule steps = chance(s);
        const auto one = echo::plan_memory(s, steps, {.align = 16, .limit = 0.01});
        if (one.bytes() < 64) continue;
        echo::memory_options options{.align = 16, .limit = 0.01};
        for (std::uint64_t left = one.bytes() + 16 * d.below(20); left > 0;) {
            const std::uint64_t part = options.capacities.size() == 3 ? left : 1 + d.below(left);
            options.capacities.push_back(part);
            left -= part;
        }
        CAPTURE(graph);
        echo::memory_plan m;
        try {
            m = echo::plan_memory(s, steps, options);
        } catch (const echo::error& e) {
            ++refused;
            REQUIRE(e.key() == "capacities");
            REQUIRE_FALSE(e.node().empty());
            REQUIRE_FALSE(e.advice().empty());
            continue;
        }
        REQUIRE(m.arenas().size() == options.capacities.size());
        std::set<std::uint32_t> used;
        std::uint64_t first = 0;
        for (std::size_t k = 0; k < m.arenas().size(); ++k) {
            REQUIRE(m.arenas()[k].first == first);
            REQUIRE(m.arenas()[k].capacity == options.capacities[k]);
            REQUIRE(m.arenas()[k].bytes <= options.capacities[k]);
            first += (options.capacities[k] + 15) / 16 * 16;
        }
        for (const auto& block : m.blocks()) {
            const auto& home = m.arenas()[block.arena];
            used.insert(block.arena);
            REQUIRE(block.offset >= home.first);
            REQUIRE(block.offset + block.bytes <= home.first + home.bytes);
            REQUIRE(m.where(block.maker) == echo::memory_place{block.arena, block.offset - home.first});
            REQUIRE(block.offset + block.bytes <= m.bytes());
        }
        split += used.size() > 1;
        const echo::plan p(echo::strategy::echo, steps, {}, {});
        REQUIRE(m == echo::plan_memory(s, p, options));
    }
    CHECK(split > support::rounds(50));
    CHECK(refused > support::rounds(10));
}

TEST_CASE("capacities that cannot be met", "[plan_memory]") {
    using Catch::Contains;
    hosts::dice d(1);
    const echo::snapshot s = hosts::random_graph(d)(40);
    const auto steps = echo::baseline_schedule(s);
    const auto bytes = echo::plan_memory(s, steps).bytes();
    REQUIRE(bytes > 100);
    CHECK_THROWS_WITH(echo::plan_memory(s, steps, {.capacities = {1, 1}}),
                      Contains("node '") && Contains("capacities: no room for the") &&
                          Contains("the arenas hold 2 bytes") && Contains("larger capacities"));
    CHECK_THROWS_WITH(echo::plan_memory(s, steps, {.capacities = {~std::uint64_t{0}, 1}}),
                      Contains("do not fit in 64 bits"));
    const auto m = echo::plan_memory(s, steps, {.capacities = {0, bytes, ~std::uint64_t{0} - bytes}});
    CHECK(m.bytes() == bytes);
    CHECK(m.arenas()[1].bytes == bytes);
    CHECK(m.arenas()[2].bytes == 0);
    const auto whole = echo::plan_memory(s, steps);
    CHECK(whole.arenas().empty());
    CHECK(whole.where(whole.blocks()[0].maker) == echo::memory_place{0, whole.blocks()[0].offset});
    CHECK_FALSE(whole.where({echo::step_id::none(), 0}));
}

TEST_CASE("an empty memory plan", "[plan_memory]") {
    const auto m = echo::plan_memory(echo::snapshot{}, echo::schedule{});
    CHECK(m == echo::memory_plan{});
    CHECK(m.bytes() == 0);
    CHECK(m.align() == 1);
    CHECK_FALSE(m.offset(echo::step_id(0)));
    auto parts = m.parts();
    parts.align = 2;
    CHECK_FALSE(echo::memory_plan(parts) == m);
}
