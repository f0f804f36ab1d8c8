// SPDX-License-Identifier: BSL-1.0
/// @file
/// The Transformer's graph and footprint at its published size, what its attention sees, and how it learns.
#include "engine/models/transformer.hpp"
#include "support/model_check.hpp"

using namespace models;
using namespace support;
using engine::value;

namespace {

static_assert(trainable<transformer>);

transformer_options tiny() { return transformer::preset("tiny"); }

/// Probabilities of a forward run. The parameters are the same in every call.
std::vector<float> answers(const transformer_options& o, const std::vector<std::int32_t>& source,
                           const std::vector<std::int32_t>& target) {
    engine::graph g;
    const transformer model(g, o);
    g.results().push_back(model.watched());
    engine::cpu::backend cpu(1);
    engine::session<engine::cpu::backend> s(g, cpu);
    model.fill(s.outside(), 1); // positions
    std::copy(source.begin(), source.end(), s.outside().i32(model.values().source).begin());
    std::copy(target.begin(), target.end(), s.outside().i32(model.values().target).begin());
    s.step();
    const auto* const at = reinterpret_cast<const float*>(s.execution().latest(model.watched()));
    return {at, at + engine::elements(g[model.watched()])};
}

} // namespace

TEST_CASE("the paper's size has the parameters of its layers") {
    engine::graph g;
    build_transformer(g);
    constexpr std::size_t d = 512, f = 2048, v = 36500;
    const auto fc = [](std::size_t out, std::size_t in) { return out * in + out; };
    const std::size_t norm = 2 * d, self = norm + fc(3 * d, d) + fc(d, d);
    const std::size_t cross = norm + fc(2 * d, d) + fc(d, d) + fc(d, d);
    const std::size_t feed_forward = norm + fc(f, d) + fc(d, f);
    CHECK(elements(g, engine::role::parameter) ==
          v * d + v + 6 * (self + feed_forward) + 6 * (self + cross + feed_forward) + 2 * norm);
    CHECK(g.inputs(engine::role::state).empty());
}

TEST_CASE("feature maps of the paper's size have the shapes of its definition") {
    engine::graph g;
    const auto made = build_transformer(g);
    CHECK(g[made.source].shape == echo::shape{64, 100});
    CHECK(g[made.target_positions].shape == echo::shape{1, 100, 512});
    CHECK(g[find(g, "encoder.l5.self.i2h")].shape == echo::shape{64, 100, 1536});
    CHECK(g[find(g, "encoder.l5.self.keys.heads")].shape == echo::shape{64 * 8, 100, 64});
    CHECK(g[find(g, "encoder.l5.self.scores")].shape == echo::shape{64 * 8, 100, 100});
    CHECK(g[find(g, "encoder.l5.self.mask")].shape == echo::shape{100, 64, 800});
    CHECK(g[find(g, "decoder.l5.cross.memory")].shape == echo::shape{64, 100, 1024});
    CHECK(g[find(g, "decoder.l5.feed_forward.relu.dropout")].shape == echo::shape{64, 100, 2048});
    CHECK(g[find(g, "decoder.l5.feed_forward.add")].shape == echo::shape{64, 100, 512});
    CHECK(g[made.probabilities].shape == echo::shape{6400, 36500});
    CHECK(g[made.loss].shape == echo::shape{1});
}

TEST_CASE("Transformer: footprints at the paper's size are the simulated ones") {
    const auto paper = plan<transformer>(transformer_options{}, engine::baseline::paper);
    CHECK(paper.pool + paper.weights_and_co == Approx(9581).epsilon(0.02));
    CHECK(plan<transformer>(transformer_options{}, engine::baseline::modern).stash ==
          Approx(6649).epsilon(0.001));
    const auto cut =
        plan<transformer>(transformer_options{}, engine::baseline::modern, echo::strategy::min_cut);
    CHECK(cut.stash < 5447);
}

TEST_CASE("Transformer: small fills two gigabytes with feature maps") {
    CHECK(plan<transformer>(transformer::preset("small"), engine::baseline::modern).stash * mib >= 2e9);
}

