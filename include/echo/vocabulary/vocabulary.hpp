// SPDX-License-Identifier: BSL-1.0
/// @file
/// Vocabularies: from the name an engine gives an op to the op's facts. A vocabulary is written as rows of
/// names that share facts, and sorted at compile time.
#pragma once

#include <echo/op_facts.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <string_view>

namespace echo {

/// Names, separated by spaces, that share facts. `facts.name` is set for each of them.
struct vocabulary_row {
    op_facts facts;         ///< What these ops share.
    std::string_view names; ///< The names, parted by spaces.
};

/// The pessimistic facts of an op that nobody knows: it is left alone, and the report lists it.
constexpr op_facts unknown_op(std::string_view name) noexcept {
    op_facts facts;
    facts.name = name;
    facts.known = false;
    return facts;
}

/// `Size` facts, sorted by their names.
template <std::size_t Size>
class vocabulary {
public:
    /// Takes entries that are sorted by name.
    constexpr explicit vocabulary(const std::array<op_facts, Size>& sorted) : facts_(sorted) {}

    /// The facts of exactly that name, or nullptr. O(log Size).
    constexpr const op_facts* find(std::string_view name) const noexcept {
        const auto* const found =
            std::lower_bound(begin(), end(), name, [](const op_facts& facts, std::string_view sought) {
                return std::string_view(facts.name) < sought;
            });
        return found != end() && found->name == name ? found : nullptr;
    }
    /// The same, and `unknown_op` where the name is not known. O(log Size).
    constexpr op_facts operator[](std::string_view name) const noexcept {
        if (const auto* const found = find(name)) return *found;
        return unknown_op(name);
    }
    /// The first entry.
    constexpr const op_facts* begin() const noexcept { return facts_.data(); }
    /// Behind the last entry.
    constexpr const op_facts* end() const noexcept { return facts_.data() + Size; }
    /// How many ops it knows.
    static constexpr std::size_t size() noexcept { return Size; }

private:
    std::array<op_facts, Size> facts_;
};

namespace detail {

/// Calls `f(word)` for each word of a text.
template <class F>
constexpr void each_word(std::string_view text, F f) {
    while (!text.empty()) {
        const auto length = std::min(text.find(' '), text.size());
        if (length > 0) f(text.substr(0, length));
        text.remove_prefix(std::min(length + 1, text.size()));
    }
}

template <const auto& Rows>
consteval std::size_t count_words() {
    std::size_t count = 0;
    for (const auto& row : Rows) each_word(row.names, [&](std::string_view) { ++count; });
    return count;
}

} // namespace detail

/// Sorts rows (an array of `vocabulary_row` with static storage) into a vocabulary. Errors: at compile time,
/// for a name that stands twice.
template <const auto& Rows>
consteval auto make_vocabulary() {
    struct place {
        std::string_view name;
        std::size_t row;
    };
    constexpr std::size_t size = detail::count_words<Rows>();
    std::array<place, size> places{};
    std::size_t next = 0;
    for (std::size_t row = 0; row < std::size(Rows); ++row)
        detail::each_word(Rows[row].names, [&](std::string_view name) { places[next++] = {name, row}; });
    std::sort(places.begin(), places.end(), [](const place& a, const place& b) { return a.name < b.name; });
    std::array<op_facts, size> sorted{};
    for (std::size_t i = 0; i < size; ++i) {
        if (i > 0 && places[i].name == places[i - 1].name) throw "echo: a name stands twice in a vocabulary";
        sorted[i] = Rows[places[i].row].facts;
        sorted[i].name = places[i].name;
        sorted[i].known = true;
    }
    return vocabulary<size>(sorted);
}

} // namespace echo
