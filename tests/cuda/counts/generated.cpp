// SPDX-License-Identifier: BSL-1.0
/// @file
/// Prints the PTX of a generated kernel as it is counted: tanh(q + k)'s gradient, for any layout, or for q of [B, 1, H]
/// alone. generated {f32|f16|bf16} [layout]; 77: no NVRTC.
#include <echo/cuda/jit.hpp>

#include <cstdio>
#include <string_view>

int main(int argc, char** argv) {
    namespace jit = echo::cuda::jit;
    const std::string_view type = argc > 1 ? argv[1] : "";
    const auto kind = type == "f32"   ? jit::storage::f32
                      : type == "f16" ? jit::storage::f16
                                      : jit::storage::bf16;
    jit::graph g;
    const auto q = g.operand(kind), k = g.operand(kind), dy = g.operand(kind);
    g.result(g.gradient_of("tanh_op", {g.apply("add_op", {q, k})}, 0, {dy}), kind);
    const auto program = g.program();
    std::string source = echo::cuda::fused::source_of(program);
    if (argc > 2) { // NMT's extents; nothing is read at these addresses
        const echo::cuda::fused::extents e{128, 50, 1024};
        const auto tensor = [&](std::uintptr_t address, std::int64_t time) {
            const auto step = time == 1 ? std::array<std::int64_t, 8>{1024, 0, 1}
                                        : std::array<std::int64_t, 8>{50 * 1024, 1024, 1};
            return jit::any_operand(reinterpret_cast<void*>(address << 40), kind, step);
        };
        jit::detail::parameters layout;
        const jit::any_operand to[] = {tensor(1, 50)}, from[] = {tensor(2, 1), tensor(3, 50), tensor(4, 50)};
        jit::detail::prepare(program, to, from, e, layout);
        source = echo::cuda::fused::source_of(
            program, layout.shape,
            std::span<const echo::cuda::fused::launch_operand>(layout.operands).first(4));
    }
    try {
        std::puts(jit::nvrtc()
                      .compile(source, {"--gpu-architecture=compute_80", "--std=c++17", "--fmad=false"})
                      .bytes.c_str());
    } catch (const jit::compiler_missing& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 77;
    }
    return 0;
}
