// SPDX-License-Identifier: BSL-1.0
// A forward-only host and the training graph that its gradients would make stash the same feature maps.
#include <echo/analysis/schedule/footprint.hpp>
#include <echo/graph/read.hpp>
#include <echo/ops/activations.hpp>
#include <echo/ops/arithmetic.hpp>
#include <echo/ops/matmul.hpp>
#include <echo/ops/movement.hpp>
#include <echo/ops/softmax.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <random>
#include <set>

namespace {

struct tape {
    using value = echo::value_of<std::size_t>;
    struct entry {
        echo::op_facts facts;
        echo::phase phase = echo::phase::forward;
        std::vector<value> inputs{};
        std::vector<echo::tensor> outputs{};
        bool trainable = false;
    };
    std::vector<entry> nodes;
    std::vector<value> results;

    value add(entry e) {
        nodes.push_back(std::move(e));
        return {nodes.size() - 1, 0};
    }
    value input(echo::shape shape, bool trainable) {
        return add({.facts = {.name = "input"},
                    .phase = echo::phase::input,
                    .outputs = {{.shape = std::move(shape), .type = echo::dtype::f32}},
                    .trainable = trainable});
    }
    template <class Op>
    value forward(std::vector<value> in, echo::shape shape) {
        return add({.facts = echo::facts_of<Op>(),
                    .inputs = std::move(in),
                    .outputs = {{.shape = std::move(shape), .type = echo::dtype::f32}}});
    }
    const echo::tensor& tensor(value v) const { return nodes[v.producer].outputs[v.output]; }
    std::int64_t rows(value v) const { return tensor(v).shape[0]; }
    std::int64_t columns(value v) const { return tensor(v).shape[1]; }
};

} // namespace

template <>
struct echo::graph_traits<tape> {
    using node = std::size_t;
    using value = tape::value;
    static std::vector<node> nodes(const tape& g) {
        std::vector<node> all(g.nodes.size());
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
        return all;
    }
    static const auto& inputs(const tape& g, node n) { return g.nodes[n].inputs; }
    static const auto& outputs(const tape& g, node n) { return g.nodes[n].outputs; }
    static echo::phase phase(const tape& g, node n) { return g.nodes[n].phase; }
    static const auto& results(const tape& g) { return g.results; }
    static echo::op_facts facts(const tape& g, node n) { return g.nodes[n].facts; }
    static bool trainable(const tape& g, node n) { return g.nodes[n].trainable; }
};

namespace {

enum class op { fully_connected, tanh, multiply, add, relu, softmax, reshape };

/// A forward pass, and which op made each of its nodes.
struct model {
    tape forward;
    std::vector<std::optional<op>> made_by;

