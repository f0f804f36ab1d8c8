// SPDX-License-Identifier: BSL-1.0
/// @file
/// `output_placement`: which outputs of a node, as it is read, lie where an input lies: as views, or made in place.
#pragma once

#include <echo/graph/id_vector.hpp>
#include <echo/graph/snapshot_builder.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace echo::detail {

/// Takes the facts of ops together with what the host states of its tensors, node by node in execution order.
class output_placement {
public:
    /// The builder must outlive it, and have the nodes that `added` tells of.
    explicit output_placement(const snapshot_builder& builder) : builder_(builder) {}

    /// Writes into the outputs of the next node what its facts say of views and of what is in place, where the host has
    /// stated neither.
    void state(const op_facts& facts, std::span<const value_id> inputs, std::span<tensor> outputs) const {
        for (const auto& [output, input] : facts.views)
            if (output < outputs.size() && !outputs[output].view_of) outputs[output].view_of = input;
        for (const auto& [output, input] : facts.inplace)
            if (may_take(facts, inputs, outputs, output, input)) outputs[output].inplace = input;
    }

    /// The builder has the node with these inputs and outputs now.
    void added(phase what, std::span<const value_id> inputs, std::span<const tensor> outputs) {
        for (const tensor& t : outputs) resident_.push_back(lies_on_resident(t, what, inputs));
    }

private:
    /// Facts hold for every node of an op, whatever its inputs: an output takes the storage of an input of its own
    /// size, and a resident one only where the op writes for its effect (it then never runs again), where it fits, and
    /// where no other output takes it. A tensor that the host itself states to be in place is taken at its word.
    bool may_take(const op_facts& facts, std::span<const value_id> inputs, std::span<const tensor> outputs,
                  std::size_t output, std::size_t input) const {
        if (output >= outputs.size() || input >= inputs.size()) return false;
        const tensor& t = outputs[output];
        if (t.view_of || t.inplace) return false;
        const value_id from = inputs[input], on = builder_.resident_storage(from);
        if (resident_[from] && (facts.rerun != rerun_kind::never || is_taken(on, inputs, outputs)))
            return false;
        try {
            const std::uint64_t bytes = byte_count(t);
            if (on.valid()) return bytes <= builder_.so_far()[on].bytes;
            return resident_[from] || bytes == builder_.so_far()[from].bytes;
        } catch (const error&) {
            return false; // the builder will say what is wrong with it
        }
    }

    /// Whether an output is in place on that storage already.
    bool is_taken(value_id storage, std::span<const value_id> inputs, std::span<const tensor> outputs) const {
        return storage.valid() && std::any_of(outputs.begin(), outputs.end(), [&](const tensor& t) {
                   return !t.view_of && t.inplace && *t.inplace < inputs.size() &&
                          builder_.resident_storage(inputs[*t.inplace]) == storage;
               });
    }

    bool lies_on_resident(const tensor& t, phase what, std::span<const value_id> inputs) const {
        if (t.view_of) return resident_[inputs[*t.view_of]] != 0;
        return t.resident || what == phase::input || (t.inplace && resident_[inputs[*t.inplace]] != 0);
    }

    const snapshot_builder& builder_;
    id_vector<value_id, std::uint8_t> resident_; ///< it lies, or may lie, on storage that is resident
};

} // namespace echo::detail
