// SPDX-License-Identifier: BSL-1.0
/// @file
/// `mirrored_copies`: copies of chosen nodes, for gradients to read in place of the nodes themselves (Chen et al.,
/// "Training Deep Nets with Sublinear Memory Cost"; NNVM's `mirror_fun`).
#pragma once

#include <echo/graph/concepts.hpp>
#include <echo/graph/node_index.hpp>
#include <echo/graph/numbered_values.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace echo::detail {

/// Made before the gradients, all behind the forward pass; moved in front of their readers when these are known.
template <differentiable_graph G>
class mirrored_copies {
    using traits = graph_traits<G>;
    using node = node_of<G>;
    using value = value_of<node>;

public:
    /// Of no node yet. Both must outlive it; `values` is of the graph as it is without copies.
    mirrored_copies(G& g, const numbered_values<G>& values) : graph_(g), values_(values) {}

    /// What the gradient of node `n` reads: its copy, or the node itself.
    const node& of(std::size_t n) const { return copies_.empty() ? values_.nodes()[n] : copies_[n]; }

    /// A copy of each chosen node behind the forward pass, reading copies where there are some. Errors: the host cannot
    /// make copies.
    void make(const std::function<bool(const node&)>& chosen) {
        if constexpr (can_clone<G> && can_move<G> && can_erase<G>) {
            const std::vector<node>& nodes = values_.nodes();
            copies_ = nodes;
            std::vector<std::vector<std::size_t>> makers(
                nodes.size()); // a host may number anew at each change
            for (std::size_t n = 0; n < nodes.size(); ++n)
                for (const value& v : values_.inputs(n)) makers[n].push_back(values_.maker(v));
            node end = nodes.back();
            for (std::size_t n = 0; n < nodes.size(); ++n) {
                const std::vector<value>& inputs = values_.inputs(n);
                if (inputs.empty() || !chosen(nodes[n])) continue;
                std::vector<value> from;
                for (std::size_t i = 0; i < inputs.size(); ++i)
                    from.push_back({copies_[makers[n][i]], inputs[i].output});
                copies_[n] = traits::clone(graph_, nodes[n], std::span<const value>(from), end);
                traits::move(graph_, end, copies_[n]);
                end = copies_[n];
                ++count_;
            }
        } else {
            throw error({}, "mirror", "the host graph cannot make copies of nodes",
                        "give graph_traits `clone`, `redirect`, `move` and `erase`");
        }
    }

    /// Copies run just before their first reader; those without one go. To be called when all gradients are there.
    void place() {
        if constexpr (can_clone<G> && can_move<G> && can_erase<G>) {
            std::vector<node> order;
            node_index<G> at(graph_);
            for (auto&& n : traits::nodes(std::as_const(graph_))) {
                at.insert(n, order.size());
                order.push_back(n);
            }
            const std::size_t first = values_.nodes().size(), behind = first + count_, none = order.size();
            // Per node: the position of the first node that is no copy and reads it, directly or through copies.
            std::vector<std::size_t> reader(order.size(), none);
            const auto note = [&](std::size_t n, std::size_t by) {
                for (auto&& v : traits::inputs(std::as_const(graph_), order[n]))
                    if (const std::size_t p = at.find(value(v).producer, none); p >= first && p < behind)
                        reader[p] = std::min(reader[p], by);
            };
            for (std::size_t n = behind; n < order.size(); ++n) note(n, n);
            for (std::size_t n = behind; n-- > first;)
                if (reader[n] != none) note(n, reader[n]);
            std::vector<std::size_t> head(order.size()); // what stands first of the group before a reader
            for (std::size_t n = 0; n < order.size(); ++n) head[n] = n;
            for (std::size_t n = behind; n-- > first;) {
                if (reader[n] == none) {
                    traits::erase(graph_, order[n]);
                } else {
                    traits::move(graph_, order[n], order[head[reader[n]]]);
                    head[reader[n]] = n;
                }
            }
        }
    }

private:
    G& graph_;
    const numbered_values<G>& values_;
    std::vector<node> copies_; ///< per node: its copy, or itself; empty before any was made
    std::size_t count_ = 0;    ///< how many are copies
};

} // namespace echo::detail
