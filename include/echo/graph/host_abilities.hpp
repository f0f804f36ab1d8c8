// SPDX-License-Identifier: BSL-1.0
/// @file
/// `host_abilities`: what the executor of a plan can do, as a value. What a graph type can do: abilities.hpp.
#pragma once

#include <echo/config.hpp>

namespace echo {

/// What the executor of a plan can do; nothing else is decided for it. The default is a host that runs the
/// steps itself.
struct host_abilities {
    bool recompute = true;         ///< a node may run twice
    bool recompute_results = true; ///< also one that makes a graph result (the latest copy is the result)
    bool move = true;              ///< a node may run later than in the host's order
    bool encode = true;            ///< a value may be packed to one bit per element
    bool erase = true;             ///< a dead node may be left out
    /// A pure light op may be recomputed inside the light ops that read it, without storage of its own. Not inside a
    /// heavy one: a host's matrix product or convolution is a finished kernel with no room for another op.
    bool fuse = false;
    /// A value may wait in the host's memory for its next reader, where `plan_options` has a link to it.
    bool offload = false;
    friend bool operator==(const host_abilities&, const host_abilities&) = default;
};

} // namespace echo
