// SPDX-License-Identifier: BSL-1.0
/// @file
/// What the interpreter says of a kernel that does what it may not.
#pragma once

#include <stdexcept>
#include <string>

namespace ptx {

/// `what()` is one line: KERNEL, PTX line N, block B, warp W, lane L: PROBLEM [INSTRUCTION].
class fault : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

} // namespace ptx