TEST_CASE("a block is that of its definition") {
    engine::graph g;
    build_transformer(g, tiny());
    const auto input = [](value v, std::size_t k) { return v.producer->inputs.at(k); };
    const auto add = find(g, "encoder.l1.self.add"), before = find(g, "encoder.l0.feed_forward.add");
    CHECK(input(add, 1) == before);
    const auto dropped = input(add, 0);
    CHECK(dropped == find(g, "encoder.l1.self.dropout"));
    CHECK(input(dropped, 0) == find(g, "encoder.l1.self.h2o"));
    const auto i2h = find(g, "encoder.l1.self.i2h");
    CHECK(input(i2h, 0) == find(g, "encoder.l1.self.norm.out"));
    CHECK(input(find(g, "encoder.l1.self.norm.mean"), 0) == before);
    CHECK(input(find(g, "encoder.l1.self.queries.scale"), 0).output == 0);
    CHECK(input(find(g, "encoder.l1.self.contexts"), 0) == find(g, "encoder.l1.self.softmax.dropout"));
    CHECK(input(find(g, "encoder.l1.self.mask"), 1) == find(g, "source.lengths"));

    CHECK(input(find(g, "decoder.l0.self.mask"), 1) == find(g, "target.lengths"));
    CHECK(input(find(g, "decoder.l0.self.ahead"), 1) == find(g, "decoder.bias"));
    CHECK(input(find(g, "decoder.l1.self.ahead"), 1) == find(g, "decoder.bias"));
    CHECK(input(find(g, "decoder.l1.cross.mask"), 1) == find(g, "source.lengths"));
    CHECK(input(find(g, "decoder.l1.cross.memory"), 0) == find(g, "encoder.norm.out"));
    CHECK(input(find(g, "decoder.l1.cross.query"), 0) == find(g, "decoder.l1.cross.norm.out"));
    const auto o = tiny();
    const auto layers = static_cast<std::size_t>(o.encoder_layers + o.decoder_layers);
    const auto blocks = 2 * layers + static_cast<std::size_t>(o.decoder_layers);
    CHECK(count<engine::ops::elementwise<echo::rsqrt_op>>(g) == blocks + 2);
    // Embeddings, blocks, and inside of each.
    CHECK(count<dropout_node>(g) == 2 + 2 * blocks);
    CHECK(count<engine::ops::sequence_mask>(g) == blocks - layers);
}

TEST_CASE("Transformer: layers are those of the paper's breakdown") {
    engine::graph g;
    const auto made = build_transformer(g, tiny());
    CHECK(layers(g) == std::set<std::string>{"embedding", "attention", "feed-forward", "output"});
    CHECK(made.loss.producer->layer == "output");
    CHECK(find(g, "decoder.norm.out").producer->layer == "output");
    CHECK(find(g, "decoder.l0.cross.softmax").producer->layer == "attention");
    CHECK(find(g, "encoder.l0.feed_forward.norm.out").producer->layer == "feed-forward");
    CHECK(find(g, "source.embedding").producer->layer == "embedding");
}

TEST_CASE("three matrices are one, two, or apart; dropouts stand where they are asked for") {
    auto o = tiny();
    const auto parameters = [&] {
        engine::graph g;
        build_transformer(g, o);
        return elements(g, engine::role::parameter);
    };
    const auto one = parameters(), table = static_cast<std::size_t>(o.target_vocabulary * o.hidden);
    o.tied = tied::embeddings;
    CHECK(parameters() == one + table);
    o.tied = tied::none;
    CHECK(parameters() == one + 2 * table);
    o.attention_dropout = 0;
    engine::graph some;
    build_transformer(some, o);
    CHECK(count<dropout_node>(some) == 2 + 10 + 4);
    o.block_dropout = 0;
    engine::graph fewer;
    build_transformer(fewer, o);
    CHECK(count<dropout_node>(fewer) == 4);
    o.relu_dropout = 0;
    engine::graph none;
    build_transformer(none, o);
    CHECK(count<dropout_node>(none) == 0);
}

TEST_CASE("positions are sines and cosines of falling frequency") {
    std::vector<float> positions(3 * 4);
    write_positions(positions, 3);
    for (std::size_t t = 0; t < 3; ++t) {
        const auto at = static_cast<double>(t);
        CHECK(positions[t * 4] == Approx(std::sin(at)).margin(1e-6));
        CHECK(positions[t * 4 + 1] == Approx(std::sin(at / 100)).margin(1e-6));
        CHECK(positions[t * 4 + 2] == Approx(std::cos(at)).margin(1e-6));
        CHECK(positions[t * 4 + 3] == Approx(std::cos(at / 100)).margin(1e-6));
    }
    engine::graph g;
    const transformer model(g, tiny());
    engine::residents outside;
    model.fill(outside, 1);
    std::vector<float> wanted(9 * 64);
    write_positions(wanted, 9);
    const auto written = outside.f32(model.values().target_positions);
    CHECK(std::equal(wanted.begin(), wanted.end(), written.begin(), written.end()));
}

