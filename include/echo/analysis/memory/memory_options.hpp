// SPDX-License-Identifier: BSL-1.0
/// @file
/// `memory_options`: all that may be asked of `plan_memory`.
#pragma once

#include <echo/analysis/memory/arena/nnvm_pool_options.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace echo {

using arena::nnvm_pool;

/// Options of `plan_memory`.
struct memory_options {
    std::uint64_t align = 1;       ///< every offset is a multiple of it; bytes
    std::uint64_t granularity = 1; ///< the size of every block is a multiple of it; bytes
    double limit = 0.2;            ///< seconds for the search beyond the greedy orders; 0: those only
    /// The bytes that each of several arenas may have, the preferred one first. Empty: one arena, as small as
    /// can be. Otherwise arenas are filled in turn, and none is made smaller than it need be.
    std::vector<std::uint64_t> capacities{};
    /// NNVM's planner instead (arena/nnvm_pool.hpp), for comparison: the arena is its pool, block after block, and
    /// `limit` is not used. What shares a storage remains as the liveness has it: analysis/memory/nnvm_sharing.hpp.
    std::optional<nnvm_pool> pool{};
};

} // namespace echo
