// SPDX-License-Identifier: BSL-1.0
/// @file
/// `gpu-steps` on a CUDA device. 77, and why, where there is none.
#include "../../cards/power.hpp"
#include "engine/cuda/device_backend.hpp"
#include "steps.hpp"

#include <echo/cuda/device.hpp>

namespace {

struct card {
    static constexpr std::uint64_t alignment = engine::cuda::device_backend::alignment;
    gpu_bench::by_op<engine::cuda::device_backend> backend{};
    echo::cuda::device_properties is = echo::cuda::properties_of(echo::cuda::current_device());
    echo::cuda::power_meter power{is.bus};

    void describe(gpu_bench::answer& out) const {
        out.add("device", backend.description())
            .add("card", is.name)
            .add("architecture", is.architecture())
            .add("card_bytes", is.memory)
            .add("driver", power.driver())
            .add("clock_MHz", power.multiprocessor_clock())
            .add("memory_clock_MHz", power.memory_clock())
            .add("power", echo::cuda::words(power.source()))
            .add("backend_bytes", backend.driver_bytes());
    }
    std::optional<std::uint64_t> free_bytes() const { return backend.free_bytes(); }
    std::optional<double> joules() const { return power.joules(); }
    std::optional<double> watts() const { return power.watts(); }
    std::optional<unsigned> clock_MHz() const { return power.multiprocessor_clock(); }
};

} // namespace

int main(int argc, char** argv) {
    try {
        card here;
        return gpu_bench::serve(here, {argv + 1, argv + argc});
    } catch (const echo::cuda::error& e) {
        std::cerr << "gpu-steps: " << e.what() << '\n';
        const auto why = e.kind();
        return why == echo::cuda::fault::no_device || why == echo::cuda::fault::no_driver ||
                       why == echo::cuda::fault::driver_too_old
                   ? 77
                   : 1;
    } catch (const std::exception& e) {
        std::cerr << "gpu-steps: " << e.what() << '\n';
        return 1;
    }
}
