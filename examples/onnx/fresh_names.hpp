// SPDX-License-Identifier: BSL-1.0
/// @file
/// `fresh_names`: names for nodes and values that no other one of a graph has. Compiled into model.cpp alone.
#pragma once

#include "onnx/bodies.hpp"

#include <string>
#include <unordered_map>
#include <unordered_set>

namespace echo::format {

class fresh_names {
public:
    explicit fresh_names(const onnx::GraphProto& graph) { add(graph); }

    /// `name`, or, if it is taken, `name2`, `name3` and so on.
    std::string made(const std::string& name) {
        if (taken_.insert(name).second) return name;
        unsigned& last = last_[name];
        std::string other;
        do other = name + std::to_string(++last + 1);
        while (!taken_.insert(other).second);
        return other;
    }
    std::string again(const std::string& name) { return made(name + ".again"); }

private:
    void add(const onnx::GraphProto& graph) {
        for (const auto& value : graph.input()) taken_.insert(value.name());
        for (const auto& value : graph.initializer()) taken_.insert(value.name());
        for (const auto& value : graph.sparse_initializer()) taken_.insert(value.values().name());
        for (const auto& node : graph.node()) {
            taken_.insert(node.name());
            for (const auto& output : node.output()) taken_.insert(output);
            each_body(node, [&](const onnx::GraphProto& body) { add(body); });
        }
    }

    std::unordered_set<std::string> taken_;
    std::unordered_map<std::string, unsigned> last_; ///< the last number that stands behind a name
};

} // namespace echo::format
