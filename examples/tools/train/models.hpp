// SPDX-License-Identifier: BSL-1.0
/// @file
/// The models that can be trained, by name. A unit of its own, since models take long to compile.
#pragma once

#include "engine/models/model.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace train {

/// What a model is built with.
struct model_request {
    std::string_view name{}, preset{};
    std::optional<std::int64_t> batch{}; ///< the preset's without it
    std::string data{};
    std::uint64_t seed = 1;
    bool dropout = true;
};

struct built_model {
    models::model model;
    std::int64_t batch = 0;
};

/// Appends the forward graph. Errors: `usage_error` for a model, preset or option there is not; those of the model.
built_model build(engine::graph& g, const model_request& asked);

} // namespace train
