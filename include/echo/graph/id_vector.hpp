// SPDX-License-Identifier: BSL-1.0
/// @file
/// Tables by strong id: `id_vector` (a value for each), `id_set` (some of them), `id_rows` (a row of an array for
/// each), `id_lists` (a list for each). Indexed by the id itself, so that a table of nodes is never read with a value,
/// a step or a bare number.
#pragma once

#include <echo/graph/ids.hpp>
#include <echo/graph/large_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

namespace echo {

/// A value for each id. A vector in all else; its memory is kept by `assign`, `resize` and `clear`.
template <class Id, class T>
class id_vector {
public:
    id_vector() = default;
    /// For ids from 0 to `size` − 1.
    explicit id_vector(std::size_t size, const T& each = T()) : items_(size, each) {}

    /// The value of an id. O(1).
    T& operator[](Id i) { return items_[i.index()]; }
    /// The value of an id. O(1).
    const T& operator[](Id i) const { return items_[i.index()]; }

    /// How many ids have a value.
    std::size_t size() const noexcept { return items_.size(); }
    /// Whether no id has one.
    bool empty() const noexcept { return items_.empty(); }
    /// All ids of the table, in order.
    id_range<Id> ids() const noexcept { return {0, items_.size()}; }
    /// The values, in the order of their ids.
    std::span<T> values() noexcept { return items_; }
    /// The values, in the order of their ids.
    std::span<const T> values() const noexcept { return items_; }
    /// The value of the last id.
    T& back() { return items_.back(); }
    /// The value of the last id.
    const T& back() const { return items_.back(); }

    /// The same value for ids from 0 to `size` − 1.
    void assign(std::size_t size, const T& each) {
        const T value = each; // a copy that no table holds: many can be filled at once
        items_.resize(size);
        for (T& item : items_) item = value;
    }
    /// Ids that are new get that value.
    void resize(std::size_t size, const T& each = T()) { items_.resize(size, each); }
    /// Room for so many, so that growing takes no memory.
    void reserve(std::size_t size) { items_.reserve(size); }
    /// No id has a value.
    void clear() noexcept { items_.clear(); }
    /// The value of the next id.
    void push_back(const T& item) { items_.push_back(item); }
    /// The next id gets a new value, to be filled in place. O(1) amortised.
    T& add() { return items_.emplace_back(); }

    friend bool operator==(const id_vector&, const id_vector&) = default;

private:
    detail::large_vector<T> items_;
};

/// Some of the ids from 0 to a size: one byte each, which is faster than a bit.
template <class Id>
class id_set {
public:
    id_set() = default;
    /// Of so many ids none, or all.
    explicit id_set(std::size_t size, bool all = false) : has_(size, {all}) {}

    /// Whether the id is in the set. O(1).
    bool operator[](Id i) const { return has_[i.index()].is; }
    /// Whether the id is in the set, to be assigned. O(1).
    bool& operator[](Id i) { return has_[i.index()].is; }
    /// Adds the id. O(1).
    void insert(Id i) { (*this)[i] = true; }
    /// The next id, in the set or not.
    void push_back(bool in) { has_.push_back({in}); }
    /// Takes the id out. O(1).
    void erase(Id i) { (*this)[i] = false; }
    /// Inserts the id. Whether it was not in the set before.
    [[nodiscard]] bool add(Id i) { return !std::exchange((*this)[i], true); }

    /// Of so many ids none, or all.
    void assign(std::size_t size, bool all = false) {
        has_.resize(size);
        for (flag& each : has_) each.is = all;
    }
    /// Ids that are new are not in the set.
    void resize(std::size_t size) { has_.resize(size); }
    /// Takes out what is not in the other set, which has as many ids. O(ids).
    void keep_only(const id_set& other) {
        for (std::size_t i = 0; i < has_.size(); ++i) has_[i].is &= other.has_[i].is;
    }
    /// Whether any id is in the set. O(ids).
    bool has_any() const noexcept {
        return !has_.empty() && std::memchr(has_.data(), true, has_.size()) != nullptr;
    }
    /// How many ids there are, in the set or not.
    std::size_t size() const noexcept { return has_.size(); }
    /// Whether there are no ids at all.
    bool empty() const noexcept { return has_.empty(); }
    /// All ids, in the set or not, in order.
    id_range<Id> ids() const noexcept { return {0, has_.size()}; }

    /// Whether both have the same ids and the same of them. O(ids).
    friend bool operator==(const id_set& a, const id_set& b) {
        return a.size() == b.size() &&
               (a.empty() || std::memcmp(a.has_.data(), b.has_.data(), a.size() * sizeof(flag)) == 0);
    }

private:
    struct flag {
        bool is = false;
    };
    detail::large_vector<flag> has_;
};

/// Where the row of each id lies in an array that has all rows one behind the other (compressed sparse rows).
template <class Id, class Position = std::uint32_t>
class id_rows {
public:
    /// How many ids have a row. O(1).
    std::size_t size() const noexcept { return bounds_.size() - 1; }
    /// Where the row begins. O(1).
    Position begin_of(Id i) const { return bounds_[i.index()]; }
    /// Behind the last item of the row. O(1).
    Position end_of(Id i) const { return bounds_[i.index() + std::size_t{1}]; }
    /// Behind the last item of all rows. O(1).
    Position end() const { return bounds_.back(); }
    /// The row of that array. O(1).
    template <class Items>
    std::span<const typename Items::value_type> in(const Items& items, Id i) const {
        return {items.data() + begin_of(i), items.data() + end_of(i)};
    }

    /// The row of the next id begins where the last one ends, and ends there.
    void push_back(std::size_t end) { bounds_.push_back(static_cast<Position>(end)); }
    /// Rows of so many items, one behind the other, and no others. Leaves where each begins in the place of its length.
    /// O(rows).
    void lay_out(id_vector<Id, Position>& lengths) {
        bounds_.resize(lengths.size() + 1);
        Position end = 0;
        Position* bound = bounds_.data();
        for (Position& length : lengths.values()) {
            *bound++ = end;
            end += std::exchange(length, end);
        }
        *bound = end;
    }

private:
    detail::large_vector<Position> bounds_{0}; ///< id: where its row begins; and one more, the end of all
};

/// A list for each id, one behind the other in one array (compressed sparse rows). Filled in two passes that visit the
/// same items: `begin`, `count` each, `lay_out`, `add` each.
template <class Id, class T>
class id_lists {
public:
    /// Forgets all; there are so many ids.
    void begin(std::size_t ids) { next_.assign(ids, 0); }
    /// There will be one more item in the list of `i`.
    void count(Id i) { ++next_[i]; }
    /// After all are counted.
    void lay_out() {
        rows_.lay_out(next_);
        if (items_.capacity() < rows_.end())
            items_.clear(); // growing would copy them, and take twice as much
        items_.resize(rows_.end());
    }
    /// Behind what the list of `i` has already.
    void add(Id i, const T& item) { items_[next_[i]++] = item; }

    /// How many ids there are.
    std::size_t size() const noexcept { return rows_.size(); }
    /// The list of an id. O(1).
    std::span<const T> operator[](Id i) const { return rows_.in(items_, i); }

private:
    id_rows<Id> rows_;
    id_vector<Id, std::uint32_t> next_; ///< where the next item goes; until `lay_out`, how many there will be
    detail::large_vector<T> items_;
};

} // namespace echo
