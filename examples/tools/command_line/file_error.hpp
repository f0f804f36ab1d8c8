// SPDX-License-Identifier: BSL-1.0
/// @file
/// `file_error`: what is wrong with a file beside the one that a program reads first.
#pragma once

#include <echo/error.hpp>

namespace echo::format {

/// `key()` is that file's name: it is printed without the name of the first file in front.
class file_error : public error {
public:
    using error::error;
};

} // namespace echo::format
