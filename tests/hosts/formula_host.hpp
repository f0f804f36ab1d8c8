// SPDX-License-Identifier: BSL-1.0
/// @file
/// A host whose values are single numbers: formulas that can be evaluated, with the least that `echo::gradient` needs
/// and, where asked for, copies.
#pragma once

#include <echo/graph/gradient.hpp>

#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace hosts {

enum class formula_op { input, one, add, multiply, tanh, tanh_gradient, halves, index, stop, wrong };

struct formula_host {
    using node = int;
    using value = echo::value_of<node>;
    struct record {
        formula_op op;
        std::vector<value> inputs;
        echo::phase phase;
    };

    std::map<node, record> all;
    std::vector<node> order;
    std::vector<value> results;
    std::size_t sums = 0, chained = 0; ///< calls of `sum` and `accumulate`
    echo::phase phase = echo::phase::forward;

    node insert(record r, std::vector<node>::iterator before) {
        const node n = static_cast<node>(all.size());
        all.emplace(n, std::move(r));
        order.insert(before, n);
        return n;
    }
    value add(formula_op op, std::vector<value> inputs = {}) {
        const auto p = op == formula_op::input ? echo::phase::input : phase;
        return {insert({op, std::move(inputs), p}, order.end()), 0};
    }
    auto place(node n) { return std::find(order.begin(), order.end(), n); }
    std::size_t count(formula_op op) const {
        std::size_t found = 0;
        for (const node n : order) found += all.at(n).op == op;
        return found;
    }

    /// The value of `v` for these inputs; each node is computed from what stands before it.
    double evaluate(const std::map<node, double>& given, value v) const {
        std::map<std::pair<node, std::size_t>, double> made;
        for (const node n : order) {
            const record& r = all.at(n);
            const auto x = [&](std::size_t i) {
                return made.at({r.inputs.at(i).producer, r.inputs.at(i).output});
            };
            switch (r.op) {
            case formula_op::input:
                made[{n, 0}] = given.at(n);
                break;
            case formula_op::one:
                made[{n, 0}] = 1;
                break;
            case formula_op::add:
                made[{n, 0}] = 0;
                for (std::size_t i = 0; i < r.inputs.size(); ++i) made[{n, 0}] += x(i);
                break;
            case formula_op::multiply:
                made[{n, 0}] = x(0) * x(1);
                break;
            case formula_op::tanh:
                made[{n, 0}] = std::tanh(x(0));
                break;
            case formula_op::tanh_gradient:
                made[{n, 0}] = x(0) * (1 - x(1) * x(1));
                break;
            case formula_op::halves: // ½ x and ½ x²
                made[{n, 0}] = x(0) / 2;
                made[{n, 1}] = x(0) * x(0) / 2;
                break;
            case formula_op::index:
            case formula_op::stop:
            case formula_op::wrong:
                made[{n, 0}] = x(0);
                break;
            }
        }
        return made.at({v.producer, v.output});
    }
};

/// The same host, with copies.
struct copying_formula_host : formula_host {};

} // namespace hosts

template <>
struct echo::graph_traits<hosts::formula_host> {
    using graph = hosts::formula_host;
    using node = graph::node;
    using value = graph::value;
    using op = hosts::formula_op;

    static const auto& nodes(const graph& g) { return g.order; }
    static const auto& inputs(const graph& g, node n) { return g.all.at(n).inputs; }
    static std::vector<tensor> outputs(const graph& g, node n) {
        const op o = g.all.at(n).op;
        const tensor t{.shape = {1}, .type = o == op::index ? dtype::i32 : dtype::f32};
        return std::vector<tensor>(o == op::halves ? 2 : 1, t);
    }
    static echo::phase phase(const graph& g, node n) { return g.all.at(n).phase; }
    static const auto& results(const graph& g) { return g.results; }
    static op_facts facts(const graph& g, node n) {
        op_facts f{.kind = op_kind::light, .rerun = rerun_kind::pure};
        if (g.all.at(n).op == op::tanh_gradient) f.one_bit_inputs = {1}; // not so, but the test sees it
        return f;
    }

    static std::vector<std::optional<value>> gradient(graph& g, node n,
                                                      std::span<const std::optional<value>> dy) {
        g.phase = echo::phase::backward;
        const auto x = g.all.at(n).inputs;
        switch (g.all.at(n).op) {
        case op::add:
            return std::vector<std::optional<value>>(x.size(), dy[0]);
        case op::multiply: {
            const value a = g.add(op::multiply, {*dy[0], x[1]});
            return {a, g.add(op::multiply, {*dy[0], x[0]})};
        }
        case op::tanh:
            return {g.add(op::tanh_gradient, {*dy[0], value{n, 0}})};
        case op::halves: {
            std::vector<value> terms;
            const value half = g.add(op::halves, {g.add(op::one)});
            if (dy[0]) terms.push_back(g.add(op::multiply, {*dy[0], half}));
            if (dy[1]) terms.push_back(g.add(op::multiply, {*dy[1], x[0]}));
            return {g.add(op::add, terms)};
        }
        case op::wrong:
            return {};
        default:
            return std::vector<std::optional<value>>(x.size());
        }
    }
    static value seed(graph& g, value) {
        g.phase = echo::phase::backward;
        return g.add(op::one);
    }
    static value sum(graph& g, value, std::span<const value> terms) {
        ++g.sums;
        return g.add(op::add, {terms.begin(), terms.end()});
    }
};

template <>
struct echo::graph_traits<hosts::copying_formula_host> : echo::graph_traits<hosts::formula_host> {
    using graph = hosts::copying_formula_host;
    static value accumulate(graph& g, value, value sum, value term) {
        ++g.chained;
        return g.add(op::add, {sum, term});
    }
    static node clone(graph& g, node n, std::span<const value> inputs, node before) {
        auto copy = g.all.at(n);
        copy.inputs.assign(inputs.begin(), inputs.end());
        return g.insert(std::move(copy), g.place(before));
    }
    static void redirect(graph& g, node reader, std::size_t input, value v) {
        g.all.at(reader).inputs[input] = v;
    }
    static void move(graph& g, node n, node before) {
        g.order.erase(g.place(n));
        g.order.insert(g.place(before), n);
    }
    static void erase(graph& g, node n) { g.order.erase(g.place(n)); }
};
