// SPDX-License-Identifier: BSL-1.0
/// @file
/// `file_error`: what is wrong with a file beside the one that a program reads first.
#pragma once

#include <echo/error.hpp>

namespace echo::format {

/// Its key names the file, so that whoever prints it names no other.
class file_error : public error {
public:
    using error::error;
};

} // namespace echo::format