    void note(op o) {
        made_by.resize(forward.nodes.size());
        made_by.back() = o;
    }
    tape::value step(op o, tape::value x, std::optional<tape::value> other, std::int64_t width) {
        const echo::shape same = forward.tensor(x).shape;
        tape::value y = x;
        switch (o) {
        case op::fully_connected: {
            const auto w = forward.input({width, forward.columns(x)}, true);
            y = forward.forward<echo::fully_connected_op>({x, w}, {forward.rows(x), width});
            break;
        }
        case op::tanh:
            y = forward.forward<echo::tanh_op>({x}, same);
            break;
        case op::multiply:
            y = forward.forward<echo::multiply_op>({x, *other}, same);
            break;
        case op::add:
            y = forward.forward<echo::add_op>({x, *other}, same);
            break;
        case op::relu:
            y = forward.forward<echo::relu_op>({x}, same);
            break;
        case op::softmax:
            y = forward.forward<echo::softmax_op<>>({x}, same);
            break;
        case op::reshape:
            y = forward.forward<echo::reshape_op>({x}, same);
            break;
        }
        note(o);
        return y;
    }
};

/// The gradients as an engine writes them: what each reads is written down by hand.
tape with_gradients(const model& m) {
    using value = tape::value;
    tape g = m.forward;
    std::vector<std::optional<value>> gradient(g.nodes.size());
    const auto backward = [&](std::vector<value> reads, value like, bool one_bit_of_last = false) {
        echo::op_facts facts{.name = "gradient"};
        if (one_bit_of_last) facts.one_bit_inputs = {reads.size() - 1};
        return g.add({.facts = facts,
                      .phase = echo::phase::backward,
                      .inputs = std::move(reads),
                      .outputs = {{.shape = g.tensor(like).shape, .type = echo::dtype::f32}}});
    };
    const auto arrive = [&](value x, value dx) {
        auto& sum = gradient[x.producer];
        sum = sum ? backward({*sum, dx}, x) : dx;
    };
    for (const auto& result : g.results) arrive(result, backward({}, result));
    for (std::size_t n = m.forward.nodes.size(); n-- > 0;) {
        if (!gradient[n] || !m.made_by[n]) continue;
        const auto in = m.forward.nodes[n].inputs;
        const value y{n, 0}, dy = *gradient[n];
        switch (*m.made_by[n]) {
        case op::fully_connected:
            arrive(in[0], backward({dy, in[1]}, in[0]));
            arrive(in[1], backward({dy, in[0]}, in[1]));
            break;
        case op::multiply:
            arrive(in[0], backward({dy, in[1]}, in[0]));
            arrive(in[1], backward({dy, in[0]}, in[1]));
            break;
        case op::add:
            arrive(in[0], dy);
            arrive(in[1], dy);
            break;
        case op::relu:
            arrive(in[0], backward({dy, y}, in[0], true));
            break;
        case op::tanh:
        case op::softmax:
            arrive(in[0], backward({dy, y}, in[0]));
            break;
        case op::reshape:
            arrive(in[0], dy);
            break;
        }
    }
    g.results.clear();
    for (std::size_t n = 0; n < m.forward.nodes.size(); ++n)
        if (m.forward.nodes[n].trainable && gradient[n]) g.results.push_back(*gradient[n]);
    return g;
}

struct stash {
    std::uint64_t bytes = 0;
    std::set<std::pair<std::uint32_t, std::uint32_t>> makers{};
    std::set<std::uint32_t> one_bit{}; ///< values of which the backward pass needs one bit per element
    friend bool operator==(const stash&, const stash&) = default;
};

stash stash_of(const echo::snapshot& s) {
    const auto steps = echo::baseline_schedule(s);
    const auto replayed = echo::replay{}(s, steps);
    stash found{.bytes = replayed.footprint.stash_bytes};
    const auto boundary = echo::first_backward_step(s, steps);
    const auto& live = replayed.live;
    for (const auto i : live.storages()) {
        const auto& storage = live[i];
        if (storage.resident || storage.maker.step >= boundary || !storage.last_read.valid() ||
            storage.last_read < boundary)
            continue;
        found.makers.insert({storage.maker.step.index(), storage.maker.output});
    }
    for (const auto v : s.values()) {
        bool packed = true, backward = false;
        for (const auto& u : s.uses(v))
            if (s[u.reader].phase == echo::phase::backward) {
                backward = true;
                packed &= s.one_bit(u.reader, u.position);
            }
        if (backward && packed && s[s[v].producer].phase == echo::phase::forward)
            found.one_bit.insert(v.index());
    }
    return found;
}

} // namespace

TEST_CASE("the skeleton stashes what hand-written gradients stash", "[skeleton]") {
    std::mt19937_64 engine(5);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(engine() % n); };
    std::size_t stashed = 0, one_bit = 0;
    for (int i = 0; i < 300; ++i) {
        model m;
        std::vector<tape::value> made{m.forward.input({8, 16}, false)};
        m.made_by.resize(1);
        const std::size_t length = 2 + below(12);
        for (std::size_t k = 0; k < length; ++k) {
            const auto x = made.back();
            std::vector<tape::value> fitting;
            for (const auto v : made)
                if (m.forward.tensor(v).shape == m.forward.tensor(x).shape) fitting.push_back(v);
            const auto other = fitting[below(fitting.size())];
            const auto width = static_cast<std::int64_t>(8 * (1 + below(4)));
            // The first step reads a parameter, so that gradients reach every node.
            const op chosen = k == 0 ? op::fully_connected : static_cast<op>(below(6));
            made.push_back(m.step(chosen, x, other, width));
        }
        m.forward.results = {made.back()};
        m.made_by.resize(m.forward.nodes.size());
        const auto skeleton = echo::read(m.forward);
        const auto real = echo::read(with_gradients(m));
        CAPTURE(i);
        REQUIRE(skeleton.host_node_count() == m.forward.nodes.size());
        REQUIRE(real.host_node_count() == real.node_count());
        REQUIRE(stash_of(skeleton) == stash_of(real));
        stashed += stash_of(real).makers.size();
        one_bit += stash_of(real).one_bit.size();
    }
    CHECK(stashed > 300);
    CHECK(one_bit > 100);
}

