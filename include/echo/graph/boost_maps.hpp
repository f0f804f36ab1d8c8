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
    std::size_t output = 0, input = 0;
    friend bool operator==(const boost_edge&, const boost_edge&) = default;
};

template <class M>
struct facts_map {
    M facts;
    explicit facts_map(M m) : facts(std::move(m)) {}
};
template <class M>
struct phase_map {
    M phases;
    explicit phase_map(M m) : phases(std::move(m)) {}
};
template <class M>
struct outputs_map {
    M outputs;
    explicit outputs_map(M m) : outputs(std::move(m)) {}
};
template <class M>
struct edge_map {
    M ends;
    explicit edge_map(M m) : ends(std::move(m)) {}
};
template <class M>
struct name_map {
    M names;
    explicit name_map(M m) : names(std::move(m)) {}
};
template <class M>
struct layer_map {
    M layers;
    explicit layer_map(M m) : layers(std::move(m)) {}
};
template <class M>
struct flops_map {
    M flops;
    explicit flops_map(M m) : flops(std::move(m)) {}
};
template <class M>
struct workspace_map {
    M workspaces;
    explicit workspace_map(M m) : workspaces(std::move(m)) {}
};
template <class M>
struct time_map {
    M times;
    explicit time_map(M m) : times(std::move(m)) {}
};
template <class M>
struct keep_map {
    M keeps;
    explicit keep_map(M m) : keeps(std::move(m)) {}
};
template <class M>
struct trainable_map {
    M trainables;
    explicit trainable_map(M m) : trainables(std::move(m)) {}
};
template <class C>
struct result_list {
    C* results;
    explicit result_list(C& c) : results(&c) {}
};
template <class C>
struct order_list {
    C* order;
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
