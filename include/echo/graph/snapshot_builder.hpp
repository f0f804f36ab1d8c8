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
    ECHO_INLINE node_id add(const node_description& d);

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
    [[nodiscard]] ECHO_INLINE snapshot finish() &&;

private:
    [[noreturn]] static ECHO_INLINE void refuse(const node_description& d, node_id n, std::string_view key,
                                                std::string_view problem, std::string_view advice);

    ECHO_INLINE void check(const node_description& d, node_id n) const;

    ECHO_INLINE void add_inputs(const node_description& d);

    ECHO_INLINE void add_outputs(const node_description& d, node_id n);

    /// Notes whose resident storage the value `made` lies on, if that is certain: what is in place on other storage may
    /// take it or not.
    ECHO_INLINE void lie_on_resident(const node_description& d, node_id n, value_id made);

    ECHO_INLINE void write_on_resident(const node_description& d, node_id n, value_id made);

    static ECHO_INLINE std::uint32_t intern(std::string_view text,
                                            std::unordered_map<std::string, std::uint32_t>& index,
                                            std::vector<std::string>& pool);

    ECHO_INLINE void index_uses();

    snapshot s_;
    id_vector<value_id, value_id> resident_; ///< the maker of the resident storage that it lies on, or none
    std::unordered_map<std::uint32_t, value_id>
        written_; ///< by that maker: the node's output in place on the storage
    std::uint64_t total_ = 0;
    std::optional<std::size_t> host_nodes_;
    std::unordered_map<std::string, std::uint32_t> op_index_, layer_index_;
};

} // namespace echo

#ifndef ECHO_CORE
#include <echo/graph/detail/snapshot_builder_impl.hpp>
#endif
