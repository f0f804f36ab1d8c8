// SPDX-License-Identifier: BSL-1.0
/// @file
/// `node_draft`: one node as a file states it, nothing checked against the rest of the graph yet. One draft
/// is used for all nodes in turn, so that reading a node allocates nothing.
#pragma once

#include <echo/graph/graph_traits.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace echo::format {

/// `[node, output]` in a file.
struct edge_draft {
    std::uint64_t node = 0, output = 0;
};

struct output_draft {
    std::optional<std::uint64_t> bytes{}, view_of{}, inplace{};
    dtype type = dtype::other;
    bool has_shape = false;
    std::size_t first_extent = 0, rank = 0; ///< its part of `node_draft::extents`
};

struct node_draft {
    std::string name{}, op{}, layer{};
    echo::phase phase = echo::phase::forward;
    std::optional<op_kind> kind{};
    std::optional<rerun_kind> rerun{};
    std::vector<edge_draft> inputs{};
    std::vector<std::uint64_t> control{}, one_bit_inputs{};
    std::vector<output_draft> outputs{};
    std::vector<std::int64_t> extents{};
    double flops = 0;
    std::optional<double> time_us{};
    std::uint64_t workspace = 0;

    void clear() {
        name.clear(), op.clear(), layer.clear();
        kind.reset(), rerun.reset(), time_us.reset();
        inputs.clear(), control.clear(), one_bit_inputs.clear(), outputs.clear(), extents.clear();
        phase = echo::phase::forward;
        flops = 0;
        workspace = 0;
    }
};

} // namespace echo::format
