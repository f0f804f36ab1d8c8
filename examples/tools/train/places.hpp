// SPDX-License-Identifier: BSL-1.0
/// @file
/// Where `echo-train` trains. Each stands in a unit of its own. Errors of all: those of preparing, and of training.
#pragma once

#include "train/options.hpp"
#include "train/status.hpp"

namespace train {

status train_on_cpu(const options& asked);
/// Without the CUDA toolkit where the program was built, an error that says so.
status train_on_cuda(const options& asked);
/// Prints what a step would call on cuda; needs neither a device nor the toolkit.
status print_calls(const options& asked);

} // namespace train
