// SPDX-License-Identifier: BSL-1.0
/// @file
/// How the backward skeleton is made. `echo::core` compiles it once.
#pragma once

#include <echo/graph/id_vector.hpp>
#include <echo/graph/skeleton.hpp>
#include <echo/graph/snapshot_builder.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace echo::detail {

/// What the gradient node of one op reads.
class skeleton_reads {
public:
    /// The gradient of an output, which is no value of the op itself. These come first.
    void add_gradient(value_id dy) {
        values_.push_back(dy);
        packed_.push_back(false);
        ++gradients_;
    }
    /// A value of the op. Each stands once; one bit of it is enough only if it is for every read.
    void add(value_id v, bool one_bit) {
        const auto at = std::find(values_.begin(), values_.end(), v);
        if (at == values_.end()) {
            values_.push_back(v);
            packed_.push_back(one_bit);
        } else if (!one_bit) {
            packed_[static_cast<std::size_t>(at - values_.begin())] = false;
        }
    }

    /// All values, in the order in which they came.
    const std::vector<value_id>& values() const noexcept { return values_; }
    /// The first gradient; none where no output has one in the graph.
    value_id first_gradient() const { return gradients_ != 0 ? values_[0] : value_id::none(); }
    /// The places in `values()` of which one bit per element is read.
    positions one_bit() const {
        positions found;
        for (std::size_t i = 0; i < packed_.size(); ++i)
            if (packed_[i]) found.insert(i);
        return found;
    }

private:
    std::vector<value_id> values_;
    std::vector<std::uint8_t> packed_; ///< per value: one bit of it is enough
    std::size_t gradients_ = 0;
};

/// What the gradient node of one op makes: `tensors[i]` is the gradient of `of[i]`, an input of the op.
struct skeleton_gradients {
    std::vector<tensor> tensors{};
    std::vector<value_id> of{};
};

/// Appends the backward skeleton to a snapshot of the forward pass.
class skeleton_builder {
public:
    /// As `add_backward_skeleton`, whose arguments must outlive it.
    skeleton_builder(snapshot_builder& builder, const id_vector<node_id, op_facts>& facts,
                     const id_set<node_id>& trainable)
        : builder_(builder), facts_(facts), trainable_(trainable),
          gradient_(builder.so_far().value_count(), value_id::none()) {}

    /// Adds all nodes and results. To be called once.
    void run() {
        builder_.end_of_host();
        const std::size_t forward = builder_.node_count();
        seed();
        for (std::size_t n = forward; n-- > 0;)
            if (builder_.so_far()[node_id(n)].phase == phase::forward) differentiate(node_id(n));
        for (std::size_t n = 0; n < forward; ++n) {
            if (builder_.so_far()[node_id(n)].phase != phase::input || !trainable_[node_id(n)]) continue;
            for (const auto v : builder_.so_far().outputs(node_id(n)))
                if (gradient_[v].valid()) builder_.add_result(gradient_[v]);
        }
    }

private:
    /// The gradient of every result with respect to itself, made by the caller of the backward pass.
    void seed() {
        wanted_.assign(gradient_.size());
        for (const auto v : builder_.so_far().results()) wanted_[v] = is_floating(builder_.so_far()[v].type);
    }

    /// Adds the gradient node of an op where a gradient comes to it and one of its inputs can take it on.
    void differentiate(node_id n) {
        if (!is_reached(n)) return;
        const skeleton_reads read = reads_of(n);
        const skeleton_gradients made = gradients_of_inputs(n, read.first_gradient());
        if (made.tensors.empty()) return;
        const std::string layer(builder_.so_far().layer_name(builder_.so_far()[n].layer));
        const node_id g = add_gradient_node(n, layer, read, made);
        for (std::size_t i = 0; i < made.of.size(); ++i) accumulate(made.of[i], builder_.output(g, i), layer);
    }

    /// Whether an output of the op has a gradient, made by the skeleton or from outside.
    bool is_reached(node_id n) const {
        bool reached = false;
        for (const auto y : builder_.so_far().outputs(n)) reached |= wanted_[y] || gradient_[y].valid();
        return reached;
    }

