// SPDX-License-Identifier: BSL-1.0
/// @file
/// `graph_assembler`: puts drafts of nodes together into a `file_graph` and checks each against the nodes
/// before it: every index in range, every number countable, the facts of one node free of contradiction.
#pragma once

#include "format/file_graph.hpp"
#include "format/node_draft.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace echo::format {

/// What a registry knows of an op, or nullptr; for example the `find` of a vocabulary.
using op_lookup = std::function<const op_facts*(std::string_view op)>;

class graph_assembler {
public:
    explicit graph_assembler(op_lookup registry) : registry_(std::move(registry)) {}

    std::size_t size() const noexcept { return g_.nodes_.size(); }
    void set_name(std::string name) { g_.name_ = std::move(name); }

    /// Errors name the node and the key. O(inputs + outputs + extents) amortised.
    void add(const node_draft& d) {
        shown_ = d.name.empty() ? "#" + std::to_string(size()) : d.name;
        if (size() + 1 >= no_position) refuse("nodes", "more than 2^32 nodes", "split the graph");
        if (d.name.size() >= no_position) refuse("name", "longer than 2^32 bytes", "shorten it");
        file_graph::node_record record{.phase = d.phase, .flops = d.flops, .workspace = d.workspace};
        if (d.time_us) record.time_us = *d.time_us;
        if (d.workspace > most_bytes) refuse("workspace", "more than 2^62 bytes", "check the number");
        add_inputs(d, record);
        add_control(d, record);
        add_outputs(d, record);
        add_one_bit(d, record);
        record.op = g_.ops_.insert(d.op);
        record.layer = g_.layers_.insert(d.layer);
        fill_facts(d, record);
        g_.set_name(record, d.name);
        g_.nodes_.push_back(record);
        g_.order_.append();
    }

    /// Once all nodes stand: graph outputs and resident values, both `[node, output]`.
    file_graph finish(const std::vector<edge_draft>& results, const std::vector<edge_draft>& residents) {
        for (const auto& e : results) g_.results_.push_back(existing(e, "outputs"));
        for (const auto& e : residents) {
            const auto [n, k] = existing(e, "resident");
            g_.outputs_[g_.nodes_[n].outputs.first + k].resident = true;
        }
        return std::move(g_);
    }

private:
    static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 62;

    [[noreturn]] void refuse(std::string_view key, std::string_view problem, std::string_view advice) const {
        throw error(shown_, key, problem, advice);
    }

    std::string missing_output(std::string_view verb, const edge_draft& e) const {
        const auto n = static_cast<file_graph::node>(e.node);
        return std::string(verb) + " output " + std::to_string(e.output) + " of '" + g_.name(n) +
               "' which has " + std::to_string(g_[n].outputs.count);
    }

    void add_inputs(const node_draft& d, file_graph::node_record& record) {
        if (d.phase == echo::phase::input && !d.inputs.empty())
            refuse("inputs", "an input node has inputs", "make its phase forward, or drop its inputs");
        for (const auto& e : d.inputs) {
            if (e.node >= size())
                refuse("inputs", "reads node " + std::to_string(e.node) + " which does not stand earlier",
                       "put nodes in execution order; a training graph has no cycles");
            if (e.output >= g_[static_cast<file_graph::node>(e.node)].outputs.count)
                refuse("inputs", missing_output("reads", e), "name an existing output");
        }
        record.inputs = g_.append(g_.inputs_, d.inputs, [](const edge_draft& e) {
            return file_graph::edge{static_cast<file_graph::node>(e.node),
                                    static_cast<std::uint32_t>(e.output)};
        });
    }

    void add_control(const node_draft& d, file_graph::node_record& record) {
        for (const auto c : d.control)
            if (c >= size())
                refuse("control", "names node " + std::to_string(c) + " which does not stand earlier",
                       "put nodes in execution order");
        record.control = g_.append(g_.control_, d.control,
                                   [](std::uint64_t c) { return static_cast<file_graph::node>(c); });
    }

