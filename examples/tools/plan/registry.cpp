// SPDX-License-Identifier: BSL-1.0
/// @file
/// The vocabularies that `echo-plan` knows.

#include "plan/registry.hpp"

#include <echo/vocabulary/aten.hpp>

namespace echo::format {

const op_facts* find_op(std::string_view name) { return echo::aten.find(name); }

} // namespace echo::format
