// SPDX-License-Identifier: BSL-1.0
/// @file
/// Columns of a report's data: arrays of numbers, which a browser reads fast and which compress well.
#pragma once

#include "command_line/one_line.hpp"
#include "format/json_out.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace echo::report {

using format::json_out;

/// `"key":`, behind a comma unless it is the first of its object.
inline void put_key(json_out& out, std::string_view key, bool first = false) {
    out.put(first ? "\"" : ",\n\"", key, "\":");
}

/// `count` numbers, each as `value_at` gives it.
template <class ValueAt>
void put_column(json_out& out, std::string_view key, std::size_t count, const ValueAt& value_at) {
    put_key(out, key);
    out.put("[");
    for (std::size_t i = 0; i < count; ++i) out.put(i == 0 ? "" : ",", value_at(i));
    out.put("]");
}

/// The same as differences, each to the number before it: the first one to 0.
template <class ValueAt>
void put_differences(json_out& out, std::string_view key, std::size_t count, const ValueAt& value_at) {
    std::int64_t before = 0;
    put_column(out, key, count, [&](std::size_t i) {
        const auto now = static_cast<std::int64_t>(value_at(i));
        const std::int64_t difference = now - before;
        before = now;
        return difference;
    });
}

/// Only what is not 0, as pairs of position and number.
template <class ValueAt>
void put_sparse(json_out& out, std::string_view key, std::size_t count, const ValueAt& value_at) {
    put_key(out, key);
    out.put("[");
    for (std::size_t i = 0, any = 0; i < count; ++i) {
        const auto value = value_at(i);
        if (value != 0) out.put(any++ == 0 ? "" : ",", i, ",", value);
    }
    out.put("]");
}

/// `count` texts. A host may call its nodes as it likes: what is no UTF-8, and controls, are written out.
template <class TextAt>
void put_texts(json_out& out, std::string_view key, std::size_t count, const TextAt& text_at) {
    put_key(out, key);
    out.put("[");
    for (std::size_t i = 0; i < count; ++i) {
        out.put(i == 0 ? "" : ",");
        out.text(format::one_line(text_at(i)));
    }
    out.put("]");
}

} // namespace echo::report
