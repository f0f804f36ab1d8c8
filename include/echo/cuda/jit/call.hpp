// SPDX-License-Identifier: BSL-1.0
/// @file
/// What a generated kernel is called with: operands of any type, and the one parameter that they make.
#pragma once

#include <echo/cuda/kernel/fused_layout.hpp>
#include <echo/cuda/kernel/fused_operand.hpp>
#include <echo/cuda/kernel/source_program.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

namespace echo::cuda::jit {

using fused::storage;

/// An operand or a result of any type: `fused::whole(data, e)` and its like convert.
struct any_operand {
    void* data = nullptr;        ///< Where it lies.
    storage kind = storage::f32; ///< How its elements are stored.
    fused::strides step{};       ///< Elements between neighbours along each axis; 0 repeats.
    bool constant = false;       ///< may be read only

    any_operand() = default;
    /// Data of a type that is known at run time only.
    any_operand(void* at, storage k, const fused::strides& s) : data(at), kind(k), step(s) {}
    /// An operand whose type is known.
    template <class T>
    any_operand(const fused::operand<T>& o)
        : data(const_cast<void*>(static_cast<const void*>(o.data))), kind(fused::storage_of<T>), step(o.step),
          constant(std::is_const_v<T>) {}
};

namespace detail {

/// The kernel's one parameter.
struct parameters {
    fused::launch_shape shape{};
    fused::launch_operand operands[fused::most_operands]{};

    /// What the kernel's warps share out: rows, or 32 groups of elements each.
    std::uint64_t tiles(bool by_row) const noexcept { return by_row ? shape.rows : (shape.groups + 31) / 32; }
};
static_assert(sizeof(fused::launch_shape) == 144 && sizeof(fused::launch_operand) == 48,
              "the generated source declares the same");

/// Checks a call of the program's kernel and fills its parameters; false if there is nothing to do. Errors:
/// `argument_error` as `fused::lay_out` says, and for other counts or types than the program's. O(operands · (operands
/// + steps)).
inline bool prepare(const fused::run_time_program& p, std::span<const any_operand> to,
                    std::span<const any_operand> from, const fused::extents& e, parameters& out) {
    const std::size_t results = p.results.size(), operands = p.operands();
    if (to.size() != results || from.size() != operands)
        throw argument_error("generated kernel",
                             std::to_string(to.size()) + " results and " + std::to_string(from.size()) +
                                 " operands given",
                             "it has " + std::to_string(results) + " and " + std::to_string(operands));
    std::array<fused::layout_operand, fused::most_operands> all{};
    for (std::size_t i = 0; i < p.kinds.size(); ++i) {
        const bool written = i < results;
        const any_operand& o = written ? to[i] : from[i - results];
        const bool used = written || p.reads(i - results);
        if (used && o.kind != p.kinds[i])
            throw argument_error("generated kernel, " + std::string(written ? "result " : "operand ") +
                                     std::to_string(written ? i : i - results),
                                 "is stored in another way than the graph said", "give the graph's type");
        if (written && o.constant)
            throw argument_error("generated kernel, result " + std::to_string(i), "is const",
                                 "give memory that may be written");
        all[i] = {o.data, p.kinds[i], o.step, used, written, written && p.result_by_row(i)};
    }
    const bool any = fused::lay_out(e, std::span(all).first(p.kinds.size()), results, p.rows.by_row,
                                    fused::group_width(p.kinds), out.shape, out.operands);
    if (fused::has_row_index(p.steps)) fused::check_row_index(out.shape);
    return any;
}

} // namespace detail

/// What the warps of the program's kernel share out in such a call: rows, or 32 groups of elements each; 0 if there is
/// nothing to do. Errors and complexity: those of preparing the call.
inline std::uint64_t tiles_of(const fused::run_time_program& p, std::span<const any_operand> to,
                              std::span<const any_operand> from, const fused::extents& e) {
    detail::parameters out;
    return detail::prepare(p, to, from, e, out) ? out.tiles(p.rows.by_row) : 0;
}

} // namespace echo::cuda::jit