TEST_CASE("a value read in full and by one bit is read in full", "[skeleton]") {
    for (const bool bit_first : {true, false}) {
        tape g;
        const auto w = g.input({4, 4}, true);
        const auto x = g.forward<echo::tanh_op>({w}, {4, 4});
        echo::op_facts twice{.name = "twice", .gradient_reads = {.inputs = {0, 1}}};
        twice.gradient_one_bit.inputs = {bit_first ? std::size_t{0} : std::size_t{1}};
        g.results = {g.add({.facts = twice, .inputs = {x, x}, .outputs = {g.tensor(x)}})};
        const auto s = echo::read(g);
        const echo::node_id gradient(g.nodes.size());
        REQUIRE(s.op_name(s[gradient].op) == "twice.gradient");
        REQUIRE(s.inputs(gradient).size() == 1); // the result's own gradient is the caller's
        CHECK_FALSE(s.one_bit(gradient, 0));
    }
}

TEST_CASE("only what is trainable, or leads to it, gets a gradient", "[skeleton]") {
    tape g;
    const auto data = g.input({4, 4}, false), w = g.input({4, 4}, true);
    const auto y = g.forward<echo::fully_connected_op>({data, w}, {4, 4});
    g.forward<echo::tanh_op>({y}, {4, 4}); // leads to no result
    g.results = {g.forward<echo::tanh_op>({y}, {4, 4})};
    const auto s = echo::read(g);
    REQUIRE(s.node_count() == g.nodes.size() + 2);
    CHECK(s.outputs(echo::node_id(s.node_count() - 1)).size() == 1);
    REQUIRE(s.results().size() == 2);
    CHECK(s[s.results()[1]].producer == echo::node_id(s.node_count() - 1));
}

TEST_CASE("a gradient of a reshape is a view, gradients of one value are added in place", "[skeleton]") {
    tape g;
    const auto w = g.input({4, 4}, true);
    const auto x = g.forward<echo::tanh_op>({w}, {4, 4});
    const auto view = g.forward<echo::reshape_op>({x}, {16, 1});
    const auto a = g.forward<echo::tanh_op>({view}, {16, 1});
    const auto b = g.forward<echo::tanh_op>({x}, {4, 4});
    g.results = {a, b};
    const auto s = echo::read(g);
    std::size_t views = 0, sums = 0;
    for (std::size_t n = g.nodes.size(); n < s.node_count(); ++n) {
        const echo::node_id id(n);
        views += s[id].kind == echo::op_kind::view && s[s.output(id, 0)].view_of == 0;
        if (s.op_name(s[id].op) == "gradient_sum") {
            ++sums;
            CHECK(s[s.output(id, 0)].inplace == 0);
        }
    }
    CHECK(views == 1);
    CHECK(sums == 1);
}

TEST_CASE("facts let an op write over inputs of its size, but never over parameters", "[read]") {
    tape g;
    const auto w = g.input({4, 4}, true), bias = g.input({1, 4}, true);
    const auto on_parameter = g.forward<echo::tanh_op>({w}, {4, 4});
    const auto broadcast = g.forward<echo::add_op>({bias, on_parameter}, {4, 4});
    const auto grown = g.forward<echo::add_op>({broadcast, w}, {8, 4});
    echo::op_facts effect{.name = "effect", .rerun = echo::rerun_kind::never, .inplace = {{0, 0}}};
    const auto written = g.add({.facts = effect, .inputs = {w}, .outputs = {g.tensor(w)}});
    g.results = {grown, written};
    const auto s = echo::read(g);
    const auto inplace = [&](tape::value v) { return s[s.output(echo::node_id(v.producer), 0)].inplace; };
    CHECK(inplace(on_parameter) == echo::no_input);
    CHECK(inplace(broadcast) == 1);
    CHECK(inplace(grown) == echo::no_input);
    CHECK(inplace(written) == 0);
}

