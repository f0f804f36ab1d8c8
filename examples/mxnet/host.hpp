// SPDX-License-Identifier: BSL-1.0
/// @file
/// MXNet's graph as a host: what `echo::read` asks of `mxnet::ext::Graph`. A pass sees the forward pass alone, so the
/// reader adds the gradients as the facts tell them. Shapes come from `optimize_for`, which leaves them in attributes.
#pragma once

#include <echo/echo.hpp>
#include <echo/vocabulary/mxnet.hpp>

#include <mxnet/lib_api.h>

#include <charconv>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace echo_mxnet {

using mxnet::ext::Graph;
using mxnet::ext::Node;

/// What is said where MXNet has left no shapes, or none that can be read.
inline echo::error no_shapes(const Node& n, const std::string& problem) {
    return echo::error(
        n.name, "__ext_shape__", problem,
        "give the shapes of all inputs: optimize_for(\"echo\", args={}, aux={}, shape_dict=..)");
}

/// The outputs of a node, from an attribute such as `[[2,3],[4]]`. MXNet's planner counts 4 bytes for any type. Errors:
/// MXNet left no shapes.
inline std::vector<echo::tensor> outputs_of(const Node& n) {
    const auto at = n.attrs.find("__ext_shape__");
    if (at == n.attrs.end()) throw no_shapes(n, "has no shape");
    std::vector<std::vector<std::int64_t>> found;
    int depth = 0;
    const char* c = at->second.data();
    for (const char* const end = c + at->second.size(); c < end && depth >= 0; ++c) {
        if (*c == '[' && ++depth == 2) found.emplace_back();
        if (*c == ']') --depth;
        if (std::string_view("[], ").find(*c) != std::string_view::npos) continue;
        if (depth != 2 || *c == '-') break;
        const auto read = std::from_chars(c, end, found.back().emplace_back());
        if (read.ec != std::errc()) break;
        c = read.ptr - 1;
    }
    if (at->second.empty() || depth != 0 || c != at->second.data() + at->second.size())
        throw no_shapes(n, "'" + at->second + "' is no list of shapes");
    std::vector<echo::tensor> all;
    for (auto& s : found) all.push_back({.shape = echo::shape(std::move(s)), .type = echo::dtype::f32});
    return all;
}

inline bool has(const Node& n, const char* key, std::string_view value) {
    const auto at = n.attrs.find(key);
    return at != n.attrs.end() && at->second == value;
}
inline bool is_input(const Node& n) { return n.op == "null"; }

/// The vocabulary's facts, and what the attributes of this very node tell beyond them.
inline echo::op_facts facts_of(const Node& n) {
    echo::op_facts facts = echo::mxnet[n.op];
    facts.known = is_input(n) || echo::mxnet.find(n.op) != nullptr;
    if (n.op == "Activation" && has(n, "act_type", "relu"))
        facts.gradient_reads = {.inputs = {}, .outputs = {0}};
    return facts;
}

/// What this pass leaves in the graph: marks, and no shapes, which were for us alone.
inline void write_marks(Graph& g, const std::vector<bool>& marked) {
    for (std::size_t n = 0; n < g.size(); ++n) {
        auto& attributes = g.getNode(n)->attrs;
        for (const char* const key : {"__ext_shape__", "__ext_dtype__", "__force_mirroring__"})
            attributes.erase(key); // marks of a pass before, too
        if (marked[n]) attributes["__force_mirroring__"] = "True";
    }
}

} // namespace echo_mxnet

template <>
struct echo::graph_traits<mxnet::ext::Graph> {
    using graph = mxnet::ext::Graph;
    using node = const mxnet::ext::Node*;
    using value = echo::value_of<node>;

    static std::vector<node> nodes(const graph& g) {
        std::vector<node> all;
        for (std::size_t i = 0; i < g.size(); ++i) all.push_back(g.getNode(i));
        return all;
    }
    static std::vector<value> inputs(const graph&, node n) {
        std::vector<value> all;
        for (const auto& e : n->inputs) all.push_back({e.node, static_cast<std::size_t>(e.entry)});
        return all;
    }
    static std::vector<tensor> outputs(const graph&, node n) { return echo_mxnet::outputs_of(*n); }
    static echo::phase phase(const graph&, node n) {
        return echo_mxnet::is_input(*n) ? echo::phase::input : echo::phase::forward;
    }
    static std::vector<value> results(const graph& g) {
        std::vector<value> all;
        for (const auto& e : g.outputs) all.push_back({e.node, static_cast<std::size_t>(e.entry)});
        return all;
    }
    static op_facts facts(const graph&, node n) { return echo_mxnet::facts_of(*n); }
    static const std::string& name(const graph&, node n) { return n->name; }
};
