// SPDX-License-Identifier: BSL-1.0
/// @file
/// What a run of a node costs: its measured time, or the one model of formats.md, so that overheads compare.
#pragma once

#include <echo/graph/snapshot.hpp>

#include <vector>

namespace echo {

/// The device of the time model: `launch_us + flops / flops_per_us + bytes / bytes_per_us`. The defaults are
/// those of formats.md, a GPU of 15 TFLOP/s and 1.5 TB/s.
struct device_model {
    double launch_us = 2;
    double flops_per_us = 15e6;
    double bytes_per_us = 1.5e6;
};

/// Microseconds of one run of `n`. Measured time wins; else 0 for views and inputs, else the model over the
/// bytes of all input positions and outputs. O(inputs + outputs).
inline double time_us(const snapshot& s, node_id n, const device_model& device = {}) {
    const node_record& node = s[n];
    if (node.time_us == node.time_us) return node.time_us; // not NaN: it was measured
    if (node.kind == op_kind::view || node.phase == phase::input) return 0;
    double bytes = 0;
    for (const auto v : s.inputs(n)) bytes += static_cast<double>(s[v].bytes);
    for (const auto v : s.outputs(n)) bytes += static_cast<double>(s[v].bytes);
    return device.launch_us + node.flops / device.flops_per_us + bytes / device.bytes_per_us;
}

/// `time_us` of every node, by node index. O(nodes + edges).
inline std::vector<double> times_us(const snapshot& s, const device_model& device = {}) {
    std::vector<double> all;
    all.reserve(s.node_count());
    for (const auto n : s.nodes()) all.push_back(time_us(s, n, device));
    return all;
}

} // namespace echo
