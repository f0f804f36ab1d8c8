// SPDX-License-Identifier: BSL-1.0
/// @file
/// From the path on the command line to the snapshot that is planned.
#pragma once

#include "format/read_file.hpp"
#include "plan/pass.hpp"
#include "plan/registry.hpp"

#include <fnmatch.h>

#include <string>
#include <vector>

namespace echo::format {

/// Marks the nodes whose name or layer matches a pattern. Returns the patterns that match nothing.
inline std::vector<std::string> keep_matching(file_graph& graph, const std::vector<std::string>& patterns) {
    std::vector<std::string> unmatched;
    for (const auto& pattern : patterns) {
        bool any = false;
        for (const auto n : graph.order()) {
            const auto matches = [&](const std::string& text) {
                return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
            };
            if (!matches(graph.name(n)) && !matches(std::string(graph.layer(n)))) continue;
            graph.keep(n);
            any = true;
        }
        if (!any) unmatched.push_back(pattern);
    }
    return unmatched;
}

/// Errors: the file cannot be read, is too large or is no sound `echo-graph/1`.
inline loaded_graph load(const options& asked, progress& line) {
    const std::string& path = asked.graph;
    const size_limit limit = asked.max_bytes ? size_limit{*asked.max_bytes, 0} : size_limit{};
    if (path.ends_with(".onnx"))
        throw error({}, {}, "built without ONNX", "give a graph of the format echo-graph/1");
    loaded_graph g;
    line.stage("reading");
    const stopwatch loading;
    file_graph file = read_graph_file(path, find_op, limit);
    g.load_ms = loading.ms();
    g.unmatched = keep_matching(file, asked.keep);
    const stopwatch reading;
    g.snapshot = read(file);
    g.read_ms = reading.ms();
    g.name = file.name();
    return g;
}

} // namespace echo::format
