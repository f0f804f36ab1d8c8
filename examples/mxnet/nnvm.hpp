// SPDX-License-Identifier: BSL-1.0
/// @file
/// MXNet's own passes, as far as bytes need them: the gradient graph that a set of marks leads to, in the order in
/// which MXNet runs it, and the pool that its memory planner lays it into. What `Total .. MB allocated` says is known
/// here before MXNet builds anything. Facts are those of MXNet 1.9.1 with oneDNN.
///
/// What a mark does: all gradients read a copy of the marked node, and the gradient of the marked node itself reads
/// copies of what it reads. So a matrix product is marked for its gradient to read the copy of a tanh; its own copy is
/// then read by nobody, but it is in the graph, and MXNet runs it.
#pragma once

#include "host.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace echo_mxnet {

using index = std::uint32_t;
struct entry {
    index node = 0, output = 0;
    friend auto operator<=>(const entry&, const entry&) = default;
};
using pairs = std::initializer_list<std::pair<index, index>>;

/// The gradient node of an op: its inputs (g: gradient of an output, i: an input, o: an output, by number or all: *),
/// and which of them its outputs may overwrite (input, output).
struct gradient_rule {
    std::string_view op, reads;
    pairs inplace{};
    bool identity = false; ///< lies there even if others read it
};
inline const gradient_rule gradient_rules[] = {
    {"FullyConnected", "g* i0 i1", {{1, 0}}},
    {"Convolution", "g* i*"},
    {"Activation", "g* o0 i0", {{0, 0}}},
    {"Activation relu", "g* o0", {{0, 0}}},
    {"elemwise_add", "clone"},
    {"broadcast_add", "g*", {{0, 0}, {0, 1}}},
    {"broadcast_sub", "g*", {{0, 0}, {0, 1}}},
    {"elemwise_sub", "g*", {{0, 0}, {0, 1}}},
    {"elemwise_mul", "g* i*", {{0, 1}}},
    {"elemwise_div", "g* i*", {{0, 1}}},
    {"broadcast_mul", "g* i*", {{0, 1}}},
    {"broadcast_div", "g* i*", {{0, 1}}},
    {"_mul_scalar", "g*", {{0, 0}}},
    {"_div_scalar", "g*", {{0, 0}}},
    {"_plus_scalar", "g*", {{0, 0}}, true},
    {"_minus_scalar", "g*", {{0, 0}}, true},
    {"softmax", "g* o*", {{0, 0}, {1, 0}}},
    {"relu", "g* o*", {{0, 0}, {1, 0}}},
    {"sigmoid", "g* o*", {{0, 0}, {1, 0}}},
    {"tanh", "g* o*", {{0, 0}, {1, 0}}},
    {"LayerNorm", "g0 i0 i1 o1 o2"},
    {"BatchNorm", "g0 o1 o2 i0 i1 i2 i3 i4"},
    {"Pooling", "g* i* o*"},
    {"SoftmaxOutput", "o0 i1", {{0, 0}}},
    {"Concat", "g0 i*"},
    {"Embedding", "g* i0"},
    {"Dropout", "g0 o1", {{0, 0}}},
    {"SliceChannel", "g*"},
    {"SwapAxis", "g*"},
    {"transpose", "g*"},
    {"slice_axis", "g*"},
    {"Reshape", "g*", {{0, 0}}, true},
    {"Flatten", "g*", {{0, 0}}, true},
    {"expand_dims", "g*", {{0, 0}}, true},
    {"_copy", "g*", {{0, 0}}, true},
    {"batch_dot", "two"},
    {"", "g* i* o*"}, // of an op that is not known
};

inline const gradient_rule* gradient_of(const Node& n) {
    const auto act = n.attrs.find("act_type");
    const std::string_view name = act != n.attrs.end() && act->second == "relu" ? "Activation relu" : n.op;
    return std::find_if(std::begin(gradient_rules), std::end(gradient_rules) - 1,
                        [&](const gradient_rule& r) { return r.op == name; });
}

/// A node as the passes see it.
struct pass_node {
    std::vector<entry> inputs{};
    std::vector<index> control{};
    std::vector<std::uint64_t> elements{}; ///< of each output
    std::vector<std::pair<index, index>> inplace{};
    bool identity = false, variable = false;
    bool stops_unwanted = false; ///< does nothing at all where its first output is not read
    index ignored = ~index{0};   ///< an input that is not read
    double time_us = 0;
};

/// The forward pass: what all sets of marks have in common. Errors: a shape is missing; a value of a later node.
class forward_pass {
public:
    struct details {
        const Node* host;
        const gradient_rule* gradient;
        echo::op_facts facts;
        bool markable;
    };
    std::vector<pass_node> nodes;
    std::vector<details> of;
    std::vector<entry> outputs;
    std::vector<index> trained; ///< variables whose gradients are asked for, in MXNet's order

