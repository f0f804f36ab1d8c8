// SPDX-License-Identifier: BSL-1.0
/// @file
/// ResNet's graphs at their published sizes, its generated task, and a few steps of training with and without Echo.
#include "engine/models/resnet.hpp"
#include "support/model_check.hpp"

#include <map>
#include <numeric>

using namespace models;
using namespace support;

namespace {

template <class Op>
std::vector<engine::node*> all(const engine::graph& g) {
    std::vector<engine::node*> found;
    for (engine::node* n : g.nodes())
        if (std::holds_alternative<Op>(n->op)) found.push_back(n);
    return found;
}

/// Parameters and running statistics, written down from the paper's table rather than from the graph.
std::size_t published(std::size_t first, std::size_t second, std::size_t third, std::size_t fourth) {
    const auto norm = [](std::size_t c) { return 4 * c; };
    std::size_t sum = norm(3) + 3 * 64 * 49 + norm(64), in = 64, out = 256;
    for (const std::size_t units : {first, second, third, fourth}) {
        for (std::size_t k = 0; k < units; ++k, in = out) {
            const std::size_t narrow = out / 4;
            sum += norm(in) + in * narrow + norm(narrow) + narrow * narrow * 9 + norm(narrow) + narrow * out;
            if (k == 0) sum += in * out;
        }
        out *= 2;
    }
    return sum + norm(in) + in * 1000 + 1000;
}

std::string refused(const resnet_options& o) { return refusal<resnet>(o); }

} // namespace

TEST_CASE("the units of a stage add up to the depth") {
    for (const std::int64_t depth : {50, 101, 152, 200}) {
        const auto units = units_of({.depth = depth});
        CHECK(3 * std::accumulate(units.begin(), units.end(), std::int64_t{0}) + 2 == depth);
    }
    CHECK(units_of({.depth = 50}) == std::array<std::int64_t, 4>{3, 4, 6, 3});
    CHECK(units_of({.depth = 200}) == std::array<std::int64_t, 4>{3, 24, 36, 3});
}

TEST_CASE("parameters are as many as published") {
    // Gluon's model zoo lists the second version with its running statistics.
    const std::map<std::int64_t, std::size_t> zoo = {{50, 25'595'060}, {101, 44'639'412}, {152, 60'329'140}};
    for (const std::int64_t depth : {50, 101, 152, 200}) {
        engine::graph g;
        const auto made = build_resnet(g, {.depth = depth});
        const std::size_t count = elements(g, engine::role::parameter) + elements(g, engine::role::state);
        const auto units = units_of({.depth = depth});
        const auto unit = [&](std::size_t i) { return static_cast<std::size_t>(units[i]); };
        CHECK(count == published(unit(0), unit(1), unit(2), unit(3)));
        if (zoo.contains(depth)) CHECK(count == zoo.at(depth));
        CHECK(g[made.probabilities].shape == echo::shape{32, 1000});
        CHECK(g[made.loss].shape == echo::shape{1});
    }
}

TEST_CASE("stages halve the image and double the filters") {
    engine::graph g;
    build_resnet(g, {.depth = 50, .batch = 2});
    CHECK(g[find(g, "conv0")].shape == echo::shape{2, 64, 112, 112});
    CHECK(g[find(g, "pool0")].shape == echo::shape{2, 64, 56, 56});
    CHECK(g[find(g, "stage1.unit3.add")].shape == echo::shape{2, 256, 56, 56});
    CHECK(g[find(g, "stage2.unit1.conv1")].shape == echo::shape{2, 128, 56, 56});
    CHECK(g[find(g, "stage2.unit1.conv2")].shape == echo::shape{2, 128, 28, 28});
    CHECK(g[find(g, "stage2.unit4.add")].shape == echo::shape{2, 512, 28, 28});
    CHECK(g[find(g, "stage3.unit6.add")].shape == echo::shape{2, 1024, 14, 14});
    CHECK(g[find(g, "stage4.unit3.add")].shape == echo::shape{2, 2048, 7, 7});
    CHECK(g[find(g, "pool1")].shape == echo::shape{2, 2048, 1, 1});
}

