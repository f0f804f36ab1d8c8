// SPDX-License-Identifier: BSL-1.0
/// @file
/// `numbered_values`: a host graph as it stands when reverse mode begins. Nodes have their positions as numbers, and so
/// have values, in the order in which they are made.
#pragma once

#include <echo/graph/concepts.hpp>
#include <echo/graph/node_index.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace echo::detail {

/// The nodes of a host graph with their inputs, and a number for each value. Nodes that are added later have none.
template <checked_host_graph G>
class numbered_values {
    using traits = graph_traits<G>;
    using node = node_of<G>;
    using value = value_of<node>;

public:
    /// Errors: an input that is no value of an earlier node, a node that is listed twice. O(nodes + edges).
    explicit numbered_values(const G& g) : graph_(g), index_(g) {
        for (auto&& n : traits::nodes(g)) {
            const std::size_t position = nodes_.size();
            index_.insert(n, position);
            nodes_.push_back(n);
            first_.push_back(floating_.size());
            for (auto&& t : traits::outputs(g, n)) floating_.push_back(is_floating(tensor(t).type));
            inputs_.emplace_back();
            for (auto&& v : traits::inputs(g, n)) {
                inputs_.back().push_back(v);
                static_cast<void>(number(v, position, "inputs"));
            }
        }
        first_.push_back(floating_.size());
    }

    /// All nodes, in execution order.
    const std::vector<node>& nodes() const noexcept { return nodes_; }
    /// How many values they make.
    std::size_t count() const noexcept { return floating_.size(); }
    /// What node `n` reads.
    const std::vector<value>& inputs(std::size_t n) const { return inputs_[n]; }
    /// The outputs of node `n` have the numbers from here on, until before `first(n + 1)`.
    std::size_t first(std::size_t n) const { return first_[n]; }
    /// Whether value `v` is made of floating-point numbers.
    bool has_floating(std::size_t v) const { return floating_[v] != 0; }
    /// The number of the node that makes a value; 0 where that is none of these.
    std::size_t maker(const value& v) const { return index_.find(v.producer, 0); }

    /// The number of a value that node `reader` reads, which errors name with `key`; `nodes().size()` stands for what
    /// is no node. Errors: no value that stands before node `reader`.
    [[nodiscard]] std::size_t number(const value& v, std::size_t reader, const char* key) const {
        const std::size_t n = index_.find(v.producer, nodes_.size());
        if (n >= reader || v.output >= first_[n + 1] - first_[n])
            throw error(reader < nodes_.size() ? name(reader) : std::string(), key,
                        "names no value that is made earlier", "name an output of an earlier node");
        return first_[n] + v.output;
    }

    /// What errors call node `n`.
    std::string name(std::size_t n) const { return name_or_position(graph_, nodes_[n], n); }

private:
    const G& graph_;
    node_index<G> index_;
    std::vector<node> nodes_;
    std::vector<std::vector<value>> inputs_;
    std::vector<std::size_t> first_;
    std::vector<std::uint8_t> floating_; ///< per value
};

} // namespace echo::detail
