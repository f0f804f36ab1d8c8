// SPDX-License-Identifier: BSL-1.0
/// @file
/// DeepSpeech2's graph at its published size, its generated task and its measure, and a few steps of training with and
/// without Echo.
#include "engine/models/deepspeech2.hpp"
#include "support/model_check.hpp"

using namespace models;
using namespace support;
using engine::value;

namespace {

deepspeech2_options tiny() { return deepspeech2::preset("tiny"); }

} // namespace

TEST_CASE("DeepSpeech2: the paper's size has the paper's parameters") {
    engine::graph g;
    const auto made = build_deepspeech2(g, {});
    constexpr std::size_t h = 1760, features = 672, classes = 801;
    const auto gru = [](std::size_t in) { return 3 * h * (in + h) + 6 * h + 4 * h; };
    const std::size_t convolutions = 32 * 11 * 41 + 2 * 32 + 32 * 32 * 11 * 21 + 2 * 32;
    const std::size_t out = 2 * h * h + 2 * h + h * classes + classes;
    const std::size_t parameters = elements(g, engine::role::parameter);
    CHECK(parameters == convolutions + 2 * (gru(features) + 6 * gru(h)) + out);
    CHECK(static_cast<double>(parameters) / 1e6 == Approx(256.8).margin(0.05));
    CHECK(g[find(g, "forward.l0.gates_i2h.weight")].shape == echo::shape{2 * h, features});
    CHECK(g[find(g, "conv1")].shape == echo::shape{24, 32, 195, 61});
    CHECK(g[find(g, "conv2")].shape == echo::shape{24, 32, 185, 21});
    CHECK(g[made.sound].shape == echo::shape{24, 400, 161});
    CHECK(g[made.labels].shape == echo::shape{24, 40});
    CHECK(g[made.scores].shape == echo::shape{185, 24, 801});
    CHECK(g[made.loss].shape == echo::shape{1});
}

TEST_CASE("time steps are what the convolutions leave") {
    for (const auto& [frames, steps] :
         {std::pair{31, 1}, std::pair{32, 1}, std::pair{33, 2}, std::pair{100, 35}, std::pair{401, 186}}) {
        auto o = tiny();
        o.frames = frames, o.labels = 1;
        engine::graph g;
        const auto made = build_deepspeech2(g, o);
        CHECK(o.steps() == steps);
        CHECK(g[made.scores].shape == echo::shape{steps, o.batch, o.classes + 1});
        CHECK(g[find(g, "conv2")].shape[2] == steps);
    }
}

TEST_CASE("time steps share parameters and have statistics of their own") {
    auto o = tiny();
    std::size_t before = 0;
    for (const std::int64_t frames : {60, 100}) {
        o.frames = frames;
        engine::graph g;
        build_deepspeech2(g, o);
        const std::size_t parameters = elements(g, engine::role::parameter);
        if (before) CHECK(parameters == before);
        before = parameters;
        const auto norms = static_cast<std::size_t>(2 + o.steps() * (2 * o.layers + 1));
        CHECK(count<engine::ops::batch_norm>(g) == norms);
        CHECK(g.inputs(engine::role::state).size() == 2 * norms);
        CHECK(count<engine::ops::update_statistics>(g) == 2 * norms);
        const auto early = find(g, "backward.l1.t0.bn"), late = find(g, "backward.l1.t4.bn");
        CHECK(early.producer->inputs[1] == late.producer->inputs[1]);
        CHECK(early.producer->inputs[2] == late.producer->inputs[2]);
        const auto other = find(g, "forward.l1.t0.bn");
        CHECK(early.producer->inputs[1] != other.producer->inputs[1]);
    }
}

