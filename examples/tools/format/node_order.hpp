// SPDX-License-Identifier: BSL-1.0
/// @file
/// `node_order`: the execution order of nodes that are named by index. Nodes can be put in, taken out and
/// moved without any index changing; until that happens the order is 0, 1, 2, … and takes no memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <vector>

namespace echo::format {

class node_order {
public:
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    class iterator {
    public:
        using value_type = std::uint32_t;
        using difference_type = std::ptrdiff_t;
        iterator() = default;
        iterator(const node_order* order, std::uint32_t at) : order_(order), at_(at) {}
        std::uint32_t operator*() const noexcept { return at_; }
        iterator& operator++() {
            at_ = order_->after(at_);
            return *this;
        }
        iterator operator++(int) {
            auto old = *this;
            ++*this;
            return old;
        }
        friend bool operator==(const iterator& a, const iterator& b) noexcept { return a.at_ == b.at_; }

    private:
        const node_order* order_ = nullptr;
        std::uint32_t at_ = none;
    };

    iterator begin() const { return {this, linked() ? next_.back() : size_ ? 0 : none}; }
    iterator end() const { return {this, none}; }

    /// Appends the next index to the order; only before any other change.
    void append() noexcept { ++size_; }

    /// Puts the next index, `size of all indices so far`, before `before`. O(1) amortised.
    std::uint32_t insert_new(std::uint32_t before) {
        link();
        const std::uint32_t n = size_++;
        next_.insert(next_.end() - 1, none);
        previous_.insert(previous_.end() - 1, none);
        // The head of the ring is the last element: its neighbours name it `none`, so nothing else moves.
        insert(n, before);
        return n;
    }
    void move(std::uint32_t n, std::uint32_t before) {
        if (n == before) return;
        link();
        erase(n);
        insert(n, before);
    }
    void erase(std::uint32_t n) {
        link();
        positions_.clear();
        at(next_, previous_[n]) = next_[n];
        at(previous_, next_[n]) = previous_[n];
    }

    /// The position of `n` in the order. O(1), but O(nodes) after a change; not for use by several threads
    /// then.
    std::size_t position(std::uint32_t n) const {
        if (!linked()) return n;
        if (positions_.empty()) {
            positions_.assign(size_, none);
            std::uint32_t position = 0;
            for (const auto m : *this) positions_[m] = position++;
        }
        return positions_[n];
    }

private:
    bool linked() const noexcept { return !next_.empty(); }
    std::uint32_t after(std::uint32_t n) const { return linked() ? next_[n] : n + 1 < size_ ? n + 1 : none; }

    /// The neighbour entry of `n`; that of `none` is the head of the ring, the last element.
    static std::uint32_t& at(std::vector<std::uint32_t>& neighbour, std::uint32_t n) {
        return n == none ? neighbour.back() : neighbour[n];
    }

    void link() {
        if (linked()) return;
        next_.resize(size_ + std::size_t{1});
        previous_.resize(size_ + std::size_t{1});
        for (std::uint32_t n = 0; n < size_; ++n) {
            next_[n] = n + 1 < size_ ? n + 1 : none;
            previous_[n] = n ? n - 1 : none;
        }
        next_.back() = size_ ? 0 : none;
        previous_.back() = size_ ? size_ - 1 : none;
    }

    void insert(std::uint32_t n, std::uint32_t before) {
        positions_.clear();
        const std::uint32_t left = at(previous_, before);
        next_[n] = before;
        previous_[n] = left;
        at(next_, left) = n;
        at(previous_, before) = n;
    }

    std::uint32_t size_ = 0; ///< indices given out, erased ones included
    std::vector<std::uint32_t> next_, previous_;
    mutable std::vector<std::uint32_t> positions_;
};

} // namespace echo::format
