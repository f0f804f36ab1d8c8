// SPDX-License-Identifier: BSL-1.0
// What the two files of consumer-core share.
#pragma once

#include <echo/graph/snapshot.hpp>

#include <cstdint>

#ifndef ECHO_CORE
#error "echo::core says nothing to who links it"
#endif

/// A graph of five nodes in a row.
echo::snapshot chain();
/// The peak of its plan, in bytes.
std::uint64_t peak_elsewhere(const echo::snapshot& s);
