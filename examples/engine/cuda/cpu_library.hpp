// SPDX-License-Identifier: BSL-1.0
/// @file
/// `cpu_library`: products and convolutions by the CPU backend, for kernels that run on the host.
#pragma once

#include "engine/cpu/heavy_kernels.hpp"
#include "engine/cpu/kernels.hpp"
#include "engine/op.hpp"

#include <type_traits>

namespace engine::cuda {

class cpu_library {
    template <class Op, class... Ops>
    static constexpr bool is_one_of = (std::is_same_v<Op, Ops> || ...);
    template <class Op>
    static constexpr bool knows =
        is_one_of<Op, ops::fully_connected, ops::fully_connected_data_gradient,
                  ops::fully_connected_weight_gradient, ops::batch_dot, ops::convolution,
                  ops::convolution_data_gradient, ops::convolution_weight_gradient>;

public:
    /// 0 threads: as many as OpenMP offers.
    explicit cpu_library(int threads = 0) : context_(threads) {}

    template <class Op>
        requires knows<Op>
    void run(const Op& op, const call& c) {
        cpu::run(op, c, context_);
    }
    template <class Op>
        requires knows<Op>
    std::uint64_t scratch(const Op& op, tensor_span in, tensor_span out) {
        if constexpr (requires { cpu::scratch(op, in, out, context_); })
            return cpu::scratch(op, in, out, context_);
        else
            return 0;
    }

private:
    cpu::context context_;
};

} // namespace engine::cuda
