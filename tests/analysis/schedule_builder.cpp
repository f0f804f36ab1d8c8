// SPDX-License-Identifier: BSL-1.0
// From a choice to steps: what is demanded is made, just before it is read, and nothing else is.
#include "support/by_definition.hpp"
#include "support/exhaustive.hpp"
#include "support/properties.hpp"
#include "support/random_graph.hpp"
#include "support/toy_graph.hpp"

#include <echo/analysis/plan/decision/schedule_builder.hpp>
#include <echo/analysis/plan/strategies/min_cut.hpp>

namespace {

using support::toy_graph;
using value = toy_graph::value;

constexpr auto recompute = echo::step_kind::recompute, encode = echo::step_kind::encode;

/// Lays out one choice, of nodes by the values they make.
struct laid_out {
    const echo::snapshot& s;
    echo::detail::candidates c;
    echo::schedule steps;

    laid_out(const echo::snapshot& graph, const std::vector<value>& again,
             const std::vector<value>& encoded = {}, echo::host_abilities host = {}, bool heavy = false)
        : s(graph), c(echo::detail::find_candidates(graph, host)) {
        auto chosen = echo::detail::decision::nothing(s);
        chosen.heavy = heavy;
        for (const auto v : again) chosen.again.insert(s[v].producer);
        for (const auto v : encoded) chosen.encoded.insert(v);
        steps = echo::detail::schedule_builder(s, c)(chosen);
        CHECK(support::wrong(s, steps).empty());
    }
    /// One character per step: the node's number; `'` behind it for a recompute, `"` for an encode.
    std::string text() const {
        std::string all;
        for (const auto t : steps.steps()) {
            all += (all.empty() ? "" : " ") + std::to_string(steps[t].node.index());
            if (steps[t].kind == recompute) all += "'";
            if (steps[t].kind == encode) all += "\"";
        }
        return all;
    }
};

} // namespace

TEST_CASE("what is made again is made just before its first reader, with what it needs",
          "[schedule_builder]") {
    toy_graph g;
    const auto data = g.input(1);                                                        // 0
    const auto x = g.heavy({data}, 8), a = g.light({x}, 8), b = g.light({a}, 8);         // 1 2 3
    const auto loss = g.light({b}, 0);                                                   // 4
    const auto seed = g.seed(), d1 = g.backward({seed}, 8), d2 = g.backward({d1, b}, 8); // 5 6 7
    const auto d3 = g.backward({d2, a, b}, 8);                                           // 8
    const auto s = g.finish({loss, d3});
    CHECK(laid_out(s, {}).text() == "0 1 2 3 4 5 6 7 8");
    CHECK(laid_out(s, {a, b}).text() == "0 1 2 3 4 5 6 2' 3' 7 8"); // both read the one copy
    CHECK(laid_out(s, {b}).text() == "0 1 2 3 4 5 6 3' 7 8");
    CHECK(laid_out(s, {a}).text() == "0 1 2 3 4 5 6 7 2' 8");
    CHECK(laid_out(s, {x, a, b}).text() == "0 1 2 3 4 5 6 2' 3' 7 8"); // heavy: only if allowed
    CHECK(laid_out(s, {x, a, b}, {}, {}, true).text() == "0 1 2 3 4 5 6 1' 2' 3' 7 8");
    CHECK(laid_out(s, {x}, {}, {}, true).text() == "0 1 2 3 4 5 6 7 8"); // nobody asks for it
    CHECK(laid_out(s, {a, b}, {}, {.recompute = false}).text() == "0 1 2 3 4 5 6 7 8");

    const laid_out l(s, {a, b});
    const auto reads = l.steps.inputs(echo::step_id(10)); // d3
    CHECK(reads[1] == echo::copy_id{echo::step_id(7), 0});
    CHECK(reads[2] == echo::copy_id{echo::step_id(8), 0});
    CHECK(l.steps.inputs(echo::step_id(4))[0] ==
          echo::copy_id{echo::step_id(3), 0}); // the loss: the original
}

