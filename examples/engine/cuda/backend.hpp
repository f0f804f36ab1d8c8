// SPDX-License-Identifier: BSL-1.0
/// @file
/// `backend`: runs ops by kernels of its own (kernels.hpp), through a launcher, and by a library. On a device these are
/// CUDA's launches, cuBLAS and cuDNN; on the host they prove the kernels.
#pragma once

#include "engine/cuda/kernels.hpp"
#include "engine/op.hpp"

#include <concepts>
#include <type_traits>
#include <variant>

namespace engine::cuda {

/// Runs an op whose work is another's: `library.run(op, call)` and `library.scratch(op, in, out)`.
template <class Library, class Op>
concept runs = requires(Library& library, const Op& o, const call& c, tensor_span tensors) {
    library.run(o, c);
    { library.scratch(o, tensors, tensors) } -> std::convertible_to<std::uint64_t>;
};

/// Products and convolutions.
template <class Library>
concept library = runs<Library, ops::fully_connected> && runs<Library, ops::fully_connected_data_gradient> &&
                  runs<Library, ops::fully_connected_weight_gradient> && runs<Library, ops::batch_dot> &&
                  runs<Library, ops::convolution> && runs<Library, ops::convolution_data_gradient> &&
                  runs<Library, ops::convolution_weight_gradient>;

/// Whether an op is run by kernels of this back end.
template <class Op, class Launcher>
concept has_kernels = requires(const Op& o, const call& c, Launcher& launcher) { cuda::run(o, c, launcher); };

/// Ops with lambdas are part 0 of the kernels, the others part 1: a compiler may be given each in a unit of its own.
template <class Op>
inline constexpr int part_of = requires { typename Op::lambdas; } ? 0 : 1;

/// Runs an op of that part; others it leaves alone.
template <int Part, class Launcher>
void run_part(const op& o, const call& c, Launcher& launcher) {
    std::visit(
        [&]<class Op>(const Op& one) {
            if constexpr (part_of<Op> == Part && has_kernels<Op, Launcher>) cuda::run(one, c, launcher);
        },
        o);
}

/// Data, and views: no executor runs them.
template <class Op>
inline constexpr bool never_runs = std::is_same_v<Op, ops::input> || std::is_same_v<Op, ops::reshape>;

template <class Launcher, library Library>
class backend {
public:
    /// Both are kept by reference.
    backend(Launcher& launcher, Library& library) : launcher_(launcher), library_(library) {}

    /// Errors: `echo::error` where an op is nothing to run, or a tensor has too many elements; those of the launcher
    /// and of the library.
    void run(const op& o, const call& c) {
        for (const input_view& in : c.inputs) expect_numbered(*in.what);
        for (const output_view& out : c.outputs) expect_numbered(*out.what);
        std::visit(
            [&]<class Op>(const Op& one) {
                static_assert(covers<Op>, "every op has a kernel, a library function, or never runs");
                if constexpr (runs<Library, Op>)
                    library_.run(one, c);
                else if constexpr (has_kernels<Op, Launcher>)
                    run_part<part_of<Op>>(o, c, launcher_);
                else
                    throw echo::error({}, "op", std::string(one.name) + " is nothing to run",
                                      "leave it to a view");
            },
            o);
    }

    std::uint64_t scratch(const op& o, tensor_span in, tensor_span out) {
        return std::visit(
            [&](const auto& one) -> std::uint64_t {
                if constexpr (requires { library_.scratch(one, in, out); })
                    return library_.scratch(one, in, out);
                else if constexpr (requires { cuda::scratch(one, in, out); })
                    return cuda::scratch(one, in, out);
                else
                    return 0;
            },
            o);
    }

    /// Whether this is one of the ways to treat an op.
    template <class Op>
    static constexpr bool covers = runs<Library, Op> || has_kernels<Op, Launcher> || never_runs<Op>;

private:
    Launcher& launcher_;
    Library& library_;
};

} // namespace engine::cuda
