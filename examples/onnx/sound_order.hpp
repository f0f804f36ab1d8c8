// SPDX-License-Identifier: BSL-1.0
/// @file
/// Whether the nodes of an ONNX file stand in an order in which they can run. Compiled into model.cpp alone.
#pragma once

#include "onnx/bodies.hpp"
#include "onnx/node_proto.hpp"

#include <echo/error.hpp>

#include <string>
#include <unordered_map>
#include <unordered_set>

namespace echo::format {

/// Errors: a node, or one in a body, is of ops whose version the model does not state.
inline void check_domains(const onnx::ModelProto& model) {
    std::unordered_set<std::string> imported;
    for (const auto& import : model.opset_import())
        if (import.version() > 0) imported.insert(import.domain() == "ai.onnx" ? "" : import.domain());
    const auto check = [&](const auto& self, const onnx::GraphProto& graph) -> void {
        for (int i = 0; i < graph.node_size(); ++i) {
            const auto& node = graph.node(i);
            const std::string domain = node.domain() == "ai.onnx" ? "" : node.domain();
            if (!imported.contains(domain))
                throw error(shown(node, i), "domain",
                            "the model imports no ops of " +
                                (domain.empty() ? "ONNX itself" : "'" + domain + "'"),
                            "add it to opset_import");
            each_body(node, [&](const onnx::GraphProto& body) { self(self, body); });
        }
    };
    check(check, model.graph());
}

/// Errors: a node stands for others that the file does not contain.
inline void check_spelt_out(const onnx::GraphProto& graph) {
    for (int i = 0; i < graph.node_size(); ++i)
        if (graph.node(i).op_type() == "Gradient" && graph.node(i).domain().starts_with("ai.onnx"))
            throw error(shown(graph.node(i), i), "op",
                        "Gradient stands for nodes that the file does not spell out",
                        "export the model with its gradient as nodes");
}

namespace detail {

/// By value the node that makes it; −1: it is given. Errors: it is made or given twice, or has no name.
inline std::unordered_map<std::string, int> makers(const onnx::GraphProto& graph) {
    std::unordered_map<std::string, int> made;
    const auto make = [&](const std::string& value, const std::string& by, int node) {
        if (!made.emplace(value, node).second)
            throw error(by, "output", "'" + value + "' stands twice", "give each value a name of its own");
    };
    for (const auto& input : graph.input()) make(input.name(), input.name(), -1);
    std::unordered_set<std::string> weights;
    const auto give = [&](const std::string& name) {
        if (name.empty()) throw error({}, "initializer", "one has no name", "name it");
        if (!weights.insert(name).second)
            throw error(name, "initializer", "stands twice", "give each a name of its own");
        made.emplace(name, -1); // of an input it may be the default
    };
    for (const auto& t : graph.initializer()) give(t.name());
    for (const auto& t : graph.sparse_initializer()) give(t.values().name());
    for (int i = 0; i < graph.node_size(); ++i)
        for (const auto& output : graph.node(i).output())
            if (!output.empty()) make(output, shown(graph.node(i), i), i);
    return made;
}

} // namespace detail

/// Errors: a value is not made exactly once, or not before it is read. The ONNX library calls nothing else sound,
/// either.
inline void check_order(const onnx::GraphProto& graph) {
    const auto made = detail::makers(graph);
    const auto check = [&](const std::string& value, int i) {
        const auto found = made.find(value);
        if (found != made.end() && found->second < i) return;
        const std::string by = shown(graph.node(i), i);
        if (found == made.end())
            throw error(by, "input", "reads '" + value + "', which nothing makes",
                        "make it an input, or export the model again");
        const std::string maker = shown(graph.node(found->second), found->second);
        throw error(by, "input",
                    "reads '" + value + "' of node '" + maker + "', which does not stand earlier",
                    "put nodes in execution order; a graph has no cycles");
    };
    for (int i = 0; i < graph.node_size(); ++i) {
        for (const auto& input : graph.node(i).input())
            if (!input.empty()) check(input, i);
        each_capture(graph.node(i), [&](const std::string& name) { check(name, i); });
    }
    for (const auto& output : graph.output())
        if (!made.contains(output.name()))
            throw error(output.name(), "output", "nothing makes this output of the graph",
                        "make it, or drop it from the outputs");
}

} // namespace echo::format
