// SPDX-License-Identifier: BSL-1.0
/// @file
/// From the path on the command line to the snapshot that is planned.
#pragma once

#include "format/read_file.hpp"
#include "plan/pass.hpp"
#include "plan/registry.hpp"

#include <string>

namespace echo::format {

/// Errors: the file cannot be read or is no sound `echo-graph/1`.
inline loaded_graph load(const std::string& path, progress& line) {
    if (path.ends_with(".onnx"))
        throw error({}, {}, "built without ONNX", "give a graph of the format echo-graph/1");
    loaded_graph g;
    line.stage("reading");
    const stopwatch loading;
    const file_graph file = read_graph_file(path, find_op);
    g.load_ms = loading.ms();
    const stopwatch reading;
    g.snapshot = read(file);
    g.read_ms = reading.ms();
    g.name = file.name();
    return g;
}

} // namespace echo::format
