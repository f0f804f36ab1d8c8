// SPDX-License-Identifier: BSL-1.0
/// @file
/// `snapshot`: a host graph as plain index arrays (strong ids, CSR adjacency). Everything between reading a
/// host graph and applying a plan to it runs on this type alone, so compile time, messages and speed do not
/// depend on the host. Built by `read` (read.hpp) or, node by node, by `snapshot_builder`
/// (snapshot_builder.hpp).
#pragma once

#include <echo/graph/id_vector.hpp>
#include <echo/graph/phase.hpp>
#include <echo/op_facts.hpp>

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace echo {

/// "This output is no view", "this output is not in place".
inline constexpr std::uint32_t no_input = std::numeric_limits<std::uint32_t>::max();

/// One node of a snapshot.
struct node_record {
    echo::phase phase = phase::input;     ///< What the node is for.
    op_kind kind = op_kind::heavy;        ///< How much work the op is.
    rerun_kind rerun = rerun_kind::never; ///< Whether the op may run again.
    bool keep = false;                    ///< the host wishes its outputs to be kept
    bool may_fuse = true;                 ///< the host can recompute it inside others, or others in it
    bool draws_by_element = false;        ///< seeded: the same numbers in whatever kernel
    bool unknown_op = false;              ///< nothing is known of its op (heavy, never)
    std::uint32_t op = 0;                 ///< index for `snapshot::op_name`
    std::uint32_t layer = 0;              ///< index for `snapshot::layer_name`
    double flops = 0;                     ///< floating-point operations of one run
    double time_us = -1;                  ///< measured time; less than 0: none
    std::uint64_t workspace = 0;          ///< bytes of scratch memory while it runs

    /// Whether a kernel of other ops that computes it too makes the same bits.
    bool same_in_any_kernel() const noexcept {
        return rerun == rerun_kind::pure || (rerun == rerun_kind::seeded && draws_by_element);
    }
};

/// One output of one node.
struct value_record {
    std::uint64_t bytes = 0;          ///< Of a storage of its own.
    std::uint64_t elements = 0;       ///< for one-bit encoding
    node_id producer{};               ///< The node that makes it.
    std::uint32_t view_of = no_input; ///< position of the input whose storage it lies on
    std::uint32_t inplace = no_input; ///< position of the input whose storage it may take over
    dtype type = dtype::other;        ///< Of an element.
    bool resident = false;            ///< its storage, where it is the maker, is resident
};

/// One input of one node, seen from the value that is read.
struct use {
    node_id reader{};           ///< The node that reads.
    std::uint32_t position = 0; ///< Which of its inputs, from 0.
    friend bool operator==(const use&, const use&) = default;
};

/// One input of one node, seen from the node that made it.
struct edge_source {
    node_id producer{};       ///< The node that made the value.
    std::uint32_t output = 0; ///< Which of that node's outputs, from 0.
    friend bool operator==(const edge_source&, const edge_source&) = default;
};

/// A host graph as Echo sees it: nodes in execution order, their values, and who reads what, in rows of
/// numbers. Made by `read` or by `snapshot_builder`, and not changed afterwards. All access is O(1) and
/// checks no bounds.
class snapshot {
public:
    /// Nodes, those of a backward skeleton included.
    std::size_t node_count() const noexcept { return nodes_.size(); }
    /// Outputs of all nodes together.
    std::size_t value_count() const noexcept { return values_.size(); }
    /// Inputs of all nodes together.
    std::size_t edge_count() const noexcept { return inputs_.size(); }
    /// Nodes that the host has; those behind them are the backward skeleton of a forward-only host.
    std::size_t host_node_count() const noexcept { return host_nodes_; }

    /// All nodes, in execution order.
    id_range<node_id> nodes() const noexcept { return {0, nodes_.size()}; }
    /// All values, by the nodes that make them.
    id_range<value_id> values() const noexcept { return {0, values_.size()}; }

    /// What is known of a node.
    const node_record& operator[](node_id n) const { return nodes_[n]; }
    /// What the node is for, kept beside its record so that passes over all steps read a byte of each node.
    phase phase_of(node_id n) const { return phases_[n]; }
    /// What is known of a value.
    const value_record& operator[](value_id v) const { return values_[v]; }

    /// What the node reads, in its op's order.
    std::span<const value_id> inputs(node_id n) const { return input_rows_.in(inputs_, n); }
    /// `inputs(n)` by who made them, kept beside them so that passes over all edges read no values.
    std::span<const edge_source> sources(node_id n) const { return input_rows_.in(sources_, n); }
    /// Whether the node needs only one bit per element of the value at this input.
    bool one_bit(node_id n, std::size_t position) const {
        return one_bit_[input_rows_.begin_of(n) + position] != 0;
    }
    /// What the node makes.
    id_range<value_id> outputs(node_id n) const { return {output_rows_.begin_of(n), output_rows_.end_of(n)}; }
    /// Output `k` of the node.
    value_id output(node_id n, std::size_t k) const { return value_id(output_rows_.begin_of(n) + k); }
    /// Which output of its node the value is, from 0.
    std::uint32_t output_index(value_id v) const {
        return v.index() - output_rows_.begin_of(values_[v].producer);
    }
    /// Nodes that must run before this one though it reads nothing of them.
    std::span<const node_id> control(node_id n) const { return control_rows_.in(control_, n); }
    /// The readers of a value in execution order, one entry per input position.
    std::span<const use> uses(value_id v) const { return uses_[v]; }
    /// What must exist at the end.
    std::span<const value_id> results() const noexcept { return results_; }
    /// Whether the value must exist at the end.
    bool is_result(value_id v) const { return is_result_[v]; }

    /// The name of an op, by `node_record::op`.
    std::string_view op_name(std::uint32_t op) const { return ops_[op]; }
    /// How many different ops there are.
    std::size_t op_count() const noexcept { return ops_.size(); }
    /// The name of a layer, by `node_record::layer`.
    std::string_view layer_name(std::uint32_t layer) const { return layers_[layer]; }
    /// How many different layers there are.
    std::size_t layer_count() const noexcept { return layers_.size(); }
    /// The host's name of the node, or `#N`.
    std::string name(node_id n) const {
        const std::size_t first = name_rows_.begin_of(n), last = name_rows_.end_of(n);
        if (first == last) return std::to_string(n.index()).insert(0, 1, '#');
        return names_.substr(first, last - first);
    }

    friend class snapshot_builder;

private:
    id_vector<node_id, node_record> nodes_;
    id_vector<node_id, phase> phases_;
    id_vector<value_id, value_record> values_;
    id_rows<node_id> input_rows_, output_rows_, control_rows_;
    detail::large_vector<value_id> inputs_;
    detail::large_vector<edge_source> sources_;
    detail::large_vector<std::uint8_t> one_bit_;
    detail::large_vector<node_id> control_;
    id_lists<value_id, use> uses_;
    detail::large_vector<value_id> results_;
    id_set<value_id> is_result_;
    std::vector<std::string> ops_, layers_;
    std::string names_;
    id_rows<node_id, std::size_t> name_rows_;
    std::size_t host_nodes_ = 0;
};

} // namespace echo