TEST_CASE("one direction runs ahead in time, the other back, and they meet at the end") {
    engine::graph g;
    const auto made = build_deepspeech2(g, tiny());
    const auto at = [&](const std::string& direction, int layer, int step) {
        return find(g, direction + ".l" + std::to_string(layer) + ".t" + std::to_string(step) + ".state");
    };
    CHECK(depends(at("forward", 0, 5), at("forward", 0, 4)));
    CHECK_FALSE(depends(at("forward", 0, 4), at("forward", 0, 5)));
    CHECK(depends(at("backward", 0, 4), at("backward", 0, 5)));
    CHECK_FALSE(depends(at("backward", 0, 5), at("backward", 0, 4)));
    CHECK(depends(at("forward", 1, 3), at("forward", 0, 3)));
    CHECK_FALSE(depends(at("forward", 1, 3), at("backward", 0, 3)));
    const auto join = find(g, "fc.t3.join");
    CHECK(join.producer->inputs == std::vector<value>{at("forward", 1, 3), at("backward", 1, 3)});
    CHECK(made.scores.producer->inputs.at(3).producer->name == "output.t3");
}

TEST_CASE("a time step is the cell of its definition") {
    engine::graph g;
    build_deepspeech2(g, tiny());
    const auto producer = [](value v, std::size_t input) { return v.producer->inputs.at(input); };
    const auto h = find(g, "forward.l1.t1.state"), before = find(g, "forward.l1.t0.state");
    const auto x = find(g, "forward.l0.t1.state");
    CHECK(producer(h, 0) == before);
    const auto change = producer(h, 1); // update · (change − h)
    CHECK(producer(change, 0).producer->name == "forward.l1.t1.update");
    const auto difference = producer(change, 1);
    CHECK(producer(difference, 0).producer->name == "forward.l1.t1.change");
    CHECK(producer(difference, 1) == before);
    const auto gates = producer(producer(producer(change, 0), 0), 0);
    CHECK(producer(gates, 0).producer->name == "forward.l1.t1.bn");
    CHECK(producer(producer(producer(gates, 0), 0), 0) == x);
    CHECK(producer(producer(gates, 1), 0) == before);
    const auto kept = producer(find(g, "forward.l1.t1.change_h2h"), 0);
    CHECK(kept.producer->inputs == std::vector<value>{before, find(g, "forward.l1.t1.reset")});
    CHECK(producer(find(g, "forward.l1.t1.change_i2h"), 0) == x);
}

TEST_CASE("layers are convolutions, recurrent layers per direction, and the classifier") {
    engine::graph g;
    const auto made = build_deepspeech2(g, tiny());
    std::set<std::string> layers;
    for (const engine::node* n : g.nodes()) layers.insert(n->layer);
    layers.erase(""); // data
    CHECK(layers == std::set<std::string>{"conv1", "conv2", "forward.l0", "forward.l1", "backward.l0",
                                          "backward.l1", "fc", "output"});
    CHECK(made.loss.producer->layer == "output");
    CHECK(find(g, "fc.weight").producer->layer == "fc");
    CHECK(find(g, "backward.l1.change_h2h.bias").producer->layer == "backward.l1");
}

TEST_CASE("DeepSpeech2: bad options are refused in one line, before anything is built") {
    const auto with = [](auto change) {
        auto o = tiny();
        change(o);
        return refusal<deepspeech2>(o);
    };
    CHECK(with([](auto& o) { o.batch = 0; }) == "batch: is 0; give 1 or more");
    CHECK(with([](auto& o) { o.layers = 0; }) == "layers: is 0; give 1 or more");
    CHECK(with([](auto& o) { o.hidden = -1; }) == "hidden: is -1; give 1 or more");
    CHECK(with([](auto& o) { o.classes = 0; }) == "classes: is 0; give 1 or more");
    CHECK(with([](auto& o) { o.frames = 30; }) == "frames: 30 leave no time step; give 31 or more");
    CHECK(with([](auto& o) { o.bands = 80; }) ==
          "bands: 80 leave nothing behind the convolutions; give 81 or more");
    CHECK(with([](auto& o) { o.frames = 31, o.labels = 2; }) ==
          "labels: 2 do not always fit 1 time steps; give fewer labels or more frames");
    CHECK(with([](auto& o) { o.frames = 31, o.labels = 1, o.bands = 81; }) == "accepted");
    CHECK_THROWS_WITH(deepspeech2::preset(""), "preset: ds2 has no ''; give tiny, small or paper");
    CHECK(deepspeech2::preset("paper").hidden == 1760);
}

