// SPDX-License-Identifier: BSL-1.0
/// @file
/// `snapshot` as a model of Boost.Graph's concepts, so that its algorithms run on it. Nothing is copied.
#pragma once

#include <echo/graph/snapshot.hpp>

#include <boost/graph/adjacency_iterator.hpp>
#include <boost/graph/graph_traits.hpp>
#include <boost/graph/properties.hpp>
#include <boost/iterator/iterator_facade.hpp>
#include <boost/property_map/property_map.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace echo {
namespace detail {

class vertex_iterator
    : public boost::iterator_facade<vertex_iterator, node_id, boost::random_access_traversal_tag, node_id> {
public:
    vertex_iterator() = default;
    explicit vertex_iterator(std::size_t at) : at_(static_cast<std::ptrdiff_t>(at)) {}

private:
    friend class boost::iterator_core_access;
    node_id dereference() const { return node_id(static_cast<std::size_t>(at_)); }
    bool equal(const vertex_iterator& other) const { return at_ == other.at_; }
    void increment() { ++at_; }
    void decrement() { --at_; }
    void advance(std::ptrdiff_t n) { at_ += n; }
    std::ptrdiff_t distance_to(const vertex_iterator& other) const { return other.at_ - at_; }
    std::ptrdiff_t at_ = 0;
};

class in_edge_iterator
    : public boost::iterator_facade<in_edge_iterator, use, boost::random_access_traversal_tag, use> {
public:
    in_edge_iterator() = default;
    in_edge_iterator(node_id reader, std::size_t at)
        : reader_(reader), at_(static_cast<std::ptrdiff_t>(at)) {}

private:
    friend class boost::iterator_core_access;
    use dereference() const { return {reader_, static_cast<std::uint32_t>(at_)}; }
    bool equal(const in_edge_iterator& other) const { return at_ == other.at_; }
    void increment() { ++at_; }
    void decrement() { --at_; }
    void advance(std::ptrdiff_t n) { at_ += n; }
    std::ptrdiff_t distance_to(const in_edge_iterator& other) const { return other.at_ - at_; }
    node_id reader_{};
    std::ptrdiff_t at_ = 0;
};

struct snapshot_traversal : virtual boost::bidirectional_graph_tag,
                            virtual boost::adjacency_graph_tag,
                            virtual boost::vertex_list_graph_tag,
                            virtual boost::edge_list_graph_tag {};

} // namespace detail

/// Index of a node, as Boost.Graph's vertex_index.
struct node_index_map : boost::put_get_helper<std::size_t, node_index_map> {
    using key_type = node_id;                          ///< A node.
    using value_type = std::size_t;                    ///< Its number.
    using reference = std::size_t;                     ///< Computed, not stored.
    using category = boost::readable_property_map_tag; ///< Boost's word for maps that can only be read.
    /// The node's position in execution order.
    std::size_t operator[](node_id n) const { return n.index(); }
};

} // namespace echo

namespace boost {

/// A snapshot models VertexListGraph, BidirectionalGraph, AdjacencyGraph and EdgeListGraph. Vertices are
/// nodes; an edge is a `use`: one input position of one node. Control dependencies are order, not data, and
/// no edges.
template <>
struct graph_traits<echo::snapshot> {
    using vertex_descriptor = echo::node_id;                       ///< A node of the snapshot.
    using edge_descriptor = echo::use;                             ///< One input of one node.
    using directed_category = boost::bidirectional_tag;            ///< Edges are known from both ends.
    using edge_parallel_category = boost::allow_parallel_edge_tag; ///< A node may read a value twice.
    /// What Boost.Graph's algorithms may walk over.
    using traversal_category = echo::detail::snapshot_traversal;
    using vertices_size_type = std::size_t;                  ///< Counts nodes.
    using edges_size_type = std::size_t;                     ///< Counts edges.
    using degree_size_type = std::size_t;                    ///< Counts edges of a node.
    using vertex_iterator = echo::detail::vertex_iterator;   ///< Over all nodes, in execution order.
    using edge_iterator = const echo::use*;                  ///< Over all edges, by what they read.
    using out_edge_iterator = const echo::use*;              ///< Over the readers of a node's outputs.
    using in_edge_iterator = echo::detail::in_edge_iterator; ///< Over a node's inputs.
    /// Over the nodes that read a node.
    using adjacency_iterator =
        boost::adjacency_iterator_generator<echo::snapshot, vertex_descriptor, out_edge_iterator>::type;
    /// No node.
    static constexpr vertex_descriptor null_vertex() noexcept { return vertex_descriptor::none(); }
};

/// The position in execution order numbers the nodes.
template <>
struct property_map<echo::snapshot, vertex_index_t> {
    using type = echo::node_index_map;       ///< For graphs that may change.
    using const_type = echo::node_index_map; ///< For graphs that may not.
};

} // namespace boost

namespace echo {

// All O(1), but for what Boost.Graph makes of them.
/// All nodes, in execution order. O(1).
inline auto vertices(const snapshot& s) {
    return std::pair(detail::vertex_iterator(0), detail::vertex_iterator(s.node_count()));
}
/// How many nodes there are. O(1).
inline std::size_t num_vertices(const snapshot& s) noexcept { return s.node_count(); }
/// The node that reads. O(1).
inline node_id target(const use& e, const snapshot&) noexcept { return e.reader; }
/// The node that made what is read. O(1).
inline node_id source(const use& e, const snapshot& s) { return s[s.inputs(e.reader)[e.position]].producer; }

namespace detail {
/// Uses of consecutive values lie side by side.
inline std::pair<const use*, const use*> uses_of(const snapshot& s, id_range<value_id> values) {
    if (values.empty()) return {nullptr, nullptr};
    const auto last = s.uses(values[values.size() - 1]);
    return {s.uses(values[0]).data(), last.data() + last.size()};
}
} // namespace detail

/// All edges, in the order of what they read. O(1).
inline auto edges(const snapshot& s) { return detail::uses_of(s, s.values()); }
/// How many inputs all nodes have together. O(1).
inline std::size_t num_edges(const snapshot& s) noexcept { return s.edge_count(); }
/// The readers of the node's outputs. O(1).
inline auto out_edges(node_id n, const snapshot& s) { return detail::uses_of(s, s.outputs(n)); }
/// How often outputs of the node are read. O(outputs). Errors: none.
inline std::size_t out_degree(node_id n, const snapshot& s) {
    const auto [first, last] = out_edges(n, s);
    return static_cast<std::size_t>(last - first);
}
/// The inputs of the node. O(1).
inline auto in_edges(node_id n, const snapshot& s) {
    return std::pair(detail::in_edge_iterator(n, 0), detail::in_edge_iterator(n, s.inputs(n).size()));
}
/// How many inputs the node has. O(1).
inline std::size_t in_degree(node_id n, const snapshot& s) { return s.inputs(n).size(); }
/// Inputs and readers together. O(outputs).
inline std::size_t degree(node_id n, const snapshot& s) { return in_degree(n, s) + out_degree(n, s); }
/// The nodes that read the node, once for each input. O(1). Errors: none.
inline auto adjacent_vertices(node_id n, const snapshot& s) {
    using iterator = boost::graph_traits<snapshot>::adjacency_iterator;
    const auto [first, last] = out_edges(n, s);
    return std::pair(iterator(first, &s), iterator(last, &s));
}
/// The map from nodes to their positions. O(1).
inline node_index_map get(boost::vertex_index_t, const snapshot&) noexcept { return {}; }
/// The position of one node. O(1).
inline std::size_t get(boost::vertex_index_t, const snapshot&, node_id n) noexcept { return n.index(); }

} // namespace echo
