// SPDX-License-Identifier: BSL-1.0
/// @file
/// `json_walker`: checks the events of a JSON parser against a grammar given as a table, and hands on what
/// the grammar knows. No document tree is built, keys may stand in any order, unknown keys are passed over
/// whatever they hold. Types and ranges are checked here, since a JSON number is whatever a parser makes of
/// it: 1.5, 1e30 and 2^64 are no whole numbers, −1 is no count.
#pragma once

#include <echo/error.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace echo::format {

enum class json_type : std::uint8_t { object, array, text, boolean, whole, number, any };

constexpr std::string_view name_of(json_type type) noexcept {
    constexpr std::string_view names[] = {"an object",      "an array", "a text",  "true or false",
                                          "a whole number", "a number", "anything"};
    return names[static_cast<std::size_t>(type)];
}

/// One place of a file where a value may stand. `Slot` is an enumeration of all of them, `document` first and
/// `ignored` last; the table of rules is indexed by it.
template <class Slot>
struct rule {
    std::string_view key; ///< as it stands in the file; for items of an array, that of the array
    json_type type;
    Slot inside = Slot::ignored; ///< the object that the key belongs to; `ignored` for items of an array
    bool required = false;       ///< in that object
    Slot item = Slot::ignored;   ///< of an array: what its items are
};

template <class Slot>
using grammar = std::array<rule<Slot>, static_cast<std::size_t>(Slot::ignored) + 1>;

/// `text` for a message: what is not ASCII, and perhaps not even UTF-8, as `\xNN`; the middle of a long one
/// left out.
inline std::string shortened(std::string_view text) {
    static constexpr char digits[] = "0123456789abcdef";
    constexpr std::size_t longest = 240;
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text.size() > longest && i == longest / 2) {
            out += "...";
            i = text.size() - longest / 2;
        }
        const auto byte = static_cast<unsigned char>(text[i]);
        if (byte < 0x80)
            out += text[i];
        else
            out.append({'\\', 'x', digits[byte >> 4], digits[byte & 15]});
    }
    return out;
}

/// The SAX interface of nlohmann-json. `Handler` has `begin(slot)` and `end(slot)` for objects and arrays,
/// `value(slot, x)` with x a `std::uint64_t`, `double`, `bool` or `std::string&`, and a `refuse(slot,
/// problem, advice)` that throws an `echo::error` naming where it is.
template <class Handler, class Slot, const grammar<Slot>& rules>
class json_walker {
public:
    explicit json_walker(Handler& handler) : handler_(handler) {}

    bool null() { return wanted(json_type::any, "null"), true; }
    bool binary(nlohmann::json::binary_t&) { return wanted(json_type::any, "binary data"), true; }
    bool boolean(bool value) {
        if (wanted(json_type::boolean, value ? "true" : "false")) handler_.value(next(), value);
        return true;
    }
    bool string(std::string& value) {
        if (wanted(json_type::text, "a text")) handler_.value(next(), value);
        return true;
    }
    bool number_unsigned(std::uint64_t value) {
        if (!wanted(json_type::whole, "a number")) return true;
        if (rule_of(next()).type == json_type::number)
            handler_.value(next(), static_cast<double>(value));
        else
            handler_.value(next(), value);
        return true;
    }
    bool number_integer(std::int64_t value) {
        if (value >= 0) return number_unsigned(static_cast<std::uint64_t>(value));
        if (wanted(json_type::whole, "a number")) handler_.refuse(next(), "is negative", "give 0 or more");
        return true;
    }
    bool number_float(double value, const std::string& token) {
        if (skipping()) return true;
        const Slot s = next();
        if (rule_of(s).type == json_type::whole) {
            // The parser hands a whole number over as this type when 64 bits do not hold it.
            const bool digits = token.find_first_not_of("-0123456789") == std::string::npos;
            handler_.refuse(
                s, shortened(token) + (digits ? " does not fit in 64 bits" : " is not a whole number"),
                "give a whole number of 0 or more");
        }
        if (!wanted(json_type::number, "a number")) return true;
        if (!(value >= 0)) handler_.refuse(s, "is negative", "give 0 or more");
        handler_.value(s, value);
        return true;
    }

    bool start_object(std::size_t) { return open(json_type::object, "an object"); }
    bool start_array(std::size_t) { return open(json_type::array, "an array"); }

    bool key(std::string& name) {
        if (ignored_depth_ > 0) return true;
        container& object = open_.back();
        pending_ = Slot::ignored;
        for (std::size_t i = 0; i < rules.size() && pending_ == Slot::ignored; ++i)
            if (rules[i].inside == object.slot && rules[i].key == name) pending_ = static_cast<Slot>(i);
        if (pending_ == Slot::ignored) return true;
        if (object.seen & bit(pending_)) handler_.refuse(pending_, "stands twice", "state it once");
        object.seen |= bit(pending_);
        return true;
    }

    bool end_object() {
        if (leave_ignored()) return true;
        const container& object = open_.back();
        for (std::size_t i = 0; i < rules.size(); ++i)
            if (rules[i].required && rules[i].inside == object.slot && !(object.seen & bit(Slot(i))))
                handler_.refuse(Slot(i), "missing", "it is required");
        return close();
    }
    bool end_array() { return leave_ignored() || close(); }

    [[noreturn]] bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& reason) {
        // "[json.exception.parse_error.101] parse error at line 1, …": the text behind the parser's own tag.
        std::string what = reason.what();
        what.erase(0, what.find("] ") + 2);
        Slot s = Slot::document;
        if (!open_.empty()) s = skipping() ? open_.back().slot : next();
        handler_.refuse(s, "not valid JSON: " + shortened(what),
                        "check that the file is whole, and that numbers are finite");
    }

private:
    struct container {
        Slot slot;
        std::uint64_t seen = 0; ///< keys of an object
    };

    static_assert(rules.size() <= 64);
    static constexpr std::uint64_t bit(Slot s) noexcept {
        return std::uint64_t{1} << static_cast<unsigned>(s);
    }
    static constexpr const rule<Slot>& rule_of(Slot s) noexcept { return rules[static_cast<std::size_t>(s)]; }

    /// What the value that begins now stands for.
    Slot next() const noexcept {
        if (open_.empty()) return Slot::document;
        const auto& around = rule_of(open_.back().slot);
        return around.type == json_type::array ? around.item : pending_;
    }
    bool skipping() const noexcept { return ignored_depth_ > 0 || next() == Slot::ignored; }

    /// Whether the value is one the format knows. Errors: it is, and of another type.
    bool wanted(json_type got, std::string_view shown) {
        if (skipping()) return false;
        const json_type type = rule_of(next()).type;
        if (type != got && !(type == json_type::number && got == json_type::whole))
            handler_.refuse(next(), "expected " + std::string(name_of(type)) + ", got " + std::string(shown),
                            "see docs/formats.md");
        return true;
    }

    bool open(json_type type, std::string_view shown) {
        if (!wanted(type, shown)) {
            ++ignored_depth_;
            return true;
        }
        open_.push_back({next()});
        handler_.begin(open_.back().slot);
        return true;
    }
    bool leave_ignored() noexcept {
        if (ignored_depth_ == 0) return false;
        --ignored_depth_;
        return true;
    }
    bool close() {
        handler_.end(open_.back().slot);
        open_.pop_back();
        pending_ = Slot::ignored;
        return true;
    }

    Handler& handler_;
    std::vector<container> open_;   ///< those around the value that comes next
    Slot pending_ = Slot::ignored;  ///< of the last key
    std::size_t ignored_depth_ = 0; ///< open containers inside a value that the format does not know
};

} // namespace echo::format