    /// The gradients of the op's outputs, and the values that its facts name.
    skeleton_reads reads_of(node_id n) const {
        const op_facts& facts = facts_[n];
        const auto inputs = builder_.so_far().inputs(n);
        const auto outputs = builder_.so_far().outputs(n);
        skeleton_reads read;
        for (const auto y : outputs)
            if (gradient_[y].valid()) read.add_gradient(gradient_[y]);
        for (std::size_t i = 0; i < inputs.size(); ++i)
            if (facts.gradient_reads.inputs.contains(i))
                read.add(inputs[i], facts.gradient_one_bit.inputs.contains(i));
        for (std::size_t k = 0; k < outputs.size(); ++k)
            if (facts.gradient_reads.outputs.contains(k))
                read.add(outputs[k], facts.gradient_one_bit.outputs.contains(k));
        return read;
    }

    /// A gradient for each input of the op that has one. The first lies where `dy` does, the first thing that the
    /// gradient node reads, if the op allows that and the sizes are the same.
    skeleton_gradients gradients_of_inputs(node_id n, value_id dy) const {
        const snapshot& s = builder_.so_far();
        skeleton_gradients made;
        for (const auto input : s.inputs(n)) {
            const value_record& x = s[input];
            const bool differentiable = s[x.producer].phase == phase::forward || trainable_[x.producer];
            if (!is_floating(x.type) || !differentiable) continue;
            tensor t{.type = x.type, .bytes = x.bytes};
            if (dy.valid() && made.tensors.empty() && s[dy].bytes == x.bytes) {
                if (s[n].kind == op_kind::view)
                    t.view_of = 0;
                else if (facts_[n].gradient_inplace)
                    t.inplace = 0;
            }
            made.tensors.push_back(t);
            made.of.push_back(input);
        }
        return made;
    }

    node_id add_gradient_node(node_id n, const std::string& layer, const skeleton_reads& read,
                              const skeleton_gradients& made) {
        const node_record& record = builder_.so_far()[n];
        const bool is_view = record.kind == op_kind::view && made.tensors[0].view_of;
        const std::string name = builder_.so_far().name(n) + ".gradient";
        const std::string op = std::string(builder_.so_far().op_name(record.op)) + ".gradient";
        node_description d{.name = name, .op = op, .layer = layer, .phase = phase::backward};
        d.kind = is_view ? op_kind::view : record.kind == op_kind::heavy ? op_kind::heavy : op_kind::light;
        d.rerun = rerun_kind::never;
        d.inputs = read.values();
        d.one_bit_inputs = read.one_bit();
        d.outputs = made.tensors;
        // A compute-heavy op has one gradient of its own cost per input, two in the common case.
        d.flops = record.kind == op_kind::heavy ? 2 * record.flops : record.flops;
        return builder_.add(d); // moves the snapshot's arrays: `record` is gone
    }

    void accumulate(value_id x, value_id dx, const std::string& layer) {
        value_id& sum = gradient_[x];
        if (!sum.valid()) {
            sum = dx;
            return;
        }
        const value_id terms[] = {sum, dx};
        const tensor total{
            .type = builder_.so_far()[x].type, .bytes = builder_.so_far()[x].bytes, .inplace = 0};
        const node_id producer = builder_.so_far()[x].producer;
        const std::string name = builder_.so_far().name(producer) + ".gradient_sum";
        node_description d{.name = name, .op = "gradient_sum", .layer = layer, .phase = phase::backward};
        d.kind = op_kind::light;
        d.rerun = rerun_kind::pure;
        d.inputs = terms;
        d.outputs = {&total, 1};
        sum = builder_.output(builder_.add(d), 0);
    }

    snapshot_builder& builder_;
    const id_vector<node_id, op_facts>& facts_;
    const id_set<node_id>& trainable_;
    id_vector<value_id, value_id> gradient_; ///< per forward value: its gradient so far
    id_set<value_id> wanted_;                ///< a result: its gradient comes from outside
};

ECHO_INLINE void add_backward_skeleton(snapshot_builder& builder, const id_vector<node_id, op_facts>& facts,
                                       const id_set<node_id>& trainable) {
    skeleton_builder(builder, facts, trainable).run();
}

} // namespace echo::detail
