// SPDX-License-Identifier: BSL-1.0
/// @file
/// What bench/gpu trains: a model of examples/engine/models with its forward graph. A unit of its own, since models
/// take long to compile.
#pragma once

#include "engine/models/model.hpp"

#include <cstdint>
#include <memory>
#include <string_view>

namespace gpu_bench {

struct workload {
    engine::graph graph{engine::baseline::paper}; ///< the paper's ratios are against those habits
    models::model model{};
    std::int64_t batch = 0;
};

/// `name`: nmt, transformer, ds2, resnet, resnet50, or `reversal`: an NMT that learns its generated task within some
/// hundred steps. A batch of 0 is the preset's. Errors: no such model or preset; those of the model.
std::unique_ptr<workload> make_workload(std::string_view name, std::string_view preset, std::int64_t batch);

} // namespace gpu_bench
