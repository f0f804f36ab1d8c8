// SPDX-License-Identifier: BSL-1.0
/// @file
/// A host whose nodes are pointers, kept in a linked list in execution order.
#pragma once

#include "described_node.hpp"

#include <echo/graph/concepts.hpp>

#include <list>
#include <memory>
#include <span>

namespace hosts {

struct pointer_node : described_node<pointer_node*> {
    using described_node<pointer_node*>::value;
    std::list<std::unique_ptr<pointer_node>>::iterator at;
};

struct pointer_host {
    using node = pointer_node*;
    using value = echo::value_of<node>;

    std::list<std::unique_ptr<pointer_node>> order;
    std::vector<value> results;

    static pointer_host from_snapshot(const echo::snapshot& s) {
        pointer_host g;
        std::vector<node> made;
        const auto handle = [&](echo::value_id v) {
            return value{made[s[v].producer.index()], s.output_index(v)};
        };
        for (const auto n : s.nodes()) {
            auto description = describe<node>(s, n);
            for (const auto v : s.inputs(n)) description.inputs.push_back(handle(v));
            for (const auto c : s.control(n)) description.control.push_back(made[c.index()]);
            made.push_back(g.insert(std::move(description), g.order.end()));
        }
        for (const auto v : s.results()) g.results.push_back(handle(v));
        return g;
    }

    node insert(described_node<node> n, std::list<std::unique_ptr<pointer_node>>::iterator before) {
        const auto at = order.insert(before, std::make_unique<pointer_node>());
        static_cast<described_node<node>&>(**at) = std::move(n);
        (*at)->at = at;
        return at->get();
    }
};

} // namespace hosts

template <>
struct echo::graph_traits<hosts::pointer_host> {
    using graph = hosts::pointer_host;
    using node = graph::node;
    using value = graph::value;

    static std::vector<node> nodes(const graph& g) {
        std::vector<node> all;
        for (const auto& n : g.order) all.push_back(n.get());
        return all;
    }
    static const auto& inputs(const graph&, node n) { return n->inputs; }
    static auto outputs(const graph&, node n) { return outputs_of(*n, find); }
    static echo::phase phase(const graph&, node n) { return n->phase; }
    static const auto& results(const graph& g) { return g.results; }
    static echo::op_facts facts(const graph&, node n) { return facts_of(*n, find); }

    static const auto& name(const graph&, node n) { return n->name; }
    static const auto& layer(const graph&, node n) { return n->layer; }
    static const auto& control(const graph&, node n) { return n->control; }
    static double flops(const graph&, node n) { return n->flops; }
    static std::uint64_t workspace(const graph&, node n) { return n->workspace; }
    static std::optional<double> time_us(const graph&, node n) { return n->time_us; }
    static bool keep(const graph&, node n) { return n->keep; }

    static node clone(graph& g, node n, std::span<const value> inputs, node before) {
        hosts::described_node<node> copy = *n;
        copy.inputs.assign(inputs.begin(), inputs.end());
        return g.insert(std::move(copy), before->at);
    }
    static void redirect(graph&, node reader, std::size_t input, value v) { reader->inputs.at(input) = v; }
    static void redirect_result(graph& g, std::size_t result, value v) { g.results.at(result) = v; }
    static void move(graph& g, node n, node before) { g.order.splice(before->at, g.order, n->at); }
    static node encode(graph& g, value v, node before) {
        return g.insert(hosts::make_encode<node>(*v.producer, v), before->at);
    }
    static void erase(graph& g, node n) { g.order.erase(n->at); }

private:
    static const hosts::described_node<node>& find(node n) { return *n; }
};
