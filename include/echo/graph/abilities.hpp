// SPDX-License-Identifier: BSL-1.0
/// @file
/// `abilities`: what follows for planning from the functions that a graph type offers.
#pragma once

#include <echo/graph/concepts.hpp>
#include <echo/graph/host_abilities.hpp>

namespace echo {

/// The abilities that follow from the optional functions of `graph_traits<G>`, for plans that go through
/// `apply`.
template <detail::checked_host_graph G>
[[nodiscard]] constexpr host_abilities abilities() noexcept {
    return {.recompute = can_clone<G>,
            .recompute_results = can_redirect_result<G>,
            .move = can_move<G>,
            .encode = can_clone<G> && can_encode<G>,
            .erase = can_erase<G>,
            .fuse = can_clone<G> && can_fuse<G>,
            .offload = can_offload<G>};
}

} // namespace echo
