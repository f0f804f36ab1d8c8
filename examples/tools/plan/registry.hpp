// SPDX-License-Identifier: BSL-1.0
/// @file
/// What `echo-plan` knows of ops by their names. A unit of its own, since a vocabulary takes long to compile.
#pragma once

#include <echo/op_facts.hpp>

#include <string_view>

namespace echo::format {

/// The facts of the op, or nullptr. For `read_graph`.
const op_facts* find_op(std::string_view name);

} // namespace echo::format
