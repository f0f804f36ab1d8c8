// SPDX-License-Identifier: BSL-1.0
/// @file
/// `read`: a host graph into a snapshot, through `graph_traits` alone. Hosts without gradient nodes get a
/// backward skeleton (skeleton.hpp).
#pragma once

#include <echo/graph/concepts.hpp>
#include <echo/graph/id_vector.hpp>
#include <echo/graph/node_index.hpp>
#include <echo/graph/output_placement.hpp>
#include <echo/graph/skeleton.hpp>
#include <echo/graph/snapshot_builder.hpp>
#include <echo/graph/storage_writes.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echo {
namespace detail {

template <checked_host_graph G>
class reader {
    using traits = graph_traits<G>;

public:
    explicit reader(const G& g) : graph_(g), index_(g) {}

    snapshot run() {
        bool complete = false;
        for (auto&& n : traits::nodes(graph_)) {
            complete |= add(n) == phase::backward;
        }
        for (auto&& result : traits::results(graph_)) builder_.add_result(value(result, {}, "results"));
        if constexpr (has_writes<G>) written_.keep_last();
        if constexpr (states_completeness<G>) complete = traits::complete(graph_);
        if (!complete) add_backward_skeleton(builder_, facts_, trainable_);
        return std::move(builder_).finish();
    }

private:
    /// Adds the next node in execution order; gives its phase.
    phase add(const node_of<G>& n) {
        const std::size_t position = builder_.node_count();
        op_facts facts = traits::facts(graph_, n);
        const phase what = traits::phase(graph_, n);
        std::string name, layer;
        if constexpr (has_name<G>) name = std::string(std::string_view(traits::name(graph_, n)));
        if constexpr (has_layer<G>) layer = std::string(std::string_view(traits::layer(graph_, n)));
        const std::string shown = name.empty() ? "#" + std::to_string(position) : name;
        collect_reads(n, facts, shown);
        collect_outputs(n, facts);

        node_description d{.name = name, .op = facts.name, .layer = layer, .phase = what};
        d.kind = facts.kind;
        d.rerun = facts.rerun;
        d.draws_by_element = facts.draws_by_element;
        d.unknown_op = what != phase::input && !is_known(facts);
        d.inputs = inputs_;
        d.one_bit_inputs = facts.one_bit_inputs;
        d.control = control_;
        d.outputs = outputs_;
        if constexpr (has_keep<G>) d.keep = traits::keep(graph_, n);
        if constexpr (has_may_fuse<G>) d.may_fuse = traits::may_fuse(graph_, n);
        measure(d, facts, n);
        builder_.add(d);
        if constexpr (has_writes<G>) note_writes(n, facts, shown);
        placement_.added(what, inputs_, outputs_);
        index_.insert(n, position);
        check_gradient(n, shown);
        facts.name = {};
        facts_.push_back(std::move(facts));
        note_trainable(n, what);
        return what;
    }

    /// Sets `inputs_` and `control_`: what the node reads, and what else must have run before it.
    void collect_reads(const node_of<G>& n, const op_facts& facts, const std::string& shown) {
        inputs_.clear();
        for (auto&& v : traits::inputs(graph_, n)) inputs_.push_back(value(v, shown, "inputs"));
        control_.clear();
        if constexpr (has_control<G>)
            for (auto&& c : traits::control(graph_, n))
                control_.push_back(node_id(index_.find(c, builder_.node_count())));
        if constexpr (has_writes<G>)
            if (facts.kind != op_kind::view) written_.put_behind_writers(inputs_, control_);
    }

    /// Sets `outputs_`: what the node makes, and where that lies by the op's facts.
    void collect_outputs(const node_of<G>& n, const op_facts& facts) {
        outputs_.clear();
        for (auto&& t : traits::outputs(graph_, n)) outputs_.push_back(t);
        placement_.state(facts, inputs_, outputs_);
    }

    void note_trainable(const node_of<G>& n, phase what) {
        if constexpr (has_trainable<G>)
            trainable_.push_back(what == phase::input && traits::trainable(graph_, n));
        else
            trainable_.push_back(what == phase::input);
    }

