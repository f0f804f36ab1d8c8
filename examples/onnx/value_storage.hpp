// SPDX-License-Identifier: BSL-1.0
/// @file
/// Which values of an ONNX file share bytes: views, and parameters that an update writes over. Compiled into model.cpp
/// alone.
#pragma once

#include "onnx/bodies.hpp"
#include "onnx/node_proto.hpp"
#include "onnx/op_table.hpp"
#include "onnx/value_types.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace echo::format {

/// The op of a node, if anybody knows it; a function of the model may have the name of one.
class known_ops {
public:
    explicit known_ops(const onnx::ModelProto& model) {
        for (const auto& f : model.functions()) functions_.insert(f.domain() + "::" + f.name());
    }
    bool is_function(const onnx::NodeProto& node) const {
        return functions_.contains(node.domain() + "::" + node.op_type());
    }
    const onnx_op* operator()(const onnx::NodeProto& node) const {
        return is_function(node) ? nullptr : find_onnx_op(op_name(node));
    }
    bool any_function() const noexcept { return !functions_.empty(); }

private:
    std::unordered_set<std::string> functions_;
};

/// Which output of an update is the new value of which input: pairs of output and input.
inline std::vector<std::pair<int, int>> updated(const onnx::NodeProto& node) {
    const std::string& type = node.op_type();
    if (type == "InPlaceAccumulator" || type == "ZeroGradient") return {{0, 0}};
    if (type == "InPlaceAccumulatorV2") return {{1, 0}};
    if (type == "AdamOptimizer") return {{0, 1}, {1, 4}, {2, 5}, {3, 2}, {4, 3}, {5, 6}};
    if (type == "SGDOptimizer") return {{0, 1}};
    // R, T, then as many parameters, gradients and states as there are tensors to update.
    const int states = type == "Adam" ? 2 : type == "Adagrad" || type == "Momentum" ? 1 : 0;
    if (states == 0 || (node.input_size() - 2) % (states + 2) != 0) return {};
    const int count = (node.input_size() - 2) / (states + 2);
    std::vector<std::pair<int, int>> pairs;
    for (int k = 0; k < count; ++k) {
        pairs.emplace_back(k, 2 + k);
        for (int s = 0; s < states; ++s) pairs.emplace_back(count * (s + 1) + k, 2 + count * (s + 2) + k);
    }
    return pairs;
}

class value_storage {
public:
    value_storage(const onnx::GraphProto& graph, const value_types& types, const known_ops& op)
        : types_(types) {
        for (const auto& input : graph.input()) resident_.insert(input.name());
        for (const auto& t : graph.initializer()) resident_.insert(t.name());
        for (const auto& t : graph.sparse_initializer()) resident_.insert(t.values().name());
        for (int i = 0; i < graph.node_size(); ++i) add(graph.node(i), i, op);
        for (const auto& output : graph.output()) last_read_[base(output.name())] = graph.node_size();
        for (int i = 0; i < graph.node_size(); ++i)
            if (is_onnx_update_op(op_name(graph.node(i)))) add_update(graph.node(i), i);
    }

    /// The value on whose bytes this one lies; itself if it is no view.
    const std::string& base(const std::string& value) const {
        const auto found = base_.find(value);
        return found == base_.end() ? value : found->second;
    }
    bool is_view(const std::string& value) const { return base_.contains(value); }
    bool is_resident(const std::string& value) const { return resident_.contains(base(value)); }
    /// Whether a node, a body or the caller reads the value, or one that lies on the same bytes.
    bool is_read(const std::string& value) const { return last_read_.contains(base(value)); }

    bool same_bytes(const std::string& a, const std::string& b) const {
        const value_type &x = types_[a], &y = types_[b];
        if (!x.problem.empty() || !y.problem.empty() || x.element != y.element) return false;
        return x.extents == y.extents || elements_of(x.extents) == elements_of(y.extents);
    }

    /// What update `i` writes in place: pairs of output and input.
    const std::vector<std::pair<int, int>>& in_place(int i) const {
        static const std::vector<std::pair<int, int>> none;
        const auto found = in_place_.find(i);
        return found == in_place_.end() ? none : found->second;
    }

    /// Whether node `i` reads what another one, an update, may write over without saying so.
    bool reads_written(const onnx::NodeProto& node, int i) const {
        const auto writes = [&](const std::string& value) {
            const auto [first, last] = written_.equal_range(base(value));
            return std::any_of(first, last, [&](const auto& by) { return by.second != i; });
        };
        bool any = std::any_of(node.input().begin(), node.input().end(), writes);
        each_capture(node, [&](const std::string& value) { any = any || writes(value); });
        return any;
    }

private:
    void add(const onnx::NodeProto& node, int i, const known_ops& op_of) {
        if (is_constant(node))
            for (const auto& output : node.output()) resident_.insert(output);
        const auto* const op = op_of(node);
        if (op != nullptr && op->kind == op_kind::view && node.output_size() > 0 && node.input_size() > 0 &&
            same_bytes(node.input(0), node.output(0)))
            base_[node.output(0)] = base(node.input(0));
        for (const auto& input : node.input())
            if (!input.empty()) last_read_[base(input)] = i;
        each_capture(node, [&](const std::string& name) { last_read_[base(name)] = i; });
    }

    /// A parameter is written in place where nobody reads the old one later. What else an update reads and finds
    /// resident, it may write as well: those values are told apart, since nobody may read them again behind it.
    void add_update(const onnx::NodeProto& node, int i) {
        std::set<int> in_place;
        for (const auto& [output, input] : updated(node)) {
            if (input >= node.input_size() || output >= node.output_size()) continue;
            const std::string &was = node.input(input), &is = node.output(output);
            if (was.empty() || is.empty() || !is_resident(was) || !same_bytes(was, is)) continue;
            const auto last = last_read_.find(base(was));
            if (last != last_read_.end() && last->second != i) continue; // somebody still reads the old one
            if (!taken_.insert(base(was)).second) continue;
            in_place_[i].emplace_back(output, input);
            in_place.insert(input);
        }
        for (int k = 0; k < node.input_size(); ++k)
            if (!node.input(k).empty() && is_resident(node.input(k)) && !in_place.contains(k))
                written_.emplace(base(node.input(k)), i);
    }

    const value_types& types_;
    std::unordered_map<std::string, std::string> base_;
    std::unordered_map<std::string, int> last_read_; ///< by base; the number of nodes: an output of the graph
    std::unordered_set<std::string> resident_, taken_;
    std::unordered_map<int, std::vector<std::pair<int, int>>> in_place_;
    std::unordered_multimap<std::string, int> written_; ///< by base: the updates that may write over it
};

} // namespace echo::format
