// SPDX-License-Identifier: BSL-1.0
/// @file
/// `interval_table`: minimalloc's CSV, `id,lower,upper,size` with half-open lifetimes, as a value. Columns may
/// stand in any order, and others beside them, which are kept and not looked at.
#pragma once

#include <echo/analysis/memory/arena/interval.hpp>
#include <echo/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echo::format {

/// The rows as they stand in the file, and what placing needs of them.
class interval_table {
public:
    /// Reads a text. Errors name the line, the column and the id: whatever is missing, twice there, no whole
    /// number, negative, of 2^63 or more, or ends before it starts. O(n log n).
    explicit interval_table(std::string text) : text_(std::move(text)) {
        std::string_view rest = text_;
        while (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3); // what is printed begins with none
        read_header(next_line(rest));
        while (!rest.empty()) {
            const std::string_view line = next_line(rest);
            if (!trimmed(line).empty()) read_row(line);
        }
        check_ids();
        rank_times();
    }

    /// One per row. Times are ranks among all times of the table; an interval of no time has no bytes.
    const std::vector<arena::interval>& intervals() const noexcept { return intervals_; }
    std::size_t size() const noexcept { return rows_.size(); }
    std::string_view id(std::size_t i) const { return rows_[i].id; }

    /// The table with a column `offset` more, or that column anew; rows, order and ids as they came.
    /// `write(bytes)` is called with parts of the text.
    template <class Write>
    void print(const std::vector<std::uint64_t>& offsets, Write write) const {
        print_row(header_, "offset", write);
        for (std::size_t i = 0; i < rows_.size(); ++i)
            print_row(rows_[i].line, std::to_string(offsets[i]), write);
    }

private:
    enum column : std::size_t { id_column, lower, upper, bytes, offset, named };
    static constexpr std::array<std::string_view, named> names = {"id", "lower", "upper", "size", "offset"};
    static constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();

    struct row {
        std::string_view line, id;
        std::size_t number; ///< in the file, from 1
        std::uint64_t lower, upper, bytes;
    };

    static std::string_view trimmed(std::string_view text) {
        constexpr std::string_view blank = " \t\r";
        const auto first = text.find_first_not_of(blank);
        if (first == text.npos) return {};
        return text.substr(first, text.find_last_not_of(blank) - first + 1);
    }

    /// Takes a line off the head, without its end.
    std::string_view next_line(std::string_view& rest) {
        ++number_;
        const auto end = rest.find('\n');
        std::string_view line = rest.substr(0, end);
        rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
        while (line.ends_with('\r')) line.remove_suffix(1);
        return line;
    }

    /// Calls `f(position, cell)` for each cell; how many there are.
    template <class F>
    static std::size_t for_each_cell(std::string_view line, F f) {
        for (std::size_t position = 0;; ++position) {
            const auto end = line.find(',');
            f(position, line.substr(0, end));
            if (end == line.npos) return position + 1;
            line.remove_prefix(end + 1);
        }
    }

    void read_header(std::string_view line) {
        constexpr std::string_view advice = "begin the file with id,lower,upper,size";
        at_.fill(nowhere);
        header_ = line;
        columns_ = for_each_cell(line, [&](std::size_t position, std::string_view cell) {
            const auto* const name = std::find(names.begin(), names.end(), trimmed(cell));
            if (name == names.end()) return;
            std::size_t& at = at_[static_cast<std::size_t>(name - names.begin())];
            if (at != nowhere)
                throw error({}, "line 1", "names the column " + std::string(*name) + " twice", advice);
            at = position;
        });
        for (std::size_t c = id_column; c <= bytes; ++c)
            if (at_[c] == nowhere)
                throw error({}, "line 1", "there is no column " + std::string(names[c]), advice);
    }

