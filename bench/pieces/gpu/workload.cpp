// SPDX-License-Identifier: BSL-1.0
#include "engine/models/deepspeech2.hpp"
#include "engine/models/nmt.hpp"
#include "engine/models/resnet.hpp"
#include "engine/models/transformer.hpp"
#include "workload.hpp"

#include <string>

namespace gpu_bench {
namespace {

template <class Model, class Options>
std::unique_ptr<workload> make(Options o, std::int64_t batch) {
    if (batch) o.batch = batch;
    auto made = std::make_unique<workload>();
    made->model = models::model::make<Model>(made->graph, o);
    made->batch = o.batch;
    return made;
}

} // namespace

std::unique_ptr<workload> make_workload(std::string_view name, std::string_view preset, std::int64_t batch) {
    if (name == "nmt") return make<models::nmt>(models::nmt::preset(preset), batch);
    if (name == "transformer") return make<models::transformer>(models::transformer::preset(preset), batch);
    if (name == "ds2") return make<models::deepspeech2>(models::deepspeech2::preset(preset), batch);
    if (name == "resnet") return make<models::resnet>(models::resnet::preset(preset), batch);
    if (name == "resnet50") {
        auto o = models::resnet::preset(preset);
        o.depth = 50;
        return make<models::resnet>(o, batch);
    }
    if (name == "reversal") {
        auto o = models::nmt::preset("tiny");
        if (preset != "tiny") o.hidden = o.embed = o.attention = 256;
        return make<models::nmt>(o, batch);
    }
    throw echo::error({}, "model", "there is no '" + std::string(name) + "'",
                      "give nmt, transformer, ds2, resnet, resnet50 or reversal");
}

} // namespace gpu_bench