TEST_CASE("small images keep their size in the stem") {
    engine::graph g;
    const resnet model(g, resnet::preset("tiny"));
    CHECK(g[find(g, "conv0")].shape == echo::shape{16, 8, 32, 32});
    CHECK(g[find(g, "stage4.unit3.add")].shape == echo::shape{16, 256, 4, 4});
    CHECK(g[model.values().images].shape == echo::shape{16, 3, 32, 32});
    CHECK(g[model.values().labels].type == echo::dtype::i32);
    CHECK(g[model.watched()].shape == echo::shape{16, 8});
}

TEST_CASE("layers are the units") {
    engine::graph g;
    const auto made = build_resnet(g, {.depth = 101, .batch = 1});
    std::vector<std::string> found;
    for (const engine::node* n : g.nodes())
        if (n->role != engine::role::data && (found.empty() || found.back() != n->layer))
            found.push_back(n->layer);
    std::vector<std::string> wanted{"stem"};
    const std::vector<int> units{3, 4, 23, 3};
    for (std::size_t s = 0; s < units.size(); ++s)
        for (int u = 1; u <= units[s]; ++u)
            wanted.push_back("stage" + std::to_string(s + 1) + ".unit" + std::to_string(u));
    wanted.emplace_back("output");
    CHECK(found == wanted);
    CHECK(made.loss.producer->layer == "output");
    CHECK(find(g, "stage2.unit3.conv2.weight").producer->role == engine::role::parameter);
    CHECK(find(g, "stage2.unit3.bn1.moving_mean").producer->role == engine::role::state);
}

TEST_CASE("a shortcut is a convolution of the first relu where a stage begins, x itself elsewhere") {
    engine::graph g;
    build_resnet(g, {.depth = 50, .batch = 1});
    const auto first = find(g, "stage3.unit1.add"), later = find(g, "stage3.unit2.add");
    const auto shortcut = first.producer->inputs[1].producer;
    CHECK(shortcut->name == "stage3.unit1.shortcut");
    CHECK(shortcut->inputs[0].producer->name == "stage3.unit1.relu1");
    CHECK(later.producer->inputs[1] == first);
    CHECK(later.producer->inputs[0].producer->name == "stage3.unit2.conv3");
}

TEST_CASE("gamma is fixed at the data and nowhere else; each normalisation has its statistics updated once") {
    engine::graph g;
    const auto made = build_resnet(g, {.depth = 50, .batch = 1});
    const auto norms = all<engine::ops::batch_norm>(g);
    CHECK(norms.size() == 2 + 3 * 16 + 1);
    for (const engine::node* n : norms) {
        const bool fixed = std::get<engine::ops::batch_norm>(n->op).fixed_gamma;
        CHECK(fixed == (n->name == "bn_data"));
        CHECK(n->inputs[1].producer->role == (fixed ? engine::role::state : engine::role::parameter));
        CHECK(n->inputs[2].producer->role == engine::role::parameter);
    }
    engine::train(g, made.loss, resnet::optimizer());
    std::map<const engine::node*, std::set<std::size_t>> tracked;
    for (const engine::node* n : all<engine::ops::update_statistics>(g)) {
        CHECK(n->phase == echo::phase::update);
        CHECK(tracked[n->inputs[1].producer].insert(n->inputs[1].output).second);
    }
    CHECK(tracked.size() == norms.size());
    for (const auto& [n, outputs] : tracked) CHECK(outputs == std::set<std::size_t>{0, 1});
    for (const engine::node* n : norms) CHECK(tracked.contains(n->inputs[3].producer));
}

