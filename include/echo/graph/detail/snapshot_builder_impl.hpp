// SPDX-License-Identifier: BSL-1.0
/// @file
/// How a snapshot is built node by node, and what is refused. `echo::core` compiles it once.
#pragma once

#include <echo/graph/snapshot_builder.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace echo {

ECHO_INLINE void snapshot_builder::refuse(const node_description& d, node_id n, std::string_view key,
                                          std::string_view problem, std::string_view advice) {
    throw error(d.name.empty() ? "#" + std::to_string(n.index()) : std::string(d.name), key, problem, advice);
}

ECHO_INLINE node_id snapshot_builder::add(const node_description& d) {
    const node_id n(s_.nodes_.size());
    if (s_.nodes_.size() + 1 >= node_id::limit())
        refuse(d, n, "nodes", "more than 2^32 nodes", "split the graph");
    check(d, n);
    s_.phases_.push_back(d.phase);
    s_.nodes_.push_back({.phase = d.phase,
                         .kind = d.kind,
                         .rerun = d.rerun,
                         .keep = d.keep,
                         .may_fuse = d.may_fuse,
                         .draws_by_element = d.draws_by_element,
                         .unknown_op = d.unknown_op,
                         .op = intern(d.op, op_index_, s_.ops_),
                         .layer = intern(d.layer, layer_index_, s_.layers_),
                         .flops = d.flops,
                         .time_us = d.time_us.value_or(-1),
                         .workspace = d.workspace});
    s_.names_ += d.name;
    s_.name_rows_.push_back(s_.names_.size());
    add_inputs(d);
    add_outputs(d, n);
    s_.control_.insert(s_.control_.end(), d.control.begin(), d.control.end());
    s_.control_rows_.push_back(s_.control_.size());
    return n;
}

ECHO_INLINE snapshot snapshot_builder::finish() && {
    s_.host_nodes_ = host_nodes_.value_or(s_.nodes_.size());
    s_.is_result_.assign(s_.values_.size());
    for (const auto v : s_.results_) s_.is_result_.insert(v);
    index_uses();
    return std::move(s_);
}

ECHO_INLINE void snapshot_builder::check(const node_description& d, node_id n) const {
    if (d.phase == phase::input && !d.inputs.empty())
        refuse(d, n, "inputs", "an input node has inputs", "make it forward, or drop its inputs");
    for (const auto v : d.inputs)
        if (v.index() >= s_.values_.size())
            refuse(d, n, "inputs", "reads a value that is not made earlier",
                   "put nodes in execution order and name existing outputs; a training graph has no cycles");
    for (const auto c : d.control)
        if (c.index() >= n.index())
            refuse(d, n, "control", "names a node that does not stand earlier",
                   "put nodes in execution order");
    if (!detail::is_amount(d.flops))
        refuse(d, n, "flops", "not a finite number of 0 or more",
               "give the floating-point operations of one run");
    if (d.time_us && !detail::is_amount(*d.time_us))
        refuse(d, n, "time_us", "not a finite number of 0 or more", "give microseconds, or leave it out");
    if (d.workspace > std::uint64_t{1} << 62)
        refuse(d, n, "workspace", "more than 2^62 bytes", "check the number");
}

ECHO_INLINE void snapshot_builder::add_inputs(const node_description& d) {
    for (std::size_t i = 0; i < d.inputs.size(); ++i) {
        s_.inputs_.push_back(d.inputs[i]);
        s_.sources_.push_back({s_[d.inputs[i]].producer, s_.output_index(d.inputs[i])});
        s_.one_bit_.push_back(i < 63 && d.one_bit_inputs.contains(i));
    }
    s_.input_rows_.push_back(s_.inputs_.size());
    if (s_.inputs_.size() >= value_id::limit())
        throw error({}, "inputs", "more than 2^32 edges", "split the graph");
}