TEST_CASE("sound is the same for a seed and a step, and a label sounds like itself") {
    constexpr std::size_t batch = 64, frames = 96, bands = 97, longest = 5;
    const auto draw = [&](std::uint64_t seed, std::uint64_t step, std::vector<std::int32_t>& labels) {
        std::vector<float> sound(batch * frames * bands);
        labels.assign(batch * longest, -1);
        speech(frames, bands, longest, 10, seed).speak(step, sound, labels);
        return sound;
    };
    std::vector<std::int32_t> labels, again;
    const auto sound = draw(1, 1, labels);
    CHECK(sound == draw(1, 1, again));
    CHECK(labels == again);
    CHECK(sound != draw(1, 2, again));
    CHECK(sound != draw(2, 1, again));
    std::set<std::int32_t> seen;
    std::set<std::size_t> lengths;
    std::vector<double> loud(longest + 1, 0), of(longest + 1, 0);
    for (std::size_t row = 0; row < batch; ++row) {
        std::size_t length = 0;
        bool ended = false;
        for (std::size_t k = 0; k < longest; ++k) {
            const std::int32_t label = labels[row * longest + k];
            if (label == 0) ended = true;
            CHECK((label == 0) == ended); // nothing behind the end
            if (label != 0) seen.insert(label), ++length;
        }
        lengths.insert(length);
        for (std::size_t i = 0; i < frames * bands; ++i)
            loud[length] += std::max(0.0f, sound[row * frames * bands + i] - 0.3f);
        of[length] += 1;
    }
    CHECK(*seen.begin() == 1);
    CHECK(*seen.rbegin() == 10);
    CHECK(lengths == std::set<std::size_t>{3, 4, 5});
    CHECK(loud[3] / of[3] < loud[4] / of[4]); // more labels, more sound
    CHECK(loud[4] / of[4] < loud[5] / of[5]);
}

TEST_CASE("the best path merges repetitions and drops blanks") {
    const auto scores_of = [](const std::vector<std::size_t>& path) { // one row of three classes
        std::vector<float> scores(path.size() * 3, 0.0f);
        for (std::size_t t = 0; t < path.size(); ++t) scores[t * 3 + path[t]] = 1;
        return scores;
    };
    const auto decode = [&](const std::vector<std::size_t>& path) {
        return best_path(scores_of(path), path.size(), 1, 0);
    };
    CHECK(decode({0, 1, 1, 0, 1, 2, 2, 0}) == label_sequence{1, 1, 2});
    CHECK(decode({1, 2, 1}) == label_sequence{1, 2, 1});
    CHECK(decode({0, 0}).empty());
    CHECK(edit_distance(label_sequence{1, 2, 3}, label_sequence{1, 2, 3}) == 0);
    CHECK(edit_distance(label_sequence{1, 2, 3}, label_sequence{2, 3}) == 1);
    CHECK(edit_distance(label_sequence{1, 2}, label_sequence{3, 4, 5}) == 3);
    CHECK(edit_distance(label_sequence{}, label_sequence{3, 4}) == 2);
    CHECK(label_error(scores_of({1, 0, 2}), std::vector<std::int32_t>{1, 2, 0}, 1, 3) == 0);
    CHECK(label_error(scores_of({1, 0, 2}), std::vector<std::int32_t>{1, 1, 1, 2}, 1, 3) == 0.5);
    // Two rows; steps stand outermost.
    const std::vector<float> two{0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1};
    CHECK(best_path(two, 2, 2, 0) == label_sequence{1});
    CHECK(best_path(two, 2, 2, 1) == label_sequence{2});
    CHECK(label_error(two, std::vector<std::int32_t>{1, 0, 2, 2}, 2, 3) == Approx(1.0 / 3));
}

TEST_CASE("DeepSpeech2: tiny trains to the same bits with and without Echo") {
    const curve without = learn<deepspeech2>(tiny(), 3),
                with = learn<deepspeech2>(tiny(), 3, echo::strategy::min_cut);
    CHECK(!without.recomputed);
    CHECK(with.recomputed);
    CHECK(same_bits(without.losses, with.losses));
    CHECK(with.losses[0] > 0);
    CHECK(with.losses[0] != with.losses[1]);
}
