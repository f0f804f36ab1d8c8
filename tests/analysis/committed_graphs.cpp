// SPDX-License-Identifier: BSL-1.0
/// @file
/// The bars of quality on the committed graphs: what a simple light-op cut was measured to reach must be reached or
/// beaten, the stash of the exact cut is never above the paper's pass, and no strategy beats `min_cut`'s peak.
#include "format/file_graph.hpp"
#include "format/read_file.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan/budget/budget.hpp>
#include <echo/analysis/plan/strategies/echo.hpp>
#include <echo/analysis/verify.hpp>
#include <echo/graph/read.hpp>
#include <echo/graph/snapshot_builder.hpp>
#include <echo/vocabulary/aten.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace {

echo::snapshot read_committed(const std::string& path) {
    const auto g =
        echo::format::read_graph_file(path, [](std::string_view op) { return echo::aten.find(op); });
    return echo::read(g);
}

std::string graph_path(const std::string& name) {
    return std::string(ECHO_SOURCE_DIR "/examples/graphs/") + name + ".json.gz";
}

std::set<std::string> committed() {
    std::set<std::string> paths;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(ECHO_SOURCE_DIR "/examples/graphs"))
        if (entry.is_regular_file()) paths.insert(entry.path().string());
    return paths;
}

/// The same step, returning its gradients alone.
echo::snapshot without_forward_results(const echo::snapshot& s) {
    echo::snapshot_builder made;
    for (const auto n : s.nodes()) {
        const echo::node_record& node = s[n];
        echo::positions one_bit;
        std::vector<echo::value_id> inputs(s.inputs(n).begin(), s.inputs(n).end());
        std::vector<echo::node_id> control(s.control(n).begin(), s.control(n).end());
        std::vector<echo::tensor> outputs;
        for (std::size_t k = 0; k < inputs.size(); ++k)
            if (s.one_bit(n, k)) one_bit.insert(k);
        for (const auto v : s.outputs(n)) {
            echo::tensor t{.type = s[v].type, .bytes = s[v].bytes, .resident = s[v].resident};
            t.shape = echo::shape{static_cast<std::int64_t>(s[v].elements)};
            if (s[v].view_of != echo::no_input) t.view_of = s[v].view_of;
            if (s[v].inplace != echo::no_input) t.inplace = s[v].inplace;
            outputs.push_back(std::move(t));
        }
        made.add({.op = s.op_name(node.op),
                  .phase = node.phase,
                  .kind = node.kind,
                  .rerun = node.rerun,
                  .keep = node.keep,
                  .inputs = inputs,
                  .one_bit_inputs = one_bit,
                  .control = control,
                  .outputs = outputs,
                  .flops = node.flops,
                  .workspace = node.workspace});
    }
    for (const auto v : s.results())
        if (s[s[v].producer].phase != echo::phase::forward) made.add_result(v);
    return std::move(made).finish();
}

struct bar {
    const char* graph;
    double peak_mb;          ///< at most
    double overhead_percent; ///< at most
};

} // namespace

TEST_CASE("min_cut reaches or beats a simple light-op cut with the best anchor distance", "[graphs]") {
    // Peak and overhead of a prototype; the NMT here is another rewrite of the paper's model than the prototype's
    // (baseline 2,488 MB against 2,461), so its bar is the prototype's reduction of its own baseline.
    const bar bars[] = {{"resnet50_b64", 3000, 8.6},    {"bert_base_b32_t128", 3325, 1.7},
                        {"marian_b64_t100", 5138, 2.6}, {"vit_b16_b32", 2582, 1.5},
                        {"gpt2_b8_t512", 5188.5, 4.0},  {"nmt_b128_t50", 2488.5 * 1584 / 2461, 6.0},
                        {"resnet152_b32", 3020, 10.4},  {"llama_8x2048_b4_t512", 2850.5, 0.9}};
    for (const auto& [graph, peak_mb, overhead_percent] : bars) {
        CAPTURE(graph);
        const auto s = read_committed(graph_path(graph));
        const auto p = echo::make_plan(s, {.how = echo::strategy::min_cut});
        echo::verify(s, p);
        CHECK(static_cast<double>(p.report().peak_bytes) / 1e6 <= peak_mb);
        CHECK(100 * p.report().recompute_time_ratio <= overhead_percent);
    }
}

