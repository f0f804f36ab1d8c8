// SPDX-License-Identifier: BSL-1.0
/// @file
/// Convolutions where cuDNN was not found when the program was configured.
#include "engine/cuda/convolutions.hpp"

#include <echo/cuda/error.hpp>

namespace engine::cuda {
namespace {

[[noreturn]] void refuse(std::string_view op) {
    throw echo::cuda::error(echo::cuda::fault::other, 0, op, "this program was built without cuDNN",
                            "install cuDNN 9, and configure and build it again");
}

} // namespace

class convolutions::cudnn {};

convolutions::convolutions(echo::cuda::stream_ref, bool) {}
convolutions::~convolutions() = default;
convolutions::convolutions(convolutions&&) noexcept = default;
convolutions& convolutions::operator=(convolutions&&) noexcept = default;
std::string convolutions::version() { return "no cuDNN"; }

void convolutions::run(const ops::convolution& op, const call&) { refuse(op.name); }
void convolutions::run(const ops::convolution_data_gradient& op, const call&) { refuse(op.name); }
void convolutions::run(const ops::convolution_weight_gradient& op, const call&) { refuse(op.name); }
std::uint64_t convolutions::scratch(const ops::convolution& op, tensor_span, tensor_span) { refuse(op.name); }
std::uint64_t convolutions::scratch(const ops::convolution_data_gradient& op, tensor_span, tensor_span) {
    refuse(op.name);
}
std::uint64_t convolutions::scratch(const ops::convolution_weight_gradient& op, tensor_span, tensor_span) {
    refuse(op.name);
}

} // namespace engine::cuda
