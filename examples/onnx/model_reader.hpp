// SPDX-License-Identifier: BSL-1.0
/// @file
/// An ONNX file as a `file_graph`: inputs and initializers first, then the nodes as they stand. Compiled into model.cpp
/// alone.
#pragma once

#include "format/graph_assembler.hpp"
#include "onnx/model.hpp"
#include "onnx/model_writer.hpp"
#include "onnx/node_facts.hpp"
#include "onnx/phases.hpp"
#include "onnx/sound_order.hpp"

#include <limits>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace echo::format {

class model_reader {
public:
    /// Errors: the model is not sound, or a size in it is not known.
    model_reader(const onnx::ModelProto& model, const onnx_options& asked)
        : model_(model), graph_(model.graph()), op_of_(model), types_(sound(model), asked),
          storage_(graph_, types_, op_of_), facts_(model, types_, storage_, op_of_),
          phases_(graph_, asked.first_backward), assembler_({}) {
        check_sizes();
        types_.check_all_used();
        add_inputs();
        for (int i = 0; i < graph_.node_size(); ++i) add_node(i);
        finish();
    }

    file_graph graph;
    std::vector<named_node> nodes; ///< of `graph`, by index
    std::vector<std::string> notes;
    bool trains() const noexcept { return phases_.trains(); }

private:
    static const onnx::ModelProto& sound(const onnx::ModelProto& model) {
        check_domains(model);
        check_spelt_out(model.graph());
        check_order(model.graph());
        return model;
    }

    /// Errors: a size is not known. All options that would tell those of the inputs are named at once; if there are
    /// none, those of other values.
    void check_sizes() const {
        std::vector<std::string> options;
        std::string node, key, problem;
        const auto look = [&](const std::string& value, const std::string& by, const char* what) {
            const value_type& type = types_[value];
            if (!type.is_tensor) throw error(by, what, type.problem, type.advice);
            if (options.empty() && !type.options.empty()) node = by, key = what, problem = type.problem;
            for (const auto& option : type.options)
                if (std::ranges::find(options, option) == options.end()) options.push_back(option);
        };
        for (const auto& input : graph_.input()) look(input.name(), input.name(), "shape");
        const bool inputs_are_known = options.empty(); // else what follows from them would be asked for, too
        for (int i = 0; i < graph_.node_size() && inputs_are_known; ++i)
            for (const auto& output : graph_.node(i).output())
                if (!output.empty() && storage_.is_read(output))
                    look(output, shown(graph_.node(i), i), ("output '" + output + "'").c_str());
        if (options.empty()) return;
        std::string line;
        for (const auto& option : options) line += " " + option;
        const std::string more =
            options.size() == 1 ? "" : ", and " + std::to_string(options.size() - 1) + " more";
        throw error(node, key, problem + more,
                    "give " + std::string(more.empty() ? "it" : "them") + " as" + line +
                        (more.empty() && line.starts_with(" --shape")
                             ? ", or state it in the model's value_info"
                             : ""));
    }

    void add_inputs() {
        std::unordered_set<std::string> defaults, seen;
        for (const auto& t : graph_.initializer()) defaults.insert(t.name());
        const auto add = [&](const std::string& name, const char* op) {
            if (!seen.insert(name).second) return;
            draft_.clear();
            draft_.name = name;
            draft_.op = op;
            draft_.phase = phase::input;
            add_output(name, name, true);
            nodes.push_back({.outputs = {name}});
            accept();
        };
        for (const auto& input : graph_.input())
            add(input.name(), defaults.contains(input.name()) ? "initializer" : "input");
        for (const auto& t : graph_.initializer()) add(t.name(), "initializer");
        for (const auto& t : graph_.sparse_initializer()) add(t.values().name(), "initializer");
    }

    void add_node(int i) {
        const auto& node = graph_.node(i);
        const std::string name = shown(node, i);
        draft_.clear();
        draft_.name = name;
        draft_.op = op_name(node);
        draft_.layer = layer_of(node.name());
        draft_.phase = phases_.phases()[static_cast<std::size_t>(i)];
        nodes.push_back({.position = i});
        const auto position = add_reads(node);
        for (const auto& output : node.output())
            if (!output.empty()) {
                add_output(output, name, storage_.is_read(output));
                nodes.back().outputs.push_back(output);
            }
        add_storage(node, i, position);
        facts_.add_to(draft_, node, i);
        accept();
    }

    /// What the node and its bodies read. Returns where each input of the file stands among the inputs of the draft.
    std::vector<std::size_t> add_reads(const onnx::NodeProto& node) {
        std::vector<std::size_t> position(static_cast<std::size_t>(node.input_size()), no_position);
        const auto read = [&](const std::string& value) {
            const place from = values_.at(value);
            draft_.inputs.push_back({from.node, from.output});
            nodes.back().inputs.push_back(value);
        };
        for (int k = 0; k < node.input_size(); ++k) {
            if (node.input(k).empty()) continue; // a position that the op leaves out
            position[static_cast<std::size_t>(k)] = draft_.inputs.size();
            read(node.input(k));
        }
        std::set<std::string> captured;
        each_capture(node, [&](const std::string& value) {
            if (captured.insert(value).second) read(value);
        });
        return position;
    }

