// SPDX-License-Identifier: BSL-1.0
/// @file
/// `json_out`: JSON text on its way to a file or the terminal, through a buffer. The layout is the caller's.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace echo::format {

/// Takes bytes. May throw.
using byte_sink = std::function<void(std::string_view)>;

class json_out {
public:
    explicit json_out(byte_sink sink) : sink_(std::move(sink)) {}

    /// Punctuation and keys as they stand, and whole numbers, one after the other.
    template <class... Parts>
    void put(const Parts&... parts) {
        (append(parts), ...);
        if (buffer_.size() > (std::size_t{1} << 16)) flush();
    }

    /// A text in quotes. Must be UTF-8.
    void text(std::string_view value) {
        static constexpr char digits[] = "0123456789abcdef";
        buffer_ += '"';
        for (const char c : value) {
            const auto byte = static_cast<unsigned char>(c);
            if (c == '"' || c == '\\')
                buffer_.append({'\\', c});
            else if (byte < 0x20 || byte == 0x7f)
                buffer_.append({'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]});
            else
                buffer_ += c;
        }
        buffer_ += '"';
    }

    /// The shortest decimal that reads back as the same number, always with a point or an exponent. JSON has
    /// no other than finite numbers, so what is none becomes 0.
    void number(double value) {
        const std::size_t first = buffer_.size();
        append_digits(std::isfinite(value) ? value : 0.0);
        if (buffer_.find_first_of(".e", first) == std::string::npos) buffer_ += ".0";
    }

    void flush() {
        sink_(buffer_);
        buffer_.clear();
    }

private:
    void append(std::string_view text) { buffer_ += text; }
    template <std::integral Whole>
    void append(Whole value) {
        append_digits(value);
    }
    template <class Number>
    void append_digits(Number value) {
        std::array<char, 32> digits{};
        buffer_.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
    }

    byte_sink sink_;
    std::string buffer_;
};

} // namespace echo::format