    void add_outputs(const node_draft& d, file_graph::node_record& record) {
        made_.clear();
        for (std::size_t k = 0; k < d.outputs.size(); ++k) {
            const output_draft& o = d.outputs[k];
            const std::string key = "outputs[" + std::to_string(k) + "].";
            const auto input = [&](std::optional<std::uint64_t> position, std::string_view name) {
                if (!position) return no_position;
                if (*position >= d.inputs.size())
                    refuse(key + std::string(name),
                           "names input " + std::to_string(*position) + " of a node with " +
                               std::to_string(d.inputs.size()),
                           "count inputs from 0");
                return static_cast<std::uint32_t>(*position);
            };
            // Positions in the pool of extents are set below, once all outputs are known to be sound.
            made_.push_back({.extents = {0, static_cast<std::uint32_t>(o.rank)},
                             .view_of = input(o.view_of, "view_of"),
                             .inplace = input(o.inplace, "inplace"),
                             .type = o.type,
                             .has_shape = o.has_shape});
            made_.back().bytes = countable_bytes(d, o, key);
        }
        auto first = g_.append(g_.extents_, d.extents, [](std::int64_t extent) { return extent; }).first;
        for (auto& o : made_) o.extents.first = std::exchange(first, first + o.extents.count);
        record.outputs = g_.append(g_.outputs_, made_, [](const file_graph::output_record& o) { return o; });
    }

    /// Bytes as stated, else shape × dtype. A shape beside `bytes` must be countable too: encodings need it.
    std::uint64_t countable_bytes(const node_draft& d, const output_draft& o, const std::string& key) {
        tensor t{.type = o.type, .bytes = o.bytes};
        try {
            if (o.has_shape) {
                const auto first = d.extents.begin() + static_cast<std::ptrdiff_t>(o.first_extent);
                t.shape =
                    shape(std::vector<std::int64_t>(first, first + static_cast<std::ptrdiff_t>(o.rank)));
                element_count(t.shape);
            } else if (!o.bytes) {
                throw error({}, "bytes", "missing", "give bytes, or shape and dtype");
            }
            total_ += byte_count(t);
        } catch (const error& e) {
            refuse(key + e.key(), e.problem(), e.advice());
        }
        if (total_ > most_bytes)
            refuse("outputs", "all outputs up to here exceed 2^62 bytes together", "check the extents");
        return byte_count(t);
    }

    void add_one_bit(const node_draft& d, file_graph::node_record& record) {
        for (const auto i : d.one_bit_inputs) {
            if (i >= d.inputs.size())
                refuse("one_bit_inputs",
                       "names input " + std::to_string(i) + " of a node with " +
                           std::to_string(d.inputs.size()),
                       "count inputs from 0");
            for (const auto& o : d.outputs)
                if (o.view_of == i)
                    refuse("one_bit_inputs", "names an input that an output is a view of",
                           "drop that position");
            // The set is coarse from there on, and "all bits needed" is always right.
            if (i < 63) record.one_bit_inputs.insert(static_cast<std::size_t>(i));
        }
    }

    /// `kind` and `rerun`, and nothing else, may come from the registry.
    void fill_facts(const node_draft& d, file_graph::node_record& record) {
        if (d.kind) record.kind = *d.kind;
        if (d.rerun) record.rerun = *d.rerun;
        // Inputs never run, so nothing is missing where neither is stated.
        if ((d.kind && d.rerun) || d.phase == echo::phase::input) return;
        if (record.op >= looked_up_.size()) looked_up_.resize(g_.ops_.size());
        auto& facts = looked_up_[record.op];
        if (!facts) facts = registry_ ? registry_(d.op) : nullptr;
        record.known = *facts && echo::is_known(**facts);
        if (!record.known) return;
        if (!d.kind) record.kind = (*facts)->kind;
        if (!d.rerun) record.rerun = (*facts)->rerun;
    }

    file_graph::edge existing(const edge_draft& e, std::string_view key) {
        if (e.node >= size())
            throw error({}, key,
                        "names node " + std::to_string(e.node) + " of a graph with " + std::to_string(size()),
                        "count nodes from 0");
        const auto n = static_cast<file_graph::node>(e.node);
        shown_ = g_.name(n);
        if (e.output >= g_[n].outputs.count)
            refuse(key, missing_output("the graph names", e), "name an existing output");
        return {n, static_cast<std::uint32_t>(e.output)};
    }

    file_graph g_;
    op_lookup registry_;
    std::vector<std::optional<const op_facts*>> looked_up_; ///< per op; an op is looked up once
    std::vector<file_graph::output_record> made_;
    std::string shown_;
    std::uint64_t total_ = 0;
};

} // namespace echo::format
