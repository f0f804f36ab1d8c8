// SPDX-License-Identifier: BSL-1.0
/// @file
/// `pickle_out`: a value in Python's pickle format (protocol 2), on its way to a file. Only what plain data needs:
/// texts, whole numbers, lists and dictionaries with texts as keys.
#pragma once

#include "format/json_out.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace echo::format {

class pickle_out {
public:
    explicit pickle_out(byte_sink sink) : sink_(std::move(sink)) { buffer_ = "\x80\x02"; }

    void text(std::string_view value) {
        op('X');
        little_endian(value.size(), 4);
        buffer_ += value;
    }
    void whole(std::uint64_t value) {
        if (value < 256) {
            op('K');
            little_endian(value, 1);
        } else {
            op('\x8a'); // signed: a ninth byte keeps the highest bit from being a sign
            buffer_ += static_cast<char>(9);
            little_endian(value, 8);
            little_endian(0, 1);
        }
    }
    void yes_or_no(bool value) { op(value ? '\x88' : '\x89'); }

    void begin_dictionary() { begin('}'); }
    void key(std::string_view name) { text(name); }
    void end_dictionary() { op('u'); }

    /// `item(i)` writes each of `count` items. They are handed over some at a time: readers keep them on a stack.
    template <class Item>
    void list(std::size_t count, const Item& item) {
        op(']');
        constexpr std::size_t most = 500;
        for (std::size_t first = 0; first < count; first += most) {
            op('(');
            for (std::size_t i = first; i < count && i < first + most; ++i) item(i);
            op('e');
        }
    }

    void finish() {
        op('.');
        sink_(buffer_);
        buffer_.clear();
    }

private:
    void begin(char kind) {
        op(kind);
        op('(');
    }
    void op(char code) {
        if (buffer_.size() > (std::size_t{1} << 16)) {
            sink_(buffer_);
            buffer_.clear();
        }
        buffer_ += code;
    }
    void little_endian(std::uint64_t value, int bytes) {
        for (int i = 0; i < bytes; ++i) buffer_ += static_cast<char>(i < 8 ? value >> (8 * i) & 0xff : 0);
    }

    byte_sink sink_;
    std::string buffer_;
};

} // namespace echo::format
