// SPDX-License-Identifier: BSL-1.0
/// @file
/// The one exception type of Echo: which node, which fact of it, what is wrong and what to do.
#pragma once

#include <echo/config.hpp>

#if !defined(__cpp_exceptions) && !defined(_CPPUNWIND)
#error "Echo reports errors by throwing echo::error: compile without -fno-exceptions"
#endif

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace echo {

namespace detail {

/// `text` with control characters written as `\xNN`, so that a message stays one line whatever a file names
/// its nodes.
inline std::string printable(std::string_view text) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string out;
    out.reserve(text.size());
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f) {
            out += "\\x";
            out += digits[byte >> 4];
            out += digits[byte & 15];
        } else {
            out += c;
        }
    }
    return out;
}

} // namespace detail

/// Thrown wherever the input cannot be used. `what()` is one line: `node 'NAME', KEY: PROBLEM; ADVICE`.
/// `node()` and `key()` may be empty where the problem belongs to no node or to no fact of it.
class error : public std::runtime_error {
public:
    /// Each part of the message by itself; empty parts are left out of the line. O(length).
    error(std::string_view node, std::string_view key, std::string_view problem, std::string_view advice = {})
        : std::runtime_error(line(node, key, problem, advice)), node_(node), key_(key), problem_(problem),
          advice_(advice) {}

    /// The node it is about, by the host's name; empty: none.
    const std::string& node() const noexcept { return node_; }
    /// The fact of the node, or the key of the file, that cannot be used; empty: none.
    const std::string& key() const noexcept { return key_; }
    /// What is wrong.
    const std::string& problem() const noexcept { return problem_; }
    /// What to do about it; empty if the problem says so itself.
    const std::string& advice() const noexcept { return advice_; }

private:
    static std::string line(std::string_view node, std::string_view key, std::string_view problem,
                            std::string_view advice) {
        std::string out;
        if (!node.empty()) out += "node '" + detail::printable(node) + "'";
        if (!key.empty()) out += (out.empty() ? "" : ", ") + detail::printable(key);
        if (!out.empty()) out += ": ";
        out += detail::printable(problem);
        if (!advice.empty()) out += "; " + detail::printable(advice);
        return out;
    }

    std::string node_, key_, problem_, advice_;
};

} // namespace echo
