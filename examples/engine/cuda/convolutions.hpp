// SPDX-License-Identifier: BSL-1.0
/// @file
/// `convolutions`: convolution and its gradients on a device, by cuDNN, where the program was built with it. Needs no
/// header of CUDA's.
#pragma once

#include "engine/call.hpp"
#include "engine/ops/convolution.hpp"

#include <echo/cuda/stream_ref.hpp>

#include <memory>
#include <string>

namespace engine::cuda {

/// In fp32, unless tf32 is asked for, by deterministic algorithms only. Each geometry has one, the fastest by cuDNN's
/// heuristics of those that need no more than `workspace_limit`; what it needs is the op's scratch memory.
class convolutions {
public:
    static constexpr std::uint64_t workspace_limit = std::uint64_t{512} << 20;

    /// Errors: cuDNN does not start, or is too old.
    explicit convolutions(echo::cuda::stream_ref stream, bool tf32 = false);
    ~convolutions();
    convolutions(convolutions&&) noexcept;
    convolutions& operator=(convolutions&&) noexcept;

    /// "cuDNN 9.19.0", or that there is none.
    static std::string version();

    /// Errors: `echo::cuda::error`; without cuDNN always.
    void run(const ops::convolution& op, const call& c);
    void run(const ops::convolution_data_gradient& op, const call& c);
    void run(const ops::convolution_weight_gradient& op, const call& c);
    std::uint64_t scratch(const ops::convolution& op, tensor_span in, tensor_span out);
    std::uint64_t scratch(const ops::convolution_data_gradient& op, tensor_span in, tensor_span out);
    std::uint64_t scratch(const ops::convolution_weight_gradient& op, tensor_span in, tensor_span out);

private:
    class cudnn;
    std::unique_ptr<cudnn> library_;
};

} // namespace engine::cuda
