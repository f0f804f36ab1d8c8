// SPDX-License-Identifier: BSL-1.0
/// @file
/// `bit_row`: a row of bits in which the next and the previous one set are found word by word.
#pragma once

#include <echo/config.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace echo::arena {

/// Bits 0 to `size` − 1. One bit at a time O(1), all at once O(size / 64).
class bit_row {
public:
    /// All clear.
    explicit bit_row(std::size_t size) : words_(size / 64 + 1) {}

    /// Whether the bit is set.
    bool operator[](std::size_t i) const { return words_[i / 64] >> i % 64 & 1; }
    /// Sets one bit.
    void set(std::size_t i) { words_[i / 64] |= bit(i); }
    /// Clears one bit.
    void clear(std::size_t i) { words_[i / 64] &= ~bit(i); }
    /// Makes one bit so.
    void set(std::size_t i, bool to) { to ? set(i) : clear(i); }
    /// Sets every bit, those behind the last one too.
    void set_all() { words_.assign(words_.size(), ~std::uint64_t{0}); }
    /// Clears every bit.
    void clear_all() { words_.assign(words_.size(), 0); }

    /// The first bit set at `i` or after it; one must be. O(distance / 64), as `previous`.
    std::size_t next(std::size_t i) const {
        std::size_t w = i / 64;
        std::uint64_t word = words_[w] & ~std::uint64_t{0} << i % 64;
        while (!word) word = words_[++w];
        return w * 64 + static_cast<std::size_t>(std::countr_zero(word));
    }
    /// The last bit set at `i` or before it; one must be.
    std::size_t previous(std::size_t i) const {
        std::size_t w = i / 64;
        std::uint64_t word = words_[w] & ~std::uint64_t{0} >> (63 - i % 64);
        while (!word) word = words_[--w];
        return w * 64 + 63 - static_cast<std::size_t>(std::countl_zero(word));
    }
    /// Calls `f(word, bits)` for the words with bits from `first` to before `end`; other bits are clear. Bit k of word
    /// w is bit 64 w + k of the row. O((end − first) / 64).
    template <class F>
    void for_each_word(std::size_t first, std::size_t end, F f) const {
        for (std::size_t w = first / 64; w * 64 < end; ++w) {
            std::uint64_t bits = words_[w];
            if (w == first / 64) bits &= ~std::uint64_t{0} << first % 64;
            if (end - w * 64 < 64) bits &= ~(~std::uint64_t{0} << end % 64);
            f(w, bits);
        }
    }

private:
    static std::uint64_t bit(std::size_t i) { return std::uint64_t{1} << i % 64; }
    std::vector<std::uint64_t> words_;
};

} // namespace echo::arena