    void note_writes(const node_of<G>& handle, const op_facts& facts, const std::string& shown) {
        const node_id n(builder_.node_count() - 1);
        for (const std::size_t k : traits::writes(graph_, handle)) {
            if (k >= inputs_.size())
                throw error(shown, "writes", "names no input of the node", "count inputs from 0");
            written_.write(n, inputs_[k]);
        }
        if (facts.kind != op_kind::view) written_.read(n, inputs_);
    }

    void measure(node_description& d, const op_facts& facts, const node_of<G>& n) {
        if (facts.flops || facts.workspace) {
            arguments_.clear();
            for (const auto v : d.inputs) arguments_.push_back(described(v));
        }
        if constexpr (has_flops<G>)
            d.flops = traits::flops(graph_, n);
        else if (facts.flops)
            d.flops = facts.flops(arguments_, outputs_);
        if constexpr (has_workspace<G>)
            d.workspace = traits::workspace(graph_, n);
        else if (facts.workspace)
            d.workspace = facts.workspace(arguments_, outputs_);
        if constexpr (has_time<G>) d.time_us = std::optional<double>(traits::time_us(graph_, n));
    }

    /// The host's description of a value that was read already, for `flops` and `workspace`.
    tensor described(value_id v) const {
        const auto& record = builder_.so_far()[v];
        std::size_t k = builder_.so_far().output_index(v);
        for (auto&& t : traits::outputs(graph_, handles_[record.producer]))
            if (k-- == 0) return t;
        return {.type = record.type, .bytes = record.bytes};
    }

    value_id value(const value_of<node_of<G>>& v, const std::string& who, std::string_view key) const {
        const std::size_t producer = index_.find(v.producer, builder_.node_count());
        if (producer >= builder_.node_count())
            throw error(who, key, "reads a node that does not run earlier",
                        "list nodes in execution order; a training graph has no cycles");
        if (v.output >= builder_.output_count(node_id(producer)))
            throw error(who, key,
                        "reads output " + std::to_string(v.output) + " of '" +
                            builder_.so_far().name(node_id(producer)) + "', which has " +
                            std::to_string(builder_.output_count(node_id(producer))),
                        "name an existing output");
        return builder_.output(node_id(producer), v.output);
    }

    /// A gradient node of the host may only read what the facts of its forward op say (facts are
    /// checked).
    void check_gradient(const node_of<G>& n, const std::string& name) {
        handles_.push_back(n);
        if constexpr (has_gradient_of<G>) {
            const std::optional<node_of<G>> forward = traits::gradient_of(graph_, n);
            if (!forward) return;
            const std::size_t at = index_.find(*forward, facts_.size());
            if (at >= facts_.size())
                throw error(name, "gradient_of", "names no earlier node",
                            "name the forward node it belongs to");
            const snapshot& s = builder_.so_far();
            const node_id f(at);
            const auto may = facts_[f].gradient_reads;
            for (const auto v : s.inputs(node_id(builder_.node_count() - 1))) {
                bool touches = false, allowed = false;
                for (std::size_t k = 0; const auto out : s.outputs(f)) {
                    if (out == v) touches = true, allowed |= may.outputs.contains(k);
                    ++k;
                }
                for (std::size_t i = 0; const auto in : s.inputs(f)) {
                    if (in == v) touches = true, allowed |= may.inputs.contains(i);
                    ++i;
                }
                if (touches && !allowed)
                    throw error(name, "gradient_reads",
                                "reads a value that the facts of '" + s.name(f) +
                                    "' say its gradient does not read",
                                "correct the facts of '" + s.name(f) + "' or the gradient node");
            }
        }
    }

    const G& graph_;
    node_index<G> index_;
    snapshot_builder builder_;
    id_vector<node_id, node_of<G>> handles_;
    id_vector<node_id, op_facts> facts_;
    id_set<node_id> trainable_;
    storage_writes written_{builder_};
    output_placement placement_{builder_};
    std::vector<value_id> inputs_;
    std::vector<node_id> control_;
    std::vector<tensor> outputs_, arguments_;
};

} // namespace detail

/// Reads a host graph. Errors: everything `snapshot_builder` refuses, a node listed twice, a host gradient
/// node that reads what the facts exclude. O(nodes + edges) expected.
template <class G>
    requires detail::checked_host_graph<G>
[[nodiscard]] snapshot read(const G& graph) {
    if constexpr (detail::can_be_read<G>) return detail::reader<G>(graph).run();
    return {}; // `checked_host_graph` has said what is missing
}

} // namespace echo