TEST_CASE("a decoder sees no later token, and nobody what stands behind the end") {
    transformer_options o = tiny();
    o.batch = 1, o.source_length = 4, o.target_length = 4;
    o.attention_dropout = o.relu_dropout = o.block_dropout = 0;
    const std::vector<std::int32_t> source{5, 6, 7, 0}, target{1, 7, 6, 5};
    const auto plain = answers(o, source, target);
    const auto classes = static_cast<std::size_t>(o.target_vocabulary);
    const auto differs = [&](const std::vector<float>& other, std::size_t step) {
        return !std::equal(plain.begin() + static_cast<std::ptrdiff_t>(step * classes),
                           plain.begin() + static_cast<std::ptrdiff_t>((step + 1) * classes),
                           other.begin() + static_cast<std::ptrdiff_t>(step * classes));
    };
    const auto later = answers(o, source, {1, 7, 8, 5});
    CHECK_FALSE(differs(later, 0));
    CHECK_FALSE(differs(later, 1));
    CHECK(differs(later, 2));
    CHECK(differs(later, 3));
    const auto other = answers(o, {5, 6, 8, 0}, target);
    CHECK(differs(other, 0));
    // A longer bucket is more padding, and changes no answer.
    auto longer = o;
    longer.source_length = 6;
    const auto padded = answers(longer, {5, 6, 7, 0, 0, 0}, target);
    REQUIRE(padded.size() == plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) CHECK(padded[i] == Approx(plain[i]).epsilon(1e-4));
    // Attention has no order of its own: positions give it one.
    CHECK(differs(answers(o, {6, 5, 7, 0}, target), 0));
}

TEST_CASE("Transformer: bad options are refused in one line, before anything is built") {
    const auto with = [](auto change) {
        auto o = tiny();
        change(o);
        return refusal<transformer>(o);
    };
    CHECK(with([](auto&) {}) == "accepted");
    CHECK(with([](auto& o) { o.batch = 0; }) == "batch: is 0; give 1 or more");
    CHECK(with([](auto& o) { o.encoder_layers = 0; }) == "encoder_layers: is 0; give 1 or more");
    CHECK(with([](auto& o) { o.heads = 0; }) == "heads: is 0; give 1 or more");
    CHECK(with([](auto& o) { o.feed_forward = -1; }) == "feed_forward: is -1; give 1 or more");
    CHECK(with([](auto& o) { o.heads = 5; }) == "heads: 64 does not split into 5; give a divisor of hidden");
    CHECK(with([](auto& o) { o.heads = o.hidden = 63; }) ==
          "hidden: 63 does not halve into sines and cosines of positions; give an even number");
    CHECK(with([](auto& o) { o.attention_dropout = 1; }) ==
          "attention_dropout: is 1.000000; give 0 or more, below 1");
    CHECK(with([](auto& o) { o.block_dropout = -0.1; }) ==
          "block_dropout: is -0.100000; give 0 or more, below 1");
    CHECK(with([](auto& o) { o.source_vocabulary = 20; }) ==
          "tied: vocabularies of 20 and 16 cannot share an embedding; give vocabularies of one size or tie "
          "nothing");
    CHECK(with([](auto& o) { o.source_vocabulary = 20, o.tied = tied::none; }) == "accepted");
    CHECK(with([](auto& o) { o.target_length = 1; }) ==
          "target_length: leaves no token before the end of a sentence; give 2 or more");
    CHECK(with([](auto& o) { o.data = "/no/such/file"; }) ==
          "/no/such/file: cannot be read; give a file of lines SOURCE<TAB>TARGET");
    CHECK_THROWS_WITH(transformer::preset("best"),
                      "preset: transformer has no 'best'; give tiny, small or paper");
    CHECK(transformer::preset("paper").feed_forward == 2048);
}

TEST_CASE("Transformer: a small task is learnt, to the same bits with and without Echo") {
    transformer_options o = tiny();
    o.source_length = 4, o.target_length = 5, o.source_vocabulary = o.target_vocabulary = 8;
    o.encoder_layers = o.decoder_layers = 1;
    o.attention_dropout = o.relu_dropout = o.block_dropout = 0.02; // the answers are those of training
    const auto without = learn<transformer>(o, 400),
               with = learn<transformer>(o, 400, echo::strategy::min_cut);
    CHECK_FALSE(without.recomputed);
    CHECK(with.recomputed);
    CHECK(same_bits(with.losses, without.losses));
    CHECK(without.loss(20, 40) < without.loss(0, 20));
    CHECK(without.loss(380, 400) < 0.6 * without.loss(0, 20)); // smoothed labels leave a rest
    CHECK(without.metric(0, 20) < 0.1);
    CHECK(without.metric(380, 400) > 0.7);
}
