// SPDX-License-Identifier: BSL-1.0
/// @file
/// `infer`: shapes and types of every node of a host graph, from those of its input nodes (the paper's InferShape &
/// Type pass). Needs the optional members `infer` and `set_outputs` of graph_traits.hpp.
#pragma once

#include <echo/graph/concepts.hpp>

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace echo {

/// Walks the nodes in order of execution and sets the outputs of all but input nodes; returns how many nodes changed
/// shape or type. Run again after an input changed its shape, and after new nodes came. Errors: what the host's `infer`
/// refuses, and one that infers more outputs than the node has; the error names the node. Nothing is set
/// behind the node refused. O(nodes + edges) and the host's functions.
template <inferable_graph G>
std::size_t infer(G& g) {
    using traits = graph_traits<G>;
    const G& fixed = g;
    std::vector<node_of<G>> nodes;
    for (auto&& n : traits::nodes(fixed)) nodes.push_back(n);
    std::size_t changed = 0;
    std::vector<tensor> inputs, made;
    for (std::size_t position = 0; position < nodes.size(); ++position) {
        const node_of<G>& n = nodes[position];
        if (traits::phase(fixed, n) == phase::input) continue;
        std::string name = "#" + std::to_string(position);
        if constexpr (has_name<G>) name = std::string(std::string_view(traits::name(fixed, n)));
        inputs.clear();
        for (auto&& v : traits::inputs(fixed, n)) {
            const value_of<node_of<G>> from = v;
            std::size_t k = 0;
            for (auto&& t : traits::outputs(fixed, from.producer))
                if (k++ == from.output) inputs.push_back(t);
            if (k <= from.output)
                throw error(name, "inputs",
                            "reads output " + std::to_string(from.output) + " of a node that has " +
                                std::to_string(k),
                            "name an existing output");
        }
        made.clear();
        try {
            for (auto&& t : traits::infer(fixed, n, std::span<const tensor>(inputs))) made.push_back(t);
        } catch (const error& e) {
            if (!e.node().empty()) throw;
            throw error(name, e.key(), e.problem(), e.advice());
        }
        bool differs = false;
        std::size_t k = 0;
        for (auto&& t : traits::outputs(fixed, n)) {
            const tensor is = t;
            if (k < made.size()) differs |= is.shape != made[k].shape || is.type != made[k].type;
            ++k;
        }
        if (made.size() > k)
            throw error(name, "outputs",
                        "expected at most " + std::to_string(k) + " outputs, found " +
                            std::to_string(made.size()),
                        "infer one tensor per output");
        if (!differs) continue;
        traits::set_outputs(g, n, std::span<const tensor>(made));
        ++changed;
    }
    return changed;
}

} // namespace echo
