// SPDX-License-Identifier: BSL-1.0
// A tape whose gradients are closures, with tables of what they read that are right, too short and too long.
#include <echo/graph/check_gradient_reads.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace {

struct tape {
    struct entry {
        std::string op;
        std::vector<std::size_t> reads;
        std::function<std::vector<float>()> gradient; ///< of ones
        echo::reads stated;
        echo::dtype type = echo::dtype::f32;
        std::size_t lies_on; ///< whose bytes it has: its own number unless it is a view
    };
    std::vector<entry> entries;
    std::vector<std::vector<std::byte>> bytes;

    template <class T>
    std::size_t add(std::string op, const std::vector<T>& y, std::vector<std::size_t> reads = {},
                    echo::reads stated = {}, std::function<std::vector<float>()> gradient = {}) {
        const auto type = std::is_same_v<T, float> ? echo::dtype::f32 : echo::dtype::i64;
        entries.push_back(
            {std::move(op), std::move(reads), std::move(gradient), stated, type, entries.size()});
        bytes.emplace_back(y.size() * sizeof(T));
        std::memcpy(bytes.back().data(), y.data(), bytes.back().size());
        return entries.size() - 1;
    }
    template <class T = float>
    std::vector<T> at(std::size_t n) const {
        const auto& from = bytes[entries[n].lies_on];
        std::vector<T> all(from.size() / sizeof(T));
        std::memcpy(all.data(), from.data(), from.size());
        return all;
    }
};

} // namespace

template <>
struct echo::graph_traits<tape> {
    using node = std::size_t;
    using value = echo::value_of<node>;
    static std::vector<node> nodes(const tape& g) {
        std::vector<node> all;
        for (node n = 0; n < g.entries.size(); ++n) all.push_back(n);
        return all;
    }
    static std::vector<value> inputs(const tape& g, node n) {
        std::vector<value> all;
        for (const node from : g.entries[n].reads) all.push_back({from, 0});
        return all;
    }
    static std::vector<tensor> outputs(const tape& g, node n) {
        return {{.type = g.entries[n].type, .bytes = g.bytes[n].size()}};
    }
    static echo::phase phase(const tape& g, node n) {
        return g.entries[n].op == "input" ? phase::input : phase::forward;
    }
    static std::vector<value> results(const tape& g) { return {{g.entries.size() - 1, 0}}; }
    static op_facts facts(const tape& g, node n) {
        return {.name = g.entries[n].op, .gradient_reads = g.entries[n].stated};
    }
};

namespace {

const std::vector<float> random_floats{0.3F, -1.2F, 0.7F, 2.1F};

std::vector<float> each(const std::vector<float>& a, const std::function<float(float)>& f) {
    std::vector<float> y;
    for (const float x : a) y.push_back(f(x));
    return y;
}

std::vector<echo::wrong_gradient_reads<tape>> check(tape& g) {
    const echo::gradient_probe<tape> probe{
        .gradient =
            [&](std::size_t n) {
                std::vector<std::byte> made;
                if (!g.entries[n].gradient) return made;
                const std::vector<float> dx = g.entries[n].gradient();
                made.resize(dx.size() * sizeof(float));
                std::memcpy(made.data(), dx.data(), made.size());
                return made;
            },
        .load = [&](echo::value_of<std::size_t> v) { return g.bytes[g.entries[v.producer].lies_on]; },
        .store =
            [&](echo::value_of<std::size_t> v, std::span<const std::byte> to) {
                std::copy(to.begin(), to.end(), g.bytes[g.entries[v.producer].lies_on].begin());
            }};
    const auto before = g.bytes;
    auto wrong = echo::check_gradient_reads(g, probe);
    CHECK(g.bytes == before);
    return wrong;
}

/// y = tanh(x), whose gradient reads y.
std::size_t add_tanh(tape& g, std::size_t x, echo::reads stated) {
    const std::size_t n = g.entries.size();
    return g.add<float>("tanh", each(g.at(x), [](float v) { return std::tanh(v); }), {x}, stated,
                        [&g, n] { return each(g.at(n), [](float y) { return 1 - y * y; }); });
}

} // namespace

TEST_CASE("right tables pass", "[check_gradient_reads]") {
    tape g;
    const auto x = g.add("input", random_floats);
    const auto y = add_tanh(g, x, {.outputs = {0}});
    g.add<float>("relu", each(g.at(y), [](float v) { return std::max(v, 0.F); }), {y}, {.inputs = {0}},
                 [&] { return each(g.at(y), [](float v) { return v > 0 ? 1.F : 0.F; }); });
    g.add<float>("scale", each(g.at(y), [](float v) { return 2 * v; }), {y}, {},
                 [] { return std::vector<float>(4, 2.F); });
    CHECK(check(g).empty());
}

TEST_CASE("what is read and not stated is found, and what is stated and not read", "[check_gradient_reads]") {
    tape g;
    const auto x = g.add("input", random_floats);
    add_tanh(g, x, {.inputs = {0}}); // the wrong way round
    const auto wrong = check(g);
    REQUIRE(wrong.size() == 1);
    CHECK(wrong[0].node == 1);
    CHECK(wrong[0].name == "tanh");
    CHECK(wrong[0].missing == echo::reads{.outputs = {0}});
    CHECK(wrong[0].unneeded == echo::reads{.inputs = {0}});
}

TEST_CASE("indices stay among those that are there", "[check_gradient_reads]") {
    tape g;
    const auto at = g.add("input", std::vector<std::int64_t>{2, 0, 1});
    const auto rows = [&g, at] {
        std::vector<float> table(3, 0.F);
        float dy = 1;
        for (const auto row : g.at<std::int64_t>(at)) table.at(static_cast<std::size_t>(row)) += dy++;
        return table;
    };
    g.add<float>("embedding", random_floats, {at}, {}, rows);
    const auto wrong = check(g);
    REQUIRE(wrong.size() == 1);
    CHECK(wrong[0].missing == echo::reads{.inputs = {0}});
}

TEST_CASE("values on the same memory count as one", "[check_gradient_reads]") {
    tape g;
    const auto x = g.add("input", random_floats);
    const auto y = g.add<float>("exp, in place", each(g.at(x), [](float v) { return std::exp(v); }), {x},
                                {.outputs = {0}}, [&g] { return g.at(1); });
    g.entries[y].lies_on = x; // the input's memory holds the output now
    g.bytes[x] = g.bytes[y];
    CHECK(check(g).empty());
}

TEST_CASE("a gradient that makes other bytes each time is refused", "[check_gradient_reads]") {
    tape g;
    const auto x = g.add("input", random_floats);
    float calls = 0;
    g.add<float>("noise", random_floats, {x}, {}, [&calls] { return std::vector<float>{calls++}; });
    CHECK_THROWS_WITH(check(g), Catch::Contains("other bytes when it runs again"));
}
