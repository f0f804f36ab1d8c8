// SPDX-License-Identifier: BSL-1.0
/// @file
/// `gradient`: reverse mode over a host graph, by the host's own gradient functions (the paper's Gradient pass, NNVM's
/// of the same name). Needs the optional members `gradient`, `seed` and `sum` of graph_traits.hpp. With a mirror hook
/// the gradients of chosen nodes read copies of them, made again in the backward pass (Chen et al., "Training Deep
/// Nets with Sublinear Memory Cost"). What a gradient function reads can be recorded: gradient_reads.hpp, which is
/// included here.
#pragma once

#include <echo/graph/concepts.hpp>
#include <echo/graph/gradient_reads.hpp>
#include <echo/graph/gradient_sums.hpp>
#include <echo/graph/mirrored_copies.hpp>
#include <echo/graph/numbered_values.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace echo {

/// What `gradient` is asked for.
template <class G>
struct gradient_options {
    /// Whether the gradients of a node read a copy of it (NNVM's `mirror_fun`). Needs `clone`, `move` and `erase`.
    std::function<bool(const node_of<G>&)> mirror{};
};

namespace detail {

/// One run of reverse mode over a graph.
template <differentiable_graph G>
class differentiator {
    using traits = graph_traits<G>;
    using node = node_of<G>;
    using value = value_of<node>;

public:
    /// Reads the graph as it is now. It must outlive this. Errors: as `numbered_values`.
    explicit differentiator(G& g) : graph_(g), values_(g), sums_(g, values_.count()), copies_(g, values_) {}
    differentiator(const differentiator&) = delete; // parts refer to each other

    /// As `gradient`. To be called once.
    [[nodiscard]] std::vector<std::optional<value>> run(std::span<const value> ys, std::span<const value> xs,
                                                        const gradient_options<G>& options) {
        const std::size_t all = values_.nodes().size();
        find_paths(ys, xs);
        if (options.mirror) copies_.make(options.mirror);
        for (const value& y : ys)
            if (const std::size_t v = values_.number(y, all, "ys"); needed_[v])
                sums_.add(v, y, traits::seed(graph_, y));
        for (std::size_t n = all; n-- > 0;)
            if (reached_[n] && !values_.inputs(n).empty()) differentiate(n);
        std::vector<std::optional<value>> made;
        for (const value& x : xs) made.push_back(sums_.total(values_.number(x, all, "xs"), x));
        if (options.mirror) copies_.place();
        return made;
    }

private:
    /// Values on a way from an x to a y, and how many gradients each may get.
    void find_paths(std::span<const value> ys, std::span<const value> xs) {
        const std::size_t all = values_.nodes().size();
        needed_.assign(values_.count(), 0);
        reached_.assign(all, 0);
        std::vector<std::uint8_t> wanted(values_.count(), 0);
        for (const value& x : xs) needed_[values_.number(x, all, "xs")] = 1;
        for (std::size_t n = 0; n < all; ++n) {
            bool depends = false;
            for (const value& v : values_.inputs(n)) depends |= needed_[values_.number(v, n, "inputs")] != 0;
            if (depends)
                for (std::size_t v = values_.first(n); v < values_.first(n + 1); ++v)
                    needed_[v] |= values_.has_floating(v);
        }
        for (const value& y : ys) {
            const std::size_t v = values_.number(y, all, "ys");
            wanted[v] = 1, sums_.expect_one(v);
        }
        for (std::size_t n = all; n-- > 0;) {
            for (std::size_t v = values_.first(n); v < values_.first(n + 1); ++v)
                if (wanted[v] && needed_[v]) reached_[n] = 1;
            if (!reached_[n]) continue;
            for (const value& x : values_.inputs(n))
                if (const std::size_t v = values_.number(x, n, "inputs"); needed_[v])
                    wanted[v] = 1, sums_.expect_one(v);
        }
    }

    /// Passes the gradients of the outputs of node `n` on to its inputs.
    void differentiate(std::size_t n) {
        std::vector<std::optional<value>> dy;
        bool any = false;
        for (std::size_t v = values_.first(n); v < values_.first(n + 1); ++v) {
            dy.push_back(sums_.total(v, value{values_.nodes()[n], v - values_.first(n)}));
            any |= dy.back().has_value();
        }
        if (!any) return;
        const std::vector<value>& inputs = values_.inputs(n);
        std::size_t i = 0;
        for (auto&& made :
             traits::gradient(graph_, copies_.of(n), std::span<const std::optional<value>>(dy))) {
            const std::optional<value> dx(made);
            if (i < inputs.size() && dx)
                if (const std::size_t v = values_.number(inputs[i], n, "inputs"); needed_[v])
                    sums_.add(v, inputs[i], *dx);
            ++i;
        }
        if (i != inputs.size())
            throw error(values_.name(n), "gradient",
                        "gives " + std::to_string(i) + " gradients for " + std::to_string(inputs.size()) +
                            " inputs",
                        "give one per input, empty where nothing flows");
    }

    G& graph_;
    numbered_values<G> values_;
    gradient_sums<G> sums_;
    mirrored_copies<G> copies_;
    std::vector<std::uint8_t> needed_;  ///< per value: a gradient of it is asked for, directly or on the way
    std::vector<std::uint8_t> reached_; ///< per node: a gradient may come to it
};

} // namespace detail

/// Appends gradient nodes and returns, for each of `xs`, the gradient of the sum of all `ys` with respect to it;
/// nothing where none depends on it. Forward nodes are taken in reverse order; several gradients of a value are summed
/// by `sum`, or one by one by `accumulate` where 8 or more may come (as NNVM does). Nodes that turn out to be read by
/// nobody stay for `erase_dead_nodes`. Requires the forward nodes in order, the last node no gradient node.
/// Errors: a y or an x that is no value of the graph; a gradient function that gives another number of gradients than
/// the node has inputs; a mirror hook for a host that cannot copy; what the host throws. O(nodes + edges) and the
/// host's functions.
template <detail::checked_host_graph G>
    requires differentiable_graph<G>
std::vector<std::optional<value_of<node_of<G>>>> gradient(G& g, std::span<const value_of<node_of<G>>> ys,
                                                          std::span<const value_of<node_of<G>>> xs,
                                                          const gradient_options<G>& options = {}) {
    return detail::differentiator<G>(g).run(ys, xs, options);
}

} // namespace echo
