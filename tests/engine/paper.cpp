// SPDX-License-Identifier: BSL-1.0
// The figures of bench/paper on small graphs of the four models: what they are parts of, and what they never exceed.
#include "../bench/pieces/paper/measure.hpp"

#include <catch2/catch.hpp>

namespace {

paper::workload small(const std::string& model) { return {.model = model, .preset = "tiny"}; }

constexpr const char* models_of_the_paper[] = {"nmt", "ds2", "transformer", "resnet"};

std::uint64_t sum(const std::vector<echo::profile_row>& rows) {
    std::uint64_t bytes = 0;
    for (const auto& row : rows) bytes += row.bytes;
    return bytes;
}

} // namespace

TEST_CASE("the parts of a footprint sum to it, by data structure, layer and op") {
    for (const std::string model : models_of_the_paper) {
        CAPTURE(model);
        const auto subject = paper::make_subject(small(model));
        const auto f = paper::measure(subject, {.how = "echo"});
        const auto whole = f.peak + subject.resident.sum();
        CHECK(subject.resident.parameters > 0);
        CHECK(subject.resident.gradients > 0);
        CHECK(subject.resident.states >= subject.resident.parameters / 2);
        CHECK(subject.resident.data > 0);
        CHECK(echo::bytes_of(f.profile.by_structure, "resident") == subject.resident.sum());
        CHECK(sum(f.profile.by_structure) == whole);
        CHECK(sum(f.profile.by_layer) == whole);
        CHECK(sum(f.profile.by_op) == whole);
        double us = 0;
        for (const auto& [op, part] : subject.us_by_op) us += part;
        CHECK(us == Approx(subject.total_us));
    }
}

TEST_CASE("no strategy is above the baseline, and none below its bound") {
    for (const std::string model : models_of_the_paper) {
        CAPTURE(model);
        const auto subject = paper::make_subject(small(model));
        const auto baseline = paper::measure(subject, {});
        CHECK(baseline.recompute == 0);
        CHECK(baseline.again == 0);
        for (const auto* how : {"echo", "min_cut", "mirror"}) {
            CAPTURE(how);
            const auto f = paper::measure(subject, {.how = how});
            CHECK(f.peak <= baseline.peak);
            CHECK(f.peak >= f.bound);
            CHECK(f.arena >= f.peak - f.peak / 64);
            CHECK((f.again > 0) == (f.recompute > 0));
        }
        CHECK(paper::measure(subject, {.how = "echo"}).peak < baseline.peak);
        CHECK(paper::measure(subject, {.how = "echo", .encode = false}).encoded == 0);
        const auto limited = paper::measure(subject, {.how = "budget", .overhead = 0.05});
        CHECK(limited.peak <= baseline.peak);
        CHECK(limited.recompute <= 0.05);
    }
}

TEST_CASE("a hundredth below the peak within a time, no budget is met in that time") {
    for (const std::string model : models_of_the_paper) {
        CAPTURE(model);
        paper::workload w{.model = model};
        w.loss_in_place = true;
        if (model == "ds2") w.sizes = {{"frames", 100}, {"labels", 4}};
        const auto subject = paper::make_subject(w);
        const auto within = paper::measure(subject, {.how = "budget", .overhead = 0.05});
        const auto below =
            paper::measure(subject, {.how = "budget", .bytes = within.peak - within.peak / 100});
        CHECK((below.peak > within.peak - within.peak / 100 || below.recompute > 0.05));
    }
}

TEST_CASE("what an ablation takes away costs memory") {
    auto w = small("nmt");
    const auto whole = paper::measure(paper::make_subject(w), {.how = "echo"});
    w.keep_heavy_inputs = true;
    CHECK(paper::measure(paper::make_subject(w), {.how = "echo"}).stash > whole.stash);

    auto t = small("transformer");
    t.keep_random = true;
    const auto subject = paper::make_subject(t);
    const auto encoded = paper::measure(subject, {.how = "echo"});
    CHECK(encoded.encoded > 0);
    CHECK(paper::measure(subject, {.how = "echo", .encode = false}).stash > encoded.stash);
}

TEST_CASE("habits and systems of the paper") {
    auto w = small("nmt");
    const auto stash = [](const paper::workload& of) {
        return paper::measure(paper::make_subject(of), {}).stash;
    };
    const auto paper_stash = stash(w);
    w.habits = engine::baseline::modern;
    CHECK(stash(w) < paper_stash); // activations keep their outputs only
    w.habits = engine::baseline::paper;

    const auto plain = paper::make_subject(w);
    w.mirror = true;
    const auto mirror = paper::make_subject(w);
    CHECK(mirror.total_us > plain.total_us);
    CHECK(paper::measure(mirror, {}).stash < paper_stash);
    CHECK(mirror.resident.sum() == plain.resident.sum());
}

TEST_CASE("a query that means nothing is refused by name") {
    CHECK_THROWS_WITH(paper::make_subject(small("gpt")), Catch::Contains("gpt"));
    auto w = small("resnet");
    w.sizes = {{"words", 3}};
    CHECK_THROWS_WITH(paper::make_subject(w), Catch::Contains("words"));
    CHECK_THROWS_WITH(paper::measure(paper::make_subject(small("resnet")), {.how = "best"}),
                      Catch::Contains("best"));
}