TEST_CASE(
    "the exact cut stashes no more than the paper's pass, and no strategy has a lower peak than min_cut",
    "[graphs]") {
    const auto paths = committed();
    REQUIRE(paths.size() >= 8);
    for (const auto& path : paths) {
        CAPTURE(path);
        const auto s = read_committed(path);
        const auto c = echo::detail::find_candidates(s);
        const auto needs = echo::detail::anchor_finder(s, c)(echo::detail::no_anchor);
        echo::detail::evaluator evaluate(s, c);
        auto decided = echo::detail::decision::nothing(s);
        echo::detail::min_cut(s, c)(needs, {}, decided);
        const auto cut = evaluate(decided);
        const auto pass =
            evaluate(echo::detail::echo_pass(s, c, echo::detail::gradient_needs(s, c, true), needs));
        CHECK(cut.footprint().stash_bytes <= pass.footprint().stash_bytes);

        const auto best = echo::make_plan(s, {.how = echo::strategy::min_cut}).report();
        CHECK(best.lower_bound_bytes <= best.peak_bytes);
        // Known: on Inception v3 the peak of min_cut is 1.7 % above that of echo.
        const double allowed = path.ends_with("inception_v3_b64.json.gz") ? 1.02 : 1;
        for (const auto how : echo::all_strategies) {
            CAPTURE(echo::name_of(how));
            const auto p = echo::make_plan(s, {.how = how});
            echo::verify(s, p);
            CHECK(p.report().peak_bytes <= p.report().baseline_peak_bytes);
            CHECK(static_cast<double>(best.peak_bytes) <=
                  allowed * static_cast<double>(p.report().peak_bytes));
        }
    }
}

TEST_CASE("fusion makes no plan of a committed graph worse, and most cheaper", "[graphs][fused]") {
    std::size_t cheaper = 0;
    for (const auto& path : committed()) {
        CAPTURE(path);
        const auto s = read_committed(path);
        for (const auto how : {echo::strategy::echo, echo::strategy::min_cut}) {
            CAPTURE(echo::name_of(how));
            const auto plain = echo::make_plan(s, {.how = how});
            const auto p = echo::make_plan(s, {.how = how, .host = {.fuse = true}});
            echo::verify(s, p);
            CHECK(p.report().peak_bytes <= plain.report().peak_bytes);
            CHECK(p.report().recompute_time_ratio <= plain.report().recompute_time_ratio);
            cheaper += p.report().recompute_time_ratio < 0.95 * plain.report().recompute_time_ratio;
        }
    }
    CHECK(cheaper >= 20);
}

TEST_CASE("the decoder of NMT: what feeds tanh, and tanh where its gradients alone read it, is fused",
          "[graphs][fused]") {
    const auto s = read_committed(graph_path("nmt_b128_t50"));
    const auto p = echo::make_plan(s, {.how = echo::strategy::min_cut, .host = {.fuse = true}});
    std::size_t sums = 0, cells = 0;
    for (const auto t : p.steps().steps()) {
        if (!p.steps()[t].fused) continue;
        const auto op = s.op_name(s[p.steps()[t].node].op);
        cells += op == "aten.tanh.default";
        sums += op == "aten.add.Tensor";
    }
    CHECK(sums >= 50); // the broadcast sums of the attention, one for each step of the decoder
    CHECK(cells >=
          200); // of the LSTMs; the attention's own are read by a matrix product, which recomputes nothing
    CHECK(p.report().recompute_time_ratio < 0.035);
}

