// SPDX-License-Identifier: BSL-1.0
/// @file
/// `op_facts`: all that Echo asks about an operation, as plain data. Three ways to make one: `facts_of<Op>()`
/// from `op_traits<Op>` (op_traits.hpp), `facts_of(variant)`, or `table[name]` from a vocabulary
/// (vocabulary/).
#pragma once

#include <echo/tensor.hpp>

#include <array>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace echo {

/// What running an op costs. `heavy`: compute-bound, the natural boundary of recomputation; `light`: about
/// one pass over memory; `view`: no work, its output lies on an input's storage.
enum class op_kind : std::uint8_t { heavy, light, view };

/// Whether an op may run again. `seeded`: yes, with the same seed; `never`: it has side effects or cannot be
/// proved.
enum class rerun_kind : std::uint8_t { pure, seeded, never };

/// The name that `echo-graph/1` uses.
constexpr std::string_view name_of(op_kind kind) noexcept {
    constexpr std::string_view names[] = {"heavy", "light", "view"};
    return names[static_cast<std::size_t>(kind)];
}
/// The name that `echo-graph/1` uses.
constexpr std::string_view name_of(rerun_kind kind) noexcept {
    constexpr std::string_view names[] = {"pure", "seeded", "never"};
    return names[static_cast<std::size_t>(kind)];
}

/// A set of positions among the inputs or the outputs of a node. Positions from 63 on share one element.
class positions {
public:
    constexpr positions() = default;
    /// These positions.
    constexpr positions(std::initializer_list<std::size_t> members) {
        for (const auto member : members) insert(member);
    }
    /// Every position there may be.
    static constexpr positions all() noexcept {
        positions every;
        every.bits_ = ~std::uint64_t{0};
        return every;
    }
    /// Positions 0 to `count` − 1.
    static constexpr positions first(std::size_t count) noexcept {
        positions some;
        for (std::size_t i = 0; i < count; ++i) some.insert(i);
        return some;
    }
    /// Adds a position. O(1).
    constexpr void insert(std::size_t position) noexcept { bits_ |= bit(position); }
    /// Whether the position is in the set. O(1).
    constexpr bool contains(std::size_t position) const noexcept { return (bits_ & bit(position)) != 0; }
    /// Whether no position is.
    constexpr bool empty() const noexcept { return bits_ == 0; }
    friend constexpr bool operator==(positions, positions) = default;
    /// Positions of either set.
    friend constexpr positions operator|(positions a, positions b) noexcept {
        a.bits_ |= b.bits_;
        return a;
    }
    /// Positions of both sets.
    friend constexpr positions operator&(positions a, positions b) noexcept {
        a.bits_ &= b.bits_;
        return a;
    }

private:
    static constexpr std::uint64_t bit(std::size_t position) noexcept {
        return std::uint64_t{1} << (position < 63 ? position : 63);
    }
    std::uint64_t bits_ = 0;
};

/// Which inputs and outputs of a forward op its gradient reads.
struct reads {
    positions inputs{};  ///< Positions of inputs.
    positions outputs{}; ///< Positions of outputs.
    /// All inputs and all outputs: what is assumed where nobody says.
    static constexpr reads everything() noexcept { return {positions::all(), positions::all()}; }
    friend constexpr bool operator==(const reads&, const reads&) = default;
};

/// Output `output` lies on (view) or may take over (in place) the storage of input `input`.
struct storage_pair {
    std::uint8_t output = 0, input = 0; ///< Positions, from 0.
    friend constexpr bool operator==(const storage_pair&, const storage_pair&) = default;
};

/// Up to four storage pairs, a value usable at compile time.
class storage_pairs {
public:
    constexpr storage_pairs() = default;
    /// These pairs. Errors: more than four do not compile, or throw std::out_of_range.
    constexpr storage_pairs(std::initializer_list<storage_pair> pairs) {
        for (const auto& pair : pairs) pairs_.at(size_++) = pair;
    }
    /// The first pair.
    constexpr auto begin() const noexcept { return pairs_.begin(); }
    /// Behind the last pair.
    constexpr auto end() const noexcept { return pairs_.begin() + size_; }
    /// How many pairs there are.
    constexpr std::size_t size() const noexcept { return size_; }
    /// Whether there is none.
    constexpr bool empty() const noexcept { return size_ == 0; }
    friend constexpr bool operator==(const storage_pairs&, const storage_pairs&) = default;

private:
    std::array<storage_pair, 4> pairs_{};
    std::uint8_t size_ = 0;
};

