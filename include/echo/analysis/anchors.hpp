// SPDX-License-Identifier: BSL-1.0
/// @file
/// Anchors: values across which nothing is recomputed, because what is rebuilt for an early reader would be
/// held for a much later one. Without them the light ops of a whole recurrence form one chain, rebuilt at the
/// start of the backward pass (design, section on the paper's pass; the authors pinned LSTM cell states by a
/// name pattern).
#pragma once

#include <echo/analysis/candidates.hpp>

#include <algorithm>
#include <limits>
#include <vector>

namespace echo {

/// An anchor distance that no span exceeds.
inline constexpr std::uint32_t no_anchor = std::numeric_limits<std::uint32_t>::max();

/// By node: how many compute-heavy backward nodes lie between the first need of its outputs in the backward
/// pass and the last of its needs' beginnings. A need begins at the first gradient reader, or where an op
/// that reads it and can be made again is itself first needed. At anchor distance D a node whose span exceeds
/// D is not made again. O(nodes + edges).
inline std::vector<std::uint32_t> anchor_spans(const snapshot& s, const candidates& c) {
    constexpr std::uint32_t nobody = std::numeric_limits<std::uint32_t>::max();
    std::vector<std::uint32_t> home(s.node_count(), nobody), last(s.node_count(), 0), span(s.node_count(), 0);
    const auto need = [&](node_id n, std::uint32_t at) {
        home[n.index()] = std::min(home[n.index()], at);
        last[n.index()] = std::max(last[n.index()], at);
    };
    // The first gradient reader of each forward node, in compute-heavy backward nodes from the start.
    std::vector<std::uint8_t> seen(s.node_count(), 0);
    for (std::uint32_t rank = 0; const auto n : s.nodes()) {
        if (!is_backward(s[n].phase) || !c.live[n.index()]) continue;
        for (const auto v : s.inputs(n)) {
            const node_id maker = s[v].producer;
            if (!seen[maker.index()]) need(maker, rank);
            seen[maker.index()] = 1;
        }
        rank += s[n].kind == op_kind::heavy;
    }
    for (std::size_t i = s.node_count(); i-- > 0;) {
        const node_id n(i);
        if (!c.live[i] || s[n].phase != phase::forward || home[i] == nobody) continue;
        span[i] = last[i] - home[i];
        if (!c.rerunnable[i] && !c.late_is_free(n)) continue;
        for (const auto v : s.inputs(n)) need(s[v].producer, home[i]);
    }
    return span;
}

/// Anchor distances worth trying: 0, 1, 2, 4, … and ∞, at most `most` of them (at least 2). O(nodes).
inline std::vector<std::uint32_t> anchor_distances(std::span<const std::uint32_t> spans, std::size_t most) {
    std::uint32_t largest = 0;
    for (const auto span : spans) largest = std::max(largest, span);
    std::vector<std::uint32_t> all{no_anchor};
    for (std::uint64_t d = 1; d < largest && all.size() + 1 < most; d *= 2)
        all.push_back(static_cast<std::uint32_t>(d));
    if (largest > 0) all.push_back(0);
    return all;
}

} // namespace echo
