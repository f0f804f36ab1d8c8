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

/// How much is read of a file.
inline size_limit limit_of(const options& asked) {
    return asked.max_bytes ? size_limit{*asked.max_bytes, 0} : size_limit{};
}

/// By the file's name; of standard input, by its first byte.
inline bool is_onnx(const options& asked, std::streambuf& source) {
    constexpr int first_of_model = 0x08; // the field `ir_version`: no text begins so
    return asked.is_onnx() || (is_stream(asked.graph) && source.sgetc() == first_of_model);
}

/// Errors: `source` cannot be read, is too large, or is neither a sound `echo-graph/1` nor a sound ONNX model.
inline loaded_graph load(const options& asked, std::streambuf& source, progress& line) {
    loaded_graph g;
    const stopwatch loading;
    file_graph from_json;
    if (is_onnx(asked, source))
        g.model = std::make_shared<onnx_model>(
            read_bytes(source), onnx_options{.dims = asked.dims, .first_backward = asked.first_backward});
    else if (asks_onnx(asked))
        throw error({}, {}, "is no ONNX model, and --dim, --first-backward and --emit-onnx go with one only",
                    "leave them out");
    else
        from_json = read_graph(source, find_op);
    file_graph& file = g.model ? g.model->graph() : from_json;
    g.load_ms = loading.ms();
    line.stage("building the graph");
    g.unmatched = keep_matching(file, asked.keep);
    const stopwatch reading;
    g.snapshot = read(file);
    g.read_ms = reading.ms();
    g.name = file.name();
    return g;
}

/// Likewise, of the file that the options name.
inline loaded_graph load(const options& asked, progress& line) {
    line.stage("reading");
    const auto source = open_source(asked.graph, limit_of(asked), line.parts());
    return load(asked, *source, line);
}

} // namespace echo::format
