// SPDX-License-Identifier: BSL-1.0
/// @file
/// One step of a fused program as an expression of C++. Names in it are numbers of steps.
#pragma once

#include <echo/cuda/kernel/source_program.hpp>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace echo::cuda::fused::detail {

/// `x` as a literal of type float that reads back as the very same bits, whatever the locale.
inline std::string literal_text(float x) {
    char digits[40];
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if (!std::isfinite(x)) {
        const auto end = std::to_chars(digits, digits + sizeof digits, bits, 16).ptr;
        return "echo_number(0x" + std::string(digits, end) + "u)";
    }
    const auto end = std::to_chars(digits, digits + sizeof digits, std::fabs(x), std::chars_format::hex).ptr;
    std::string text = "0x" + std::string(digits, end) + "f";
    return std::signbit(x) ? "(-" + text + ")" : text;
}

/// An operation as an expression of its operands A, B and C. What is not here is a selection: the linker lets nothing
/// else through.
constexpr std::string_view pattern_of(symbol::operation op) noexcept {
    using symbol::operation;
    constexpr struct {
        operation op;
        std::string_view text;
    } table[] = {
    // clang-format off
/// @cond
#define ECHO_PATTERN_OF_OPERATOR(name, sign, text) {operation::name, text},
#define ECHO_PATTERN_OF_FUNCTION(name, text) {operation::name, text},
/// @endcond
        ECHO_BINARY_OPERATORS(ECHO_PATTERN_OF_OPERATOR)
        ECHO_COMPARISONS(ECHO_PATTERN_OF_OPERATOR)
        ECHO_LOGICAL_OPERATORS(ECHO_PATTERN_OF_OPERATOR)
        ECHO_UNARY_FUNCTIONS(ECHO_PATTERN_OF_FUNCTION)
        ECHO_BINARY_FUNCTIONS(ECHO_PATTERN_OF_FUNCTION)
#undef ECHO_PATTERN_OF_OPERATOR
#undef ECHO_PATTERN_OF_FUNCTION
        // clang-format on
        {operation::negate, "-A"},
        {operation::logical_not, "!A"},
    };
    for (const auto& row : table)
        if (row.op == op) return row.text;
    return "A ? B : C";
}

/// The steps of a program as text: v0, v1, …; those that are known before a pass over the row are members of `r`.
class step_text {
public:
    explicit step_text(const run_time_program& p) noexcept : p_(p) {}

    static std::string v(std::size_t i) { return std::to_string(i).insert(0, 1, 'v'); }
    static bool is_truth(const step& s) noexcept {
        return s.kind == step_kind::elementwise && symbol::is_mask(s.op);
    }
    bool in_pass(std::size_t i, std::size_t pass) const noexcept {
        return (p_.timing[i].needed_by >> pass & 1) != 0 && !known(i);
    }
    /// Known before a pass: a member of the row's values.
    bool known(std::size_t i) const noexcept { return p_.rows.by_row && p_.timing[i].uniform; }
    std::string value(std::size_t i) const { return (known(i) ? "r." : "") + v(i); }

    /// Step i as an expression; `x`: what an operand is written as.
    std::string expression(std::size_t i) const {
        const step& s = p_.steps[i];
        switch (s.kind) {
        case step_kind::literal:
            return literal_text(static_cast<float>(s.number));
        case step_kind::operand:
            return "x" + std::to_string(s.operands[0]) + ".get(e)";
        case step_kind::row_length:
            return "static_cast<float>(length)";
        case step_kind::row_index:
            return "static_cast<float>(index + e)";
        case step_kind::round_f16:
            return "from_f16(to_f16(" + value(s.operands[0]) + "))";
        case step_kind::round_bf16:
            return "echo_number(static_cast<u32>(to_bf16(" + value(s.operands[0]) + ")) << 16)";
        default:
            return elementwise(s);
        }
    }
    std::string declared(std::size_t i) const {
        return (is_truth(p_.steps[i]) ? "const bool " : "const float ") + v(i) + " = " + expression(i) + ";";
    }
    std::string combined(std::size_t i, const std::string& a, const std::string& b) const {
        return p_.steps[i].kind == step_kind::row_sum ? a + " + " + b : "echo_greater(" + a + ", " + b + ")";
    }
    /// The reductions that are made in that pass.
    std::vector<std::size_t> reductions(std::size_t pass) const {
        std::vector<std::size_t> found;
        for (std::size_t i = 0; i < p_.steps.size(); ++i)
            if (is_row_reduction(p_.steps[i].kind) && p_.timing[i].level == pass + 1) found.push_back(i);
        return found;
    }

private:
    std::string elementwise(const step& s) const {
        std::string text;
        for (const char c : pattern_of(s.op))
            if (c >= 'A' && c <= 'C')
                text += value(s.operands[static_cast<std::size_t>(c - 'A')]);
            else
                text += c;
        return text;
    }

    const run_time_program& p_;
};

} // namespace echo::cuda::fused::detail
