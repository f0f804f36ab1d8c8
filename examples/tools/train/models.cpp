// SPDX-License-Identifier: BSL-1.0
#include "command_line/usage_error.hpp"
#include "engine/models/deepspeech2.hpp"
#include "engine/models/nmt.hpp"
#include "engine/models/resnet.hpp"
#include "engine/models/transformer.hpp"
#include "train/models.hpp"

#include <fmt/format.h>

namespace train {
namespace {

using echo::format::usage_error;

template <class M>
auto preset(std::string_view called) {
    try {
        return M::preset(called);
    } catch (const echo::error& e) {
        throw usage_error(e.what());
    }
}

template <class M>
built_model build_one(engine::graph& g, const model_request& asked) {
    auto o = preset<M>(asked.preset);
    if (asked.batch) o.batch = *asked.batch;
    if constexpr (requires { o.data; })
        o.data = asked.data;
    else if (!asked.data.empty())
        throw usage_error(fmt::format("--data does not go with {}: its task is generated", M::name));
    if (!asked.dropout) {
        if constexpr (requires { o.hidden_dropout; }) o.embed_dropout = o.hidden_dropout = 0;
        if constexpr (requires { o.block_dropout; })
            o.attention_dropout = o.relu_dropout = o.block_dropout = 0;
    }
    return {models::model::make<M>(g, o, asked.seed), o.batch};
}

template <class... M>
built_model build_named(engine::graph& g, const model_request& asked) {
    std::optional<built_model> made;
    ((asked.name == M::name && (made = build_one<M>(g, asked))), ...);
    if (made) return *std::move(made);
    std::string names;
    ((names += (names.empty() ? "" : ", ") + std::string(M::name)), ...);
    throw usage_error(fmt::format("MODEL {} is none of {}", asked.name, names));
}

} // namespace

built_model build(engine::graph& g, const model_request& asked) {
    return build_named<models::nmt, models::deepspeech2, models::transformer, models::resnet>(g, asked);
}

} // namespace train
