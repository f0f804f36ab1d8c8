// SPDX-License-Identifier: BSL-1.0
#include "train/places.hpp"

#include <echo/error.hpp>

namespace train {

status train_on_cuda(const options&) {
    throw echo::error({}, "--device cuda", "no CUDA device: the program was built without the CUDA toolkit",
                      "install CUDA 13, and configure and build it again");
}

} // namespace train
