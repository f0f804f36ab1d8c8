// SPDX-License-Identifier: BSL-1.0
/// @file
/// `one_line`: a message as exactly one line of valid UTF-8, whatever names and paths stand in it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace echo::format {

/// Bytes of the UTF-8 character at the head of `text`, or 0 if there is none.
inline std::size_t character_size(std::string_view text) noexcept {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const std::size_t size = byte(0) < 0x80   ? 1
                             : byte(0) < 0xc2 ? 0
                             : byte(0) < 0xe0 ? 2
                             : byte(0) < 0xf0 ? 3
                             : byte(0) < 0xf5 ? 4
                                              : 0;
    if (size > text.size()) return 0;
    for (std::size_t i = 1; i < size; ++i)
        if ((byte(i) & 0xc0) != 0x80) return 0;
    // Overlong forms, surrogates, and what lies beyond the last code point.
    if (size == 3 && ((byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) > 0x9f))) return 0;
    if (size == 4 && ((byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) > 0x8f))) return 0;
    return size;
}

/// Whether a terminal or a program may take the character for the end of a line, or for a command.
inline bool is_control(std::string_view character) noexcept {
    if (character.size() == 1) return static_cast<unsigned char>(character[0]) < 0x20 || character[0] == 0x7f;
    const bool c1 = character.size() == 2 && character[0] == '\xc2' && character[1] < '\xa0';
    return c1 || character == "\xe2\x80\xa8" || character == "\xe2\x80\xa9"; // line and paragraph separators
}

/// Controls and invalid bytes become `\xNN`. O(length).
inline std::string one_line(std::string_view text) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string out;
    while (!text.empty()) {
        const std::size_t size = character_size(text);
        const auto character = text.substr(0, size ? size : 1);
        if (size && !is_control(character)) {
            out += character;
        } else {
            for (const char c : character) {
                const auto byte = static_cast<unsigned char>(c);
                out.append({'\\', 'x', digits[byte >> 4], digits[byte & 15]});
            }
        }
        text.remove_prefix(character.size());
    }
    return out;
}

} // namespace echo::format
