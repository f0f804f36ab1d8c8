// SPDX-License-Identifier: BSL-1.0
// The certified bound against every choice there is, on graphs small enough to try them all.
#include "support/exhaustive.hpp"
#include "support/properties.hpp"
#include "support/random_graph.hpp"

#include <echo/analysis/lower_bound.hpp>
#include <echo/analysis/make_plan.hpp>

namespace {

support::coverage seen;

/// The bound with cuts at every backward node.
std::uint64_t full_bound(const echo::snapshot& s, const echo::candidates& c, bool encode) {
    std::vector<echo::node_id> at;
    for (const auto n : s.nodes())
        if (echo::is_backward(s[n].phase)) at.push_back(n);
    return echo::lower_bound(s, c, encode)(at);
}

} // namespace

TEST_CASE("no choice at all lies below the bound", "[lower_bound]") {
    support::check(20, [](bool no_encode) {
        const auto s = support::build(*support::recipes(9));
        const auto c = echo::find_candidates(s);
        const support::choices all(s, c, !no_encode);
        if (all.size() > 10) return;
        const auto bound = full_bound(s, c, !no_encode);
        echo::layout lay_out(s, c);
        echo::replay judge;
        std::uint64_t least = ~std::uint64_t{0};
        all.for_each(s, false, [&](const echo::choice& chosen) {
            least = std::min(least, judge(s, lay_out(chosen)).peak_bytes);
        });
        seen.of("tight", bound == least);
        seen.of("within a tenth", bound * 10 >= least * 9);
        seen.of("more than the largest working set", bound > echo::lower_bound(s, c, !no_encode)({}));
        RC_LOG() << "bound " << bound << ", least peak " << least << '\n';
        RC_ASSERT(bound <= least);
    });
    seen.print();
    CHECK(seen.share("tight") > 0.2);
    CHECK(seen.share("more than the largest working set") > 0.2);
}
