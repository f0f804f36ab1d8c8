// SPDX-License-Identifier: BSL-1.0
/// @file
/// The errors of a replay that meets a stale copy: one that is read, or is a graph output, after a step wrote on its
/// storage in place.
#pragma once

#include <echo/analysis/verify/resolved_steps.hpp>
#include <echo/error.hpp>
#include <echo/graph/snapshot.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace echo::detail {

/// A copy, and the step that wrote over it.
struct stale_copy {
    std::uint32_t copy = 0;
    std::uint32_t writer = 0; ///< a step, counted from 0
};

/// "'a' after 'b' (step 3) wrote over it in place".
inline std::string in_words(const snapshot& s, const resolved_steps& r, const stale_copy& stale) {
    const node_id maker = s[r.copies[stale.copy]].producer;
    return "'" + s.name(maker) + "' after '" + s.name(r.steps[stale.writer].node) + "' (step " +
           std::to_string(stale.writer) + ") wrote over it in place";
}

/// What to do about a stale copy.
inline std::string_view advice_on_stale(const resolved_steps& r) noexcept {
    return r.own_order ? "the order of the graph itself is wrong: read the value before it is written over"
                       : "read the value before it is written over";
}

/// Step `reader` reads the copy.
[[noreturn]] inline void refuse_stale_read(const snapshot& s, const resolved_steps& r,
                                           const stale_copy& stale, std::uint32_t reader) {
    throw error(s.name(r.steps[reader].node), r.own_order ? "inputs" : step_key(reader) + ".inputs",
                "reads " + in_words(s, r, stale), advice_on_stale(r));
}
/// The copy is a graph output.
[[noreturn]] inline void refuse_stale_result(const snapshot& s, const resolved_steps& r,
                                             const stale_copy& stale) {
    throw error(s.name(s[r.copies[stale.copy]].producer), "outputs",
                "the graph's results name " + in_words(s, r, stale), advice_on_stale(r));
}

} // namespace echo::detail
