// SPDX-License-Identifier: BSL-1.0
/// @file
/// `file_graph`: a training graph as an `echo-graph/1` file states it, and a host like any other: Echo sees
/// it through `graph_traits<file_graph>` alone. All nodes share a few pools, so a million of them take some
/// 200 MB. Made by `graph_assembler` (graph_assembler.hpp), read from a file by `read_graph`
/// (read_file.hpp).
#pragma once

#include "format/name_pool.hpp"
#include "format/node_order.hpp"

#include <echo/graph/concepts.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace echo::format {

/// Position of no input: an output that is no view, or not in place.
inline constexpr std::uint32_t no_position = std::numeric_limits<std::uint32_t>::max();

class file_graph {
public:
    using node = std::uint32_t;

    /// Output `output` of node `producer`.
    struct edge {
        node producer = 0;
        std::uint32_t output = 0;
        friend bool operator==(const edge&, const edge&) = default;
    };

    /// A run of consecutive elements of a pool.
    struct slice {
        std::uint32_t first = 0, count = 0;
    };

    struct output_record {
        std::uint64_t bytes = 0;
        slice extents{}; ///< in the pool of extents
        std::uint32_t view_of = no_position;
        std::uint32_t inplace = no_position;
        dtype type = dtype::other;
        bool has_shape = false;
        bool resident = false;
    };

    struct node_record {
        std::uint64_t first_name = 0; ///< in the pool of names
        std::uint32_t name_size = 0;  ///< 0: the file names it not
        std::uint32_t op = 0, layer = 0;
        slice inputs{}, outputs{}, control{};
        echo::phase phase = echo::phase::input;
        op_kind kind = op_kind::heavy;
        rerun_kind rerun = rerun_kind::never;
        bool known = true;        ///< false: its kind or rerun is neither stated nor in the registry
        bool is_encoding = false; ///< put in by `encode`
        bool keep = false;        ///< its outputs are to be kept
        positions one_bit_inputs{};
        double flops = 0;
        double time_us = -1; ///< less than 0: not measured
        std::uint64_t workspace = 0;
    };

    const std::string& name() const noexcept { return name_; }
    /// Nodes ever made, those erased included: indices are below it.
    std::size_t size() const noexcept { return nodes_.size(); }
    const node_order& order() const noexcept { return order_; }
    const node_record& operator[](node n) const { return nodes_[n]; }
    std::span<const edge> inputs(node n) const { return part(inputs_, nodes_[n].inputs); }
    std::span<const node> control(node n) const { return part(control_, nodes_[n].control); }
    std::span<const output_record> outputs(node n) const { return part(outputs_, nodes_[n].outputs); }
    std::span<const edge> results() const noexcept { return results_; }
    std::span<const std::int64_t> extents(const output_record& o) const { return part(extents_, o.extents); }
    std::string_view op(node n) const { return ops_[nodes_[n].op]; }
    std::string_view layer(node n) const { return layers_[nodes_[n].layer]; }

    /// The name in the file, or `#N`.
    std::string name(node n) const {
        const node_record& record = nodes_[n];
        if (record.name_size == 0) return "#" + std::to_string(n);
        return names_.substr(record.first_name, record.name_size);
    }

    tensor describe(const output_record& o) const {
        tensor t{.type = o.type, .bytes = o.bytes, .resident = o.resident};
        const auto pool = extents(o);
        if (o.has_shape) t.shape = shape(std::vector<std::int64_t>(pool.begin(), pool.end()));
        if (o.view_of != no_position) t.view_of = o.view_of;
        if (o.inplace != no_position) t.inplace = o.inplace;
        return t;
    }

    void keep(node n) { nodes_[n].keep = true; }

    /// A second `n` that reads `inputs`, to run before `before`. O(inputs + outputs).
    node clone(node n, std::span<const value_of<node>> inputs, node before) {
        node_record record = nodes_[n];
        set_name(record, name(n) + ".again");
        record.inputs = append(inputs_, inputs, [](const value_of<node>& v) {
            return edge{v.producer, static_cast<std::uint32_t>(v.output)};
        });
        // Copied first: the pool may move while it grows.
        const auto mine = outputs(n);
        const std::vector<output_record> made(mine.begin(), mine.end());
        record.outputs = append(outputs_, made, [](const output_record& o) { return o; });
        nodes_.push_back(record);
        return order_.insert_new(before);
    }

    void redirect(node reader, std::size_t input, const value_of<node>& v) {
        const node_record& record = nodes_[reader];
        inputs_[record.inputs.first + input] = {v.producer, static_cast<std::uint32_t>(v.output)};
        if (!nodes_[v.producer].is_encoding) return;
        // Nothing can be written over a value through its packed bits.
        for (std::uint32_t k = 0; k < record.outputs.count; ++k)
            if (auto& o = outputs_[record.outputs.first + k]; o.inplace == input) o.inplace = no_position;
    }

