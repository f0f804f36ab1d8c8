// SPDX-License-Identifier: BSL-1.0
/// @file
/// From the path on the command line to the snapshot that is planned.
#pragma once

#include "format/read_file.hpp"
#include "onnx/model.hpp"
#include "onnx/read_bytes.hpp"
#include "plan/pass.hpp"
#include "plan/registry.hpp"

#include <fnmatch.h>

#include <memory>
#include <string>
#include <utility>
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

/// Errors: the file cannot be read, is too large, or is neither a sound `echo-graph/1` nor a sound ONNX model.
inline loaded_graph load(const options& asked, progress& line) {
    const std::string& path = asked.graph;
    const size_limit limit = asked.max_bytes ? size_limit{*asked.max_bytes, 0} : size_limit{};
    loaded_graph g;
    line.stage("reading");
    const stopwatch loading;
    file_graph from_json;
    if (asked.is_onnx())
        g.model = std::make_shared<onnx_model>(
            read_bytes(path, limit),
            onnx_options{.dims = asked.dims, .shapes = asked.shapes, .first_backward = asked.first_backward});
    else
        from_json = read_graph_file(path, find_op, limit);
    file_graph& file = g.model ? g.model->graph() : from_json;
    g.load_ms = loading.ms();
    g.unmatched = keep_matching(file, asked.keep);
    const stopwatch reading;
    g.snapshot = read(file);
    g.read_ms = reading.ms();
    g.name = file.name();
    return g;
}

} // namespace echo::format
