// SPDX-License-Identifier: BSL-1.0
// What echo::read does without knowing the host, for echo::core.
#include <echo/graph/detail/skeleton_impl.hpp>
#include <echo/graph/detail/snapshot_builder_impl.hpp>
