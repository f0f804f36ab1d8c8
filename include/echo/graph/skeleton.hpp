// SPDX-License-Identifier: BSL-1.0
/// @file
/// The backward skeleton of a forward-only host: one gradient node per op in reverse order, reading what the
/// op's `gradient_reads` says, outputs sized like the op's inputs; a second gradient of one value is added in
/// place. This is the paper's dummy gradient node (its section on runtime overhead estimation), for whole
/// graphs.
#pragma once

#include <echo/graph/snapshot_builder.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace echo {
namespace detail {

class skeleton_builder {
public:
    skeleton_builder(snapshot_builder& builder, std::span<const op_facts> facts,
                     const std::vector<std::uint8_t>& trainable)
        : builder_(builder), facts_(facts), trainable_(trainable),
          gradient_(builder.so_far().value_count(), value_id::none()) {}

    void run() {
        builder_.end_of_host();
        const std::size_t forward = builder_.node_count();
        seed();
        for (std::size_t n = forward; n-- > 0;)
            if (builder_.so_far()[node_id(n)].phase == phase::forward) differentiate(node_id(n));
        for (std::size_t n = 0; n < forward; ++n) {
            if (builder_.so_far()[node_id(n)].phase != phase::input || !trainable_[n]) continue;
            for (const auto v : builder_.so_far().outputs(node_id(n)))
                if (gradient_[v.index()].valid()) builder_.add_result(gradient_[v.index()]);
        }
    }

private:
    /// The gradient of every result with respect to itself, made by the caller of the backward pass.
    void seed() {
        wanted_.assign(gradient_.size(), 0);
        for (const auto v : builder_.so_far().results())
            wanted_[v.index()] = is_floating(builder_.so_far()[v].type);
    }

    void differentiate(node_id n) {
        // Copies, not references: adding nodes moves the snapshot's arrays.
        const node_record record = builder_.so_far()[n];
        const op_facts& facts = facts_[n.index()];
        const auto ins = builder_.so_far().inputs(n);
        const std::vector<value_id> inputs(ins.begin(), ins.end());
        const auto outputs = builder_.so_far().outputs(n);

        std::vector<value_id> read;
        bool reached = false;
        for (const auto y : outputs) {
            reached |= wanted_[y.index()];
            if (gradient_[y.index()].valid()) read.push_back(gradient_[y.index()]), reached = true;
        }
        if (!reached) return;
        const bool has_dy = !read.empty();

        std::vector<std::uint8_t> packed(read.size(), false);
        for (std::size_t i = 0; i < inputs.size(); ++i)
            if (facts.gradient_reads.inputs.contains(i))
                add_read(read, packed, inputs[i], facts.gradient_one_bit.inputs.contains(i));
        for (std::size_t k = 0; k < outputs.size(); ++k)
            if (facts.gradient_reads.outputs.contains(k))
                add_read(read, packed, outputs[k], facts.gradient_one_bit.outputs.contains(k));
        positions one_bit;
        for (std::size_t i = 0; i < packed.size(); ++i)
            if (packed[i]) one_bit.insert(i);

        std::vector<tensor> made;
        std::vector<value_id> of;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            const value_record& x = builder_.so_far()[inputs[i]];
            const node_record& producer = builder_.so_far()[x.producer];
            const bool differentiable = producer.phase == phase::forward || trainable_[x.producer.index()];
            if (!is_floating(x.type) || !differentiable) continue;
            tensor t{.type = x.type, .bytes = x.bytes};
            if (has_dy && made.empty() && builder_.so_far()[read[0]].bytes == x.bytes) {
                if (record.kind == op_kind::view)
                    t.view_of = 0;
                else if (facts.gradient_inplace)
                    t.inplace = 0;
            }
            made.push_back(t);
            of.push_back(inputs[i]);
        }
        if (made.empty()) return;

        const bool is_view = record.kind == op_kind::view && made[0].view_of;
        const std::string name = builder_.so_far().name(n) + ".gradient";
        const std::string op = std::string(builder_.so_far().op_name(record.op)) + ".gradient";
        const std::string layer(builder_.so_far().layer_name(record.layer));
        node_description d{.name = name, .op = op, .layer = layer, .phase = phase::backward};
        d.kind = is_view ? op_kind::view : record.kind == op_kind::heavy ? op_kind::heavy : op_kind::light;
        d.rerun = rerun_kind::never;
        d.inputs = read;
        d.one_bit_inputs = one_bit;
        d.outputs = made;
        // A compute-heavy op has one gradient of its own cost per input, two in the common case.
        d.flops = record.kind == op_kind::heavy ? 2 * record.flops : record.flops;
        const node_id g = builder_.add(d);
        for (std::size_t i = 0; i < of.size(); ++i) accumulate(of[i], builder_.output(g, i), layer);
    }

    /// Each value once; one bit of it is enough only if it is for every read.
    static void add_read(std::vector<value_id>& read, std::vector<std::uint8_t>& packed, value_id v,
                         bool one_bit) {
        const auto at = std::find(read.begin(), read.end(), v);
        if (at == read.end()) {
            read.push_back(v);
            packed.push_back(one_bit);
        } else if (!one_bit) {
            packed[static_cast<std::size_t>(at - read.begin())] = false;
        }
    }

    void accumulate(value_id x, value_id dx, const std::string& layer) {
        value_id& sum = gradient_[x.index()];
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
    std::span<const op_facts> facts_;
    const std::vector<std::uint8_t>& trainable_;
    std::vector<value_id> gradient_;   ///< per forward value: its gradient so far
    std::vector<std::uint8_t> wanted_; ///< a result: its gradient comes from outside
};

} // namespace detail

/// Appends the backward skeleton of the forward nodes in `builder`; `facts[n]` are those of node n,
/// `trainable[n]` says whether the gradient of input node n is a result. O(nodes + edges).
inline void add_backward_skeleton(snapshot_builder& builder, std::span<const op_facts> facts,
                                  const std::vector<std::uint8_t>& trainable) {
    detail::skeleton_builder(builder, facts, trainable).run();
}

} // namespace echo
