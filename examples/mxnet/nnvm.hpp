// SPDX-License-Identifier: BSL-1.0
/// @file
/// MXNet's own passes, as far as bytes need them: the gradient graph that a set of marks leads to. Laid out by NNVM's
/// planner, which the library has, that is what `Total .. MB allocated` says, known before MXNet builds anything. Facts
/// are those of MXNet 1.9.1 with oneDNN.
///
/// What a mark does: all gradients read a copy of the marked node, and the gradient of the marked node itself reads
/// copies of what it reads. So a matrix product is marked for its gradient to read the copy of a tanh; its own copy is
/// then read by nobody, but it is in the graph, and MXNet runs it.
#pragma once

#include "host.hpp"

#include <echo/analysis/mark_search.hpp>
#include <echo/analysis/memory/arena/nnvm_plan.hpp>

#include <algorithm>
#include <utility>

namespace echo_mxnet {

using index = std::uint32_t;
using entry = echo::arena::nnvm_entry;
using echo::arena::nnvm_op;
using pairs = std::initializer_list<std::pair<index, index>>;

/// The gradient node of some ops: its inputs (g: gradient of an output, i: an input, o: an output, by number or all:
/// *), and which of them its outputs may overwrite (input, output).
struct gradient_rule {
    std::string_view ops, reads;
    pairs inplace{};
    bool identity = false; ///< lies there even if others read it
};
inline const gradient_rule gradient_rules[] = {
    {"FullyConnected", "g* i0 i1", {{1, 0}}},
    {"Convolution Concat", "g* i*"},
    {"Activation", "g* o0 i0", {{0, 0}}},
    {"Activation:relu", "g* o0", {{0, 0}}},
    {"elemwise_add", "clone"}, // of the gradient: there is no node
    {"broadcast_add broadcast_sub elemwise_sub", "g*", {{0, 0}, {0, 1}}},
    {"elemwise_mul elemwise_div broadcast_mul broadcast_div", "g* i*", {{0, 1}}},
    {"_mul_scalar _div_scalar", "g*", {{0, 0}}},
    {"_plus_scalar _minus_scalar Reshape Flatten expand_dims _copy", "g*", {{0, 0}}, true},
    {"softmax relu sigmoid tanh", "g* o*", {{0, 0}, {1, 0}}},
    {"LayerNorm", "g0 i0 i1 o1 o2"},
    {"BatchNorm", "g0 o1 o2 i0 i1 i2 i3 i4"},
    {"Pooling", "g* i* o*"},
    {"SoftmaxOutput", "o0 i1", {{0, 0}}},
    {"Embedding", "g* i0"},
    {"Dropout", "g0 o1", {{0, 0}}},
    {"SliceChannel SwapAxis transpose slice_axis", "g*"},
    {"batch_dot", "two"}, // nodes, one for each input
};
inline const gradient_rule unknown_gradient{"", "g* i* o*"};

inline const gradient_rule& gradient_of(const Node& n) {
    const std::string name = has(n, "act_type", "relu") ? n.op + ":relu" : n.op;
    for (const gradient_rule& rule : gradient_rules) {
        const std::string all = ' ' + std::string(rule.ops) + ' ';
        if (all.find(' ' + name + ' ') != all.npos) return rule;
    }
    return unknown_gradient;
}

/// The forward pass: what all sets of marks have in common. `s` was read from `g`.
struct forward_pass {
    std::vector<nnvm_op> nodes;
    std::vector<const Node*> hosts;
    std::vector<const gradient_rule*> gradients;
    std::vector<double> time_us;
    std::vector<entry> outputs;
    std::vector<index> trained; ///< variables whose gradients are asked for, in MXNet's order
    echo::markable_graph graph;

