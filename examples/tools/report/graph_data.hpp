// SPDX-License-Identifier: BSL-1.0
/// @file
/// A training graph as columns of a report's data.
#pragma once

#include "report/column.hpp"

#include <echo/analysis/plan/decision/cost.hpp>
#include <echo/graph/snapshot.hpp>

#include <cmath>
#include <string>

namespace echo::report {

/// Nanoseconds, which are whole numbers and fine enough for people.
inline std::int64_t nanoseconds(const run_times& times, node_id n) {
    return std::llround(1000 * std::min(times.microseconds(times.of_node[n]), 1e15));
}

namespace detail {

inline void put_nodes(json_out& out, const snapshot& s, const run_times& times) {
    const std::size_t count = s.node_count();
    const auto node = [&](std::size_t i) -> const node_record& { return s[node_id(i)]; };
    put_texts(out, "names", count, [&](std::size_t i) { return s.name(node_id(i)); });
    put_column(out, "op", count, [&](std::size_t i) { return node(i).op; });
    put_column(out, "layer", count, [&](std::size_t i) { return node(i).layer; });
    put_column(out, "phase", count, [&](std::size_t i) { return static_cast<int>(node(i).phase); });
    put_column(out, "kind", count, [&](std::size_t i) { return static_cast<int>(node(i).kind); });
    put_column(out, "ns", count, [&](std::size_t i) { return nanoseconds(times, node_id(i)); });
    put_sparse(out, "workspace", count, [&](std::size_t i) { return node(i).workspace; });
}

/// What nodes make and read: a value's number counts all outputs of all nodes, in their order.
inline void put_values(json_out& out, const snapshot& s) {
    const std::size_t count = s.node_count();
    put_column(out, "outputs", count, [&](std::size_t i) { return s.outputs(node_id(i)).size(); });
    put_column(out, "bytes", s.value_count(), [&](std::size_t v) { return s[value_id(v)].bytes; });
    put_column(out, "inputs", count, [&](std::size_t i) { return s.inputs(node_id(i)).size(); });
    std::vector<value_id> sources;
    for (const auto n : s.nodes()) sources.insert(sources.end(), s.inputs(n).begin(), s.inputs(n).end());
    put_differences(out, "sources", sources.size(), [&](std::size_t i) { return sources[i].index(); });
}

} // namespace detail

/// O(nodes + edges).
inline void put_graph(json_out& out, const snapshot& s, std::string_view name) {
    out.put("{");
    put_key(out, "name", true);
    out.text(format::one_line(name));
    const auto op = [&](std::size_t i) { return s.op_name(static_cast<std::uint32_t>(i)); };
    const auto layer = [&](std::size_t i) { return s.layer_name(static_cast<std::uint32_t>(i)); };
    put_texts(out, "ops", s.op_count(), op);
    put_texts(out, "layers", s.layer_count(), layer);
    detail::put_nodes(out, s, times_of(s));
    detail::put_values(out, s);
    out.put("}");
}

} // namespace echo::report
