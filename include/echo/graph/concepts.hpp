// SPDX-License-Identifier: BSL-1.0
/// @file
/// What `graph_traits` must and may offer, as concepts. What follows for planning: abilities.hpp.
#pragma once

#include <echo/graph/near_names.hpp>
#include <echo/graph/optional_members.hpp>
#include <echo/graph/required_members.hpp>

#include <concepts>

namespace echo {

/// A training graph that Echo can read.
/// Minimal definition: the required members listed in graph_traits.hpp, no optional member that is there but not as
/// Echo calls it, no name that is nearly that of a member, and nodes that are hashable or have an `index`. Functions
/// refuse a type that is none with a sentence that names what is wrong. Laws: as there. Models: every host graph.
template <class G>
concept host_graph = detail::can_be_read<G> && detail::has_sound_members<G> && detail::has_no_near_misses<G>;

namespace detail {

/// `host_graph`, of what a function is given: where it does not hold nothing is compiled, and a sentence says why.
template <class G>
concept checked_host_graph =
    required_members_are_there<G>() && optional_members_are_sound<G>() && no_name_is_a_near_miss<G>();

} // namespace detail

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
