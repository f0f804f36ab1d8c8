// SPDX-License-Identifier: BSL-1.0
/// @file
/// A host whose nodes are indices into a vector and whose execution order is a list of them.
#pragma once

#include "described_node.hpp"

#include <echo/graph/concepts.hpp>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace hosts {

struct vector_host {
    using node = std::size_t;
    using value = echo::value_of<node>;

    std::vector<described_node<node>> nodes; ///< erased ones stay here, out of `order`
    std::vector<node> order;
    std::vector<value> results;

    static vector_host from_snapshot(const echo::snapshot& s) {
        vector_host g;
        for (const auto n : s.nodes()) {
            auto made = describe<node>(s, n);
            for (const auto v : s.inputs(n))
                made.inputs.push_back({s[v].producer.index(), s.output_index(v)});
            for (const auto c : s.control(n)) made.control.push_back(c.index());
            g.order.push_back(g.nodes.size());
            g.nodes.push_back(std::move(made));
        }
        for (const auto v : s.results()) g.results.push_back({s[v].producer.index(), s.output_index(v)});
        return g;
    }

    node insert(described_node<node> n, node before) {
        nodes.push_back(std::move(n));
        order.insert(position(before), nodes.size() - 1);
        return nodes.size() - 1;
    }
    /// The readers of a node take its first input in its place, and its others behind their own.
    void fold(node folded) {
        const auto reads = nodes[folded].inputs;
        for (const node reader : order) {
            auto& to = nodes[reader];
            std::vector<value> inputs;
            std::vector<std::optional<std::size_t>> now(to.inputs.size()); // where an input stands now
            echo::positions one_bit;
            bool reads_it = false;
            for (std::size_t i = 0; i < to.inputs.size(); ++i) {
                const bool here = to.inputs[i].producer == folded;
                reads_it |= here;
                if (here && reads.empty()) continue;
                now[i] = inputs.size();
                if (!here && to.one_bit.contains(i)) one_bit.insert(inputs.size());
                inputs.push_back(here ? reads[0] : to.inputs[i]);
            }
            if (!reads_it) continue;
            for (auto& t : to.outputs) {
                if (t.view_of) t.view_of = now[*t.view_of];
                if (t.inplace && to.inputs[*t.inplace].producer == folded) t.inplace.reset();
                if (t.inplace) t.inplace = now[*t.inplace];
            }
            if (!reads.empty()) inputs.insert(inputs.end(), reads.begin() + 1, reads.end());
            to.inputs = std::move(inputs);
            to.one_bit = one_bit;
        }
        order.erase(position(folded));
    }
    std::vector<node>::iterator position(node n) { return std::find(order.begin(), order.end(), n); }
};

struct find_in {
    const vector_host& g;
    const described_node<std::size_t>& operator()(std::size_t n) const { return g.nodes[n]; }
};

} // namespace hosts

template <>
struct echo::graph_traits<hosts::vector_host> {
    using graph = hosts::vector_host;
    using node = graph::node;
    using value = graph::value;

    static const auto& nodes(const graph& g) { return g.order; }
    static const auto& inputs(const graph& g, node n) { return g.nodes[n].inputs; }
    static auto outputs(const graph& g, node n) { return outputs_of(g.nodes[n], hosts::find_in{g}); }
    static echo::phase phase(const graph& g, node n) { return g.nodes[n].phase; }
    static const auto& results(const graph& g) { return g.results; }
    static echo::op_facts facts(const graph& g, node n) { return facts_of(g.nodes[n], hosts::find_in{g}); }

    static const auto& name(const graph& g, node n) { return g.nodes[n].name; }
    static const auto& layer(const graph& g, node n) { return g.nodes[n].layer; }
    static const auto& control(const graph& g, node n) { return g.nodes[n].control; }
    static double flops(const graph& g, node n) { return g.nodes[n].flops; }
    static std::uint64_t workspace(const graph& g, node n) { return g.nodes[n].workspace; }
    static std::optional<double> time_us(const graph& g, node n) { return g.nodes[n].time_us; }
    static bool keep(const graph& g, node n) { return g.nodes[n].keep; }

    static node clone(graph& g, node n, std::span<const value> inputs, node before) {
        auto copy = g.nodes[n];
        copy.inputs.assign(inputs.begin(), inputs.end());
        copy.name += ".again";
        return g.insert(std::move(copy), before);
    }
    static void redirect(graph& g, node reader, std::size_t input, value v) {
        g.nodes[reader].inputs.at(input) = v;
    }
    static void redirect_result(graph& g, std::size_t result, value v) { g.results.at(result) = v; }
    static void move(graph& g, node n, node before) {
        g.order.erase(g.position(n));
        g.order.insert(g.position(before), n);
    }
    static node encode(graph& g, value v, node before) {
        return g.insert(hosts::make_encode(g.nodes[v.producer], v), before);
    }
    static node offload(graph& g, value v, std::uint64_t bytes, node before) {
        return g.insert(hosts::make_offload(g.nodes[v.producer], v, bytes), before);
    }
    static node reload(graph& g, node offload, node before) {
        return g.insert(hosts::make_reload(g.nodes[offload], offload), before);
    }
    static void fuse(graph& g, node n) { g.fold(n); }
    static void erase(graph& g, node n) { g.order.erase(g.position(n)); }
};
