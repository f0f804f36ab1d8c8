// SPDX-License-Identifier: BSL-1.0
// One cut at one anchor distance, or whole searches, on one graph: for half the baseline's peak, by default, and for
// the front; or the default alone, and the memory of the process. bench/scaling.py runs it, one process for each
// measurement.
//
//   bench-scaling cut|budget|default GRAPH [NODES]
//
// Prints one JSON object. Times are processor times, each the least of several (of one where the graph is large, and
// of one front), the caches emptied before each cut: a graph is planned once, among other work. Of the anchor
// distances that `make_plan` tries, the slowest is reported. Memory is the most that was allocated at once beyond the
// snapshot by the candidates, the anchors, one cut (distance 16), its lay-out and its replay, counted in operator new.
//
// With NODES the graph is tiled in depth to about as many: the inputs and forward nodes of copies 1 … k stand in order,
// then the backward and update nodes of copies k … 1. In copies 2 … k the first input value that a forward node reads
// is replaced, for the forward and the backward pass, by the copy before's last forward value that a forward node
// reads, that is no view and no graph output (its bytes stay its own). So the forward pass is one chain through all
// copies; each copy keeps its own parameters, loss and results, and gradients do not flow from copy to copy: that the
// backward pass mirrors the forward pass is a matter of its order alone.
#include "format/read_file.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/analysis/plan/decision/decision.hpp>
#include <echo/analysis/plan/decision/schedule_builder.hpp>
#include <echo/analysis/plan/strategies/anchors.hpp>
#include <echo/analysis/plan/strategies/min_cut.hpp>
#include <echo/analysis/schedule/footprint.hpp>
#include <echo/graph/read.hpp>
#include <echo/graph/snapshot_builder.hpp>
#include <echo/vocabulary/aten.hpp>

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

std::size_t allocated = 0, most_allocated = 0;

void* allocate(std::size_t bytes, std::size_t alignment = 0) {
    // malloc_usable_size tells what there is behind an aligned block: at most a page more than was asked for.
    void* const p = alignment ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
                              : std::malloc(bytes);
    if (!p) throw std::bad_alloc();
    allocated += malloc_usable_size(p);
    most_allocated = std::max(most_allocated, allocated);
    return p;
}

void release(void* p) noexcept {
    allocated -= p ? malloc_usable_size(p) : 0;
    std::free(p);
}

} // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }

namespace {

/// Puts copies of one snapshot behind each other.
class tiler {
public:
    tiler(const echo::snapshot& s, std::size_t copies)
        : s_(s), made_(copies, std::vector<echo::node_id>(s.node_count())) {
        find_link();
    }

    echo::snapshot run() {
        for (std::size_t c = 0; c < made_.size(); ++c)
            for (const auto n : s_.nodes())
                if (!echo::runs_after_forward(s_[n].phase)) add(c, n);
        for (std::size_t c = made_.size(); c-- > 0;)
            for (const auto n : s_.nodes())
                if (echo::runs_after_forward(s_[n].phase)) add(c, n);
        for (std::size_t c = 0; c < made_.size(); ++c)
            for (const auto v : s_.results()) build_.add_result(copy(c, v));
        return std::move(build_).finish();
    }

private:
    bool is_forward(echo::node_id n) const { return s_[n].phase == echo::phase::forward; }

    void find_link() {
        for (const auto n : s_.nodes()) {
            if (!is_forward(n)) continue;
            for (const auto v : s_.inputs(n))
                if (!linked_.valid() && s_[s_[v].producer].phase == echo::phase::input) linked_ = v;
            for (const auto v : s_.outputs(n)) {
                const bool read =
                    std::ranges::any_of(s_.uses(v), [&](const auto& u) { return is_forward(u.reader); });
                if (read && s_[v].view_of == echo::no_input && !s_.is_result(v)) last_ = v;
            }
        }
        if (!linked_.valid() || !last_.valid()) throw std::runtime_error("no value to link copies by");
    }

    echo::value_id copy(std::size_t c, echo::value_id v) const {
        if (c > 0 && v == linked_) return copy(c - 1, last_);
        return build_.output(made_[c][s_[v].producer.index()], s_.output_index(v));
    }

