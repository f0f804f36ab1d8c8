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

/// All tensors named in `[[2,3],[4]]`. Errors: a text that is not of this form.
inline std::vector<echo::shape> parse_shapes(const std::string& node, std::string_view text) {
    const auto wrong = [&] {
        return echo::error(
            node, "__ext_shape__", "'" + std::string(text) + "' is no list of shapes",
            "give the shapes of all inputs: optimize_for(\"echo\", args={}, aux={}, shape_dict=..)");
    };
    if (text.size() < 2 || text.front() != '[' || text.back() != ']') throw wrong();
    std::vector<echo::shape> found;
    for (std::size_t at = 1; at + 1 < text.size();) {
        const std::size_t end = text.find(']', at);
        if (text[at] != '[' || end == text.npos) throw wrong();
        std::vector<std::int64_t> extents;
        const char* from = text.data() + at + 1;
        for (const char* const stop = text.data() + end; from < stop;) {
            const auto [next, fault] = std::from_chars(from, stop, extents.emplace_back());
            if (fault != std::errc() || extents.back() < 0) throw wrong();
            from = next + (next < stop && *next == ',');
        }
        found.emplace_back(std::move(extents));
        at = end + 1 + (text[end + 1] == ',');
    }
    return found;
}

/// The outputs of a node. Errors: MXNet left no shapes.
inline std::vector<echo::tensor> outputs_of(const Node& n) {
    const auto at = n.attrs.find("__ext_shape__");
    if (at == n.attrs.end())
        throw echo::error(
            n.name, "__ext_shape__", "has no shape",
            "give the shapes of all inputs: optimize_for(\"echo\", args={}, aux={}, shape_dict=..)");
    std::vector<echo::tensor> all;
    for (echo::shape& s : parse_shapes(n.name, at->second))
        all.push_back(
            {.shape = std::move(s), .type = echo::dtype::f32}); // MXNet's planner counts 4 bytes for any type
    return all;
}

inline bool is_input(const Node& n) { return n.op == "null"; }

/// The vocabulary's facts, and what the attributes of this very node tell beyond them.
inline echo::op_facts facts_of(const Node& n) {
    echo::op_facts facts = echo::mxnet[n.op];
    facts.known = is_input(n) || echo::mxnet.find(n.op) != nullptr;
    const auto is = [&](const char* key, std::string_view value) {
        const auto at = n.attrs.find(key);
        return at != n.attrs.end() && at->second == value;
    };
    if (n.op == "Activation" && is("act_type", "relu")) facts.gradient_reads = {.inputs = {}, .outputs = {0}};
    return facts;
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
