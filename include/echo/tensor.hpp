// SPDX-License-Identifier: BSL-1.0
/// @file
/// What Echo knows of a tensor: shape, element type, bytes, and where its storage comes from. No data.
#pragma once

#include <echo/error.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace echo {

/// Element types. `other` has no size of its own: a tensor of it must state its bytes.
enum class dtype : std::uint8_t { other, f64, f32, f16, bf16, f8, i64, i32, i16, i8, u8, boolean };

/// Bytes of one element; 0 for `dtype::other`.
constexpr std::uint64_t size_of(dtype type) noexcept {
    switch (type) {
    case dtype::f64:
    case dtype::i64:
        return 8;
    case dtype::f32:
    case dtype::i32:
        return 4;
    case dtype::f16:
    case dtype::bf16:
    case dtype::i16:
        return 2;
    case dtype::f8:
    case dtype::i8:
    case dtype::u8:
    case dtype::boolean:
        return 1;
    case dtype::other:
        return 0;
    }
    return 0;
}

/// Whether gradients flow through elements of this type.
constexpr bool is_floating(dtype type) noexcept {
    return type == dtype::f64 || type == dtype::f32 || type == dtype::f16 || type == dtype::bf16 ||
           type == dtype::f8 || type == dtype::other;
}

/// The name that `echo-graph/1` uses (`f32`, `bool`, …); `other` for `dtype::other`.
constexpr std::string_view name_of(dtype type) noexcept {
    constexpr std::string_view names[] = {"other", "f64", "f32", "f16", "bf16", "f8",
                                          "i64",   "i32", "i16", "i8",  "u8",   "bool"};
    return names[static_cast<std::size_t>(type)];
}

/// The type of that name; `dtype::other` for any name not known.
constexpr dtype dtype_of(std::string_view name) noexcept {
    for (auto t = dtype::f64; t <= dtype::boolean; t = static_cast<dtype>(static_cast<int>(t) + 1))
        if (name_of(t) == name) return t;
    return dtype::other;
}

/// Extents of a tensor, outermost first. Default-constructed: unknown (which is not the same as a scalar).
class shape {
public:
    shape() = default;
    /// Known extents.
    shape(std::initializer_list<std::int64_t> extents) : extents_(extents), known_(true) {}
    /// Known extents.
    explicit shape(std::vector<std::int64_t> extents) : extents_(std::move(extents)), known_(true) {}
    /// Rank 0, one element: known, and without an axis.
    static shape scalar() { return shape(std::vector<std::int64_t>{}); }

    /// Whether the extents were given.
    bool known() const noexcept { return known_; }
    /// How many axes there are; 0 of an unknown shape, too.
    std::size_t rank() const noexcept { return extents_.size(); }
    /// One extent. Errors: std::out_of_range.
    std::int64_t operator[](std::size_t axis) const { return extents_.at(axis); }
    /// All extents.
    std::span<const std::int64_t> extents() const noexcept { return extents_; }
    friend bool operator==(const shape&, const shape&) = default;

private:
    std::vector<std::int64_t> extents_;
    bool known_ = false;
};

/// One output of a node as the host describes it. Aggregate: `{.shape = {32, 64}, .type = echo::dtype::f32}`.
struct tensor {
    echo::shape shape{};                  ///< Extents, if they are known.
    dtype type = dtype::other;            ///< Of an element.
    std::optional<std::uint64_t> bytes{}; ///< wins over shape × type
    bool resident = false;                ///< its storage occupies memory for the whole step
    std::optional<std::size_t> view_of{}; ///< lies on the storage of this input of its node
    std::optional<std::size_t> inplace{}; ///< may take over the storage of this input of its node
};

/// `a + b` or `a * b`, or nothing when 64 bits do not hold it.
constexpr std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) noexcept {
    if (a > std::numeric_limits<std::uint64_t>::max() - b) return std::nullopt;
    return a + b;
}
/// `a * b`, or nothing when 64 bits do not hold it.
constexpr std::optional<std::uint64_t> checked_multiply(std::uint64_t a, std::uint64_t b) noexcept {
    if (b != 0 && a > std::numeric_limits<std::uint64_t>::max() / b) return std::nullopt;
    return a * b;
}

/// Product of the extents; 0 if one of them is 0, wherever it stands. Errors: a negative extent, more than 2^63−1
/// elements.
/// O(rank).
inline std::uint64_t element_count(const shape& extents) {
    bool empty = false;
    for (const auto extent : extents.extents()) {
        if (extent < 0) throw error({}, "shape", "an extent is negative", "give extents of 0 or more");
        empty |= extent == 0;
    }
    if (empty) return 0;
    std::uint64_t count = 1;
    for (const auto extent : extents.extents()) {
        const auto product = checked_multiply(count, static_cast<std::uint64_t>(extent));
        if (!product || *product > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
            throw error({}, "shape", "the number of elements does not fit in 63 bits", "check the extents");
        count = *product;
    }
    return count;
}

/// Bytes of the storage a fresh tensor takes: `bytes` if stated, else elements × size of the type.
/// Errors: neither is known, overflow, or more than 2^62 bytes (sums of them must stay countable). O(rank).
inline std::uint64_t byte_count(const tensor& t) {
    constexpr std::uint64_t limit = std::uint64_t{1} << 62;
    std::uint64_t bytes = 0;
    if (t.bytes) {
        bytes = *t.bytes;
    } else {
        if (!t.shape.known()) throw error({}, "shape", "missing", "give shape and dtype, or bytes");
        if (size_of(t.type) == 0)
            throw error({}, "bytes", "missing for a dtype without a known size", "give bytes");
        const auto product = checked_multiply(element_count(t.shape), size_of(t.type));
        if (!product) throw error({}, "shape", "shape × dtype overflows 64 bits", "check the extents");
        bytes = *product;
    }
    if (bytes > limit) throw error({}, "bytes", "more than 2^62 bytes", "check the extents");
    return bytes;
}

/// Elements of a tensor for one-bit encoding: from the shape, else from bytes and type, else bytes ÷ 4
/// rounded up. O(rank). Errors: as `element_count` and `byte_count`.
inline std::uint64_t encodable_elements(const tensor& t) {
    if (t.shape.known()) return element_count(t.shape);
    const std::uint64_t size = size_of(t.type) ? size_of(t.type) : 4;
    return byte_count(t) / size + (byte_count(t) % size != 0);
}

/// Bytes of `elements` packed to one bit each, in whole 32-bit words.
constexpr std::uint64_t encoded_bytes(std::uint64_t elements) noexcept {
    return (elements / 32 + (elements % 32 != 0)) * 4;
}

} // namespace echo
