// SPDX-License-Identifier: BSL-1.0
/// @file
/// `read`: a host graph into a snapshot, through `graph_traits` alone. Hosts without gradient nodes get a
/// backward skeleton (skeleton.hpp).
#pragma once

#include <echo/graph/concepts.hpp>
#include <echo/graph/skeleton.hpp>
#include <echo/graph/snapshot_builder.hpp>
#include <echo/graph/storage_writes.hpp>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

namespace echo {
namespace detail {

/// Host node → position in execution order, through `graph_traits::index` where offered, else by hashing.
template <host_graph G>
class node_index {
public:
    explicit node_index(const G& g) : graph_(g) {}

    void insert(const node_of<G>& n, std::size_t position) {
        if constexpr (has_index<G>) {
            if (find(n, position) != position)
                throw error("#" + std::to_string(position), "index", "is not the position in nodes()",
                            "count nodes in execution order, and list every node once");
        } else if (!map_.emplace(n, position).second) {
            throw error("#" + std::to_string(position), "nodes", "stands twice in nodes()",
                        "list every node once");
        }
    }
    /// The position, or `fallback` where the node is none of the graph's or stands later.
    std::size_t find(const node_of<G>& n, std::size_t fallback) const {
        if constexpr (has_index<G>) {
            return static_cast<std::size_t>(graph_traits<G>::index(graph_, n));
        } else {
            const auto at = map_.find(n);
            return at == map_.end() ? fallback : at->second;
        }
    }

private:
    const G& graph_;
    struct nothing {};
    template <class N>
    struct hashed {
        using type = std::unordered_map<N, std::size_t>;
    };
    typename std::conditional_t<has_index<G>, std::type_identity<nothing>, hashed<node_of<G>>>::type map_;
};

template <host_graph G>
class reader {
    using traits = graph_traits<G>;

public:
    explicit reader(const G& g) : graph_(g), index_(g) {}

    snapshot run() {
        bool complete = false;
        for (auto&& n : traits::nodes(graph_)) {
            complete |= add(n) == phase::backward;
            facts_.back().name = {};
        }
        for (auto&& result : traits::results(graph_)) builder_.add_result(value(result, {}, "results"));
        if constexpr (has_writes<G>) written_.keep_last();
        if constexpr (states_completeness<G>) complete = traits::complete(graph_);
        if (!complete) add_backward_skeleton(builder_, facts_, trainable_);
        return std::move(builder_).finish();
    }

private:
    phase add(const node_of<G>& n) {
        const std::size_t position = builder_.node_count();
        const op_facts facts = traits::facts(graph_, n);
        const phase what = traits::phase(graph_, n);
        std::string name, layer;
        if constexpr (has_name<G>) name = std::string(std::string_view(traits::name(graph_, n)));
        if constexpr (has_layer<G>) layer = std::string(std::string_view(traits::layer(graph_, n)));
        const std::string shown = name.empty() ? "#" + std::to_string(position) : name;

        inputs_.clear();
        for (auto&& v : traits::inputs(graph_, n)) inputs_.push_back(value(v, shown, "inputs"));
        control_.clear();
        if constexpr (has_control<G>)
            for (auto&& c : traits::control(graph_, n))
                control_.push_back(node_id(index_.find(c, builder_.node_count())));
        if constexpr (has_writes<G>)
            if (facts.kind != op_kind::view) written_.put_behind_writers(inputs_, control_);
        outputs_.clear();
        for (auto&& t : traits::outputs(graph_, n)) outputs_.push_back(t);
        for (const auto& [output, input] : facts.views)
            if (output < outputs_.size() && !outputs_[output].view_of) outputs_[output].view_of = input;
        for (const auto& [output, input] : facts.inplace)
            if (may_take(facts, output, input)) outputs_[output].inplace = input;

        node_description d{.name = name, .op = facts.name, .layer = layer, .phase = what};
        d.kind = facts.kind;
        d.rerun = facts.rerun;
        d.draws_by_element = facts.draws_by_element;
        d.unknown_op = !facts.known;
        d.inputs = inputs_;
        d.one_bit_inputs = facts.one_bit_inputs;
        d.control = control_;
        d.outputs = outputs_;
        if constexpr (has_keep<G>) d.keep = traits::keep(graph_, n);
        if constexpr (has_may_fuse<G>) d.may_fuse = traits::may_fuse(graph_, n);
        measure(d, facts, n);
        builder_.add(d);
        if constexpr (has_writes<G>) note_writes(n, facts, shown);
        for (const tensor& t : outputs_) resident_.push_back(lies_on_resident(t, what));
        index_.insert(n, position);
        check_gradient(n, shown);
        facts_.push_back(facts);
        if constexpr (has_trainable<G>)
            trainable_.push_back(what == phase::input && traits::trainable(graph_, n));
        else
            trainable_.push_back(what == phase::input);
        return what;
    }

    /// Facts hold for every node of an op, whatever its inputs: an output takes the storage of an input of its own
    /// size, and a resident one only where the op writes for its effect (it then never runs again), where it fits, and
    /// where no other output takes it. A tensor that the host itself states to be in place is taken at its word.
    bool may_take(const op_facts& facts, std::size_t output, std::size_t input) const {
        if (output >= outputs_.size() || input >= inputs_.size()) return false;
        const tensor& t = outputs_[output];
        if (t.view_of || t.inplace) return false;
        const value_id on = builder_.resident_storage(inputs_[input]);
        if (resident_[inputs_[input].index()] && (facts.rerun != rerun_kind::never || is_taken(on)))
            return false;
        try {
            const std::uint64_t bytes = byte_count(t);
            if (on.valid()) return bytes <= builder_.so_far()[on].bytes;
            return resident_[inputs_[input].index()] || bytes == builder_.so_far()[inputs_[input]].bytes;
        } catch (const error&) {
            return false; // the builder will say what is wrong with it
        }
    }

    bool is_taken(value_id storage) const {
        return storage.valid() && std::any_of(outputs_.begin(), outputs_.end(), [&](const tensor& t) {
                   return !t.view_of && t.inplace && *t.inplace < inputs_.size() &&
                          builder_.resident_storage(inputs_[*t.inplace]) == storage;
               });
    }

    bool lies_on_resident(const tensor& t, phase what) const {
        if (t.view_of) return resident_[inputs_[*t.view_of].index()];
        return t.resident || what == phase::input || (t.inplace && resident_[inputs_[*t.inplace].index()]);
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
        for (auto&& t : traits::outputs(graph_, handles_[record.producer.index()]))
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
            const auto may = facts_[at].gradient_reads;
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
    std::vector<node_of<G>> handles_;
    std::vector<op_facts> facts_;
    std::vector<std::uint8_t> trainable_;
    std::vector<std::uint8_t> resident_; ///< per value: it lies, or may lie, on storage that is resident
    storage_writes written_{builder_};
    std::vector<value_id> inputs_;
    std::vector<node_id> control_;
    std::vector<tensor> outputs_, arguments_;
};

} // namespace detail

/// Reads a host graph. Errors: everything `snapshot_builder` refuses, a node listed twice, a host gradient
/// node that reads what the facts exclude. O(nodes + edges) expected.
template <class G>
    requires host_graph<G>
snapshot read(const G& graph) {
    return detail::reader<G>(graph).run();
}

} // namespace echo
