// SPDX-License-Identifier: BSL-1.0
/// @file
/// `nnvm_pool`: the options of NNVM's planner (nnvm_pool.hpp).
#pragma once

#include <echo/config.hpp>

#include <cstdint>

namespace echo::arena {

/// What there is to choose of NNVM's planner.
struct nnvm_pool {
    std::uint64_t match_range = 16; ///< a block may be so many times as large as asked, or grow so many times
                                    ///< larger; 0: no block is used twice
    std::uint64_t overhead = 32;    ///< bytes beside those of each block
};

} // namespace echo::arena