    template <class IsData>
    forward_pass(const Graph& g, const echo::snapshot& s, const IsData& is_data) : graph{.s = s} {
        const echo::run_times times = echo::times_of(s);
        for (std::size_t i = 0; i < g.size(); ++i) {
            add(*g.getNode(i), echo::node_id(i));
            time_us.push_back(times.microseconds(times.of_node[echo::node_id(i)]));
        }
        for (std::size_t i = 0; i < g.outputs.size(); ++i) { // gradients come behind them
            const echo::value_id y = s.results()[i];
            outputs.push_back({s[y].producer.index(), s.output_index(y)});
        }
        for (index n = 0; n < nodes.size(); ++n)
            if (nodes[n].variable && !statistics_[n] && !is_data(hosts[n]->name)) trained.push_back(n);
    }

private:
    void add(const Node& host, echo::node_id n) {
        const echo::snapshot& s = graph.s;
        const echo::op_facts facts = facts_of(host);
        const gradient_rule& gradient = gradient_of(host);
        nnvm_op made;
        made.variable = is_input(host);
        made.identity = !facts.views.empty();
        for (const echo::edge_source& x : s.sources(n)) made.inputs.push_back({x.producer.index(), x.output});
        for (const auto y : s.outputs(n)) made.bytes.push_back(s[y].bytes);
        for (const auto* const of : {&facts.views, &facts.inplace})
            for (const auto& p : *of) made.inplace.emplace_back(p.input, p.output);
        statistics_.push_back(false);
        if (host.op == "BatchNorm")
            for (const std::size_t k : {3, 4}) statistics_[made.inputs[k].op] = true;
        const bool may =
            !made.variable && &gradient != &unknown_gradient && s[n].rerun == echo::rerun_kind::pure;
        graph.may_be_marked.push_back(may);
        graph.mirrored.push_back(may && host.op != "Convolution" && host.op != "FullyConnected" &&
                                 host.op != "Concat" && host.op != "SoftmaxOutput");
        graph.kinds.push_back(host.op + '|' + host.attrs.at("__ext_shape__") + '|' +
                              std::string(gradient.ops));
        auto& reads = graph.gradient_reads.emplace_back();
        for (std::size_t k = 0; k < made.inputs.size(); ++k)
            if (facts.gradient_reads.inputs.contains(k)) reads.push_back(made.inputs[k].op);
        nodes.push_back(std::move(made));
        hosts.push_back(&host);
        gradients.push_back(&gradient);
    }

    std::vector<bool> statistics_; // variables that no gradient moves
};

/// The graph of a whole step under a set of marks.
class step_graph {
public:
    step_graph(const forward_pass& f, const echo::marks& marked)
        : f_(f), nodes_(f.nodes), copy_(f.nodes.size()), first_copy_(static_cast<index>(f.nodes.size())) {
        for (index n = 0; n < first_copy_; ++n) {
            copy_[n] = n;
            if (!marked[n] || !f.graph.may_be_marked[n]) continue;
            copy_[n] = add(nodes_[n]);
            original_.push_back(n);
            for (entry& e : nodes_.back().inputs) e.op = copy_[e.op];
        }
        add_gradients();
    }

    /// For MXNet's planner. Gradients that are asked for have memory of their own.
    echo::arena::nnvm_graph graph() const {
        return {.ops = nodes_, .outputs = f_.outputs, .own_memory = gradients_};
    }
    /// The nodes of which there are copies; these stand behind the forward pass, in the same order.
    const std::vector<index>& copied() const { return original_; }

private:
    index add(nnvm_op n) {
        nodes_.push_back(std::move(n));
        return static_cast<index>(nodes_.size() - 1);
    }
    index add(std::vector<entry> inputs, std::uint64_t bytes, pairs inplace = {}, bool identity = false,
              std::vector<index> control = {}) {
        return add({.inputs = std::move(inputs),
                    .control = std::move(control),
                    .bytes = {bytes},
                    .inplace = inplace,
                    .identity = identity});
    }