TEST_CASE("running statistics do not stop a batch normalisation from being recomputed") {
    engine::graph g;
    const auto made = build_resnet(g, {.depth = 50, .batch = 4});
    engine::train(g, made.loss, resnet::optimizer());
    engine::complete(g);
    const auto report = engine::make_plans(g).plan.report();
    CHECK(static_cast<double>(report.peak_bytes) < 0.6 * static_cast<double>(report.baseline_peak_bytes));
}

TEST_CASE("ResNet: bad options are refused in one line, before anything is built") {
    CHECK(refused({.depth = 34}) == "depth: no ResNet has 34 layers; give 50, 101, 152 or 200");
    CHECK(refused({.batch = 0}) == "batch: is 0; give 1 or more");
    CHECK(refused({.image = -224}) == "image: is -224; give 1 or more");
    CHECK(refused({.classes = 0}) == "classes: is 0; give 1 or more");
    CHECK(refused({.filters = 0}) == "filters: is 0; give 1 or more");
    CHECK(refused({.depth = 50, .batch = 1}) == "accepted");
    CHECK_THROWS_WITH(resnet::preset("huge"), "preset: resnet has no 'huge'; give tiny, small or paper");
    CHECK(resnet::preset("paper").depth == 152);
}

TEST_CASE("images are the same for a seed and a step, and others for others") {
    const auto draw = [](std::uint64_t seed, std::uint64_t step) {
        std::vector<float> images(4 * 3 * 16 * 16);
        std::vector<std::int32_t> labels(4);
        shapes(16, 8, seed).draw(step, images, labels);
        return images;
    };
    CHECK(draw(1, 1) == draw(1, 1));
    CHECK(draw(1, 1) != draw(1, 2));
    CHECK(draw(1, 1) != draw(2, 1));
    CHECK(draw(2, 1) != draw(1, 2));
}

TEST_CASE("every class is drawn, and bars lie while posts stand") {
    constexpr std::int64_t size = 32, classes = 24;
    constexpr std::size_t count = 600, area = size * size;
    std::vector<float> images(count * 3 * area);
    std::vector<std::int32_t> labels(count);
    shapes(size, classes, 5).draw(1, images, labels);
    std::set<std::int32_t> seen(labels.begin(), labels.end());
    CHECK(seen.size() == static_cast<std::size_t>(classes));
    CHECK(*seen.begin() == 0);
    CHECK(*seen.rbegin() == classes - 1);
    for (std::size_t i = 0; i < count; ++i) {
        const auto kind = labels[i] % shapes::kinds;
        if (kind < 6) continue;
        std::int64_t left = size, right = -1, top = size, bottom = -1;
        for (std::size_t p = 0; p < 3 * area; ++p)
            if (images[i * 3 * area + p] > 0.5f) {
                const auto at = static_cast<std::int64_t>(p % area), x = at % size, y = at / size;
                left = std::min(left, x), right = std::max(right, x);
                top = std::min(top, y), bottom = std::max(bottom, y);
            }
        CHECK((right - left > bottom - top) == (kind == 6));
    }
}

TEST_CASE("accuracy counts rows whose largest score is the label's") {
    const std::vector<float> scores{0.1f, 0.9f, 0.8f, 0.2f, 0.3f, 0.7f, 0.6f, 0.4f};
    CHECK(accuracy(scores, std::vector<std::int32_t>{1, 0, 1, 0}) == 1);
    CHECK(accuracy(scores, std::vector<std::int32_t>{1, 0, 0, 0}) == 0.75);
    CHECK(accuracy(scores, std::vector<std::int32_t>{0, 1, 0, 1}) == 0);
}

TEST_CASE("ResNet: tiny trains to the same bits with and without Echo") {
    const auto tiny = resnet::preset("tiny");
    const curve without = learn<resnet>(tiny, 3), with = learn<resnet>(tiny, 3, echo::strategy::min_cut);
    CHECK(!without.recomputed);
    CHECK(with.recomputed);
    CHECK(same_bits(without.losses, with.losses));
    CHECK(with.losses[0] == Approx(std::log(8.0)).epsilon(0.3));
    CHECK(with.losses[0] != with.losses[1]);
}