    void read_row(std::string_view line) {
        std::array<std::string_view, named> cells{};
        const std::size_t count = for_each_cell(line, [&](std::size_t position, std::string_view cell) {
            for (std::size_t c = 0; c < named; ++c)
                if (at_[c] == position) cells[c] = trimmed(cell);
        });
        if (count != columns_)
            fail("has " + std::to_string(count) + " columns, the header " + std::to_string(columns_),
                 count < columns_ ? "see whether the file was cut off" : "give one cell for each column");
        if (cells[id_column].empty()) fail("has no id", "give each row an id of its own");
        const std::string_view id = cells[id_column];
        const row r{
            line, id, number_, whole(id, lower, cells), whole(id, upper, cells), whole(id, bytes, cells)};
        if (r.upper < r.lower)
            fail("id " + std::string(id) + ": upper " + std::to_string(r.upper) + " is below lower " +
                     std::to_string(r.lower),
                 "give a lifetime as lower and the first time after it");
        rows_.push_back(r);
    }

    std::uint64_t whole(std::string_view id, column c,
                        const std::array<std::string_view, named>& cells) const {
        const std::string_view text = cells[c];
        const auto refuse = [&](std::string_view what) {
            fail("id " + std::string(id) + ": " + std::string(names[c]) + " '" + std::string(text) + "' " +
                     std::string(what),
                 "give a whole number below 2^63");
        };
        const bool negative = text.starts_with('-');
        const std::string_view digits = text.substr(negative);
        if (digits.empty() || digits.find_first_not_of("0123456789") != digits.npos)
            refuse("is no whole number");
        if (negative) refuse("is negative");
        std::uint64_t value = 0;
        for (const char digit : digits) {
            constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
            const auto unit = static_cast<std::uint64_t>(digit - '0');
            if (value > (most - unit) / 10) refuse("is too large");
            value = value * 10 + unit;
        }
        return value;
    }

    [[noreturn]] void fail(const std::string& what, std::string_view advice) const {
        throw error({}, "line " + std::to_string(number_), what, advice);
    }

    void check_ids() {
        std::vector<std::size_t> by_id(rows_.size());
        for (std::size_t i = 0; i < by_id.size(); ++i) by_id[i] = i;
        std::ranges::stable_sort(by_id, {}, [this](std::size_t i) { return rows_[i].id; });
        for (std::size_t i = 1; i < by_id.size(); ++i) {
            const row &first = rows_[by_id[i - 1]], &second = rows_[by_id[i]];
            if (first.id != second.id) continue;
            number_ = second.number;
            fail("id " + std::string(second.id) + " stands in line " + std::to_string(first.number) +
                     " already",
                 "give each row an id of its own");
        }
    }

    void rank_times() {
        std::vector<std::uint64_t> times;
        for (const row& r : rows_) times.insert(times.end(), {r.lower, r.upper});
        std::ranges::sort(times);
        times.erase(std::unique(times.begin(), times.end()), times.end());
        const auto rank = [&](std::uint64_t time) {
            return static_cast<std::uint32_t>(std::ranges::lower_bound(times, time) - times.begin());
        };
        for (const row& r : rows_)
            intervals_.push_back(r.lower == r.upper
                                     ? arena::interval{}
                                     : arena::interval{rank(r.lower), rank(r.upper) - 1, r.bytes});
    }

    template <class Write>
    void print_row(std::string_view line, std::string_view added, Write& write) const {
        std::string out;
        for_each_cell(line, [&](std::size_t position, std::string_view cell) {
            if (position > 0) out += ',';
            out += position == at_[offset] ? added : cell;
        });
        if (at_[offset] == nowhere) {
            out += ',';
            out += added;
        }
        out += '\n';
        write(std::string_view(out));
    }

    std::string text_;
    std::string_view header_;
    std::array<std::size_t, named> at_{}; ///< positions of the columns named
    std::size_t columns_ = 0, number_ = 0;
    std::vector<row> rows_;
    std::vector<arena::interval> intervals_;
};

} // namespace echo::format