    template <class IsData>
    forward_pass(const Graph& g, const echo::device_model& device, const IsData& is_data) {
        std::map<const Node*, index> place;
        std::vector<echo::tensor> in, out;
        std::vector<index> auxiliary;
        for (std::size_t i = 0; i < g.size(); ++i) {
            const Node& n = *g.getNode(i);
            pass_node made{.variable = is_input(n)};
            in.clear();
            for (const auto& e : n.inputs) {
                made.inputs.push_back({place.at(e.node), static_cast<index>(e.entry)});
                in.push_back(outputs_of(*e.node).at(static_cast<std::size_t>(e.entry)));
            }
            out = outputs_of(n);
            double bytes = 0;
            for (const auto& t : in) bytes += static_cast<double>(echo::byte_count(t));
            for (const auto& t : out) {
                made.elements.push_back(echo::element_count(t.shape));
                bytes += static_cast<double>(echo::byte_count(t));
            }
            const echo::op_facts facts = facts_of(n);
            made.stops_unwanted = n.op == "LayerNorm";
            for (const auto& p : facts.views)
                made.inplace.emplace_back(p.input, p.output), made.identity = true;
            for (const auto& p : facts.inplace) made.inplace.emplace_back(p.input, p.output);
            if (!made.variable && facts.kind != echo::op_kind::view)
                made.time_us = device.launch_us + bytes / device.bytes_per_us +
                               (facts.flops ? facts.flops(in, out) / device.flops_per_us : 0);
            if (n.op == "BatchNorm")
                auxiliary.insert(auxiliary.end(), {made.inputs[3].node, made.inputs[4].node});
            const gradient_rule* const rule = gradient_of(n);
            const bool known = facts.known && !rule->op.empty();
            place[&n] = static_cast<index>(nodes.size());
            nodes.push_back(std::move(made));
            of.push_back({&n, rule, facts, !is_input(n) && known && facts.rerun == echo::rerun_kind::pure});
        }
        for (const auto& e : g.outputs) outputs.push_back({place.at(e.node), static_cast<index>(e.entry)});
        for (index n = 0; n < nodes.size(); ++n)
            if (nodes[n].variable && !is_data(of[n].host->name) &&
                std::find(auxiliary.begin(), auxiliary.end(), n) == auxiliary.end())
                trained.push_back(n);
    }
};

using marks = std::vector<bool>; ///< by forward node

/// The graph of a whole step under a set of marks.
class step_graph {
public:
    std::vector<pass_node> nodes;
    std::vector<entry> outputs;
    std::size_t results = 0; ///< outputs that are no gradients
    index first_copy = 0, behind_copies = 0;

    step_graph(const forward_pass& f, const marks& marked) : nodes(f.nodes), outputs(f.outputs) {
        const auto count = static_cast<index>(nodes.size());
        results = outputs.size();
        std::vector<index> copy(count); // what gradients read
        first_copy = count;
        for (index n = 0; n < count; ++n) {
            copy[n] = n;
            if (!marked[n] || !f.of[n].markable) continue;
            copy[n] = add(nodes[n]);
            for (entry& e : nodes.back().inputs) e.node = copy[e.node];
        }
        behind_copies = static_cast<index>(nodes.size());

        std::vector<std::vector<std::vector<entry>>> terms(count); // by node and output
        for (index n = 0; n < count; ++n) terms[n].resize(nodes[n].elements.size());
        for (const entry& y : f.outputs) {
            const auto size = nodes[y.node].elements[y.output];
            const index head = add({.elements = {size}, .variable = true});
            const index like = add({.inputs = {{head, 0}, y},
                                    .elements = {size},
                                    .inplace = {{0, 0}},
                                    .identity = true,
                                    .ignored = 1});
            terms[y.node][y.output] = {{like, 0}};
        }
        for (index n = count; n-- > 0;) {
            if (nodes[n].variable) continue;
            std::vector<entry> dy;
            for (index k = 0; k < terms[n].size(); ++k)
                dy.push_back(total(std::move(terms[n][k]), nodes[n].elements[k]));
            if (nodes[n].inputs.empty()) continue;
            const std::vector<entry> dx = differentiate(f.of[n], copy[n], dy);
            for (std::size_t i = 0; i < dx.size(); ++i) {
                const entry x = nodes[n].inputs[i];
                terms[x.node][x.output].push_back(dx[i]);
            }
        }
        for (const index x : f.trained) {
            entry dx = total(std::move(terms[x][0]), nodes[x].elements[0]);
            if (std::find(outputs.begin() + static_cast<std::ptrdiff_t>(results), outputs.end(), dx) !=
                outputs.end())
                dx = {add({.inputs = {dx},
                           .elements = nodes[x].elements,
                           .inplace = {{0, 0}},
                           .identity = true}),
                      0};
            outputs.push_back(dx);
        }
    }

