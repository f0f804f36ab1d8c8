// SPDX-License-Identifier: BSL-1.0
/// @file
/// What `graph_traits` must and may offer, as concepts. What follows for planning: abilities.hpp.
#pragma once

#include <echo/graph/optional_members.hpp>

#include <concepts>
#include <cstddef>
#include <string_view> // std::hash

namespace echo {

namespace detail {

template <class G>
concept names_node_type = requires { typename graph_traits<G>::node; };

template <class G>
concept has_required_members =
    names_node_type<G> && std::copyable<node_of<G>> && std::equality_comparable<node_of<G>> &&
    requires(const G& g, const node_of<G>& n) {
        { graph_traits<G>::nodes(g) } -> range_of<node_of<G>>;
        { graph_traits<G>::inputs(g, n) } -> range_of<value_of<node_of<G>>>;
        { graph_traits<G>::outputs(g, n) } -> range_of<tensor>;
        { graph_traits<G>::phase(g, n) } -> std::convertible_to<phase>;
        { graph_traits<G>::results(g) } -> range_of<value_of<node_of<G>>>;
        { graph_traits<G>::facts(g, n) } -> std::convertible_to<op_facts>;
    };

template <class Node>
concept hashable = requires(const Node& n) {
    { std::hash<Node>{}(n) } -> std::convertible_to<std::size_t>;
};

/// Whether the position of a node can be found. It does not compile where not.
template <class G>
consteval bool nodes_can_be_found() {
    constexpr bool found = has_index<G> || hashable<node_of<G>>;
    static_assert(
        found,
        "echo::graph_traits<G>::node has no std::hash, so Echo cannot find a node's position: specialise "
        "std::hash for it, or give graph_traits index(const G&, node) -> size_t");
    return found;
}

} // namespace detail

/// A training graph that Echo can read.
/// Minimal definition: the required members listed in graph_traits.hpp. An optional member that is there but not as
/// Echo calls it is refused with a sentence of its own, and so is a node that is neither hashable nor has an `index`.
/// Laws: as there. Models: every host graph.
template <class G>
concept host_graph = detail::has_required_members<G> && detail::optional_members_are_sound<G>() &&
                     detail::nodes_can_be_found<G>();

/// A host graph that `apply` can rewrite.
/// Minimal definition: `clone` and `redirect`. Laws: a clone has its original's outputs, phase and facts.
template <class G>
concept rewritable_graph = host_graph<G> && can_clone<G>;

/// A host graph whose gradients `gradient` (gradient.hpp) can build.
/// Minimal definition: `gradient`, `seed` and `sum`, and handles that can be made by default, since a value may be
/// absent. Laws: they append nodes behind all others and leave the ones there
/// are as they are; a gradient has the shape of what it is the gradient of.
template <class G>
concept differentiable_graph = host_graph<G> && std::default_initializable<node_of<G>> &&
                               can_differentiate<G> && can_seed<G> && can_sum<G>;

/// A host graph whose shapes and types `infer` (infer.hpp) can fill in.
/// Minimal definition: `infer` and `set_outputs`. Laws: `infer` depends on the node's op and on `inputs` alone.
template <class G>
concept inferable_graph = host_graph<G> && can_infer<G> && can_set_outputs<G>;

} // namespace echo
