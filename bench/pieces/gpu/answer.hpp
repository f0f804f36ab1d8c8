// SPDX-License-Identifier: BSL-1.0
/// @file
/// `answer`: one line of JSON, with nothing but the standard library: bench/gpu runs where there are no packages.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpu_bench {

class answer {
public:
    template <class T>
    answer& add(std::string_view key, const T& value) {
        text_ += text_.empty() ? "" : ", ";
        write(key);
        text_ += ": ";
        write(value);
        return *this;
    }
    std::string text() const { return "{" + text_ + "}"; }

private:
    void write(const answer& value) { text_ += value.text(); }
    void write(std::string_view value) {
        text_ += '"';
        for (const char c : value) {
            if (c == '"' || c == '\\') text_ += '\\';
            text_ += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
        }
        text_ += '"';
    }
    void write(const std::string& value) { write(std::string_view(value)); }
    void write(const char* value) { write(std::string_view(value)); }
    void write(bool value) { text_ += value ? "true" : "false"; }
    template <std::integral T>
    void write(T value) {
        text_ += std::to_string(value);
    }
    void write(double value) {
        char made[32] = "null"; // JSON has no other word for what is not finite
        if (std::isfinite(value)) std::snprintf(made, sizeof made, "%.9g", value);
        text_ += made;
    }
    template <class T>
    void write(const std::optional<T>& value) {
        if (value)
            write(*value);
        else
            text_ += "null";
    }
    template <class T>
    void write(const std::vector<T>& values) {
        text_ += '[';
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (i) text_ += ", ";
            write(values[i]);
        }
        text_ += ']';
    }

    std::string text_;
};

} // namespace gpu_bench