TEST_CASE("a graph whose loss nobody asks for is planned as well as with it", "[graphs]") {
    for (const std::string name : {"tiny_cnn", "resnet50_b64", "mobilenet_v3_large_b64", "vit_b16_b32",
                                   "more/inception_v3_b64", "more/gan", "more/gradient_penalty"}) {
        CAPTURE(name);
        const auto asked = read_committed(graph_path(name)), silent = without_forward_results(asked);
        REQUIRE(silent.node_count() == asked.node_count());
        if (name != "more/gan" && name != "more/gradient_penalty")
            CHECK(silent.results().size() < asked.results().size());
        for (const auto how : {echo::strategy::min_cut, echo::strategy::budget}) {
            const auto with = echo::make_plan(asked, {.how = how}),
                       without = echo::make_plan(silent, {.how = how});
            echo::verify(silent, without);
            const auto peak = static_cast<double>(with.report().peak_bytes);
            CHECK(static_cast<double>(without.report().peak_bytes) <= 1.02 * peak);
        }
    }
}

TEST_CASE("below what is found where a budget is out of reach, no budget is met", "[graphs]") {
    for (const std::string name : {"densenet121_b32", "resnet50_b64"}) {
        CAPTURE(name);
        const auto s = read_committed(graph_path(name));
        const auto peak_at = [&](std::uint64_t budget) {
            return echo::make_plan(s, {.how = echo::strategy::budget, .budget = budget}).report().peak_bytes;
        };
        const std::uint64_t least = peak_at(0), below = least - least / 64;
        CHECK(peak_at(below) > below);
    }
}

TEST_CASE("a limit costs no more than the limits below it", "[graphs]") {
    struct asked {
        std::string graph;
        std::uint64_t limit, lower;
    };
    for (const auto& [name, limit, lower] : {asked{"more/unet_b16", 1'989'551'040, 1'982'064'036},
                                             asked{"efficientnet_b0_b64", 1'180'983'704, 1'133'914'540},
                                             asked{"efficientnet_b0_b64", 1'142'259'756, 1'133'914'540}}) {
        CAPTURE(name);
        const auto s = read_committed(graph_path(name));
        const auto overhead_at = [&](std::uint64_t budget) {
            const auto r = echo::make_plan(s, {.how = echo::strategy::budget, .budget = budget}).report();
            CHECK(r.peak_bytes <= budget);
            return r.recompute_time_ratio;
        };
        CHECK(overhead_at(limit) <= 1.02 * overhead_at(lower));
    }
}

TEST_CASE("progress rises through all passes", "[graphs]") {
    const auto s = read_committed(graph_path("more/inception_v3_b64"));
    const auto c = echo::detail::find_candidates(s);
    echo::detail::evaluator evaluate(s, c);
    const echo::detail::anchor_finder anchors(s, c);
    std::vector<double> told;
    const auto tell = [&](double part) { told.push_back(part); };
    echo::detail::budget_search search(evaluate, anchors, {.progress = tell});
    static_cast<void>(search.cheapest(1'700'000'000));
    REQUIRE(told.size() > 1);
    CHECK(std::ranges::is_sorted(told));
    CHECK(told.back() < 1);
}

TEST_CASE("a limit costs no more than a plan within a time whose peak it is", "[graphs]") {
    for (const std::string name :
         {"more/convnext_tiny_b64", "more/inception_v3_b64", "more/efficientnet_b4_b16"}) {
        CAPTURE(name);
        const auto s = read_committed(graph_path(name));
        const double part = name == "more/efficientnet_b4_b16" ? 0.05 : 0.1;
        const auto within =
            echo::make_plan(s, {.how = echo::strategy::budget, .max_overhead = part}).report();
        const auto under =
            echo::make_plan(s, {.how = echo::strategy::budget, .budget = within.peak_bytes}).report();
        CHECK(under.peak_bytes <= within.peak_bytes);
        CHECK(1 + under.recompute_time_ratio <= 1.02 * (1 + within.recompute_time_ratio)); // of a step's time
    }
}
