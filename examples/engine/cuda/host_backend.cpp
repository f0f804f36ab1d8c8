// SPDX-License-Identifier: BSL-1.0
#include "engine/cuda/backend.hpp"
#include "engine/cuda/host_backend.hpp"

namespace engine::cuda {

void host_backend::run(const op& o, const call& c) { backend(launcher_, library_).run(o, c); }

std::uint64_t host_backend::scratch(const op& o, tensor_span in, tensor_span out) {
    return backend(launcher_, library_).scratch(o, in, out);
}

} // namespace engine::cuda