    /// The order in which MXNet numbers and runs the nodes: depth first from the outputs, control behind inputs.
    std::vector<index> order() const {
        std::vector<index> found;
        std::vector<std::uint8_t> seen(nodes.size(), 0);
        std::vector<std::pair<index, std::size_t>> path;
        const auto enter = [&](index n) {
            if (!std::exchange(seen[n], 1)) path.emplace_back(n, 0);
        };
        for (const entry& y : outputs) {
            enter(y.node);
            while (!path.empty()) {
                auto& [n, next] = path.back();
                const pass_node& at = nodes[n];
                if (next == at.inputs.size() + at.control.size()) {
                    found.push_back(n);
                    path.pop_back();
                } else {
                    const std::size_t i = next++;
                    enter(i < at.inputs.size() ? at.inputs[i].node : at.control[i - at.inputs.size()]);
                }
            }
        }
        return found;
    }

private:
    index add(pass_node n) {
        nodes.push_back(std::move(n));
        return static_cast<index>(nodes.size() - 1);
    }

    /// One gradient from several: below 8 terms at once, else one by one, each behind the sum so far.
    entry total(std::vector<entry> terms, std::uint64_t size) {
        if (terms.empty()) return {add({.elements = {size}}), 0};
        if (terms.size() == 1) return terms[0];
        if (terms.size() < 8)
            return {add({.inputs = std::move(terms), .elements = {size}, .inplace = {{0, 0}}}), 0};
        entry sum = terms[0];
        for (std::size_t i = 1; i < terms.size(); ++i) {
            if (terms[i - 1].node != terms[i].node) nodes[terms[i].node].control.push_back(sum.node);
            sum = {add({.inputs = {sum, terms[i]}, .elements = {size}, .inplace = {{0, 0}, {1, 0}}}), 0};
        }
        return {add({.inputs = {sum}, .elements = {size}, .inplace = {{0, 0}}, .identity = true}), 0};
    }

    /// The gradient of each input of a node; `n` is the node or its copy.
    std::vector<entry> differentiate(const forward_pass::details& d, index n, const std::vector<entry>& dy) {
        const std::vector<entry> x = nodes[n].inputs;
        std::vector<std::uint64_t> sizes;
        for (const entry& e : x) sizes.push_back(nodes[e.node].elements[e.output]);
        const gradient_rule& rule = *d.gradient;
        if (rule.reads == "clone") return std::vector<entry>(x.size(), dy[0]);
        if (rule.reads == "two") {
            const auto has = [&](const char* key) {
                const auto at = d.host->attrs.find(key);
                return at != d.host->attrs.end() &&
                       (at->second == "True" || at->second == "1" || at->second == "true");
            };
            const bool a = has("transpose_a"), b = has("transpose_b");
            std::vector<entry> left{dy[0], x[1]}, right{x[0], dy[0]};
            if (a) std::swap(left[0], left[1]);
            if (b) std::swap(right[0], right[1]);
            const index first = add({.inputs = left, .control = {n}, .elements = {sizes[0]}});
            const index second = add({.inputs = right, .control = {n}, .elements = {sizes[1]}});
            return {{first, 0}, {second, 0}};
        }
        pass_node made{.control = {n}, .elements = sizes, .identity = rule.identity};
        made.inplace.assign(rule.inplace.begin(), rule.inplace.end());
        for (std::size_t at = 0; at < rule.reads.size(); at += 3) {
            const char what = rule.reads[at], which = rule.reads[at + 1];
            const std::size_t all = what == 'i' ? x.size() : dy.size();
            for (std::size_t k = which == '*' ? 0 : std::size_t(which - '0'); k < all; ++k) {
                made.inputs.push_back(what == 'g'   ? dy[k]
                                      : what == 'i' ? x[k]
                                                    : entry{n, static_cast<index>(k)});
                if (which != '*') break;
            }
        }
        if (d.host->op == "Pooling" && dy.size() == 2) made.inplace = {{1, 0}};
        if (d.host->op == "BatchNorm" || (d.host->op == "FullyConnected" && x.size() > 3))
            made.elements.resize(3);
        const index g = add(std::move(made));
        std::vector<entry> dx;
        for (index i = 0; i < x.size(); ++i)
            dx.push_back({g, std::min<index>(i, index(nodes[g].elements.size() - 1))});
        return dx;
    }
};

} // namespace echo_mxnet
