// SPDX-License-Identifier: BSL-1.0
/// @file
/// Which nodes of an ONNX file are the gradient. ONNX states it nowhere, so that names tell, and what is computed from
/// gradients is gradient. Compiled into model.cpp alone.
#pragma once

#include "onnx/bodies.hpp"
#include "onnx/node_proto.hpp"
#include "onnx/op_table.hpp"

#include <echo/error.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace echo::format {

/// Reads a graph in its order and gives each node its phase.
class phase_finder {
public:
    /// `first_backward`: the node, or the value, where the gradient begins; empty: names alone tell.
    phase_finder(const onnx::GraphProto& graph, std::string_view first_backward) : first_(first_backward) {
        for (const auto& input : graph.input()) given_ |= input.name() == first_;
        for (const auto& t : graph.initializer()) given_ |= t.name() == first_;
        if (given_ && !first_.empty()) of_[std::string(first_)] = phase::backward;
        phases_.reserve(static_cast<std::size_t>(graph.node_size()));
        for (const auto& node : graph.node()) add(node);
        if (!first_.empty() && !given_ && !begun_)
            throw error({}, "--first-backward " + std::string(first_), "is no node and no value of the model",
                        "name the node, or the value, where the gradient begins");
    }

    /// By the node's position in the file.
    const std::vector<phase>& phases() const noexcept { return phases_; }
    /// Whether a gradient or an update is computed.
    bool trains() const noexcept { return trains_; }

private:
    static bool is_gradient_name(const std::string& value) { return value.ends_with("_grad"); }

    static bool is_named_gradient(const onnx::NodeProto& node) {
        return is_onnx_gradient_op(node.op_type()) || node.name().find("_Grad/") != std::string::npos ||
               node.name().ends_with("_Grad") ||
               std::any_of(node.output().begin(), node.output().end(), is_gradient_name);
    }

    phase of_inputs(const onnx::NodeProto& node) const {
        phase latest = phase::forward;
        const auto read = [&](const std::string& value) {
            if (is_gradient_name(value)) latest = std::max(latest, phase::backward);
            if (const auto known = of_.find(value); known != of_.end())
                latest = std::max(latest, known->second);
        };
        for (const auto& input : node.input()) read(input);
        each_capture(node, read);
        return latest;
    }

    void add(const onnx::NodeProto& node) {
        if (!first_.empty())
            begun_ |= node.name() == first_ ||
                      std::find(node.output().begin(), node.output().end(), first_) != node.output().end();
        phase mine = of_inputs(node);
        if (begun_ || is_named_gradient(node)) mine = std::max(mine, phase::backward);
        if (is_onnx_update_op(op_name(node))) mine = std::max(mine, phase::update);
        if (is_constant(node)) mine = phase::input;
        if (mine == phase::backward || mine == phase::update) {
            trains_ = true;
            for (const auto& output : node.output())
                if (!output.empty()) of_[output] = mine; // a position that the op leaves out has no name
        }
        phases_.push_back(mine);
    }

    std::string_view first_;
    bool given_ = false, begun_ = false, trains_ = false;
    std::unordered_map<std::string, phase> of_; ///< of the values that are no forward values
    std::vector<phase> phases_;
};

} // namespace echo::format
