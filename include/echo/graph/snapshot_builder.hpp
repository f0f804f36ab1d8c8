// SPDX-License-Identifier: BSL-1.0
/// @file
/// `snapshot_builder`: makes a snapshot node by node, in execution order, and checks every fact on the way
/// in.
#pragma once

#include <echo/graph/snapshot.hpp>
#include <echo/numbers.hpp>

#include <optional>
#include <unordered_map>
#include <vector>

namespace echo {

/// One node on its way into a snapshot.
struct node_description {
    std::string_view name{};              ///< What reports call it; empty: `#N`.
    std::string_view op{};                ///< The name of the op.
    std::string_view layer{};             ///< The layer that reports count it to.
    echo::phase phase = phase::forward;   ///< What it is for.
    op_kind kind = op_kind::heavy;        ///< How much work the op is.
    rerun_kind rerun = rerun_kind::never; ///< Whether it may run again.
    bool keep = false;                    ///< The host wishes its outputs to be kept.
    bool may_fuse = true;                 ///< The host can recompute it inside others, or others in it.
    bool draws_by_element = false;        ///< Seeded: the same numbers in whatever kernel.
    bool unknown_op = false;              ///< Nothing is known of its op.
    std::span<const value_id> inputs{};   ///< What it reads, in the op's order: values added earlier.
    positions one_bit_inputs{};           ///< positions from 63 on are taken as "all bits needed"
    std::span<const node_id> control{};   ///< Nodes added earlier that must run before it.
    std::span<const tensor> outputs{};    ///< What it makes.
    double flops = 0;                     ///< Floating-point operations of one run.
    std::uint64_t workspace = 0;          ///< Bytes of scratch memory while it runs.
    std::optional<double> time_us{};      ///< Measured, in microseconds.
};

/// Errors (all name the node and the key): a value or control node that does not stand earlier, a position
/// out of range, an input node with inputs, bytes that do not fit, a time or FLOPs that is negative or not a
/// number, an output in place on a resident storage that is smaller or that another output of the node is in place on.
/// `add` is O(inputs + outputs) amortised, `finish` O(nodes + edges).
class snapshot_builder {
public:
    /// Adds the next node in execution order and gives its id. Errors: as the head of the class says.
    node_id add(const node_description& d) {
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

    /// Nodes added so far.
    std::size_t node_count() const noexcept { return s_.nodes_.size(); }
    /// Output `k` of a node that was added.
    value_id output(node_id n, std::size_t k) const { return s_.output(n, k); }
    /// How many outputs that node has.
    std::size_t output_count(node_id n) const { return s_.outputs(n).size(); }
    /// What was added, without the readers of values, which `finish` finds.
    const snapshot& so_far() const noexcept { return s_; }

    /// The value that made the resident storage on which `v` lies in every schedule; `none()` if there is none.
    value_id resident_storage(value_id v) const { return resident_[v]; }

    /// A node that was added may not run again, whatever was said of it.
    void run_once(node_id n) { s_.nodes_[n].rerun = rerun_kind::never; }

    /// From here on nodes are the backward skeleton, not the host's.
    void end_of_host() { host_nodes_ = s_.nodes_.size(); }

    /// This value must exist at the end. Errors: there is no such value.
    void add_result(value_id v) {
        if (v.index() >= s_.values_.size())
            throw error({}, "outputs", "a graph output names no value of the graph",
                        "name an existing output");
        s_.results_.push_back(v);
    }

    /// The snapshot; the builder is empty then. O(nodes + edges).
    snapshot finish() && {
        s_.host_nodes_ = host_nodes_.value_or(s_.nodes_.size());
        s_.is_result_.assign(s_.values_.size());
        for (const auto v : s_.results_) s_.is_result_.insert(v);
        index_uses();
        return std::move(s_);
    }

private:
    [[noreturn]] static void refuse(const node_description& d, node_id n, std::string_view key,
                                    std::string_view problem, std::string_view advice) {
        throw error(d.name.empty() ? "#" + std::to_string(n.index()) : std::string(d.name), key, problem,
                    advice);
    }

    void check(const node_description& d, node_id n) const {
        if (d.phase == phase::input && !d.inputs.empty())
            refuse(d, n, "inputs", "an input node has inputs", "make it forward, or drop its inputs");
        for (const auto v : d.inputs)
            if (v.index() >= s_.values_.size())
                refuse(
                    d, n, "inputs", "reads a value that is not made earlier",
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

    void add_inputs(const node_description& d) {
        for (std::size_t i = 0; i < d.inputs.size(); ++i) {
            s_.inputs_.push_back(d.inputs[i]);
            s_.sources_.push_back({s_[d.inputs[i]].producer, s_.output_index(d.inputs[i])});
            s_.one_bit_.push_back(i < 63 && d.one_bit_inputs.contains(i));
        }
        s_.input_rows_.push_back(s_.inputs_.size());
        if (s_.inputs_.size() >= value_id::limit())
            throw error({}, "inputs", "more than 2^32 edges", "split the graph");
    }

    void add_outputs(const node_description& d, node_id n) {
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

    /// Notes whose resident storage the value `made` lies on, if that is certain: what is in place on other storage may
    /// take it or not.
    void lie_on_resident(const node_description& d, node_id n, value_id made) {
        const value_record& v = s_[made];
        const std::uint32_t over = v.view_of != no_input ? v.view_of : v.inplace;
        resident_.push_back(over != no_input ? resident_storage(d.inputs[over])
                            : v.resident     ? made
                                             : value_id::none());
        if (v.view_of == no_input && v.inplace != no_input && resident_.back().valid())
            write_on_resident(d, n, made);
    }

    void write_on_resident(const node_description& d, node_id n, value_id made) {
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

    static std::uint32_t intern(std::string_view text, std::unordered_map<std::string, std::uint32_t>& index,
                                std::vector<std::string>& pool) {
        const auto [at, added] =
            index.try_emplace(std::string(text), static_cast<std::uint32_t>(pool.size()));
        if (added) pool.emplace_back(text);
        return at->second;
    }

    void index_uses() {
        s_.uses_.begin(s_.values_.size());
        for (const auto v : s_.inputs_) s_.uses_.count(v);
        s_.uses_.lay_out();
        for (const auto n : s_.nodes())
            for (std::uint32_t i = 0; const auto v : s_.inputs(n)) s_.uses_.add(v, {n, i++});
    }

    snapshot s_;
    id_vector<value_id, value_id> resident_; ///< the maker of the resident storage that it lies on, or none
    std::unordered_map<std::uint32_t, value_id>
        written_; ///< by that maker: the node's output in place on the storage
    std::uint64_t total_ = 0;
    std::optional<std::size_t> host_nodes_;
    std::unordered_map<std::string, std::uint32_t> op_index_, layer_index_;
};

} // namespace echo
