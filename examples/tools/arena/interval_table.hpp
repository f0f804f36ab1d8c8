// SPDX-License-Identifier: BSL-1.0
/// @file
/// `interval_table`: minimalloc's CSV, `id,lower,upper,size` with half-open lifetimes, as a value; also `alignment`, `gaps`
/// and `hint`, and the older names `buffer`, `start` and `end`, where `end` is the last time. Columns may stand in any
/// order; one that is not known is refused, since it might matter.
#pragma once

#include "arena/table_cell.hpp"

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
    /// Reads a text. Errors name the line, the column and the id: whatever is missing, twice there, not known, no whole
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

    /// One per row, without gaps. Times are ranks among all times of the table; an interval of no time has no bytes.
    const std::vector<arena::interval>& intervals() const noexcept { return intervals_; }
    /// One per row.
    const std::vector<shape>& shapes() const noexcept { return shapes_; }
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
    enum column : std::size_t { id_column, lower, upper, bytes, alignment, gaps, hint, offset, named };
    static constexpr std::array<std::string_view, named> names = {"id",        "lower", "upper", "size",
                                                                  "alignment", "gaps",  "hint",  "offset"};
    /// Other names of these columns. An `end` is the last time, not the first behind it.
    static constexpr std::array<std::pair<std::string_view, column>, 5> more_names = {
        {{"buffer", id_column},
         {"buffer_id", id_column},
         {"start", lower},
         {"begin", lower},
         {"end", upper}}};
    static constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();

    struct row {
        std::string_view line, id;
        std::size_t number; ///< in the file, from 1
        std::uint64_t lower, upper, bytes;
    };
    using cells = std::array<std::string_view, named>;

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

    /// Errors: there is no column of that name.
    column column_named(std::string_view name) {
        const auto* const found = std::find(names.begin(), names.end(), name);
        if (found != names.end()) return static_cast<column>(found - names.begin());
        for (const auto& [other, meant] : more_names)
            if (other == name) {
                ends_are_last_ = ends_are_last_ || name == "end";
                return meant;
            }
        throw error({}, "line 1", "the column '" + std::string(name) + "' is not known",
                    "leave it out; " + known());
    }
    static std::string known() {
        std::string text = "known are";
        for (const auto name : names) text.append(name == names[0] ? " " : ", ").append(name);
        for (const auto& [name, meant] : more_names) text.append(", ").append(name);
        return text;
    }

    void read_header(std::string_view line) {
        constexpr std::string_view advice = "begin the file with id,lower,upper,size";
        at_.fill(nowhere);
        header_ = line;
        if (trimmed(line).empty()) throw error({}, "line 1", "there is no column id", advice);
        columns_ = for_each_cell(line, [&](std::size_t position, std::string_view cell) {
            const column c = column_named(trimmed(cell));
            if (at_[c] != nowhere)
                throw error({}, "line 1", "names the column " + std::string(names[c]) + " twice", advice);
            at_[c] = position;
        });
        for (std::size_t c = id_column; c <= bytes; ++c)
            if (at_[c] == nowhere)
                throw error({}, "line 1", "there is no column " + std::string(names[c]), advice);
    }

    void read_row(std::string_view line) {
        cells found{};
        const std::size_t count = for_each_cell(line, [&](std::size_t position, std::string_view cell) {
            for (std::size_t c = 0; c < named; ++c)
                if (at_[c] == position) found[c] = trimmed(cell);
        });
        if (count != columns_)
            fail("has " + std::to_string(count) + " columns, the header " + std::to_string(columns_),
                 count < columns_ ? "see whether the file was cut off" : "give one cell for each column");
        const std::string_view id = found[id_column];
        if (id.empty()) fail("has no id", "give each row an id of its own");
        const row r{line,
                    id,
                    number_,
                    value(lower, found, read_whole),
                    value(upper, found, read_whole) + (ends_are_last_ ? 1 : 0),
                    value(bytes, found, read_size)};
        if (r.upper < r.lower)
            fail("id " + std::string(id) + ": upper " + std::to_string(r.upper) + " is below lower " +
                     std::to_string(r.lower),
                 "give a lifetime as lower and the first time after it");
        if (at_[hint] != nowhere && found[hint] != "-1")
            value(hint, found, read_whole); // not needed by our search
        rows_.push_back(r);
        shapes_.push_back(shape_of(r, found));
    }

    template <class Read>
    std::uint64_t value(column c, const cells& found, const Read& read) const {
        const whole_cell cell = read(found[c]);
        if (!cell.problem.empty())
            fail("id " + std::string(found[id_column]) + ": " + std::string(names[c]) + " '" +
                     std::string(found[c]) + "' " + std::string(cell.problem),
                 "give a whole number below 2^63");
        return cell.value;
    }

    /// Errors: the alignment is 0; a gap is none, or not within the row's times and bytes, or not behind the one before
    /// it.
    shape shape_of(const row& r, const cells& found) const {
        shape made{.bytes = r.bytes};
        if (at_[alignment] != nowhere) made.align = value(alignment, found, read_size);
        if (made.align == 0) fail("id " + std::string(r.id) + ": alignment is 0", "give 1 or more");
        std::uint64_t now = r.lower;
        const auto add = [&](const shape_span& s) {
            if (s.begin < s.end && s.low < s.high) made.spans.push_back(s);
        };
        for (std::string_view rest = found[gaps]; !(rest = trimmed(rest)).empty();) {
            const std::string_view text = rest.substr(0, rest.find(' '));
            rest.remove_prefix(text.size());
            auto found_gap = read_gap(text);
            if (found_gap && ends_are_last_) ++found_gap->end;
            if (!found_gap || found_gap->begin < now || found_gap->end > r.upper || found_gap->high > r.bytes)
                fail("id " + std::string(r.id) + ": gap '" + std::string(text) +
                         "' is none, or not within the row's times and size, or not behind the one before it",
                     "write first-end or first-end@low:high");
            add({now, found_gap->begin, 0, r.bytes});
            add({found_gap->begin, found_gap->end, found_gap->low, found_gap->high});
            now = found_gap->end;
        }
        add({now, r.upper, 0, r.bytes});
        return made;
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
    bool ends_are_last_ = false; ///< the column is `end`
    std::vector<row> rows_;
    std::vector<shape> shapes_;
    std::vector<arena::interval> intervals_;
};

} // namespace echo::format
