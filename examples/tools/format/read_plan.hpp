// SPDX-License-Identifier: BSL-1.0
/// @file
/// `read_plan`: an `echo-plan/1` file, or a text in memory, into a `plan_document` for a graph that was read
/// before.
#pragma once

#include "format/byte_source.hpp"
#include "format/plan_reader.hpp"

#include <istream>
#include <string>
#include <string_view>

namespace echo::format {

/// Errors: whatever the format forbids, as `echo::error` with step and key. O(bytes).
inline plan_document read_plan(std::streambuf& source, const snapshot& s) {
    plan_reader reader(s);
    plan_reader::walker walker(reader);
    std::istream stream(&source);
    nlohmann::json::sax_parse(stream, &walker);
    return reader.finish();
}

inline plan_document read_plan_text(std::string_view text, const snapshot& s) {
    memory_source source(text);
    return read_plan(source, s);
}

inline plan_document read_plan_file(const std::string& path, const snapshot& s) {
    return read_plan(*open_source(path), s);
}

} // namespace echo::format
