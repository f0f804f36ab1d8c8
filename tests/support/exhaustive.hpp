// SPDX-License-Identifier: BSL-1.0
/// @file
/// Every choice there is for a small graph: each subset of the nodes that may be made again, times each
/// subset of the values that may be packed.
#pragma once

#include <echo/analysis/plan/decision/schedule_builder.hpp>
#include <echo/analysis/schedule/footprint.hpp>

#include <cstddef>
#include <vector>

namespace support {

/// What can be chosen about.
struct choices {
    std::vector<echo::node_id> nodes;
    std::vector<echo::value_id> values;

    choices(const echo::snapshot& s, const echo::detail::candidates& c, bool encode, bool heavy = false) {
        for (const auto n : s.nodes()) {
            bool makes_storage = false;
            for (const auto v : s.outputs(n)) makes_storage |= c.base[v] == v;
            const bool may =
                c.rerunnable[n] || (c.live[n] && c.late_is_free(n)) || (heavy && c.heavy_rerunnable[n]);
            if (may && makes_storage && s[n].phase == echo::phase::forward) nodes.push_back(n);
        }
        for (const auto v : s.values()) {
            bool packable = false;
            for (const auto& u : s.uses(v))
                packable |= encode && c.live[u.reader] && echo::detail::encodable(s, c, u.reader, u.position);
            if (packable) values.push_back(v);
        }
    }
    std::size_t size() const { return nodes.size() + values.size(); }

    /// Calls `visit(choice)` 2^size times.
    template <class Visit>
    void for_each(const echo::snapshot& s, bool heavy, const Visit& visit) const {
        for (std::size_t bits = 0; bits < std::size_t{1} << size(); ++bits) {
            auto chosen = echo::detail::decision::nothing(s);
            chosen.heavy = heavy;
            for (std::size_t i = 0; i < nodes.size(); ++i) chosen.again[nodes[i]] = (bits >> i & 1U) != 0;
            for (std::size_t i = 0; i < values.size(); ++i)
                chosen.encoded[values[i]] = (bits >> (i + nodes.size()) & 1U) != 0;
            visit(chosen);
        }
    }
};

} // namespace support