    void add(std::size_t c, echo::node_id n) {
        const echo::node_record& node = s_[n];
        std::vector<echo::value_id> inputs;
        echo::positions one_bit;
        for (std::size_t k = 0; k < s_.inputs(n).size(); ++k) {
            inputs.push_back(copy(c, s_.inputs(n)[k]));
            if (s_.one_bit(n, k)) one_bit.insert(k);
        }
        std::vector<echo::node_id> control;
        for (const auto before : s_.control(n)) control.push_back(made_[c][before.index()]);
        std::vector<echo::tensor> outputs;
        for (const auto v : s_.outputs(n)) {
            const echo::value_record& value = s_[v];
            echo::tensor t{.type = value.type, .bytes = value.bytes, .resident = value.resident};
            t.shape = echo::shape{static_cast<std::int64_t>(value.elements)};
            if (value.view_of != echo::no_input) t.view_of = value.view_of;
            if (value.inplace != echo::no_input) t.inplace = value.inplace;
            outputs.push_back(std::move(t));
        }
        made_[c][n.index()] = build_.add(
            {.op = s_.op_name(node.op),
             .layer = s_.layer_name(node.layer),
             .phase = node.phase,
             .kind = node.kind,
             .rerun = node.rerun,
             .keep = node.keep,
             .unknown_op = node.unknown_op,
             .inputs = inputs,
             .one_bit_inputs = one_bit,
             .control = control,
             .outputs = outputs,
             .flops = node.flops,
             .workspace = node.workspace,
             .time_us = node.time_us >= 0 ? std::optional(node.time_us) : std::nullopt}); // NaN: none
    }

    const echo::snapshot& s_;
    echo::snapshot_builder build_;
    std::vector<std::vector<echo::node_id>> made_;
    echo::value_id linked_{}, last_{};
};

echo::snapshot load(const std::string& file, std::size_t nodes) {
    const auto s = echo::read(
        echo::format::read_graph_file(file, [](std::string_view op) { return echo::aten.find(op); }));
    const std::size_t copies = (nodes + s.node_count() / 2) / s.node_count();
    return nodes == 0 ? s : tiler(s, std::max<std::size_t>(copies, 1)).run();
}

double now_us() { return static_cast<double>(std::clock()) * (1e6 / CLOCKS_PER_SEC); }

struct cut_time {
    double anchors = 0, cut = 0, replay = 0;
    double sum() const { return anchors + cut + replay; }
};

/// Leaves nothing else in any cache.
void empty_caches() {
    static std::vector<std::uint64_t> other(std::size_t{1} << 24);
    for (std::size_t i = 0; i < other.size(); i += 8) ++other[i];
}

struct instruments {
    explicit instruments(const echo::snapshot& s)
        : snapshot(s), c(echo::detail::find_candidates(s)), anchors(s, c), solve(s, c), lay_out(s, c),
          decided(echo::detail::decision::nothing(s)) {}

    cut_time one(std::uint32_t distance) {
        const double start = now_us();
        const echo::detail::backward_needs needs = anchors(distance);
        const double asked = now_us();
        solve(needs, {}, decided);
        const double cut = now_us();
        lay_out(decided, steps, homes);
        replay(snapshot, steps, replayed);
        return {asked - start, cut - asked, now_us() - cut};
    }

