// SPDX-License-Identifier: BSL-1.0
/// @file
/// `read_graph`: an `echo-graph/1` file, or a text in memory, into a `file_graph`.
#pragma once

#include "format/byte_source.hpp"
#include "format/file_graph.hpp"
#include "format/graph_reader.hpp"

#include <istream>
#include <string>
#include <string_view>

namespace echo::format {

/// Reads a stream to its end. `registry` fills `kind` and `rerun` where the file states none; without one
/// every such op is unknown. Errors: whatever the format forbids, as `echo::error` with node and key.
/// O(bytes) time, and no memory beyond the graph.
inline file_graph read_graph(std::streambuf& source, const op_lookup& registry = {}) {
    graph_assembler assembler(registry);
    graph_reader reader(assembler);
    graph_reader::walker walker(reader);
    std::istream stream(&source);
    nlohmann::json::sax_parse(stream, &walker);
    return assembler.finish(reader.results(), reader.residents());
}

inline file_graph read_graph_text(std::string_view text, const op_lookup& registry = {}) {
    memory_source source(text);
    return read_graph(source, registry);
}

/// `path` is read compressed if it ends in `.gz`. Errors, beside those of `read_graph`: it is larger than `limit`. They
/// do not name the file: the caller knows it.
inline file_graph read_graph_file(const std::string& path, const op_lookup& registry = {},
                                  size_limit limit = {}) {
    return read_graph(*open_source(path, limit), registry);
}

} // namespace echo::format
