// SPDX-License-Identifier: BSL-1.0
/// @file
/// `one_line`: a message as exactly one line of valid UTF-8, whatever names and paths stand in it; `short_line`: the same
/// at a length that a person reads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

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

/// At most `most` bytes (20 and more) of a valid UTF-8 text: three points stand for its middle, two thirds of what is
/// left for its head.
inline std::string without_middle(std::string_view text, std::size_t most) {
    constexpr std::string_view points = "...";
    if (text.size() <= most) return std::string(text);
    const auto inside = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80; };
    std::size_t head = (most - points.size()) * 2 / 3, tail = text.size() - (most - points.size() - head);
    while (inside(head)) --head;
    while (tail < text.size() && inside(tail)) ++tail;
    return std::string(text.substr(0, head)).append(points).append(text.substr(tail));
}

/// `one_line` of a name, for a table or a summary.
inline std::string short_name(std::string_view name) {
    constexpr std::size_t most = 120; // bytes
    return without_middle(one_line(without_middle(name, 4 * most)), most);
}

/// The parts of a message between quotes, those around names alone: not the one in "it's".
inline std::vector<std::string_view> parts_between_quotes(std::string_view line) {
    constexpr std::string_view before = " (", behind = " ,;:.)";
    std::vector<std::string_view> parts;
    std::size_t first = 0;
    for (std::size_t at = line.find('\''); at != line.npos; at = line.find('\'', at + 1)) {
        const bool opens = at == 0 || before.find(line[at - 1]) != before.npos;
        const bool closes = at + 1 == line.size() || behind.find(line[at + 1]) != behind.npos;
        if (!opens && !closes) continue;
        parts.push_back(line.substr(first, at - first));
        first = at + 1;
    }
    parts.push_back(line.substr(first));
    return parts;
}

/// `one_line` of at most `most` bytes. Where it is longer, names in quotes and the other parts between quotes give up
/// their middles, the longest first. O(length).
inline std::string short_line(std::string_view text, std::size_t most = 390) {
    const std::string line = one_line(text);
    if (line.size() <= most) return line;
    constexpr std::size_t shortest = 80; // of a part that is cut
    const auto parts = parts_between_quotes(line);
    const auto size_with = [&](std::size_t limit) {
        std::size_t size = parts.size() - 1;
        for (const auto part : parts) size += std::min(part.size(), limit);
        return size;
    };
    std::size_t longest = line.size();
    while (longest > shortest && size_with(longest) > most) longest = std::max(shortest, longest * 7 / 8);
    std::string out;
    for (std::size_t i = 0; i < parts.size(); ++i)
        out.append(i ? "'" : "").append(without_middle(parts[i], longest));
    return without_middle(out, most);
}

} // namespace echo::format