TEST_CASE("of what a node reads, the longest chain is made first", "[schedule_builder]") {
    toy_graph g;
    const auto data = g.input(1);                                                       // 0
    const auto x = g.heavy({data}, 8), y = g.heavy({x}, 8);                             // 1 2
    const auto a = g.light({x}, 8), b = g.light({a}, 8), leaf = g.light({y}, 8);        // 3 4 5
    const auto sum = g.light({leaf, b}, 8);                                             // 6
    const auto loss = g.light({sum}, 0), seed = g.seed();                               // 7 8
    const auto s = g.finish({loss, g.backward({g.backward({seed, x, y}, 8), sum}, 8)}); // 9 10
    CHECK(laid_out(s, {a, b, leaf, sum}).text() == "0 1 2 3 4 5 6 7 8 9 3' 4' 5' 6' 10");
}

TEST_CASE("what only gradients need runs late if chosen, in its place otherwise", "[schedule_builder]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 8);                                    // 0 1
    const auto saved = g.light({x}, 8), copy = g.light({saved}, 8);             // 2 3
    const auto loss = g.light({x}, 0);                                          // 4
    const auto d1 = g.backward({g.seed(), loss}, 8);                            // 5 6
    const auto d2 = g.backward({d1, copy}, 8), d3 = g.backward({d2, saved}, 8); // 7 8
    const auto s = g.finish({loss, d3});
    CHECK(laid_out(s, {}).text() == "0 1 2 3 4 5 6 7 8");
    CHECK(laid_out(s, {saved, copy}).text() == "0 1 4 5 6 2 3 7 8"); // a first run, late
    CHECK(laid_out(s, {copy}).text() == "0 1 2 4 5 6 3 7 8");
    CHECK(laid_out(s, {saved}).text() == "0 1 2 3 4 5 6 7 2' 8"); // in its place for the copy, and again
    CHECK(laid_out(s, {saved, copy}, {}, {.move = false}).text() == "0 1 2 3 4 5 6 2' 3' 7 8");
}

TEST_CASE("an encoding is made right behind its value, and only for those who read it",
          "[schedule_builder]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 128), y = g.light({x}, 128), z = g.heavy({y}, 8); // 0 1 2 3
    const auto loss = g.light({z}, 0);                                                     // 4
    const auto d1 = g.backward({g.seed(), y}, 8, {1});                                     // 5 6
    const auto d2 = g.backward({d1, x}, 8);                                                // 7
    const auto s = g.finish({loss, d2});
    CHECK(laid_out(s, {}, {y}).text() == "0 1 2 2\" 3 4 5 6 7");
    CHECK(laid_out(s, {}, {x, y}).text() == "0 1 2 2\" 3 4 5 6 7"); // x is read in full
    CHECK(laid_out(s, {y}, {y}).text() == "0 1 2 2\" 3 4 5 6 7");   // made again for nobody: not made
    CHECK(laid_out(s, {}, {y}, {.encode = false}).text() == "0 1 2 3 4 5 6 7");
}

TEST_CASE("what a gradient reads in full before another reads its encoding is encoded there",
          "[schedule_builder]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 128), y = g.light({x}, 128), z = g.heavy({y}, 8); // 0 1 2 3
    const auto loss = g.light({z}, 0), seed = g.seed();                                    // 4 5
    SECTION("by the last of them, from whichever copy it reads") {
        const auto d1 = g.backward({seed, y}, 8), d2 = g.backward({d1, y}, 8); // 6 7
        const auto d3 = g.backward({d2, x}, 8);                                // 8
        const auto d4 = g.backward({d3, y}, 8, {1});                           // 9
        const auto s = g.finish({loss, g.backward({d4, y}, 8, {1})});          // 10
        const laid_out kept(s, {}, {y}), again(s, {y}, {y});
        CHECK(kept.text() == "0 1 2 3 4 5 6 2\" 7 8 9 10");
        CHECK(again.text() == "0 1 2 3 4 5 2' 6 2\" 7 8 9 10");
        CHECK(again.steps.inputs(echo::step_id(8))[0] == echo::copy_id{echo::step_id(6), 0});
        CHECK(again.steps.inputs(echo::step_id(11))[1] == echo::copy_id{echo::step_id(8), 0});
        CHECK(again.steps.inputs(echo::step_id(12))[1] == echo::copy_id{echo::step_id(8), 0});
        CHECK(laid_out(s, {y}, {y}, {.encode = false}).text() == "0 1 2 3 4 5 2' 6 7 8 9 10");
    }
    SECTION("who needs the bit at the same time, or before, takes it from the forward pass") {
        const auto d1 = g.backward({seed, y, y}, 8, {1}); // 6
        const auto s = g.finish({loss, g.backward({d1, y}, 8)});
        CHECK(laid_out(s, {}, {y}).text() == "0 1 2 2\" 3 4 5 6 7");
    }
}

