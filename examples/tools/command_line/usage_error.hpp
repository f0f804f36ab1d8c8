// SPDX-License-Identifier: BSL-1.0
/// @file
/// `usage_error`: what is wrong with a command line.
#pragma once

#include <stdexcept>

namespace echo::format {

/// A command line that cannot be obeyed. `what()` is one line.
class usage_error : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

} // namespace echo::format
