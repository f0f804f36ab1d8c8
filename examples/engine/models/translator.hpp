// SPDX-License-Identifier: BSL-1.0
/// @file
/// What translation models are as models to train, whatever their graphs: a graph, and sentences to translate.
#pragma once

#include "engine/models/pieces.hpp"
#include "engine/models/translation.hpp"
#include "engine/residents.hpp"

#include <concepts>
#include <string_view>
#include <type_traits>

namespace models {

/// `Build(graph, options)` appends the forward graph and returns its `translation_values`, or what derives from them;
/// `check(options)` refuses bad ones.
template <class Options, auto Build>
class translator {
public:
    using values_type = std::invoke_result_t<decltype(Build), engine::graph&, const Options&>;
    static_assert(std::derived_from<values_type, translation_values>);

    static constexpr std::string_view metric_name = "exact match";

    /// Appends the forward graph. Vocabularies have the sizes of the data file where there is one. Errors: those of
    /// `check`, `Build` and `translation`.
    explicit translator(engine::graph& g, const Options& o = {}, std::uint64_t seed = 1)
        : translator(g, o,
                     (check(o), translation({o.source_length, o.target_length, o.source_vocabulary,
                                             o.target_vocabulary},
                                            o.data, o.tied != tied::none, seed))) {}

    const Options& options() const noexcept { return options_; }
    const values_type& values() const noexcept { return values_; }
    engine::value loss() const noexcept { return values_.loss; }
    /// What `metric` reads after a step: to be a result of the graph, where it is asked for.
    engine::value watched() const noexcept { return values_.probabilities; }

    /// Draws the data of a step.
    void fill(engine::residents& outside, std::uint64_t step) const {
        task_.fill(step, outside.i32(values_.source), outside.i32(values_.target),
                   outside.i32(values_.labels));
    }
    /// The part of the step's sentences translated without a mistake (`exact_match`).
    double metric(engine::residents& outside, std::span<const float> watched) const {
        return exact_match(watched, outside.i32(values_.labels), static_cast<std::size_t>(options_.batch));
    }

private:
    translator(engine::graph& g, Options o, translation task)
        : options_(std::move(o)), task_(std::move(task)) {
        options_.source_vocabulary = task_.bucket().source_vocabulary;
        options_.target_vocabulary = task_.bucket().target_vocabulary;
        values_ = Build(g, options_);
    }

    Options options_;
    translation task_;
    values_type values_;
};

} // namespace models