TEST_CASE("a view of the backward pass runs early for an encoding", "[schedule_builder]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 128), y = g.light({x}, 128), z = g.heavy({y}, 8); // 0 1 2 3
    const auto loss = g.light({z}, 0);                                                     // 4
    const auto seed = g.seed();                                                            // 5
    const auto once = g.backward_view(y), twice = g.backward_view(once);                   // 6 7
    const auto d1 = g.backward({seed, twice}, 8, {1});                                     // 8
    SECTION("both views, if one bit is all that is read of them") {
        const auto s = g.finish({loss, d1});
        CHECK(laid_out(s, {}, {twice}).text() == "0 1 2 6 7 7\" 3 4 5 8");
        CHECK(laid_out(s, {}, {}).text() == "0 1 2 3 4 5 6 7 8");
        CHECK(laid_out(s, {}, {twice}, {.move = false}).text() == "0 1 2 3 4 5 6 7 8");
        CHECK(laid_out(s, {y}, {}).text() == "0 1 2 3 4 5 2' 6 7 8"); // in its place, y made again for it
    }
    SECTION("not if another reads one of them in full") {
        const auto d2 = g.backward({d1, once}, 8); // 9
        const auto s = g.finish({loss, d2});
        CHECK(laid_out(s, {}, {twice}).text() == "0 1 2 3 4 5 6 7 8 9");
    }
}

TEST_CASE("views follow what they look at", "[schedule_builder]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 8), y = g.light({x}, 8), v = g.view(y), w = g.view(v); // 0 1 2 3 4
    const auto loss = g.light({w}, 0);                                                          // 5
    const auto d = g.backward({g.seed(), w, y}, 8);                                             // 6 7
    SECTION("made again with it, kept with it") {
        const auto s = g.finish({loss, d});
        CHECK(laid_out(s, {y}).text() == "0 1 2 3 4 5 6 2' 3' 4' 7");
        CHECK(laid_out(s, {v, w}).text() == "0 1 2 3 4 5 6 7");
    }
}

TEST_CASE("what a view must keep is kept", "[schedule_builder]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 8), y = g.light({x}, 8); // 0 1 2
    const auto fixed = g.add({.kind = echo::op_kind::view, .rerun = echo::rerun_kind::never}, {y},
                             {{.bytes = 8, .view_of = 0}});
    const auto z = g.light({fixed}, 8);
    const auto loss = g.light({z}, 0);
    const auto s = g.finish({loss, g.backward({g.seed(), z}, 8)});
    CHECK(laid_out(s, {y, z}).text() == "0 1 2 3 4 5 6 4' 7");
    // The anchors look through the view, too.
    const auto c = echo::detail::find_candidates(s);
    const auto needs = echo::detail::anchor_finder(s, c)(echo::detail::no_anchor);
    CHECK(needs.first[s[y].producer] != echo::detail::backward_needs::nobody);
}

