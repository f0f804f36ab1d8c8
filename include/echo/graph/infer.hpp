// SPDX-License-Identifier: BSL-1.0
/// @file
/// `infer`: shapes and types of every node of a host graph, from those of its input nodes (the paper's InferShape &
/// Type pass). Needs the optional members `infer` and `set_outputs` of graph_traits.hpp.
#pragma once

#include <echo/graph/concepts.hpp>
#include <echo/graph/node_index.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace echo {
namespace detail {

/// One walk over a graph, node by node; what it reads and makes for a node is kept until the next.
template <inferable_graph G>
class shape_inference {
    using traits = graph_traits<G>;
    using node = node_of<G>;

public:
    /// The graph must outlive it.
    explicit shape_inference(G& g) : graph_(g) {}

    /// As `echo::infer`.
    std::size_t run() {
        std::vector<node> nodes;
        for (auto&& n : traits::nodes(fixed())) nodes.push_back(n);
        std::size_t changed = 0;
        for (std::size_t position = 0; position < nodes.size(); ++position) {
            const node& n = nodes[position];
            if (traits::phase(fixed(), n) == phase::input) continue;
            const std::string name = name_or_position(fixed(), n, position);
            read_inputs(n, name);
            infer_outputs(n, name);
            if (!outputs_differ(n, name)) continue;
            traits::set_outputs(graph_, n, std::span<const tensor>(made_));
            ++changed;
        }
        return changed;
    }

private:
    const G& fixed() const noexcept { return graph_; }

    /// Errors: an output that its node does not have.
    void read_inputs(const node& n, const std::string& name) {
        inputs_.clear();
        for (auto&& v : traits::inputs(fixed(), n)) {
            const value_of<node> from = v;
            std::size_t k = 0;
            for (auto&& t : traits::outputs(fixed(), from.producer))
                if (k++ == from.output) inputs_.push_back(t);
            if (k <= from.output)
                throw error(name, "inputs",
                            "reads output " + std::to_string(from.output) + " of a node that has " +
                                std::to_string(k),
                            "name an existing output");
        }
    }

    /// Asks the host. Errors: what it refuses, with the node's name where it gave none.
    void infer_outputs(const node& n, const std::string& name) {
        made_.clear();
        try {
            for (auto&& t : traits::infer(fixed(), n, std::span<const tensor>(inputs_))) made_.push_back(t);
        } catch (const error& e) {
            if (!e.node().empty()) throw;
            throw error(name, e.key(), e.problem(), e.advice());
        }
    }

    /// Whether the outputs have another shape or type than was inferred. Errors: more was inferred than there are.
    bool outputs_differ(const node& n, const std::string& name) const {
        bool differs = false;
        std::size_t k = 0;
        for (auto&& t : traits::outputs(fixed(), n)) {
            const tensor is = t;
            if (k < made_.size()) differs |= is.shape != made_[k].shape || is.type != made_[k].type;
            ++k;
        }
        if (made_.size() > k)
            throw error(name, "outputs",
                        "expected at most " + std::to_string(k) + " outputs, found " +
                            std::to_string(made_.size()),
                        "infer one tensor per output");
        return differs;
    }

    G& graph_;
    std::vector<tensor> inputs_, made_;
};

} // namespace detail

/// Walks the nodes in order of execution and sets the outputs of all but input nodes; returns how many nodes changed
/// shape or type. Run again after an input changed its shape, and after new nodes came. Errors: what the host's `infer`
/// refuses, and one that infers more outputs than the node has; the error names the node. Nothing is set
/// behind the node refused. O(nodes + edges) and the host's functions.
template <detail::checked_host_graph G>
    requires inferable_graph<G>
std::size_t infer(G& g) {
    return detail::shape_inference<G>(g).run();
}

} // namespace echo
