// SPDX-License-Identifier: BSL-1.0
/// @file
/// `host_allocator`: a host that keeps its own allocator says how many bytes that would take for a schedule. Echo's
/// peak counts bytes that are live; an allocator that leaves gaps takes more, and of two plans the one of the lower
/// peak need not be the smaller.
#pragma once

#include <echo/analysis/schedule/schedule.hpp>
#include <echo/function_ref.hpp>

#include <cstdint>

namespace echo {

/// Takes a schedule and returns the bytes that the host's allocator takes for it, or `any_peak` if the host cannot run
/// it. Called with the graph's own order first.
using host_allocator = function_ref<std::uint64_t(const schedule&)>;

} // namespace echo