TEST_CASE("control dependencies are kept, by what runs late as well", "[schedule_builder]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 8); // 0 1
    const auto other = g.light({x}, 8);      // 2
    const echo::node_id before[] = {g.node(other)};
    const auto saved =
        g.add({.kind = echo::op_kind::light, .rerun = echo::rerun_kind::pure, .control = before}, {x},
              {{.bytes = 8}});                                         // 3
    const auto loss = g.light({x}, 0);                                 // 4
    const auto d = g.backward({loss}, 8);                              // 5
    const auto s = g.finish({loss, g.backward({d, saved, other}, 8)}); // 6
    // `other` orders another node, so it stays where it is.
    CHECK(laid_out(s, {saved, other}).text() == "0 1 2 4 5 3 2' 6");
}

TEST_CASE("the dead are made once at most", "[schedule_builder]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 8), y = g.light({x}, 8), dead = g.light({x}, 8); // 0 1 2 3
    const auto loss = g.light({y}, 0);                                                    // 4
    const auto seed = g.seed();                                                           // 5
    g.backward({seed, dead}, 8);                                                          // 6
    const auto s = g.finish({loss, g.backward({seed, y}, 8)});                            // 7
    CHECK(laid_out(s, {dead, y}).text() == "0 1 2 4 5 2' 7");
    CHECK(laid_out(s, {dead, y}, {}, {.erase = false}).text() == "0 1 2 3 4 5 6 2' 7");
}

TEST_CASE("whatever is chosen, the same is computed", "[schedule_builder]") {
    support::check(20, [](bool heavy) {
        const auto s = support::build(*support::recipes(15));
        std::mt19937_64 dice(*support::numbers(1U << 31));
        const auto lacking = static_cast<unsigned>(dice() % 32);
        const auto c = echo::detail::find_candidates(s, {.recompute = !(lacking & 1U),
                                                         .recompute_results = !(lacking & 2U),
                                                         .move = !(lacking & 4U),
                                                         .encode = !(lacking & 8U),
                                                         .erase = !(lacking & 16U)});
        auto chosen = echo::detail::decision::nothing(s);
        chosen.heavy = heavy;
        for (const auto n : s.nodes()) chosen.again[n] = dice() % 2 != 0;
        for (const auto v : s.values()) chosen.encoded[v] = dice() % 2 != 0;
        const auto faults = support::wrong(s, echo::detail::schedule_builder(s, c)(chosen));
        for (const auto& fault : faults) RC_LOG() << fault << '\n';
        RC_ASSERT(faults.empty());
    });
}

TEST_CASE(
    "what the first gradient needs, and what is heavy, runs in the forward pass though gradients alone ask",
    "[schedule_builder]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 8), deep = g.heavy({x}, 8), out = g.light({deep}, 8); // 0 1 2 3
    const auto saved = g.light({x}, 8);                                                        // 4
    const auto d = g.backward({g.seed(), out}, 8);                                             // 5 6
    const auto s = g.finish({g.backward({d, saved, deep}, 8)});                                // 7
    const auto c = echo::detail::find_candidates(s);
    for (const auto v : {x, deep, out}) CHECK(c.forward_needed[s[v].producer]);
    CHECK(c.late_is_free(s[saved].producer));
}

TEST_CASE("a view of the backward pass runs early only where nothing but what it looks at orders it",
          "[schedule_builder]") {
    toy_graph g;
    const auto x = g.heavy({g.input(1)}, 64);
    const auto state = g.add({.rerun = echo::rerun_kind::never}, {x}, {{.bytes = 64, .resident = true}});
    const auto seed = g.seed();
    const auto seen = g.backward_view(x);         // a look at a value of the forward pass
    const auto result = g.backward_view(x);       // a graph output, which is there until the end
    const auto of_state = g.backward_view(state); // what another step may write over
    const auto s = g.finish({g.backward({seed, seen, of_state}, 8), result});
    const auto c = echo::detail::find_candidates(s);
    CHECK(c.hoistable[s[seen].producer]);
    CHECK_FALSE(c.hoistable[s[result].producer]);
    CHECK_FALSE(c.hoistable[s[of_state].producer]);
}
