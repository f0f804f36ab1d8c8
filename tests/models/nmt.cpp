// SPDX-License-Identifier: BSL-1.0
/// @file
/// The LSTM translation model's graph and footprint at its published sizes, its tasks and its measure, and how it
/// learns.
#include "engine/models/nmt.hpp"
#include "support/model_check.hpp"

#include <filesystem>
#include <fstream>

using namespace models;
using namespace support;
using engine::value;

namespace {

static_assert(trainable<nmt>);

nmt_options tiny() { return nmt::preset("tiny"); }

/// English to Vietnamese; the defaults are the other way round.
nmt_options reversed() { return {.source_vocabulary = 17192, .target_vocabulary = 7710}; }

/// A file that goes with the test.
class file {
public:
    explicit file(const std::string& text)
        : path_((std::filesystem::temp_directory_path() /
                 ("echo_nmt_" + std::to_string(reinterpret_cast<std::uintptr_t>(this)) + ".txt"))
                    .string()) {
        std::ofstream(path_, std::ios::binary) << text;
    }
    ~file() { std::filesystem::remove(path_); }
    file(const file&) = delete;
    file& operator=(const file&) = delete;
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

/// What the reader says of a text, the file's name left out.
std::string complaint(const std::string& text, std::int64_t source = 4, std::int64_t target = 4) {
    const file f(text);
    try {
        parallel_text(f.path(), source, target, false, 1);
    } catch (const echo::error& e) {
        const std::string what = e.what();
        const auto at = what.find(f.path());
        REQUIRE(at != std::string::npos);
        CHECK(what.find('\n') == std::string::npos);
        return what.substr(at + f.path().size());
    }
    return "accepted";
}

} // namespace

TEST_CASE("NMT: the paper's size has the paper's parameters") {
    const auto megabytes = [](const nmt_options& o) {
        engine::graph g;
        build_nmt(g, o);
        CHECK(g.inputs(engine::role::state).empty());
        return 4e-6 * static_cast<double>(elements(g, engine::role::parameter));
    };
    CHECK(megabytes({}) == Approx(130.4).margin(0.05));
    CHECK(megabytes(reversed()) == Approx(110.9).margin(0.05));
}

TEST_CASE("the paper's size has the published nodes and feature maps") {
    engine::graph g;
    const auto made = build_nmt(g, reversed());
    CHECK(g.size() == Approx(8482).epsilon(0.001));
    std::size_t inputs = 0, hidden = 0;
    for (const engine::node* n : g.nodes()) {
        inputs += n->phase == echo::phase::input;
        hidden += n->layer == "attention" && n->name.ends_with(".tanh") && n->outputs[0].shape.rank() == 3;
        if (n->layer == "attention" && n->outputs[0].shape.rank() == 3 && n->name.ends_with(".tanh"))
            CHECK(echo::byte_count(n->outputs[0]) == 26'214'400);
    }
    CHECK(inputs == 40);
    CHECK(hidden == 100);
    CHECK(echo::byte_count(g[made.probabilities]) == 394'752'000);
    CHECK(g[made.source].shape == echo::shape{128, 100});
    CHECK(g[made.labels].shape == echo::shape{128, 100});
    CHECK(g[made.loss].shape == echo::shape{1});
    CHECK(g[find(g, "attention.t7.add")].shape == echo::shape{128, 100, 512});
    CHECK(g[find(g, "encoder.l0.forward.t99.i2h")].shape == echo::shape{128, 1024});
    CHECK(g[find(g, "encoder.l1.t0.i2h")].shape == echo::shape{128, 2048});
    CHECK(g[find(g, "decoder.t0.concat")].shape == echo::shape{128, 1024});
    CHECK(g[find(g, "attention.t99.hidden")].shape == echo::shape{128, 512});
}

TEST_CASE("NMT: footprints at the paper's size are the simulated ones") {
    const auto forth = plan<nmt>(nmt_options{}, engine::baseline::paper);
    const auto back = plan<nmt>(reversed(), engine::baseline::paper);
    CHECK(forth.pool + forth.weights_and_co == Approx(9319).epsilon(0.02));
    CHECK(back.pool + back.weights_and_co == Approx(8294).epsilon(0.02));
    CHECK(plan<nmt>(nmt_options{}, engine::baseline::modern).stash == Approx(4295).epsilon(0.001));
    CHECK(plan<nmt>(nmt_options{}, engine::baseline::modern, echo::strategy::min_cut).stash < 1395);
}

TEST_CASE("NMT: small fills two gigabytes with feature maps") {
    CHECK(plan<nmt>(nmt::preset("small"), engine::baseline::modern).stash * mib >= 2e9);
}

TEST_CASE("the encoder reads its source reversed, and both ways in its first layer") {
    engine::graph g;
    build_nmt(g, tiny());
    const auto at = [&](const std::string& layer, int step) {
        return find(g, "encoder." + layer + ".t" + std::to_string(step) + ".h");
    };
    CHECK(depends(at("l0.forward", 3), at("l0.forward", 2)));
    CHECK_FALSE(depends(at("l0.forward", 2), at("l0.forward", 3)));
    CHECK(depends(at("l0.reverse", 3), at("l0.reverse", 2)));
    CHECK_FALSE(depends(at("l0.forward", 7), at("l0.reverse", 0)));
    CHECK(depends(at("l1", 0), at("l0.forward", 0)));
    CHECK(depends(at("l1", 0), at("l0.reverse", 7))); // the concatenation of all steps
    CHECK(depends(at("l1", 3), at("l1", 2)));
    CHECK(count<engine::ops::sequence_reverse>(g) == 3);
    CHECK(find(g, "encoder.l0.forward.steps").producer->inputs[0] == find(g, "encoder.reversed"));
}

TEST_CASE("a decoder's step is that of its definition") {
    engine::graph g;
    build_nmt(g, tiny());
    const auto input = [](value v, std::size_t k) { return v.producer->inputs.at(k); };
    const auto hidden = find(g, "attention.t3.hidden.tanh"), query = find(g, "decoder.l0.t3.h");
    CHECK(input(find(g, "decoder.t4.concat"), 1) == hidden);
    CHECK(input(find(g, "decoder.t0.concat"), 1) == find(g, "decoder.hidden0"));
    const auto both = input(input(hidden, 0), 0);
    CHECK(input(both, 0) == query);
    const auto dot = input(input(both, 1), 0);
    CHECK(input(dot, 0) == find(g, "attention.memory"));
    CHECK(input(dot, 1) == find(g, "attention.t3.weights"));
    const auto add = find(g, "attention.t3.add");
    CHECK(input(add, 0) == find(g, "attention.source"));
    CHECK(input(input(input(add, 1), 0), 0) == query);
    CHECK(input(find(g, "attention.t3.score.mask"), 1) == find(g, "source.lengths"));
    CHECK(depends(query, find(g, "encoder.l1.concat")));
    CHECK_FALSE(depends(query, find(g, "decoder.l0.t4.h")));
}

TEST_CASE("NMT: layers are those of the paper's breakdown") {
    engine::graph g;
    const auto made = build_nmt(g, tiny());
    CHECK(layers(g) == std::set<std::string>{"embedding", "rnn", "attention", "output"});
    CHECK(made.loss.producer->layer == "output");
    CHECK(find(g, "attention.t0.tanh").producer->layer == "attention");
    CHECK(find(g, "decoder.l0.t0.tanh").producer->layer == "rnn");
    CHECK(find(g, "source.embedding").producer->layer == "embedding");
}

TEST_CASE("embeddings are shared, norms and dropouts stand where they are asked for") {
    auto o = tiny();
    const auto parameters = [&] {
        engine::graph g;
        build_nmt(g, o);
        return elements(g, engine::role::parameter);
    };
    const auto apart = parameters();
    o.tied = tied::embeddings;
    const auto table = static_cast<std::size_t>(o.source_vocabulary * o.embed);
    CHECK(parameters() == apart - table);
    o.embed = o.hidden, o.tied = tied::none;
    const auto wide = parameters();
    o.tied = tied::all;
    CHECK(parameters() == wide - 2 * static_cast<std::size_t>(o.target_vocabulary * o.hidden));

    engine::graph best;
    auto b = tiny();
    b.layer_norm = true, b.embed_dropout = 0.1, b.hidden_dropout = 0.2;
    const auto made = build_nmt(best, b);
    const auto steps = static_cast<std::size_t>(b.target_length);
    CHECK(count<dropout_node>(best) == 2 + steps);
    CHECK(count<engine::ops::elementwise<echo::rsqrt_op>>(best) == 2 * steps + 2);
    CHECK(depends(made.loss, find(best, "attention.t0.score.norm.out")));
    engine::graph plain;
    build_nmt(plain, tiny());
    CHECK(count<dropout_node>(plain) == 0);
    CHECK(count<engine::ops::elementwise<echo::rsqrt_op>>(plain) == 0);
}

TEST_CASE("NMT: bad options are refused in one line, before anything is built") {
    const auto with = [](auto change) {
        auto o = tiny();
        change(o);
        return refusal<nmt>(o);
    };
    CHECK(with([](auto&) {}) == "accepted");
    CHECK(with([](auto& o) { o.batch = 0; }) == "batch: is 0; give 1 or more");
    CHECK(with([](auto& o) { o.source_length = -3; }) == "source_length: is -3; give 1 or more");
    CHECK(with([](auto& o) { o.decoder_layers = 0; }) == "decoder_layers: is 0; give 1 or more");
    CHECK(with([](auto& o) { o.attention = 0; }) == "attention: is 0; give 1 or more");
    CHECK(with([](auto& o) { o.hidden = 7; }) ==
          "hidden: 7 does not halve into two directions; give an even number");
    CHECK(with([](auto& o) { o.hidden_dropout = 1; }) ==
          "hidden_dropout: is 1.000000; give 0 or more, below 1");
    CHECK(with([](auto& o) { o.smoothing = -0.5; }) == "smoothing: is -0.500000; give 0 or more, below 1");
    CHECK(with([](auto& o) { o.embed_dropout = std::nan(""); }) ==
          "embed_dropout: is nan; give 0 or more, below 1");
    CHECK(with([](auto& o) { o.source_vocabulary = 17, o.tied = tied::embeddings; }) ==
          "tied: vocabularies of 17 and 16 cannot share an embedding; give vocabularies of one size or tie "
          "nothing");
    CHECK(with([](auto& o) { o.tied = tied::all; }) ==
          "tied: an embedding of 32 cannot be the output's weights over 64; give embed the size of hidden or "
          "tie embeddings only");
    CHECK(with([](auto& o) { o.target_length = 1; }) ==
          "target_length: leaves no token before the end of a sentence; give 2 or more");
    CHECK(with([](auto& o) { o.target_vocabulary = 3; }) ==
          "vocabulary: leaves no token but padding, begin and end; give 4 or more");
    CHECK(with([](auto& o) { o.source_length = 1, o.target_length = 2; }) == "accepted");
    CHECK(with([](auto& o) { o.data = "/no/such/file"; }) ==
          "/no/such/file: cannot be read; give a file of lines SOURCE<TAB>TARGET");
    CHECK_THROWS_WITH(nmt::preset("huge"), "preset: nmt has no 'huge'; give tiny, small, paper or best");
    CHECK(nmt::preset("best").hidden == 1024);
    CHECK(nmt::preset("paper").batch == 128);
}

TEST_CASE("generated sentences are reversed, padded behind their end, and the same for a seed and a step") {
    constexpr std::size_t count = 200, from = 6, to = 7;
    const bucket b{from, to, 9, 12};
    struct batch {
        std::vector<std::int32_t> sources = std::vector<std::int32_t>(count * from, -1);
        std::vector<std::int32_t> targets = std::vector<std::int32_t>(count * to, -1);
        std::vector<std::int32_t> labels = std::vector<std::int32_t>(count * to, -1);
    };
    const auto draw = [&](std::uint64_t seed, std::uint64_t step) {
        batch made;
        translation(b, "", false, seed).fill(step, made.sources, made.targets, made.labels);
        return made;
    };
    const auto made = draw(1, 1);
    CHECK(made.sources == draw(1, 1).sources);
    CHECK(made.sources != draw(1, 2).sources);
    CHECK(made.sources != draw(2, 1).sources);
    std::set<std::size_t> lengths;
    std::set<std::int32_t> tokens;
    for (std::size_t i = 0; i < count; ++i) {
        const auto* source = &made.sources[i * from];
        const auto* target = &made.targets[i * to];
        const auto* labels = &made.labels[i * to];
        std::size_t length = 0;
        while (length < from && source[length] != token::padding) tokens.insert(source[length++]);
        lengths.insert(length);
        for (std::size_t t = length; t < from; ++t) CHECK(source[t] == token::padding);
        CHECK(target[0] == token::begin);
        for (std::size_t t = 0; t < length; ++t) {
            CHECK(labels[t] == source[length - 1 - t]);
            CHECK(target[t + 1] == labels[t]);
        }
        CHECK(labels[length] == token::end);
        for (std::size_t t = length + 1; t < to; ++t) {
            CHECK(labels[t] == token::padding);
            CHECK(target[t] == token::padding);
        }
    }
    CHECK(lengths == std::set<std::size_t>{3, 4, 5, 6});
    CHECK(*tokens.begin() == token::first);
    CHECK(*tokens.rbegin() == 8); // in both vocabularies
}

TEST_CASE("a model's data are those of its task") {
    engine::graph g;
    const nmt model(g, tiny(), 3);
    engine::residents outside;
    model.fill(outside, 5);
    const auto source = outside.i32(model.values().source);
    std::vector<std::int32_t> sources(source.size()), targets(outside.i32(model.values().target).size()),
        labels(targets.size());
    translation({8, 9, 16, 16}, "", false, 3).fill(5, sources, targets, labels);
    CHECK(std::equal(sources.begin(), sources.end(), source.begin()));
    CHECK(std::equal(targets.begin(), targets.end(), outside.i32(model.values().target).begin()));
    CHECK(std::equal(labels.begin(), labels.end(), outside.i32(model.values().labels).begin()));
}

TEST_CASE("exact match counts sentences without a mistake before their end") {
    const std::vector<std::int32_t> labels{1, 2, 0, 2, 1, 2}; // two sentences of three
    const auto of = [&](const std::vector<std::size_t>& said) {
        std::vector<float> probabilities(labels.size() * 3, 0.1f);
        for (std::size_t i = 0; i < said.size(); ++i) probabilities[i * 3 + said[i]] = 0.8f;
        return exact_match(probabilities, labels, 2);
    };
    CHECK(of({1, 2, 0, 2, 1, 2}) == 1);
    CHECK(of({1, 2, 1, 2, 1, 2}) == 1); // behind the end
    CHECK(of({1, 1, 0, 2, 1, 2}) == 0.5);
    CHECK(of({1, 2, 0, 2, 1, 0}) == 0.5);
    CHECK(of({0, 2, 0, 1, 1, 2}) == 0);
    CHECK(exact_match({}, {}, 0) == 0);
}

TEST_CASE("a file of parallel text is read line by line") {
    const file text("a b c\tA B\nb a\tB\n  c   a \tC A\r\n");
    const parallel_text read(text.path(), 3, 3, false, 1);
    CHECK(read.size() == 3);
    CHECK(read.source_vocabulary() == token::first + 3);
    CHECK(read.target_vocabulary() == token::first + 3);
    CHECK(parallel_text(text.path(), 3, 3, true, 1).source_vocabulary() == token::first + 6);
    std::multiset<std::pair<sentence, sentence>> wanted{{{3, 4, 5}, {3, 4}}, {{4, 3}, {4}}, {{5, 3}, {5, 3}}};
    const auto epoch = read.draw(4, 3);
    CHECK(std::multiset<std::pair<sentence, sentence>>(epoch.begin(), epoch.end()) == wanted);
    CHECK(read.draw(4, 3) == epoch);
    std::set<std::vector<std::pair<sentence, sentence>>> orders;
    for (std::uint64_t step = 0; step < 20; ++step) orders.insert(read.draw(step, 3));
    CHECK(orders.size() > 2);
    std::multiset<std::pair<sentence, sentence>> all; // six steps of two lines are four epochs
    for (std::uint64_t step = 0; step < 6; ++step)
        for (auto& pair : read.draw(step, 2)) all.insert(pair);
    for (const auto& pair : wanted) CHECK(all.count(pair) == 4);
}

TEST_CASE("a file that is no parallel text is refused, with its line") {
    const std::string advice = "; write lines SOURCE<TAB>TARGET";
    CHECK(complaint("a\tb\n") == "accepted");
    CHECK(complaint("a\tb") == "accepted");
    CHECK(complaint("") == ": is empty; give lines SOURCE<TAB>TARGET");
    CHECK(complaint("a\tb\na b\n") == ":2: has no tab" + advice);
    CHECK(complaint("a\tb\n\nc\td\n") == ":2: has no tab" + advice);
    CHECK(complaint("a\tb\tc\n") == ":1: has more than one tab" + advice);
    CHECK(complaint("a\tb\n\tb\n") == ":2: the source is empty; give it a word");
    CHECK(complaint("a\t \n") == ":1: the target is empty; give it a word");
    const std::string longer = "give a longer bucket or split the line";
    CHECK(complaint("a a a a\tb b b\n") == "accepted");
    CHECK(complaint("a a a a a\tb\n") == ":1: the source has 5 words, the bucket takes 4; " + longer);
    CHECK(complaint("a\tb b b b\n") == ":1: the target has 4 words, the bucket takes 3; " + longer);
    const auto folder = std::filesystem::temp_directory_path().string();
    CHECK_THROWS_WITH(parallel_text(folder, 4, 4, false, 1),
                      folder + ": is a directory; give a file of lines SOURCE<TAB>TARGET");
}

TEST_CASE("a data file gives the model its vocabularies") {
    const file text("a b\tA B\nb a\tB A C\n");
    auto o = tiny();
    o.data = text.path();
    engine::graph g;
    const nmt model(g, o);
    CHECK(model.options().source_vocabulary == token::first + 2);
    CHECK(model.options().target_vocabulary == token::first + 3);
    CHECK(g[model.watched()].shape == echo::shape{o.batch * o.target_length, token::first + 3});
    o.tied = tied::embeddings;
    engine::graph joint;
    CHECK(nmt(joint, o).options().source_vocabulary == token::first + 5);
    o.target_length = 3;
    CHECK(refusal<nmt>(o).find(":2: the target has 3 words, the bucket takes 2") != std::string::npos);
    o.target_length = 9, o.batch = 8;
    const auto learnt = learn<nmt>(o, 30);
    CHECK(learnt.loss(25, 30) < 0.5 * learnt.loss(0, 5));
}

TEST_CASE("NMT: a small task is learnt, to the same bits with and without Echo") {
    nmt_options o = tiny();
    o.source_length = 4, o.target_length = 5, o.source_vocabulary = o.target_vocabulary = 8;
    const auto without = learn<nmt>(o, 120), with = learn<nmt>(o, 120, echo::strategy::min_cut);
    CHECK_FALSE(without.recomputed);
    CHECK(with.recomputed);
    CHECK(same_bits(with.losses, without.losses));
    CHECK(without.losses[0] == Approx(std::log(8.0)).epsilon(0.3));
    CHECK(without.loss(20, 40) < without.loss(0, 20));
    CHECK(without.loss(100, 120) < 0.3 * without.loss(0, 20));
    CHECK(without.metric(0, 20) < 0.1);
    CHECK(without.metric(100, 120) > 0.8);
}
