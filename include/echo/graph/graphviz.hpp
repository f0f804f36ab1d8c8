// SPDX-License-Identifier: BSL-1.0
/// @file
/// A snapshot as a Graphviz drawing (`dot -Tsvg`). What the colours mean is the caller's: this layer knows
/// nothing of plans.
#pragma once

#include <echo/graph/snapshot.hpp>

#include <ostream>
#include <string>
#include <string_view>

namespace echo {

/// How one node, or the edges of one value, are drawn.
struct graphviz_style {
    std::string colour{}; ///< of a node's face or of edges: a Graphviz colour; empty: the default
    std::string note{};   ///< one more line of the label
};

namespace detail {

/// `text` inside a quoted string of the DOT language: one line, quotes and backslashes escaped.
inline std::string dot_quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : printable(text)) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + '"';
}

/// Made without the stream's locale, which may group digits.
inline std::string dot_node(node_id n) { return "n" + std::to_string(n.index()); }

/// Up to three lines, quoted likewise.
inline std::string dot_lines(std::string_view first, std::string_view second, std::string_view third) {
    std::string out = dot_quoted(first);
    for (const auto line : {second, third}) {
        if (line.empty()) continue;
        out.pop_back();
        out += "\\n";
        out += dot_quoted(line).substr(1);
    }
    return out;
}

inline void write_colour(std::ostream& out, std::string_view key, const std::string& colour) {
    if (!colour.empty()) out << ", " << key << '=' << dot_quoted(colour);
}

} // namespace detail

/// Writes `s` in the DOT language: a box per node (an ellipse for inputs), an edge per input position with
/// the value's bytes, a dotted edge per control dependency, a double border around makers of graph outputs.
/// `node_style(node_id)` and `value_style(value_id)` return a `graphviz_style`. The text depends on the
/// snapshot and the styles alone. Errors: none of its own; the stream's. O(nodes + edges).
template <class NodeStyle, class ValueStyle>
void write_graphviz(std::ostream& out, const snapshot& s, const NodeStyle& node_style,
                    const ValueStyle& value_style) {
    out << "digraph echo {\n  node [shape=box, style=filled, fillcolor=white];\n";
    for (const auto n : s.nodes()) {
        const graphviz_style style = node_style(n);
        bool result = false;
        for (const auto v : s.outputs(n)) result |= s.is_result(v);
        out << "  " << detail::dot_node(n)
            << " [label=" << detail::dot_lines(s.name(n), s.op_name(s[n].op), style.note);
        if (s[n].phase == phase::input) out << ", shape=ellipse";
        if (result) out << ", peripheries=2";
        detail::write_colour(out, "fillcolor", style.colour);
        out << "];\n";
    }
    for (const auto n : s.nodes()) {
        for (const auto v : s.inputs(n)) {
            const graphviz_style style = value_style(v);
            out << "  " << detail::dot_node(s[v].producer) << " -> " << detail::dot_node(n)
                << " [label=" << detail::dot_lines(std::to_string(s[v].bytes) + " B", style.note, {});
            detail::write_colour(out, "color", style.colour);
            out << "];\n";
        }
        for (const auto c : s.control(n))
            out << "  " << detail::dot_node(c) << " -> " << detail::dot_node(n) << " [style=dotted];\n";
    }
    out << "}\n";
}

/// The same, with nodes coloured by phase. Errors: the stream's. O(nodes + edges).
inline void write_graphviz(std::ostream& out, const snapshot& s) {
    const auto by_phase = [&s](node_id n) {
        constexpr std::string_view colours[] = {"lightgrey", "white", "lightblue", "lightyellow"};
        return graphviz_style{.colour = std::string(colours[static_cast<std::size_t>(s[n].phase)])};
    };
    write_graphviz(out, s, by_phase, [](value_id) { return graphviz_style{}; });
}

} // namespace echo
