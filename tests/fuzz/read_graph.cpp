// SPDX-License-Identifier: BSL-1.0
/// @file
/// Whatever bytes a graph file holds, the reader either refuses them with an `echo::error` of one line, or
/// gives a graph on which the whole pass keeps its promises.

#include "format/read_file.hpp"
#include "format/read_plan.hpp"
#include "format/write_plan.hpp"
#include "promises.hpp"

#include <echo/analysis/apply.hpp>
#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan_memory.hpp>
#include <echo/analysis/verify.hpp>
#include <echo/graph/read.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace {

using namespace echo::format;
using fuzz::attempt;
using fuzz::require;

void plan_by(const file_graph& g, const echo::snapshot& s, echo::strategy how) {
    const auto p = echo::make_plan(s, {.how = how});
    require(p.report().peak_bytes <= p.report().baseline_peak_bytes, "never above the baseline");
    require(p.report().lower_bound_bytes <= p.report().peak_bytes, "never below the bound");
    const auto m = echo::plan_memory(s, p);
    echo::verify(s, p, m);
    require(m.bytes() >= m.lower_bound(), "the arena holds what is live");

    const auto d = document(s, p, m, "fuzz");
    std::string text;
    write_plan([&](std::string_view bytes) { text += bytes; }, s, d);
    require(read_plan_text(text, s) == d, "a plan is read as it was written");
    echo::verify(s, p, memory_plan_of(s, d));

    auto rewritten = g;
    echo::apply(p, rewritten);
    const auto after = echo::read(rewritten);
    require(echo::footprint(after, echo::baseline_schedule(after)).peak_bytes == p.report().peak_bytes,
            "what is applied is what was planned");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto g = attempt([&] { return read_graph_text(text); });
    if (!g) return 0;
    // What writes on resident storage is looked at when the graph is read from its host, and the order when it is
    // replayed.
    const auto s = attempt([&] { return echo::read(*g); });
    if (!s) return 0;
    const auto baseline = attempt([&] { return echo::footprint(*s, echo::baseline_schedule(*s)); });
    if (!baseline) return 0;
    for (const auto how : echo::all_strategies) plan_by(*g, *s, how);
    plan_by(*g, *s, echo::strategy::budget);
    return 0;
}