    void redirect_result(std::size_t result, const value_of<node>& v) {
        results_[result] = {v.producer, static_cast<std::uint32_t>(v.output)};
    }

    void move(node n, node before) { order_.move(n, before); }
    void erase(node n) { order_.erase(n); }

    /// A node that packs `v` into one bit per element, to run before `before`. It takes no time in the model.
    node encode(const value_of<node>& v, node before) {
        const output_record source = outputs(v.producer)[v.output];
        node_record record{.phase = echo::phase::forward, .kind = op_kind::light, .is_encoding = true};
        record.layer = nodes_[v.producer].layer;
        record.op = ops_.insert("echo.encode");
        record.time_us = 0;
        set_name(record, name(v.producer) + ".encoded");
        const edge reads[] = {{v.producer, static_cast<std::uint32_t>(v.output)}};
        record.inputs = append(inputs_, reads, [](edge e) { return e; });
        const output_record packed[] = {
            {.bytes = encoded_bytes(encodable_elements(describe(source))), .type = dtype::i32}};
        record.outputs = append(outputs_, packed, [](const output_record& o) { return o; });
        nodes_.push_back(record);
        return order_.insert_new(before);
    }

    friend class graph_assembler;

private:
    template <class T>
    static std::span<const T> part(const std::vector<T>& pool, slice s) {
        return {pool.data() + s.first, s.count};
    }

    /// Errors: the pool would outgrow 32-bit positions.
    template <class T, class Range, class Project>
    static slice append(std::vector<T>& pool, const Range& more, Project project) {
        const slice added{static_cast<std::uint32_t>(pool.size()),
                          static_cast<std::uint32_t>(std::ranges::size(more))};
        if (pool.size() + std::ranges::size(more) >= no_position)
            throw error({}, "nodes", "more than 2^32 edges, values or extents", "split the graph");
        for (const auto& item : more) pool.push_back(project(item));
        return added;
    }

    void set_name(node_record& record, std::string_view text) {
        record.first_name = names_.size();
        record.name_size = static_cast<std::uint32_t>(text.size());
        names_ += text;
    }

    std::string name_;
    std::vector<node_record> nodes_;
    std::vector<edge> inputs_;
    std::vector<node> control_;
    std::vector<output_record> outputs_;
    std::vector<std::int64_t> extents_;
    std::vector<edge> results_;
    std::string names_;
    name_pool ops_, layers_;
    node_order order_;
};

} // namespace echo::format

template <>
struct echo::graph_traits<echo::format::file_graph> {
    using graph = echo::format::file_graph;
    using node = graph::node;
    using value = echo::value_of<node>;

private:
    static auto values(std::span<const graph::edge> edges) {
        return edges | std::views::transform([](graph::edge e) { return value{e.producer, e.output}; });
    }

public:
    static const echo::format::node_order& nodes(const graph& g) { return g.order(); }
    static auto inputs(const graph& g, node n) { return values(g.inputs(n)); }
    static auto results(const graph& g) { return values(g.results()); }
    static auto outputs(const graph& g, node n) {
        return g.outputs(n) |
               std::views::transform([&g](const graph::output_record& o) { return g.describe(o); });
    }
    static echo::phase phase(const graph& g, node n) { return g[n].phase; }
    static echo::op_facts facts(const graph& g, node n) {
        return {.name = g.op(n),
                .known = g[n].known,
                .kind = g[n].kind,
                .rerun = g[n].rerun,
                .one_bit_inputs = g[n].one_bit_inputs};
    }

    static std::string name(const graph& g, node n) { return g.name(n); }
    static std::string_view layer(const graph& g, node n) { return g.layer(n); }
    static std::span<const node> control(const graph& g, node n) { return g.control(n); }
    static double flops(const graph& g, node n) { return g[n].flops; }
    static std::uint64_t workspace(const graph& g, node n) { return g[n].workspace; }
    static std::optional<double> time_us(const graph& g, node n) {
        return g[n].time_us < 0 ? std::nullopt : std::optional(g[n].time_us);
    }
    static bool keep(const graph& g, node n) { return g[n].keep; }
    static std::size_t index(const graph& g, node n) { return g.order().position(n); }
    /// The file is the whole graph: no gradient nodes are to be added to it.
    static bool complete(const graph&) { return true; }

    static node clone(graph& g, node n, std::span<const value> inputs, node before) {
        return g.clone(n, inputs, before);
    }
    static void redirect(graph& g, node reader, std::size_t input, value v) { g.redirect(reader, input, v); }
    static void redirect_result(graph& g, std::size_t result, value v) { g.redirect_result(result, v); }
    static void move(graph& g, node n, node before) { g.move(n, before); }
    static node encode(graph& g, value v, node before) { return g.encode(v, before); }
    static void erase(graph& g, node n) { g.erase(n); }
};
