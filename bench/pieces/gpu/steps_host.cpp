// SPDX-License-Identifier: BSL-1.0
/// @file
/// `gpu-steps` on the CPU: the CUDA back end's kernels by the host's launcher. It proves bench/gpu where there is no
/// device; what it measures says nothing of one.
#include "engine/cuda/host_backend.hpp"
#include "steps.hpp"

namespace {

struct host {
    static constexpr std::uint64_t alignment = 256;
    gpu_bench::by_op<engine::cuda::host_backend> backend{2};

    void describe(gpu_bench::answer& out) const {
        out.add("device", "this machine's processor, by the host's launcher")
            .add("power", "not available: no card");
    }
    std::optional<std::uint64_t> free_bytes() const { return std::nullopt; }
    std::optional<double> joules() const { return std::nullopt; }
    std::optional<double> watts() const { return std::nullopt; }
    std::optional<unsigned> clock_MHz() const { return std::nullopt; }
};

} // namespace

int main(int argc, char** argv) {
    try {
        host here;
        return gpu_bench::serve(here, {argv + 1, argv + argc});
    } catch (const std::exception& e) {
        std::cerr << "gpu-steps: " << e.what() << '\n';
        return 1;
    }
}