    void add_gradients() {
        std::vector<std::vector<std::vector<entry>>> terms(first_copy_); // by node and output
        for (index n = 0; n < first_copy_; ++n) terms[n].resize(nodes_[n].bytes.size());
        for (const entry& y : f_.outputs) {
            const auto bytes = nodes_[y.op].bytes[y.output];
            const index head = add({}, bytes);
            nodes_[head].variable = true;
            const index like = add({{head, 0}, y}, bytes, {{0, 0}}, true);
            nodes_[like].ignored = 1;
            terms[y.op][y.output] = {{like, 0}};
        }
        for (index n = first_copy_; n-- > 0;) {
            if (nodes_[n].variable) continue;
            std::vector<entry> dy;
            for (index k = 0; k < terms[n].size(); ++k) dy.push_back(total(std::move(terms[n][k]), {n, k}));
            if (nodes_[n].inputs.empty()) continue;
            const std::vector<entry> dx = differentiate(n, dy);
            for (std::size_t i = 0; i < dx.size(); ++i) {
                const entry x = nodes_[n].inputs[i];
                terms[x.op][x.output].push_back(dx[i]);
            }
        }
        for (const index x : f_.trained) {
            entry dx = total(std::move(terms[x][0]), {x, 0});
            if (std::find(gradients_.begin(), gradients_.end(), dx) != gradients_.end())
                dx = {add({dx}, nodes_[x].bytes[0], {{0, 0}}, true), 0};
            gradients_.push_back(dx);
        }
    }

    /// The gradient of an output from several: below 8 terms at once, else one by one, each behind the sum so far.
    entry total(std::vector<entry> terms, entry of) {
        const std::uint64_t bytes = nodes_[of.op].bytes[of.output];
        if (terms.empty()) return {add({}, bytes), 0};
        if (terms.size() == 1) return terms[0];
        if (terms.size() < 8) return {add(std::move(terms), bytes, {{0, 0}}), 0};
        entry sum = terms[0];
        for (std::size_t i = 1; i < terms.size(); ++i) {
            if (terms[i - 1].op != terms[i].op) nodes_[terms[i].op].control.push_back(sum.op);
            sum = {add({sum, terms[i]}, bytes, {{0, 0}, {1, 0}}), 0};
        }
        return {add({sum}, bytes, {{0, 0}}, true), 0};
    }

    /// The gradient of each input of a node from those of its outputs.
    std::vector<entry> differentiate(index node, const std::vector<entry>& dy) {
        const Node& host = *f_.hosts[node];
        const gradient_rule& rule = *f_.gradients[node];
        const index n = copy_[node];
        const std::vector<entry> x = nodes_[n].inputs;
        std::vector<std::uint64_t> bytes;
        for (const entry& e : x) bytes.push_back(nodes_[e.op].bytes[e.output]);
        if (rule.reads == "clone") return std::vector<entry>(x.size(), dy[0]);
        if (rule.reads == "two") {
            std::vector<entry> left{dy[0], x[1]}, right{x[0], dy[0]};
            const auto is = [&](const char* key) {
                return has(host, key, "True") || has(host, key, "1") || has(host, key, "true");
            };
            if (is("transpose_a")) std::swap(left[0], left[1]);
            if (is("transpose_b")) std::swap(right[0], right[1]);
            const index first = add(left, bytes[0], {}, false, {n});
            return {{first, 0}, {add(right, bytes[1], {}, false, {n}), 0}};
        }
        const index g = add({}, 0, rule.inplace, rule.identity, {n});
        for (std::size_t at = 0; at < rule.reads.size(); at += 3) {
            const char what = rule.reads[at], which = rule.reads[at + 1];
            const std::size_t all = what == 'i' ? x.size() : dy.size();
            for (std::size_t k = which == '*' ? 0 : std::size_t(which - '0'); k < all; ++k) {
                nodes_[g].inputs.push_back(what == 'g'   ? dy[k]
                                           : what == 'i' ? x[k]
                                                         : entry{n, static_cast<index>(k)});
                if (which != '*') break;
            }
        }
        if (host.op == "Pooling" && dy.size() == 2) nodes_[g].inplace = {{1, 0}};
        if (host.op == "BatchNorm" || (host.op == "FullyConnected" && x.size() > 3)) bytes.resize(3);
        std::vector<entry> dx;
        for (index i = 0; i < x.size(); ++i) dx.push_back({g, std::min<index>(i, index(bytes.size() - 1))});
        nodes_[g].bytes = std::move(bytes);
        return dx;
    }

    const forward_pass& f_;
    std::vector<nnvm_op> nodes_;
    std::vector<index> copy_;     // by node: what gradients read
    std::vector<index> original_; // of each copy
    index first_copy_;
    std::vector<entry> gradients_; // that are asked for
};

} // namespace echo_mxnet
