// SPDX-License-Identifier: BSL-1.0
// One minimum cut at one anchor distance, laid out and replayed: time per node, and memory with all that it needs beyond
// the snapshot, on committed graphs tiled in depth to about 10^4, 10^5 and 10^6 nodes; and whole searches for a budget of
// half the baseline's peak.
//
// Tiling: the forward nodes of copies 1 … k, then the other nodes of copies k … 1. In every copy but the first, the
// first input that a forward node reads is the last forward value of the copy before.
#include "format/read_file.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/graph/read.hpp>
#include <echo/graph/snapshot_builder.hpp>
#include <echo/vocabulary/aten.hpp>

#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr const char* models[] = {"resnet50_b64", "bert_base_b32_t128", "gpt2_b8_t512", "nmt_b128_t50"};

echo::snapshot committed(const std::string& model) {
    const auto op = [](std::string_view name) { return echo::aten.find(name); };
    return echo::read(
        echo::format::read_graph_file(ECHO_SOURCE_DIR "/examples/graphs/" + model + ".json.gz", op));
}

/// Adds copies of one graph's nodes to another.
class tiler {
public:
    tiler(const echo::snapshot& s, std::size_t copies) : s_(s), made_(copies) {
        for (auto& nodes : made_) nodes.resize(s.node_count());
        for (const auto n : s.nodes())
            if (s[n].phase == echo::phase::forward && !s.outputs(n).empty()) last_ = s.output(n, 0);
        for (const auto n : s.nodes()) {
            if (s[n].phase != echo::phase::forward || linked_.valid()) continue;
            for (const auto v : s.inputs(n))
                if (s[s[v].producer].phase == echo::phase::input) linked_ = v;
        }
    }

    echo::snapshot run() {
        for (std::size_t c = 0; c < made_.size(); ++c)
            for (const auto n : s_.nodes())
                if (!echo::is_backward(s_[n].phase)) add(c, n);
        for (std::size_t c = made_.size(); c-- > 0;)
            for (const auto n : s_.nodes())
                if (echo::is_backward(s_[n].phase)) add(c, n);
        for (std::size_t c = 0; c < made_.size(); ++c)
            for (const auto v : s_.results()) build_.add_result(copy(c, v));
        return std::move(build_).finish();
    }

private:
    echo::value_id copy(std::size_t c, echo::value_id v) const {
        if (c > 0 && v == linked_) return copy(c - 1, last_);
        return build_.output(made_[c][s_[v].producer.index()], s_.output_index(v));
    }

    void add(std::size_t c, echo::node_id n) {
        const auto& node = s_[n];
        std::vector<echo::value_id> inputs;
        echo::positions one_bit;
        for (std::size_t k = 0; k < s_.inputs(n).size(); ++k) {
            inputs.push_back(copy(c, s_.inputs(n)[k]));
            if (s_.one_bit(n, k)) one_bit.insert(k);
        }
        std::vector<echo::node_id> control;
        for (const auto m : s_.control(n)) control.push_back(made_[c][m.index()]);
        std::vector<echo::tensor> outputs;
        for (const auto v : s_.outputs(n)) {
            echo::tensor t{.bytes = s_[v].bytes, .resident = s_[v].resident};
            t.shape = echo::shape{static_cast<std::int64_t>(s_[v].elements)};
            if (s_[v].view_of != echo::no_input) t.view_of = s_[v].view_of;
            if (s_[v].inplace != echo::no_input) t.inplace = s_[v].inplace;
            outputs.push_back(t);
        }
        echo::node_description d{
            .op = s_.op_name(node.op), .phase = node.phase, .kind = node.kind, .rerun = node.rerun};
        d.inputs = inputs;
        d.one_bit_inputs = one_bit;
        d.control = control;
        d.outputs = outputs;
        d.flops = node.flops;
        d.workspace = node.workspace;
        made_[c][n.index()] = build_.add(d);
    }

    const echo::snapshot& s_;
    echo::snapshot_builder build_;
    std::vector<std::vector<echo::node_id>> made_;
    echo::value_id linked_{}, last_{};
};

std::size_t allocated() {
    const auto now = mallinfo2();
    return now.uordblks + now.hblkhd;
}

void one_cut(benchmark::State& state, const char* model) {
    const auto one = committed(model);
    const auto wanted = static_cast<std::size_t>(state.range(0));
    const auto s =
        tiler(one, std::max<std::size_t>(1, (wanted + one.node_count() / 2) / one.node_count())).run();
    const std::size_t before = allocated();
    const auto c = echo::find_candidates(s);
    const auto needs = echo::anchor_finder(s, c)(16);
    echo::evaluator evaluate(s, c);
    echo::min_cut solve(s, c);
    echo::trial t{.decided = echo::choice::nothing(s)};
    for (auto _ : state) {
        solve(needs, {}, t.decided);
        evaluate(t);
        benchmark::DoNotOptimize(t.footprint.peak_bytes);
    }
    const std::size_t memory = allocated() - before;
    const auto nodes = static_cast<double>(s.node_count());
    state.counters["us_per_node"] = benchmark::Counter(
        nodes / 1e6, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
    state.counters["nodes"] = nodes;
    state.counters["bytes_per_node_and_value"] =
        static_cast<double>(memory) / (nodes + static_cast<double>(s.value_count()));
}

void half_the_peak(benchmark::State& state, const char* model) {
    const auto s = committed(model);
    const auto peak = echo::footprint(s, echo::baseline_schedule(s)).peak_bytes;
    for (auto _ : state) benchmark::DoNotOptimize(echo::make_plan(s, {.budget = peak / 2}).best());
    state.counters["us_per_node"] =
        benchmark::Counter(static_cast<double>(s.node_count()) / 1e6,
                           benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

const bool registered = [] {
    for (const auto* model : models) {
        auto* cut = benchmark::RegisterBenchmark((std::string("one cut, ") + model).c_str(), one_cut, model);
        cut->Unit(benchmark::kMillisecond);
        for (const int nodes : {10'000, 100'000, 1'000'000}) cut->Arg(nodes);
        benchmark::RegisterBenchmark((std::string("half the peak, ") + model).c_str(), half_the_peak, model)
            ->Unit(benchmark::kMillisecond);
    }
    return true;
}();

} // namespace