/// The name of an op. Text that is there at compile time, as in a table, is referred to; text of a running program is
/// copied, so that a name may be made of a temporary.
class op_name {
public:
    constexpr op_name() noexcept = default;
    /// This text. O(length).
    constexpr op_name(std::string_view text) : text_(text) { own(); }
    /// This text. O(length).
    constexpr op_name(const char* text) : op_name(std::string_view(text)) {}
    /// This text. O(length).
    constexpr op_name(const std::string& text) : op_name(std::string_view(text)) {}
    constexpr op_name(const op_name& other) : text_(other.text_) {
        if (other.owned_) own();
    }
    constexpr op_name(op_name&& other) noexcept { swap(other); }
    // Not by value: clang 16 does not destroy the argument of `name = {}` in a template.
    /// Takes the text of another name. O(length).
    constexpr op_name& operator=(const op_name& other) {
        op_name copy(other);
        swap(copy);
        return *this;
    }
    /// Takes the text of a name that is not needed any more. O(1).
    constexpr op_name& operator=(op_name&& other) noexcept {
        op_name moved(std::move(other));
        swap(moved);
        return *this;
    }
// g++ 12 takes the name for uninitialized where it belongs to an aggregate of which a later member may throw.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
    constexpr ~op_name() { delete[] owned_; }
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

    /// The text, as long as this name is there.
    constexpr operator std::string_view() const noexcept { return text_; }
    /// Whether the text is that of another name, or this text.
    template <std::convertible_to<std::string_view> Text>
    friend constexpr bool operator==(const op_name& a, const Text& b) noexcept {
        return a.text_ == std::string_view(b);
    }
    /// The order of the texts.
    template <std::convertible_to<std::string_view> Text>
    friend constexpr auto operator<=>(const op_name& a, const Text& b) noexcept {
        return a.text_ <=> std::string_view(b);
    }
    /// Writes the text.
    template <class Traits>
    friend std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out,
                                                        const op_name& name) {
        return out << name.text_;
    }

private:
    constexpr void own() {
        if (std::is_constant_evaluated() || text_.empty()) return;
        owned_ = new char[text_.size()];
        text_.copy(owned_, text_.size());
        text_ = {owned_, text_.size()};
    }
    constexpr void swap(op_name& other) noexcept {
        const std::string_view text = text_;
        char* const owned = owned_;
        text_ = other.text_;
        owned_ = other.owned_;
        other.text_ = text;
        other.owned_ = owned;
    }
    std::string_view text_{};
    char* owned_ = nullptr;
};

/// Floating-point operations, or bytes of workspace, of one run of an op on these inputs and outputs.
using flops_function = double (*)(std::span<const tensor> inputs, std::span<const tensor> outputs);
/// Bytes of scratch memory of one run of an op on these inputs and outputs.
using workspace_function = std::uint64_t (*)(std::span<const tensor> inputs, std::span<const tensor> outputs);

/// The facts of one op. The defaults are the pessimistic ones: what nobody stated is heavy, never runs again,
/// and its gradient reads everything. `flops` and `workspace` are called once per node, when the snapshot is
/// read.
struct op_facts {
    op_name name{}; ///< What reports call the op.
    /// false: nobody knows the op, and the report lists it. Left out: as `is_known` says.
    std::optional<bool> known{};
    op_kind kind = op_kind::heavy;        ///< How much work it is.
    rerun_kind rerun = rerun_kind::never; ///< Whether it may run again.
    /// What its gradient reads of inputs and outputs.
    reads gradient_reads = reads::everything();
    reads gradient_one_bit{};      ///< the part of `gradient_reads` of which one bit per element is enough
    positions one_bit_inputs{};    ///< inputs of which the op itself needs one bit per element only
    storage_pairs views{};         ///< outputs that lie on an input's storage
    storage_pairs inplace{};       ///< outputs that may take over an input's storage
    bool gradient_inplace = false; ///< the gradient may overwrite the output's gradient with the input's
    /// Seeded: what it draws hangs on seed and element alone, whatever kernel draws it.
    bool draws_by_element = false;
    flops_function flops = nullptr;         ///< nullptr: none counted
    workspace_function workspace = nullptr; ///< nullptr: none
};

/// Whether anybody knows the op: `known`, and where that is left out, whether anything but its name is stated.
constexpr bool is_known(const op_facts& f) noexcept {
    if (f.known) return *f.known;
    return f.kind != op_kind::heavy || f.rerun != rerun_kind::never ||
           f.gradient_reads != reads::everything() || f.gradient_one_bit != reads{} ||
           !f.one_bit_inputs.empty() || !f.views.empty() || !f.inplace.empty() || f.gradient_inplace ||
           f.draws_by_element || f.flops != nullptr || f.workspace != nullptr;
}

} // namespace echo
