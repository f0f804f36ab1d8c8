// SPDX-License-Identifier: BSL-1.0
/// @file
/// Prints the PTX of a generated kernel as it is counted: tanh(q + k)'s gradient. generated {f32|f16|bf16}; 77: no NVRTC.
#include <echo/cuda/jit.hpp>

#include <cstdio>
#include <string_view>

int main(int argc, char** argv) {
    namespace jit = echo::cuda::jit;
    const std::string_view type = argc == 2 ? argv[1] : "";
    const auto kind = type == "f32"   ? jit::storage::f32
                      : type == "f16" ? jit::storage::f16
                                      : jit::storage::bf16;
    jit::graph g;
    const auto q = g.operand(kind), k = g.operand(kind), dy = g.operand(kind);
    g.result(g.gradient_of("tanh_op", {g.apply("add_op", {q, k})}, 0, {dy}), kind);
    try {
        const std::string source = echo::cuda::fused::source_of(g.program());
        std::puts(jit::nvrtc()
                      .compile(source, {"--gpu-architecture=compute_80", "--std=c++17", "--fmad=false"})
                      .bytes.c_str());
    } catch (const jit::compiler_missing& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 77;
    }
    return 0;
}
