// SPDX-License-Identifier: BSL-1.0
/// @file
/// `node_filter`: a set of nodes in a few bytes, which may seem to have others as well.
#pragma once

#include <echo/graph/ids.hpp>

#include <cstddef>
#include <cstdint>

namespace echo {

/// A Bloom filter (Bloom 1970) with one hash, the node's number: what it does not have was not added.
class node_filter {
public:
    /// Adds a node. O(1).
    void insert(node_id n) noexcept { words_[word_of(n)] |= bit_of(n); }
    /// Adds all nodes. O(1).
    void insert_all() noexcept {
        for (std::uint64_t& word : words_) word = ~std::uint64_t{0};
    }
    /// Whether a node was added, or another one that has the same bit. O(1).
    bool may_have(node_id n) const noexcept { return (words_[word_of(n)] & bit_of(n)) != 0; }

private:
    /// One bit for each 2,048th node: of the few that a price rests on, hardly two have the same.
    static constexpr std::size_t words = 32;
    static constexpr std::size_t word_of(node_id n) noexcept { return n.index() / 64 % words; }
    static constexpr std::uint64_t bit_of(node_id n) noexcept { return std::uint64_t{1} << n.index() % 64; }

    std::uint64_t words_[words] = {};
};

} // namespace echo
