// SPDX-License-Identifier: BSL-1.0
#include "train/places.hpp"

#include <echo/error.hpp>

namespace train {

status train_on_cuda(const options&) {
    throw echo::error({}, "--device cuda", "no CUDA device: the program was built without its CUDA back end",
                      "install CUDA 13, configure with -D ECHO_BUILD_ENGINE_CUDA=ON, and build again");
}

} // namespace train
