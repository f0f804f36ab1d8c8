// SPDX-License-Identifier: BSL-1.0
/// @file
/// What a launch is made of: bodies, the size of a grid, and `host_launch`, which runs a body on the host, warp
/// by warp over an emulated grid, for tests and as a reference.
#pragma once

#include <echo/cuda/kernel/warp.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace echo::cuda {

/// What a launcher runs: called once by each warp of a grid, whatever the grid's size; a plain value, as it
/// is copied to the device. `tiles()` is what the warps share out: for 0 nothing is launched, and more warps
/// would be idle.
template <class Body>
concept kernel_body = std::is_trivially_copyable_v<Body> && requires(const Body& body, host_warp& w) {
    { body.tiles() } -> std::same_as<std::int64_t>;
    body(w);
};

/// Threads of a block on the device.
inline constexpr int block_threads = 128;

/// Blocks for `tiles` ≥ 1, of which a warp takes one at a time: as many as are `resident` at once, or fewer so
/// that all warps get equally many tiles.
constexpr unsigned grid_for(std::int64_t tiles, int resident) noexcept {
    constexpr std::int64_t warps = block_threads / warp_lanes;
    const std::int64_t wanted = tiles / warps + (tiles % warps != 0);
    const std::int64_t rounds = wanted / resident + (wanted % resident != 0);
    return static_cast<unsigned>(wanted / rounds + (wanted % rounds != 0));
}

/// An emulated grid, and in which order its parts run. A body's results depend on neither.
struct host_grid {
    std::int64_t blocks = 1;          ///< Blocks of the emulated grid.
    std::int64_t warps_per_block = 1; ///< Warps of each block.
    bool warps_backwards = false;     ///< Whether the last warp runs first.
    bool lanes_backwards = false;     ///< Whether the last lane runs first.
};

/// Runs the body on the host. Throws what a body's misaligned accesses throw.
template <kernel_body Body>
void host_launch(const Body& body, const host_grid& grid = {}) {
    if (body.tiles() == 0) return;
    const std::int64_t count = grid.blocks * grid.warps_per_block;
    for (std::int64_t i = 0; i < count; ++i) {
        host_warp w(grid.warps_backwards ? count - 1 - i : i, count, grid.lanes_backwards);
        body(w);
    }
}

} // namespace echo::cuda
