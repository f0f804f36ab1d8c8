// SPDX-License-Identifier: BSL-1.0
/// @file
/// `phase`: which part of a training step a node belongs to.
#pragma once

#include <echo/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace echo {

/// What a node is for. `input`: data and parameters, has no inputs of its own; `update`: writes new
/// parameters.
enum class phase : std::uint8_t { input, forward, backward, update };

/// The name that `echo-graph/1` uses.
constexpr std::string_view name_of(phase p) noexcept {
    constexpr std::string_view names[] = {"input", "forward", "backward", "update"};
    return names[static_cast<std::size_t>(p)];
}

/// Whether a node of that phase runs behind the forward pass: gradients, and the updates that follow them.
constexpr bool runs_after_forward(phase p) noexcept { return p == phase::backward || p == phase::update; }

} // namespace echo
