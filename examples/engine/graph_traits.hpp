// SPDX-License-Identifier: BSL-1.0
/// @file
/// The engine's graph as Echo sees it: every member of `graph_traits`, required and optional.
#pragma once

#include "engine/graph.hpp"

#include <echo/graph/concepts.hpp>

#include <array>

template <>
struct echo::graph_traits<engine::graph> {
    using graph = engine::graph;
    using node = engine::node*;
    using value = engine::value;

    static engine::node_list nodes(const graph& g) { return g.nodes(); }
    static const std::vector<value>& inputs(const graph&, node n) { return n->inputs; }
    /// The op's own, and behind them the scratch memory of the backend.
    static std::vector<tensor> outputs(const graph&, node n) {
        auto all = n->outputs;
        if (n->scratch) all.push_back({.type = dtype::i8, .bytes = n->scratch});
        return all;
    }
    static echo::phase phase(const graph&, node n) { return n->phase; }
    static const std::vector<value>& results(const graph& g) { return g.results(); }
    /// Gradients are nodes of the graph; one without them runs forward only.
    static bool complete(const graph&) { return true; }
    static op_facts facts(const graph&, node n) {
        op_facts f = engine::facts(n->op);
        // A gradient that is kept has storage of its own; packed bits are no place to write a tensor.
        const auto packed = [&](std::size_t i) { return is_encoding(n->inputs[i]); };
        std::array<storage_pair, 4> kept{};
        std::size_t count = 0;
        for (const auto& pair : f.inplace) {
            const bool own = f.rerun != rerun_kind::never && n->outputs[pair.output].resident;
            if (!own && pair.input < n->inputs.size() && !packed(pair.input)) kept[count++] = pair;
        }
        f.inplace = count == 0   ? storage_pairs{}
                    : count == 1 ? storage_pairs{kept[0]}
                    : count == 2 ? storage_pairs{kept[0], kept[1]}
                    : count == 3 ? storage_pairs{kept[0], kept[1], kept[2]}
                                 : f.inplace;
        positions one_bit;
        for (std::size_t i = 0; i < n->inputs.size() && i < 63; ++i)
            if (f.one_bit_inputs.contains(i) && !packed(i)) one_bit.insert(i);
        f.one_bit_inputs = one_bit;
        return f;
    }

    static const std::string& name(const graph&, node n) { return n->name; }
    static const std::string& layer(const graph&, node n) { return n->layer; }
    static const std::vector<node>& control(const graph&, node n) { return n->control; }
    static double flops(const graph& g, node n) { return engine::flops(n->op, g.inputs_of(*n), n->outputs); }
    static std::optional<double> time_us(const graph&, node n) { return n->time_us; }
    static bool keep(const graph&, node n) { return n->keep; }
    static bool may_fuse(const graph&, node n) { return n->may_fuse; }
    static std::size_t index(const graph& g, node n) { return g.position(n); }
    static bool trainable(const graph&, node n) { return n->role == engine::role::parameter; }
    static std::optional<node> gradient_of(const graph&, node n) {
        return n->gradient_of ? std::optional(n->gradient_of) : std::nullopt;
    }

    static node clone(graph& g, node n, std::span<const value> inputs, node before) {
        return g.clone(n, inputs, before);
    }
    static void redirect(graph&, node reader, std::size_t input, value v) { reader->inputs.at(input) = v; }
    static void redirect_result(graph& g, std::size_t result, value v) { g.results().at(result) = v; }
    static void move(graph& g, node n, node before) { g.move(n, before); }
    static node encode(graph& g, value v, node before) { return g.encode(v, before); }
    static void erase(graph& g, node n) { g.erase(n); }

    static engine::gradients gradient(graph& g, node n, std::span<const std::optional<value>> dy) {
        return g.differentiate(n, dy);
    }
    /// Ones like `v`: the gradient of a result with respect to itself.
    static value seed(graph& g, value v) {
        const graph::in_phase backward(g, phase::backward);
        return named(g, g.add(engine::ops::fill{g[v], 1}, {}), v, ".gradient_seed");
    }
    /// Several gradients of `v` as one.
    static value sum(graph& g, value v, std::span<const value> terms) {
        const graph::in_phase backward(g, phase::backward);
        return named(g, g.add(engine::ops::add_n{}, {terms.begin(), terms.end()}), v, ".gradient_sum");
    }
    /// One more gradient of `v` added, in place; a product of matrices adds itself.
    static value accumulate(graph& g, value v, value sum, value term) {
        using product = engine::ops::fully_connected_weight_gradient;
        const auto made = std::get_if<product>(&term.producer->op);
        if (made && !made->adds && g.habits() == engine::baseline::modern) {
            made->adds = true;
            term.producer->inputs.push_back(sum);
            return term;
        }
        const graph::in_phase backward(g, phase::backward);
        return named(g, g.add(engine::ops::elementwise<echo::add_op>{}, {sum, term}), v, ".gradient_sum");
    }
    static std::vector<tensor> infer(const graph& g, node n, std::span<const tensor> inputs) {
        return g.infer(*n, inputs);
    }
    static void set_outputs(graph&, node n, std::span<const tensor> outputs) {
        for (std::size_t k = 0; k < outputs.size(); ++k) {
            n->outputs[k].shape = outputs[k].shape;
            n->outputs[k].type = outputs[k].type;
        }
    }

private:
    static bool is_encoding(const value& v) {
        return std::holds_alternative<engine::ops::encode>(v.producer->op);
    }
    static value named(graph& g, value made, const value& of, const char* what) {
        made.producer->layer = of.producer->layer;
        g.rename(made, of.producer->name + what);
        return made;
    }
};
