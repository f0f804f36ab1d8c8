// SPDX-License-Identifier: BSL-1.0
/// @file
/// `products`: matrix products on a device, by cuBLAS. Needs no header of CUDA's.
#pragma once

#include "engine/call.hpp"
#include "engine/ops/matmul.hpp"

#include <echo/cuda/stream_ref.hpp>

#include <memory>
#include <string>

namespace engine::cuda {

/// In fp32, unless tf32 is asked for. Each geometry has one algorithm, chosen when it is first met, whatever the
/// addresses of tensors, which are multiples of 16: a product has the same bits in every plan. All work is in one
/// stream and one workspace, so that steps can be captured and sums keep their order.
class products {
public:
    /// What cuBLAS works with beside the arena, all products together; as NVIDIA advises for Hopper.
    static constexpr std::uint64_t workspace_bytes = std::uint64_t{32} << 20;

    /// `workspace` has as many bytes and begins at a multiple of 256. cuBLAS is loaded here; `library` is for tests.
    /// Errors: it is not installed, or does not start.
    products(echo::cuda::stream_ref stream, void* workspace, bool tf32 = false,
             const std::string& library = {});
    ~products();
    products(products&&) noexcept;
    products& operator=(products&&) noexcept;

    /// Errors: `echo::cuda::error`.
    void run(const ops::fully_connected& op, const call& c);
    void run(const ops::fully_connected_data_gradient& op, const call& c);
    void run(const ops::fully_connected_weight_gradient& op, const call& c);
    void run(const ops::batch_dot& op, const call& c);

private:
    class cublas;
    std::unique_ptr<cublas> library_;
};

} // namespace engine::cuda
