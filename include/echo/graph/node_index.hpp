// SPDX-License-Identifier: BSL-1.0
/// @file
/// `node_index`: at which position of the execution order each node of a host graph stands. `name_or_position`: what
/// errors call it.
#pragma once

#include <echo/error.hpp>
#include <echo/graph/concepts.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

namespace echo::detail {

/// Host node → position in execution order, through `graph_traits::index` where offered, else by hashing.
template <checked_host_graph G>
class node_index {
public:
    /// Of no node yet. The graph must outlive it.
    explicit node_index(const G& g) : graph_(g) {}

    /// The next node stands at `position`. Errors: it stands there twice, or the host's `index` says otherwise.
    void insert(const node_of<G>& n, std::size_t position) {
        if constexpr (has_index<G>) {
            if (find(n, position) != position)
                throw error("#" + std::to_string(position), "index", "is not the position in nodes()",
                            "count nodes in execution order, and list every node once");
        } else if (!map_.emplace(n, position).second) {
            throw error("#" + std::to_string(position), "nodes", "stands twice in nodes()",
                        "list every node once");
        }
    }
    /// The position, or `fallback` where the node is none of the graph's or stands later.
    std::size_t find(const node_of<G>& n, std::size_t fallback) const {
        if constexpr (has_index<G>) {
            return static_cast<std::size_t>(graph_traits<G>::index(graph_, n));
        } else {
            const auto at = map_.find(n);
            return at == map_.end() ? fallback : at->second;
        }
    }

private:
    const G& graph_;
    struct nothing {};
    template <class N>
    struct hashed {
        using type = std::unordered_map<N, std::size_t>;
    };
    typename std::conditional_t<has_index<G>, std::type_identity<nothing>, hashed<node_of<G>>>::type map_;
};

/// What errors call the node at `position`: its name where the host gives names, else `#position`.
template <checked_host_graph G>
std::string name_or_position(const G& g, const node_of<G>& n, std::size_t position) {
    if constexpr (has_name<G>)
        return std::string(std::string_view(graph_traits<G>::name(g, n)));
    else
        return "#" + std::to_string(position);
}

} // namespace echo::detail
