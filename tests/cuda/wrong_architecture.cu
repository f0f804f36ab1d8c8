// SPDX-License-Identifier: BSL-1.0
// A program without code for the card: built for sm_75 alone and without PTX. The error names the card and
// what there is.
#include "device_test.cuh"

#include <echo/cuda/bitmask.cuh>

int main(int argc, char** argv) {
    return device_test::run(argc, argv, "wrong_architecture", [](bool small) {
        using namespace echo::cuda;
        if (small || properties_of(current_device()).architecture() == 75) return; // nothing to see
        const stream own;
        float* x = nullptr;
        std::uint32_t* mask = nullptr;
        check(cudaMalloc(&x, 256), "cudaMalloc");
        check(cudaMalloc(&mask, 256), "cudaMalloc");
        device_test::expect_error<error>("sm_75", [&] { relu_forward(x, x, mask, 64, own); });
        try {
            relu_forward(x, x, mask, 64, own);
        } catch (const error& e) {
            std::printf("  %s\n", e.what());
            device_test::expect(e.kind() == fault::wrong_architecture, "the kind of the error");
        }
        static_cast<void>(cudaFree(x));
        static_cast<void>(cudaFree(mask));
    });
}
