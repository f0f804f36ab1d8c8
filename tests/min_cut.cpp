// SPDX-License-Identifier: BSL-1.0
// The minimum cut stashes no more than any choice there is, and no more than any other strategy's.
#include "support/exhaustive.hpp"
#include "support/properties.hpp"
#include "support/random_graph.hpp"

#include <echo/analysis/echo.hpp>
#include <echo/analysis/min_cut.hpp>
#include <echo/analysis/mirror.hpp>

namespace {

using support::recipe;
using support::trait;

support::coverage seen;

/// Of the random graphs, those whose stash is what the cut counts: no storage changes hands, the first
/// backward node needs nothing made again, a node makes either views or storages, views read what they look
/// at and nothing else, and no graph output of the forward pass is there in any case.
recipe countable(recipe r) {
    r.seed_first = true;
    for (auto& op : r.ops) {
        op[trait::inplace] = op[trait::second_lies] = op[trait::gradient_in_place] = op[trait::result] = 0;
        if (op[trait::role] % 4 == 3) op[trait::role] = 0;
        if (op[trait::kind] % 3 == 2) op[trait::from_too] = op[trait::from_third] = 0;
    }
    return r;
}

struct stash_of {
    const echo::snapshot& s;
    echo::layout lay_out;
    echo::replay judge{};
    stash_of(const echo::snapshot& graph, const echo::candidates& c) : s(graph), lay_out(graph, c) {}
    std::uint64_t operator()(const echo::choice& chosen) { return judge(s, lay_out(chosen)).stash_bytes; }
};

echo::choice cut(const echo::snapshot& s, const echo::candidates& c, bool encode) {
    auto chosen = echo::choice::nothing(s);
    echo::min_cut(s, c)(echo::anchor_finder(s, c)(echo::no_anchor), {.encode = encode}, chosen);
    return chosen;
}

/// No node that makes a graph output is made again: the cut counts what holds one as there in any case.
constexpr echo::host_abilities host{.recompute_results = false};

} // namespace

TEST_CASE("no choice at all stashes less than the cut", "[min_cut]") {
    support::check(20, [](bool no_encode) {
        const bool encode = !no_encode;
        const auto s = support::build(countable(*support::recipes(10)));
        const auto c = echo::find_candidates(s, host);
        const support::choices all(s, c, encode);
        if (all.size() > 10) return;
        stash_of stash(s, c);
        std::uint64_t least = ~std::uint64_t{0};
        all.for_each(s, false, [&](const echo::choice& chosen) { least = std::min(least, stash(chosen)); });
        const auto found = stash(cut(s, c, encode)), nothing = stash(echo::choice::nothing(s));
        seen.of("less than keeping everything", found < nothing);
        seen.of("six choices or more", all.size() >= 6);
        RC_LOG() << "cut " << found << ", least " << least << ", nothing made again " << nothing << '\n';
        RC_ASSERT(found == least);
    });
    seen.print();
    CHECK(seen.share("less than keeping everything") > 0.3);
    CHECK(seen.share("six choices or more") > 0.1);
}

TEST_CASE("no other strategy stashes less than the cut", "[min_cut]") {
    support::check(50, [](bool no_encode) {
        const bool encode = !no_encode;
        const auto s = support::build(countable(*support::recipes(30)));
        const auto c = echo::find_candidates(s, host);
        stash_of stash(s, c);
        const auto found = stash(cut(s, c, encode));
        const echo::gradient_needs needs(s, c, encode);
        const auto when = echo::anchor_finder(s, c)(echo::no_anchor);
        RC_ASSERT(found <= stash(echo::choice::nothing(s)));
        RC_ASSERT(found <= stash(echo::mirror(s, c)));
        RC_ASSERT(found <= stash(echo::echo_as_printed(s, c, needs)));
        RC_ASSERT(found <= stash(echo::echo_pass(s, c, needs, when)));
    });
}