    /// A further output of the draft. Errors: nobody knows its size; but what nothing reads may be of any size.
    void add_output(const std::string& name, const std::string& node, bool is_read) {
        const value_type& type = types_[name];
        output_draft out{.first_extent = draft_.extents.size()};
        const element_type element = onnx_element_type(type.element);
        if (!type.problem.empty() && !is_read) {
            out.bytes = 0;
            notes.push_back("nothing reads '" + name + "', whose size is not known: it counts as 0 bytes");
        } else if (!type.problem.empty()) {
            throw error(node, "output '" + name + "'", type.problem, type.advice);
        } else if (element.bits == 0) {
            throw error(node, "output '" + name + "'", "is of an element type that is not known",
                        "plan a graph of numbers");
        } else {
            out.has_shape = true;
            out.type = element.type;
            out.rank = type.extents.size();
            draft_.extents.insert(draft_.extents.end(), type.extents.begin(), type.extents.end());
            if (element.type == dtype::other) out.bytes = bytes_of(type, element, node, name);
        }
        draft_.outputs.push_back(out);
    }

    static std::uint64_t bytes_of(const value_type& type, element_type element, const std::string& node,
                                  const std::string& name) {
        try {
            const auto bits = checked_multiply(element_count(shape(type.extents)), element.bits);
            if (!bits || *bits > std::numeric_limits<std::uint64_t>::max() - 7)
                throw error({}, "shape", "shape × dtype overflows 64 bits", "check the extents");
            return (*bits + 7) / 8;
        } catch (const error& e) {
            throw error(node, "output '" + name + "'", e.problem(), e.advice());
        }
    }

    /// Output 0 of a view lies on input 0; an element-wise op may take over an input that has its size.
    void add_storage(const onnx::NodeProto& node, int i, const std::vector<std::size_t>& position) {
        const onnx_op* op = op_of_(node);
        if (op == nullptr || draft_.outputs.empty()) return;
        if (op->kind == op_kind::view) {
            if (storage_.is_view(node.output(0))) draft_.outputs[0].view_of = position[0];
        } else if (op->inplace == onnx_inplace::elementwise) {
            for (int k = 0; k < node.input_size(); ++k)
                if (!node.input(k).empty() && !storage_.is_resident(node.input(k)) &&
                    storage_.same_bytes(node.input(k), node.output(0))) {
                    draft_.outputs[0].inplace = position[static_cast<std::size_t>(k)];
                    break;
                }
        } else if (is_onnx_update_op(op_name(node))) {
            for (const auto& [output, input] : storage_.in_place(i))
                draft_.outputs[named_outputs_before(node, output)].inplace =
                    position[static_cast<std::size_t>(input)];
        }
    }

    void accept() {
        const auto index = static_cast<std::uint32_t>(assembler_.size());
        std::uint32_t k = 0;
        for (const auto& output : nodes.back().outputs) values_[output] = {index, k++};
        assembler_.add(draft_);
    }

    /// `/encoder/layer.0/attention/MatMul` lies in `encoder/layer.0/attention`.
    static std::string layer_of(const std::string& name) {
        const auto slash = name.rfind('/');
        if (slash == std::string::npos) return {};
        const std::size_t first = name.starts_with("/");
        return slash > first ? name.substr(first, slash - first) : std::string();
    }

    void finish() {
        std::vector<edge_draft> results;
        for (const auto& output : graph_.output()) {
            const place from = values_.at(output.name());
            results.push_back({from.node, from.output});
        }
        assembler_.set_name(graph_.name());
        graph = assembler_.finish(results, {});
        if (!trains())
            notes.insert(notes.begin(),
                         "no gradient is computed: nothing is stashed or recomputed, and the arena is the "
                         "whole plan (where there is a gradient, name its start by --first-backward)");
        if (facts_.without_seed() > 0)
            notes.push_back("random ops without a seed, which never run again: " +
                            std::to_string(facts_.without_seed()));
        if (opset_of(model_) > newest_rules)
            notes.push_back("opset " + std::to_string(opset_of(model_)) + " is newer than " +
                            std::to_string(newest_rules) +
                            ", the newest that is known: shapes of ops that changed since may be wrong");
        if (model_.training_info_size() > 0)
            notes.push_back("training_info is not read: its nodes are no part of the plan");
        if (op_of_.any_function())
            notes.push_back(
                "functions that ask for other versions of ops than the model are taken as single ops "
                "that never run again");
        constexpr std::size_t most_notes = 3;
        const auto& doubts = types_.notes();
        for (std::size_t i = 0; i < std::min(doubts.size(), most_notes); ++i) notes.push_back(doubts[i]);
        if (doubts.size() > most_notes)
            notes.push_back("so it is with " + std::to_string(doubts.size() - most_notes) + " more values");
    }

    /// Where a value comes from.
    struct place {
        std::uint32_t node = 0, output = 0;
    };

    const onnx::ModelProto& model_;
    const onnx::GraphProto& graph_;
    known_ops op_of_;
    value_types types_;
    value_storage storage_;
    node_facts facts_;
    phase_finder phases_;
    graph_assembler assembler_;
    node_draft draft_;
    std::unordered_map<std::string, place> values_;
};

} // namespace echo::format