    const echo::snapshot& snapshot;
    echo::detail::candidates c;
    echo::detail::anchor_finder anchors;
    echo::detail::min_cut solve;
    echo::detail::schedule_builder lay_out; // an evaluator would remember what it made
    echo::replay replay;
    echo::detail::decision decided;
    echo::schedule steps;
    echo::id_vector<echo::step_id, echo::node_id> homes;
    echo::replayed replayed;
};

void measure_cut(const echo::snapshot& s) {
    const std::size_t before = allocated;
    most_allocated = before;
    const double start = now_us();
    instruments with(s);
    const double prepared = now_us() - start;
    with.one(16);
    const double first = now_us() - start;
    const std::size_t memory = most_allocated - before;

    // All distances in turn, so that a moment when the machine is busy strikes none of them alone.
    const auto distances =
        echo::detail::anchor_distances(with.anchors(echo::detail::no_anchor).largest_span, 10);
    std::vector<cut_time> least(distances.size(), {.cut = std::numeric_limits<double>::infinity()});
    const double begun = now_us();
    for (int round = 0; round < 4 || now_us() - begun < 1e6; ++round)
        for (std::size_t i = 0; i < distances.size(); ++i) {
            empty_caches();
            if (const cut_time once = with.one(distances[i]); once.sum() < least[i].sum()) least[i] = once;
        }
    const auto at = std::ranges::max_element(least, {}, &cut_time::sum);
    const cut_time slowest = *at;
    const std::uint32_t slowest_at = distances[static_cast<std::size_t>(at - least.begin())];
    std::vector<double> all;
    for (const cut_time& one : least) all.push_back(one.sum());
    std::ranges::sort(all);
    const auto nodes = static_cast<double>(s.node_count()), values = static_cast<double>(s.value_count());
    std::printf(
        "{\"nodes\": %zu, \"values\": %zu, \"us\": %.4f, \"median_us\": %.4f, \"anchors_us\": %.4f, "
        "\"cut_us\": %.4f, \"replay_us\": %.4f, \"distance\": %u, \"prepare_us\": %.4f, \"first_us\": "
        "%.4f, \"bytes\": %.1f}\n",
        s.node_count(), s.value_count(), slowest.sum() / nodes, all[all.size() / 2] / nodes,
        slowest.anchors / nodes, slowest.cut / nodes, slowest.replay / nodes, slowest_at, prepared / nodes,
        first / nodes, static_cast<double>(memory) / (nodes + values));
}

/// The least processor time of some calls, in microseconds.
template <class Call>
double least_us(int times, const Call& call) {
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < times; ++i) {
        const double start = now_us();
        call();
        least = std::min(least, now_us() - start);
    }
    return least;
}

void measure_budget(const echo::snapshot& s) {
    const auto baseline = echo::footprint(s, echo::baseline_schedule(s)).peak_bytes;
    const auto nodes = static_cast<double>(s.node_count());
    const int times = s.node_count() > 200'000 ? 1 : 3;
    std::optional<echo::plan> made;
    const double budget = least_us(times, [&] {
        made.emplace(echo::make_plan(s, {.how = echo::strategy::budget, .budget = baseline / 2}));
    });
    const double by_default = least_us(times, [&] { static_cast<void>(echo::make_plan(s)); });
    const double front =
        least_us(1, [&] { static_cast<void>(echo::front(s, {.how = echo::strategy::budget})); });
    std::printf(
        "{\"nodes\": %zu, \"us\": %.4f, \"runs\": %d, \"peak\": %.4f, \"met\": %s, \"overhead\": %.4f, "
        "\"default_us\": %.4f, \"front_us\": %.4f}\n",
        s.node_count(), budget / nodes, times,
        static_cast<double>(made->report().peak_bytes) / static_cast<double>(baseline),
        made->met() ? "true" : "false", made->report().recompute_time_ratio, by_default / nodes,
        front / nodes);
}

/// The memory is the most that the process had, tiling and all, its blocks given back as echo-plan gives them back.
void measure_default(const echo::snapshot& s) {
    std::optional<echo::plan> made;
    const double us = least_us(1, [&] { made.emplace(echo::make_plan(s)); });
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf(
        "{\"nodes\": %zu, \"s\": %.2f, \"MB\": %.0f, \"of the baseline's peak\": %.4f, \"overhead\": %.4f, "
        "\"notes\": %zu}\n",
        s.node_count(), us / 1e6, static_cast<double>(usage.ru_maxrss) * 1024 / 1e6,
        static_cast<double>(made->report().peak_bytes) /
            static_cast<double>(made->report().baseline_peak_bytes),
        made->report().recompute_time_ratio, made->report().notes.size());
}

} // namespace

int main(int argc, char** argv) {
    const std::string_view what = argc > 1 ? argv[1] : "";
    if (argc < 3 || argc > 4 || (what != "cut" && what != "budget" && what != "default")) {
        std::fputs("usage: bench-scaling cut|budget|default GRAPH [NODES]\n", stderr);
        return 2;
    }
    if (what == "default") mallopt(M_MMAP_THRESHOLD, 4 << 20);
    try {
        const auto s = load(argv[2], argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 0);
        what == "cut" ? measure_cut(s) : what == "budget" ? measure_budget(s) : measure_default(s);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "bench-scaling: %s: %s\n", argv[2], e.what());
        return 1;
    }
}
