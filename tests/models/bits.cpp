// SPDX-License-Identifier: BSL-1.0
/// @file
/// The four models, small: the same bits of loss, gradients, parameters and optimizer state for every strategy and
/// budget, in an arena of exactly the bytes that were planned.
#include "engine/cpu/backend.hpp"
#include "engine/models/deepspeech2.hpp"
#include "engine/models/model.hpp"
#include "engine/models/nmt.hpp"
#include "engine/models/resnet.hpp"
#include "engine/models/transformer.hpp"
#include "engine/session.hpp"
#include "support/model_check.hpp"
#include "support/sanitized.hpp"

#include <functional>
#include <string>
#include <vector>

using namespace models;

namespace {

using builder = std::function<model(engine::graph&)>;

struct subject {
    std::string name;
    builder build;
    bool draws;   ///< has dropout
    bool encodes; ///< has feature maps of which one bit per element is read
};

/// Sizes at which feature maps make the peak.
const subject small_nmt{"nmt",
                        [](engine::graph& g) {
                            return model::make<nmt>(g, nmt_options{.batch = 8,
                                                                   .source_length = 6,
                                                                   .target_length = 7,
                                                                   .source_vocabulary = 9,
                                                                   .target_vocabulary = 9,
                                                                   .encoder_layers = 1,
                                                                   .decoder_layers = 1,
                                                                   .hidden = 8,
                                                                   .embed = 8,
                                                                   .attention = 24,
                                                                   .embed_dropout = 0.1,
                                                                   .hidden_dropout = 0.2,
                                                                   .smoothing = 0.1,
                                                                   .layer_norm = true,
                                                                   .tied = tied::embeddings});
                        },
                        true, true};
const subject small_transformer{"transformer",
                                [](engine::graph& g) {
                                    return model::make<transformer>(
                                        g, transformer_options{.batch = 4,
                                                               .source_length = 7,
                                                               .target_length = 8,
                                                               .source_vocabulary = 9,
                                                               .target_vocabulary = 9,
                                                               .encoder_layers = 2,
                                                               .decoder_layers = 2,
                                                               .hidden = 16,
                                                               .heads = 2,
                                                               .feed_forward = 32});
                                },
                                true, true};
const subject small_deepspeech2{"ds2",
                                [](engine::graph& g) {
                                    return model::make<deepspeech2>(g, deepspeech2_options{.batch = 32,
                                                                                           .frames = 59,
                                                                                           .bands = 81,
                                                                                           .labels = 2,
                                                                                           .classes = 5,
                                                                                           .filters = 2,
                                                                                           .layers = 2,
                                                                                           .hidden = 24});
                                },
                                false, false};
const subject small_resnet{
    "resnet",
    [](engine::graph& g) {
        return model::make<resnet>(
            g, resnet_options{.depth = 50, .batch = 2, .image = 16, .classes = 4, .filters = 2});
    },
    false, true};

/// What a run leaves behind, bit by bit.
struct outcome {
    std::vector<float> losses;
    std::vector<std::vector<float>> values; ///< gradients of the last step, parameters, states
    engine::step_counts counts{};
    std::uint64_t peak = 0, arena = 0;
};

/// Step by step, and each looks at what it reads; or in chains, a few elements of each step at a time.
enum class running { checked, chained };

outcome train(const subject& what, engine::baseline habits, const echo::plan_options& plan, int threads,
              std::uint64_t steps, running in = running::checked) {
    engine::graph g(habits);
    const model m = what.build(g);
    const auto trained = engine::train(g, m.loss, m.optimizer);
    engine::cpu::backend on(threads, 32);
    engine::session<engine::cpu::backend> s(
        g, on, {.plan = plan, .memory = {.align = 4}, .execution = {.check = in == running::checked}});
    CHECK((s.execution().chained() > 0) == (in == running::chained));
    outcome made;
    for (std::uint64_t i = 1; i <= steps; ++i) {
        m.fill(s.outside(), i);
        made.losses.push_back(s.step());
    }
    const auto keep = [&](const engine::value& v) {
        const auto data = s.outside().f32(v);
        made.values.emplace_back(data.begin(), data.end());
    };
    for (const auto& t : trained) keep(t.parameter), keep(t.gradient);
    for (const auto& v : g.inputs(engine::role::state)) keep(v);
    made.counts = s.execution().counts();
    made.peak = s.plan().report().peak_bytes;
    made.arena = s.memory().bytes();
    CHECK(s.execution().arena_bytes() == made.arena);
    CHECK(s.execution().high_water() == made.arena);
    // Sizes are multiples of the alignment, so nothing is padded; what is left is a gap here and there. At the lowest
    // peak of all there are more of them: many steps are that high, and encodings of a few bytes lie between.
    const double gaps = plan.budget == 1 ? 1.1 : 1.05;
    CHECK(made.arena >= made.peak);
    CHECK(static_cast<double>(made.arena) <= gaps * static_cast<double>(made.peak));
    return made;
}

bool same_bits(const outcome& a, const outcome& b) {
    if (!support::same_bits(a.losses, b.losses) || a.values.size() != b.values.size()) return false;
    for (std::size_t i = 0; i < a.values.size(); ++i)
        if (!support::same_bits(a.values[i], b.values[i])) return false;
    return true;
}

std::string text(const engine::step_counts& c) {
    return "recomputed " + std::to_string(c.recomputed) + ", seeded " + std::to_string(c.seeded) +
           ", encoded " + std::to_string(c.encoded) + ", late " + std::to_string(c.late) + ", in place " +
           std::to_string(c.inplace);
}

/// Trains with every strategy and two budgets, and compares with the baseline.
void compare(const subject& what, engine::baseline habits, int threads, std::uint64_t steps) {
    const std::string title = what.name + (habits == engine::baseline::paper ? ", paper, " : ", modern, ") +
                              std::to_string(threads) + (threads == 1 ? " thread" : " threads");
    INFO(title);
    const outcome plain = train(what, habits, {.how = echo::strategy::baseline}, threads, steps);
    CHECK(plain.counts.recomputed == 0);
    CHECK(plain.counts.inplace > 0);
    CHECK(plain.losses.back() != plain.losses.front());
    std::string report =
        title + ": baseline " + std::to_string(plain.arena) + " bytes, " + text(plain.counts);
    std::size_t seeded = 0, encoded = 0;
    const auto check = [&](const std::string& how, const echo::plan_options& plan) {
        INFO(how);
        outcome o = train(what, habits, plan, threads, steps);
        CHECK(same_bits(o, plain));
        CHECK(o.peak <= plain.peak);
        CHECK(o.counts.inplace > 0);
        seeded += o.counts.seeded, encoded += o.counts.encoded;
        report += "\n" + how + " " + std::to_string(o.arena) + " bytes, " + text(o.counts);
        return o;
    };
    for (const auto how : {echo::strategy::mirror, echo::strategy::echo, echo::strategy::min_cut}) {
        const auto o = check(std::string(echo::name_of(how)), {.how = how});
        if (how != echo::strategy::mirror && what.encodes) CHECK(o.counts.recomputed > 0);
    }
    CHECK(same_bits(train(what, habits, {.how = echo::strategy::min_cut}, threads, steps, running::chained),
                    plain));
    for (const auto in : {running::checked, running::chained}) {
        const auto o =
            train(what, habits, {.how = echo::strategy::min_cut, .host = {.fuse = true}}, threads, steps, in);
        CHECK(same_bits(o, plain));
        if (what.encodes) CHECK(o.counts.fused > 0);
        report += "\nfused " + std::to_string(o.counts.fused);
    }
    const auto lowest = check("lowest budget", {.how = echo::strategy::budget, .budget = 1});
    CHECK(lowest.counts.recomputed > 0);
    CHECK(static_cast<double>(lowest.peak) < (what.encodes ? 0.7 : 1) * static_cast<double>(plain.peak));
    const auto budget = (lowest.peak + plain.peak) / 2;
    const auto halfway = check("half-way budget", {.how = echo::strategy::budget, .budget = budget});
    CHECK(halfway.counts.recomputed > 0);
    CHECK(halfway.peak <= budget);
    WARN(report);
    CHECK((seeded > 0) == what.draws);
    CHECK((encoded > 0) == what.encodes);
}

} // namespace

TEST_CASE("every strategy and budget trains the four models to the same bits") {
    const auto* const what = GENERATE(&small_nmt, &small_transformer, &small_deepspeech2, &small_resnet);
    const auto habits = GENERATE(engine::baseline::modern, engine::baseline::paper);
    compare(*what, habits, 1, support::sanitized ? 3 : 20);
}

TEST_CASE("two threads train them to the same bits as well") {
    const auto* const what = GENERATE(&small_nmt, &small_transformer, &small_deepspeech2, &small_resnet);
    compare(*what, engine::baseline::modern, 2, support::sanitized ? 2 : 4);
}
