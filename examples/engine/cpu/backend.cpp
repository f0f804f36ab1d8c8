// SPDX-License-Identifier: BSL-1.0
#include "engine/cpu/backend.hpp"
#include "engine/cpu/broadcast.hpp"
#include "engine/cpu/elementwise.hpp"
#include "engine/cpu/heavy_kernels.hpp"
#include "engine/cpu/kernels.hpp"

namespace engine::cpu {

void backend::run(const op& o, const call& c) {
    std::visit(
        [&](const auto& one) {
            if constexpr (requires { cpu::run(one, c, context_); })
                cpu::run(one, c, context_);
            else
                throw echo::error({}, "op", std::string(one.name) + " has no CPU kernel",
                                  "leave it to a view, or write one");
        },
        o);
}

std::uint64_t backend::scratch(const op& o, tensor_span in, tensor_span out) {
    return std::visit(
        [&](const auto& one) -> std::uint64_t {
            if constexpr (requires { cpu::scratch(one, in, out, context_); })
                return cpu::scratch(one, in, out, context_);
            else
                return 0;
        },
        o);
}

} // namespace engine::cpu