TEST_CASE("a gradient lies where the gradient that it reads lies, if the op allows that", "[skeleton]") {
    for (const bool allowed : {true, false}) {
        tape g;
        const auto w = g.input({4, 4}, true);
        const echo::op_facts facts{.name = "op", .gradient_inplace = allowed};
        const auto a = g.add({.facts = facts, .inputs = {w}, .outputs = {g.tensor(w)}});
        g.results = {g.add({.facts = facts, .inputs = {a}, .outputs = {g.tensor(w)}})};
        const auto s = echo::read(g);
        REQUIRE(s.node_count() == 5);
        const auto inplace = [&](std::size_t n) { return s[s.output(echo::node_id(n), 0)].inplace; };
        CHECK(inplace(3) == echo::no_input); // the result's own gradient is the caller's
        CHECK(inplace(4) == (allowed ? 0 : echo::no_input));
    }
}

TEST_CASE("the gradient of a parameter is a result, wherever the parameter stands", "[skeleton]") {
    for (const bool first : {true, false}) {
        tape g;
        const auto x = g.input({4, 4}, first), w = g.input({4, 4}, !first);
        g.results = {g.forward<echo::fully_connected_op>({x, w}, {4, 4})};
        const auto s = echo::read(g);
        REQUIRE(s.results().size() == 2);
        CHECK(s[s.results()[1]].producer == echo::node_id(g.nodes.size()));
    }
}

TEST_CASE("facts of what is in place hold for nodes of fewer inputs, too", "[read]") {
    tape g;
    const auto w = g.input({4, 4}, true);
    const auto a = g.forward<echo::tanh_op>({w}, {4, 4}), b = g.forward<echo::tanh_op>({w}, {4, 4});
    const echo::op_facts facts{.name = "op", .inplace = {{0, 1}}};
    const auto two = g.add({.facts = facts, .inputs = {a, b}, .outputs = {g.tensor(w)}});
    const auto one = g.add({.facts = facts, .inputs = {a}, .outputs = {g.tensor(w)}});
    g.results = {two, one};
    const auto s = echo::read(g);
    CHECK(s[s.output(echo::node_id(two.producer), 0)].inplace == 1);
    CHECK(s[s.output(echo::node_id(one.producer), 0)].inplace == echo::no_input);
}

TEST_CASE("an output that a node does not have is read by nobody", "[read]") {
    tape g;
    const auto w = g.input({4, 4}, true);
    const auto a = g.forward<echo::tanh_op>({w}, {4, 4});
    g.forward<echo::tanh_op>({a}, {4, 4});
    g.results = {g.forward<echo::tanh_op>({{a.producer, 1}}, {4, 4})};
    CHECK_THROWS_WITH(echo::read(g), Catch::Contains("reads output 1 of '#1', which has 1"));
}

TEST_CASE("what cannot be said of a node is refused by its name and key", "[read]") {
    constexpr std::uint64_t most = std::uint64_t{1} << 62;
    const auto refused = [](auto&& change) -> std::string {
        echo::snapshot_builder builder;
        const echo::tensor t{.bytes = 4};
        builder.add({.name = "x", .phase = echo::phase::input, .outputs = {&t, 1}});
        const echo::value_id own[] = {echo::value_id(1)};
        const echo::node_id later[] = {echo::node_id(1)};
        const echo::value_id x[] = {echo::value_id(0)};
        echo::node_description d{.name = "n", .inputs = x, .outputs = {&t, 1}};
        change(d, own, later);
        try {
            builder.add(d);
        } catch (const echo::error& e) {
            return e.node() + "." + e.key();
        }
        return {};
    };
    using d = echo::node_description&;
    CHECK(refused([](d, auto&&, auto&&) {}).empty());
    CHECK(refused([](d n, auto&&, auto&&) { n.phase = echo::phase::input; }) == "n.inputs");
    CHECK(refused([](d n, auto&& own, auto&&) { n.inputs = own; }) == "n.inputs");
    CHECK(refused([](d n, auto&&, auto&& later) { n.control = later; }) == "n.control");
    CHECK(refused([](d n, auto&&, auto&&) { n.flops = -1; }) == "n.flops");
    CHECK(refused([](d n, auto&&, auto&&) { n.time_us = std::nan(""); }) == "n.time_us");
    CHECK(refused([](d n, auto&&, auto&&) { n.workspace = most; }).empty());
    CHECK(refused([](d n, auto&&, auto&&) { n.workspace = most + 1; }) == "n.workspace");
}
