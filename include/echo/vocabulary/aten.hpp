// SPDX-License-Identifier: BSL-1.0
/// @file
/// PyTorch's ATen ops by the names that exported graphs use: `echo::aten.find("aten.mm.default")`.
///
/// One entry serves all overloads of an op (`aten.add.Tensor`, `aten.add.Scalar`), unless an overload has its
/// own. Overloads that write into an argument (`aten.add_.Tensor`, `aten.add.out`) never run again. Positions
/// of inputs count tensors only, as graphs list them. What holds only for some arguments of an op is not
/// claimed: `threshold_backward` needs one bit of its second input if its threshold is 0, and whoever sees
/// the arguments may say so. FLOPs of a transposed convolution are not counted.
#pragma once

#include <echo/vocabulary/aten_rows.hpp>
#include <echo/vocabulary/vocabulary.hpp>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace echo {

/// The vocabulary of ATen.
class aten_vocabulary {
public:
    /// The facts of `aten.OP`, `aten.OP.OVERLOAD` (also written `aten::OP.OVERLOAD`), or nullptr if the op is
    /// not known. O(log size).
    constexpr const op_facts* find(std::string_view name) const noexcept {
        if (name.starts_with("aten."))
            name.remove_prefix(5);
        else if (name.starts_with("aten::"))
            name.remove_prefix(6);
        else
            return nullptr;
        if (const auto* const exact = table.find(name)) return exact;
        const auto dot = name.find('.');
        auto base = name.substr(0, dot);
        const auto overload = dot == name.npos ? std::string_view{} : name.substr(dot + 1);
        const bool inplace = base.size() > 1 && base.ends_with('_') && !base.ends_with("__");
        if (inplace && table.find(base) == nullptr) base.remove_suffix(1);
        const auto* const found = table.find(base);
        if (found == nullptr || !(inplace || writes(overload))) return found;
        return found->kind == op_kind::heavy ? &writing_heavy : &writing_light;
    }
    /// The same, and `unknown_op` where the name is not known. O(log size).
    constexpr op_facts operator[](std::string_view name) const noexcept {
        if (const auto* const found = find(name)) return *found;
        return unknown_op(name);
    }
    /// Every entry, sorted, without the prefix.
    static constexpr const auto& entries() noexcept { return table; }

private:
    // The overloads that are handed their outputs: "out" stands as a word in most names, the others are named
    // after an output.
    static constexpr bool writes(std::string_view overload) noexcept {
        constexpr std::string_view results[] = {
            "grad_input", "dim_max", "dim_min", "dim_values", "values",      "values_stable",
            "output",     "result",  "sign",    "inverse",    "eigenvalues", "eigvals",
            "L",          "U",       "X",       "Q",          "out"};
        return overload.ends_with("_out") || overload.starts_with("out_") || overload.starts_with("Out") ||
               overload.find("_out_") != overload.npos ||
               std::find(std::begin(results), std::end(results), overload) != std::end(results);
    }

    static constexpr auto table = make_vocabulary<detail::aten_rows>();
    static constexpr op_facts writing_light{
        .name = "writes an argument", .known = true, .kind = op_kind::light};
    static constexpr op_facts writing_heavy{
        .name = "writes an argument", .known = true, .kind = op_kind::heavy};
};

inline constexpr aten_vocabulary aten{}; ///< The vocabulary itself, a constant.

} // namespace echo
