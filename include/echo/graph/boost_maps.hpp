// SPDX-License-Identifier: BSL-1.0
/// @file
/// Named property maps: what `boost_graph` (boost_graph.hpp) is told of a Boost.Graph graph.
///
/// Named property maps of `boost_graph`, in any order; `M` is a property map over vertices unless noted
///   facts_map(M)       -> op_facts           required
///   phase_map(M)       -> phase              required
///   outputs_map(M)     -> range of tensor    required
///   edge_map(M)        -> boost_edge         required; over edges
///   result_list(c)     container of value_of<vertex>, required; referred to, not copied
///   order_list(c)      vector or list of vertices in execution order; referred to, not copied. Without it
///                      the order is topological, and the graph is not rewritten
///   name_map, layer_map, flops_map, workspace_map, time_map, keep_map, trainable_map: as in graph_traits.hpp
#pragma once

#include <echo/graph/graph_traits.hpp>

#include <boost/property_map/property_map.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace echo {

/// What an edge carries: output `output` of its source to input `input` of its target, or nothing but order.
struct boost_edge {
    static constexpr std::size_t control = ~std::size_t{0}; ///< as `input`: the source has to run before
    std::size_t output = 0, input = 0;                      ///< Positions, from 0.
    friend bool operator==(const boost_edge&, const boost_edge&) = default;
};

/// The op's facts of each vertex.
template <class M>
struct facts_map {
    M facts; ///< Over vertices; gives `op_facts`.
    /// Takes the map over.
    explicit facts_map(M m) : facts(std::move(m)) {}
};
/// What each vertex is for.
template <class M>
struct phase_map {
    M phases; ///< Over vertices; gives `phase`.
    /// Takes the map over.
    explicit phase_map(M m) : phases(std::move(m)) {}
};
/// What each vertex makes.
template <class M>
struct outputs_map {
    M outputs; ///< Over vertices; gives a range of `tensor`.
    /// Takes the map over.
    explicit outputs_map(M m) : outputs(std::move(m)) {}
};
/// What each edge carries.
template <class M>
struct edge_map {
    M ends; ///< Over edges; gives `boost_edge`.
    /// Takes the map over.
    explicit edge_map(M m) : ends(std::move(m)) {}
};
/// What reports call each vertex.
template <class M>
struct name_map {
    M names; ///< Over vertices; gives a string.
    /// Takes the map over.
    explicit name_map(M m) : names(std::move(m)) {}
};
/// The layer that reports count each vertex to.
template <class M>
struct layer_map {
    M layers; ///< Over vertices; gives a string.
    /// Takes the map over.
    explicit layer_map(M m) : layers(std::move(m)) {}
};
/// Floating-point operations of each vertex.
template <class M>
struct flops_map {
    M flops; ///< Over vertices; gives a number of operations.
    /// Takes the map over.
    explicit flops_map(M m) : flops(std::move(m)) {}
};
/// Scratch memory of each vertex.
template <class M>
struct workspace_map {
    M workspaces; ///< Over vertices; gives bytes.
    /// Takes the map over.
    explicit workspace_map(M m) : workspaces(std::move(m)) {}
};
/// Measured times.
template <class M>
struct time_map {
    M times; ///< Over vertices; gives microseconds, or nothing.
    /// Takes the map over.
    explicit time_map(M m) : times(std::move(m)) {}
};
/// Which vertices are never run again.
template <class M>
struct keep_map {
    M keeps; ///< Over vertices; gives a truth.
    /// Takes the map over.
    explicit keep_map(M m) : keeps(std::move(m)) {}
};
/// Which inputs of a forward-only graph want gradients.
template <class M>
struct trainable_map {
    M trainables; ///< Over vertices; gives a truth.
    /// Takes the map over.
    explicit trainable_map(M m) : trainables(std::move(m)) {}
};
/// What must exist at the end.
template <class C>
struct result_list {
    C* results; ///< Referred to; holds `value_of<vertex>`.
    /// Refers to the container, which must outlive it.
    explicit result_list(C& c) : results(&c) {}
};
/// The execution order.
template <class C>
struct order_list {
    C* order; ///< Referred to; a vector or list of vertices.
    /// Refers to the container, which must outlive it.
    explicit order_list(C& c) : order(&c) {}
};

namespace detail {

/// A pointer is a map too, over vertices that are numbers.
template <class M, class K>
decltype(auto) look_up(const M& map, const K& key) {
    if constexpr (std::is_pointer_v<M>)
        return map[key];
    else
        return get(map, key);
}

template <class T>
inline constexpr bool is_order_list = false;
template <class C>
inline constexpr bool is_order_list<order_list<C>> = true;

template <class M>
using mapped_t = typename boost::property_traits<M>::value_type;

/// `put` of a property map over const data does not fail softly, so ask the map itself.
template <class M>
concept writable_map =
    std::convertible_to<typename boost::property_traits<M>::category, boost::writable_property_map_tag> &&
    (!std::is_reference_v<typename boost::property_traits<M>::reference> ||
     !std::is_const_v<std::remove_reference_t<typename boost::property_traits<M>::reference>>);

} // namespace detail

} // namespace echo
