// SPDX-License-Identifier: BSL-1.0
/// @file
/// `progress_callback`: how long searches tell how far they are.
#pragma once

#include <echo/function_ref.hpp>

namespace echo {

/// Takes the part done, 0 to 1.
using progress_callback = function_ref<void(double)>;

} // namespace echo
