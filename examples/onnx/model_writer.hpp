// SPDX-License-Identifier: BSL-1.0
/// @file
/// A schedule of a graph as the nodes of an ONNX file. Compiled into model.cpp alone.
#pragma once

#include "onnx/bodies.hpp"
#include "onnx/fresh_names.hpp"
#include "onnx/node_proto.hpp"

#include <echo/analysis/schedule/schedule.hpp>
#include <echo/error.hpp>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace echo::format {

/// A node of the file as the names of its values; a position that the op leaves out is not among them.
struct named_node {
    int position = -1; ///< among the nodes of the model; negative: an input or an initializer
    std::vector<std::string> inputs{}, outputs{};
};

/// Writes the steps of a schedule into a graph, one after another.
class model_writer {
public:
    model_writer(const onnx::GraphProto& original, const std::vector<named_node>& nodes, const snapshot& s,
                 const schedule& steps)
        : original_(original), nodes_(nodes), snapshot_(s), steps_(steps), names_(original),
          made_(steps.size()) {
        for (const auto& value : original.value_info()) types_.emplace(value.name(), &value);
        for (const auto& value : original.output()) types_.emplace(value.name(), &value);
        find_keepers();
    }

    /// Replaces the nodes of `graph`, a copy of the original. Errors: a step that no ONNX node can be.
    void write(onnx::GraphProto& graph) {
        graph.clear_node();
        for (const auto t : steps_.steps()) {
            const auto& step = steps_[t];
            if (step.kind == step_kind::encode || step.fused)
                throw error(std::string(snapshot_.name(step.node)), "plan",
                            "no ONNX node encodes a value or runs inside another", "plan without --fuse");
            name_outputs(t, graph);
            const named_node& named = nodes_[step.node.index()];
            if (named.position < 0) continue;
            auto& node = *graph.add_node();
            node = original_.node(named.position);
            if (step.kind == step_kind::recompute) mark_as_second_run(node);
            connect(node, named, t);
        }
    }

private:
    /// The first run keeps the name of a value; of an output of the graph, the last, since that is what is handed out.
    void find_keepers() {
        std::unordered_set<std::string> results;
        for (const auto& output : original_.output()) results.insert(output.name());
        for (const auto t : steps_.steps())
            for (const auto& value : nodes_[steps_[t].node.index()].outputs)
                if (results.contains(value))
                    keeper_[value] = t.index();
                else
                    keeper_.emplace(value, t.index());
    }

    void name_outputs(step_id t, onnx::GraphProto& graph) {
        for (const auto& value : nodes_[steps_[t].node.index()].outputs) {
            const bool keeps = keeper_.at(value) == t.index();
            made_[t.index()].push_back(keeps ? value : names_.again(value));
            const auto type = types_.find(value);
            if (keeps || type == types_.end()) continue;
            auto& copy = *graph.add_value_info();
            copy = *type->second;
            copy.set_name(made_[t.index()].back());
        }
    }

    void mark_as_second_run(onnx::NodeProto& node) {
        if (!node.name().empty()) node.set_name(names_.again(node.name()));
        if (moves_statistics(node)) set_float(node, "momentum", 1.F); // they stay as they are
    }

    /// Readers get the copy that the plan gives them, in bodies too.
    void connect(onnx::NodeProto& node, const named_node& named, step_id t) const {
        std::size_t k = 0;
        const auto copies = steps_.inputs(t);
        const auto copy_of = [&](std::size_t input) -> const std::string& {
            return made_[copies[input].step.index()][copies[input].output];
        };
        for (auto& input : *node.mutable_input())
            if (!input.empty()) input = copy_of(k++);
        std::unordered_map<std::string, std::string> captured;
        for (; k < named.inputs.size(); ++k) captured.emplace(named.inputs[k], copy_of(k));
        if (!captured.empty())
            each_capture(node, [&](std::string& name) {
                if (const auto found = captured.find(name); found != captured.end()) name = found->second;
            });
        std::size_t output = 0;
        for (auto& value : *node.mutable_output())
            if (!value.empty()) value = made_[t.index()][output++];
    }

    const onnx::GraphProto& original_;
    const std::vector<named_node>& nodes_;
    const snapshot& snapshot_;
    const schedule& steps_;
    fresh_names names_;
    std::unordered_map<std::string, const onnx::ValueInfoProto*> types_;
    std::unordered_map<std::string, std::size_t> keeper_; ///< by value: the step whose output has its name
    std::vector<std::vector<std::string>> made_;          ///< names by step and output
};

} // namespace echo::format
