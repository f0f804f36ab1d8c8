// SPDX-License-Identifier: BSL-1.0
/// @file
/// The bodies of control flow (`If`, `Loop`, `Scan`): what they read of the graph around them, and the same under other
/// names. Compiled into model.cpp alone.
#pragma once

#include "onnx/headers.hpp"

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace echo::format {

/// The names that a body makes or takes, inside the bodies around it.
struct body_scope {
    explicit body_scope(const onnx::GraphProto& body, const body_scope* around = nullptr) : outer(around) {
        for (const auto& value : body.input()) names.insert(value.name());
        for (const auto& value : body.initializer()) names.insert(value.name());
        for (const auto& value : body.sparse_initializer()) names.insert(value.values().name());
        for (const auto& node : body.node())
            for (const auto& output : node.output()) names.insert(output);
    }
    bool has(const std::string& name) const {
        return names.contains(name) || (outer != nullptr && outer->has(name));
    }

    std::unordered_set<std::string> names{};
    const body_scope* outer = nullptr;
};

/// Calls `f(body)` for each body of a node; the node may be const.
template <class Node, class F>
void each_body(Node& node, F f) {
    if constexpr (std::is_const_v<Node>) {
        for (const auto& attribute : node.attribute()) {
            if (attribute.has_g()) f(attribute.g());
            for (const auto& graph : attribute.graphs()) f(graph);
        }
    } else {
        for (auto& attribute : *node.mutable_attribute()) {
            if (attribute.has_g()) f(*attribute.mutable_g());
            for (auto& graph : *attribute.mutable_graphs()) f(graph);
        }
    }
}

/// Calls `f(name)` for every name that the bodies of `node` read and none of them makes; `f` may change it if the node
/// is mutable. A name may come several times.
template <class Node, class F>
void each_capture(Node& node, const F& f, const body_scope* around = nullptr) {
    each_body(node, [&](auto& body) {
        const body_scope scope(body, around);
        const auto visit = [&](auto& names) {
            for (auto& name : names)
                if (!name.empty() && !scope.has(name)) f(name);
        };
        if constexpr (std::is_const_v<Node>) {
            for (const auto& inner : body.node()) {
                visit(inner.input());
                each_capture(inner, f, &scope);
            }
            for (const auto& output : body.output())
                if (!scope.has(output.name())) f(output.name());
        } else {
            for (auto& inner : *body.mutable_node()) {
                visit(*inner.mutable_input());
                each_capture(inner, f, &scope);
            }
            for (auto& output : *body.mutable_output())
                if (!scope.has(output.name())) f(*output.mutable_name());
        }
    });
}

} // namespace echo::format
