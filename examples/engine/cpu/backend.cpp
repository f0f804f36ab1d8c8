// SPDX-License-Identifier: BSL-1.0
#include "engine/cpu/backend.hpp"
#include "engine/cpu/broadcast.hpp"
#include "engine/cpu/elementwise.hpp"
#include "engine/cpu/heavy_kernels.hpp"
#include "engine/cpu/kernels.hpp"
#include "engine/cpu/parts.hpp"

#include <functional>

namespace engine::cpu {

bool backend::in_parts(const op& o) const {
    return std::visit([](const auto& one) { return requires(const call& c) { cpu::part(one, c); }; }, o);
}

void backend::run(std::span<const op_call> chain) {
    std::vector<std::function<void(std::size_t, std::size_t)>> parts;
    for (const op_call& each : chain)
        std::visit(
            [&](const auto& one) {
                if constexpr (requires { cpu::part(one, each.with); })
                    parts.emplace_back(cpu::part(one, each.with));
            },
            *each.what);
    context_.parallel(chain[0].with.size(), thread_grain, [&](std::size_t first, std::size_t last) {
        for (std::size_t at = first; at < last; at += tile_)
            for (const auto& part : parts) part(at, std::min(last, at + tile_));
    });
}

void backend::run(const op& o, const call& c) {
    std::visit(
        [&](const auto& one) {
            if constexpr (requires { cpu::part(one, c); })
                context_.parallel(c.size(), thread_grain, cpu::part(one, c));
            else if constexpr (requires { cpu::run(one, c, context_); })
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