ECHO_INLINE void snapshot_builder::add_outputs(const node_description& d, node_id n) {
    written_.clear();
    for (const auto& t : d.outputs) {
        value_record v{.producer = n, .type = t.type, .resident = t.resident || d.phase == phase::input};
        try {
            v.bytes = byte_count(t);
            v.elements = encodable_elements(t);
        } catch (const error& e) {
            refuse(d, n, "outputs." + e.key(), e.problem(), e.advice());
        }
        const auto position = [&](std::optional<std::size_t> input, std::string_view key) {
            if (!input) return no_input;
            if (*input >= d.inputs.size())
                refuse(d, n, key, "names no input of the node", "count inputs from 0");
            return static_cast<std::uint32_t>(*input);
        };
        v.view_of = position(t.view_of, "view_of");
        v.inplace = position(t.inplace, "inplace");
        total_ = checked_add(total_, v.bytes).value_or(~std::uint64_t{0});
        if (total_ > std::uint64_t{1} << 62)
            refuse(d, n, "outputs", "all outputs together exceed 2^62 bytes", "check the extents");
        s_.values_.push_back(v);
        lie_on_resident(d, n, value_id(s_.values_.size() - 1));
    }
    for (std::size_t k = 0; k < d.outputs.size(); ++k)
        if (const auto at = d.outputs[k].view_of; at && *at < 63 && d.one_bit_inputs.contains(*at))
            refuse(d, n, "one_bit_inputs", "names an input that an output is a view of",
                   "drop that position");
    if (s_.values_.size() >= value_id::limit())
        throw error({}, "outputs", "more than 2^32 values", "split the graph");
    s_.output_rows_.push_back(s_.values_.size());
}

ECHO_INLINE void snapshot_builder::lie_on_resident(const node_description& d, node_id n, value_id made) {
    const value_record& v = s_[made];
    const std::uint32_t over = v.view_of != no_input ? v.view_of : v.inplace;
    resident_.push_back(over != no_input ? resident_storage(d.inputs[over])
                        : v.resident     ? made
                                         : value_id::none());
    if (v.view_of == no_input && v.inplace != no_input && resident_.back().valid())
        write_on_resident(d, n, made);
}

ECHO_INLINE void snapshot_builder::write_on_resident(const node_description& d, node_id n, value_id made) {
    const value_id on = resident_storage(made);
    const auto key = [&](value_id v) {
        return "outputs[" + std::to_string(v.index() - s_.output_rows_.end()) + "].inplace";
    };
    const auto storage = [&] { return "the resident storage of '" + s_.name(s_[on].producer) + "'"; };
    if (s_[made].bytes > s_[on].bytes)
        refuse(d, n, key(made),
               std::to_string(s_[made].bytes) + " bytes do not fit in " + storage() + ", which has " +
                   std::to_string(s_[on].bytes),
               "make that storage larger, or give the output storage of its own");
    const auto [first, added] = written_.try_emplace(on.index(), made);
    if (!added)
        refuse(d, n, key(made), "takes " + storage() + ", as " + key(first->second) + " does",
               "let one output write in place, and give the other storage of its own");
}

ECHO_INLINE void snapshot_builder::index_uses() {
    s_.uses_.begin(s_.values_.size());
    for (const auto v : s_.inputs_) s_.uses_.count(v);
    s_.uses_.lay_out();
    for (const auto n : s_.nodes())
        for (std::uint32_t i = 0; const auto v : s_.inputs(n)) s_.uses_.add(v, {n, i++});
}

ECHO_INLINE std::uint32_t snapshot_builder::intern(std::string_view text,
                                                   std::unordered_map<std::string, std::uint32_t>& index,
                                                   std::vector<std::string>& pool) {
    const auto [at, added] = index.try_emplace(std::string(text), static_cast<std::uint32_t>(pool.size()));
    if (added) pool.emplace_back(text);
    return at->second;
}

} // namespace echo
