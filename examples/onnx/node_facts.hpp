// SPDX-License-Identifier: BSL-1.0
/// @file
/// The facts of an ONNX node: what it costs and whether it may run twice. Compiled into model.cpp alone.
#pragma once

#include "format/graph_assembler.hpp"
#include "onnx/flops.hpp"
#include "onnx/library.hpp"
#include "onnx/value_storage.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace echo::format {

class node_facts {
public:
    node_facts(const onnx::ModelProto& model, const value_types& types, const value_storage& storage,
               const known_ops& op)
        : types_(types), storage_(storage), op_of_(op), opset_(opset_of(model)) {
        for (const auto& input : model.graph().input()) inputs_.insert(input.name());
        for (const auto& t : model.graph().initializer()) constants_.emplace(t.name(), &t);
        for (const auto& node : model.graph().node())
            if (is_constant(node) && node.output_size() > 0)
                for (const auto& one : node.attribute())
                    if (one.has_t()) constants_.emplace(node.output(0), &one.t());
    }

    /// Fills in kind, rerun and FLOPs of node `i`, whose outputs `draft` has.
    void add_to(node_draft& draft, const onnx::NodeProto& node, int i) {
        add_op(draft, node);
        if (storage_.reads_written(node, i) || hands_out_statistics(node)) draft.rerun = rerun_kind::never;
    }

    /// Random nodes that state no seed, so far.
    std::size_t without_seed() const noexcept { return without_seed_; }

private:
    void add_op(node_draft& draft, const onnx::NodeProto& node) {
        if (op_of_.is_function(node)) {
            draft.kind = op_kind::heavy;
            draft.rerun = rerun_kind::never;
            return;
        }
        const onnx_op* const op = is_constant(node) ? nullptr : op_of_(node);
        if (op == nullptr) return; // a constant is an input; what nobody knows, the assembler lists
        draft.kind = op->kind;
        draft.rerun = rerun_kind::pure;
        if (op->kind == op_kind::view && !draft.outputs.empty() && !draft.outputs[0].view_of)
            draft.kind = op_kind::light; // of another size, which only a broken model has
        const bool seeded = attribute(node, "seed") != nullptr;
        const bool random =
            op->rerun == onnx_rerun::random || (op->rerun == onnx_rerun::dropout && !drops_nothing(node));
        if (op->rerun == onnx_rerun::never || (random && !seeded))
            draft.rerun = rerun_kind::never;
        else if (random)
            draft.rerun = rerun_kind::seeded;
        if (random && !seeded) ++without_seed_;
        if (op->kind == op_kind::heavy) draft.flops = flops(node);
    }

    /// Whether a node of the Dropout family leaves all elements as they are.
    bool drops_nothing(const onnx::NodeProto& node) const {
        const auto type = std::string_view(node.op_type());
        const bool own = node.domain().empty() || node.domain() == "ai.onnx";
        if (own && opset_ < 7) {
            const auto* is_test = attribute(node, "is_test");
            return is_test != nullptr && is_test->i() != 0;
        }
        if (own && opset_ < 12) return true;
        if (type == "SoftmaxDropout") return false;
        const int mode = type == "BiasDropout" || type == "BitmaskBiasDropout" ? 4 : 2;
        if (node.input_size() <= mode || node.input(mode).empty()) return true;
        if (inputs_.contains(node.input(mode))) return false; // an initializer is only a default then
        const auto constant = constants_.find(node.input(mode));
        return constant != constants_.end() && is_false(*constant->second);
    }

    /// A second run moves them once more, and its outputs would be other ones.
    bool hands_out_statistics(const onnx::NodeProto& node) const {
        if (!moves_statistics(node)) return false;
        for (int k = 1; k < std::min(3, node.output_size()); ++k)
            if (!node.output(k).empty() && storage_.is_read(node.output(k))) return true;
        return false;
    }

    double flops(const onnx::NodeProto& node) const {
        onnx_shapes shapes;
        const auto add = [&](const auto& names, auto& to) {
            for (const auto& name : names) {
                const value_type& type = types_[name];
                to.push_back(name.empty() || !type.problem.empty() ? nullptr : &type.extents);
            }
        };
        add(node.input(), shapes.inputs);
        add(node.output(), shapes.outputs);
        const auto* equation = attribute(node, "equation");
        const auto* transposed = attribute(node, "transA");
        const double found = onnx_flops(node.op_type(), shapes, equation == nullptr ? "" : equation->s(),
                                        transposed != nullptr && transposed->i() != 0);
        return found >= 0 && found < 1e300 ? found : 0;
    }

    const value_types& types_;
    const value_storage& storage_;
    const known_ops& op_of_;
    std::int64_t opset_;
    std::unordered_set<std::string> inputs_;
    std::unordered_map<std::string, const onnx::TensorProto*> constants_;
    std::size_t without_seed_ = 0;
};

} // namespace echo::format
