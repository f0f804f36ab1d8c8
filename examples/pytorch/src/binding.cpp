// SPDX-License-Identifier: BSL-1.0
// The Python module `echo_torch._core`: a graph that Python fills node by node is a host of Echo, is planned in this
// process without the interpreter's lock, and gets its plan back as plain lists.
#include "plan/report_of_steps.hpp"
#include "report/pack.hpp"
#include "report/page.hpp"
#include "report/report.hpp"

#include <echo/echo.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <ranges>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

/// `{position, output}`: a value names the node that makes it, a copy of one the step.
using place = std::pair<std::uint32_t, std::uint32_t>;
/// One step: its node, its kind, the copy of each input that it reads, and the input over which its first output is
/// written. What moves a value reads that value, or what the step made that moved it to the host.
using step = std::tuple<std::uint32_t, std::string_view, std::vector<place>, std::optional<std::uint32_t>>;
/// The way to the host's memory: bytes that leave and that come back in a microsecond, and the most bytes there.
using way = std::optional<std::tuple<double, double, std::optional<std::uint64_t>>>;
/// One output: bytes, and the input on whose storage it lies or that it may take over.
using output = std::tuple<std::uint64_t, std::optional<std::size_t>, std::optional<std::size_t>>;

struct graph_node {
    std::string name, op, layer;
    echo::phase phase;
    echo::op_facts facts;
    std::vector<echo::value_of<std::uint32_t>> inputs{};
    std::vector<std::uint32_t> control;
    std::vector<echo::tensor> outputs{};
    double flops;
    std::uint64_t workspace;
    std::optional<double> time_us;
    bool keep;
    std::vector<std::size_t> writes; ///< inputs on whose storage it writes
    std::optional<std::size_t> over; ///< the input that the first output may be written over
};

struct graph {
    std::vector<graph_node> nodes;
    std::vector<echo::value_of<std::uint32_t>> results;
};

/// The enumerator of that name. Errors: there is none.
template <class Enum>
Enum named(std::string_view name, std::initializer_list<Enum> all, std::string_view what) {
    for (const Enum e : all)
        if (echo::name_of(e) == name) return e;
    throw echo::error({}, what, "'" + std::string(name) + "' is none", "see the documentation");
}

} // namespace

template <>
struct echo::graph_traits<graph> {
    using node = std::uint32_t;
    using value = echo::value_of<node>;
    static auto nodes(const graph& g) { return std::views::iota(node{0}, static_cast<node>(g.nodes.size())); }
    static const auto& inputs(const graph& g, node n) { return g.nodes[n].inputs; }
    static const auto& outputs(const graph& g, node n) { return g.nodes[n].outputs; }
    static echo::phase phase(const graph& g, node n) { return g.nodes[n].phase; }
    static const auto& results(const graph& g) { return g.results; }
    static op_facts facts(const graph& g, node n) { return g.nodes[n].facts; }
    static std::size_t index(const graph&, node n) { return n; }
    static const auto& name(const graph& g, node n) { return g.nodes[n].name; }
    static const auto& layer(const graph& g, node n) { return g.nodes[n].layer; }
    static const auto& control(const graph& g, node n) { return g.nodes[n].control; }
    static double flops(const graph& g, node n) { return g.nodes[n].flops; }
    static std::uint64_t workspace(const graph& g, node n) { return g.nodes[n].workspace; }
    static std::optional<double> time_us(const graph& g, node n) { return g.nodes[n].time_us; }
    static bool keep(const graph& g, node n) { return g.nodes[n].keep; }
    static const auto& writes(const graph& g, node n) { return g.nodes[n].writes; }
    static bool complete(const graph&) { return true; }
};

namespace {

void add(graph& g, std::string name, std::string op, std::string layer, std::string_view phase,
         std::string_view kind, std::string_view rerun, const std::vector<place>& inputs,
         const std::vector<output>& outputs, std::vector<std::uint32_t> control, double flops,
         std::uint64_t workspace, std::optional<double> time_us, bool keep, std::vector<std::size_t> writes,
         std::optional<std::size_t> over) {
    using enum echo::phase;
    using enum echo::op_kind;
    using enum echo::rerun_kind;
    graph_node n{.name = std::move(name),
                 .op = std::move(op),
                 .layer = std::move(layer),
                 .phase = named(phase, {input, forward, backward, update}, "phase"),
                 .facts = {.kind = named(kind, {heavy, light, view}, "kind"),
                           .rerun = named(rerun, {pure, seeded, never}, "rerun")},
                 .control = std::move(control),
                 .flops = flops,
                 .workspace = workspace,
                 .time_us = time_us,
                 .keep = keep,
                 .writes = std::move(writes),
                 .over = over};
    for (const auto& [producer, k] : inputs) n.inputs.push_back({producer, k});
    for (const auto& [bytes, view_of, inplace] : outputs)
        n.outputs.push_back({.bytes = bytes, .view_of = view_of, .inplace = inplace});
    g.nodes.push_back(std::move(n));
}

void result(graph& g, std::uint32_t node, std::uint32_t k) { g.results.push_back({node, k}); }

/// The snapshot of a graph; the names of ops are filled in here, where they no longer move. Without `writes_over` every
/// output that may be written over an input gets its own storage, as PyTorch runs it.
echo::snapshot read(graph& g, bool writes_over) {
    for (graph_node& n : g.nodes) {
        n.facts.name = n.op;
        if (n.over) n.outputs[0].inplace = writes_over ? n.over : std::nullopt;
    }
    return echo::read(g);
}

/// Lets Python's signals through now and then, and ends a search that takes longer than it may.
struct watch {
    std::chrono::duration<double> most;
    std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
    void operator()(double) const {
        if (std::chrono::steady_clock::now() - begun > most)
            throw echo::error({}, "seconds", "planning took longer than it may", "allow more seconds");
        const nb::gil_scoped_acquire lock;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
};

/// Of plans that are made while the watch, which has to live as long, is looked at.
echo::plan_options options_of(const graph& g, const watch& watching, std::string_view strategy,
                              std::optional<std::uint64_t> budget, double max_overhead, const way& link) {
    using s = echo::strategy;
    echo::plan_options options;
    options.how = named(strategy, {s::baseline, s::mirror, s::echo, s::echo_printed, s::min_cut, s::budget},
                        "strategy");
    options.budget = budget.value_or(echo::any_peak);
    options.max_overhead = max_overhead;
    options.progress = watching;
    options.encode = false; // a packed copy is one that PyTorch would not make
    options.host = {.recompute_results = false, .encode = false, .offload = link.has_value()};
    if (link) {
        const auto& [out, in, most] = *link;
        options.link = {.out_bytes_per_us = out, .in_bytes_per_us = in};
        if (most) options.link.host_bytes = *most;
    }
    return options;
}

/// The input whose storage the first output of a step takes; none where it gets its own. Who writes over an argument
/// first asks whether somebody else holds it, which takes time: so a step does it only where two storages at that
/// moment would raise the peak.
std::optional<std::uint32_t> written_over(const echo::snapshot& s, const echo::schedule& steps,
                                          const echo::replayed& judged, echo::step_id t, bool everywhere) {
    const auto outputs = s.outputs(steps[t].node);
    if (!echo::runs_node(steps[t].kind) || std::ranges::empty(outputs)) return {};
    const echo::value_record& made = s[*std::ranges::begin(outputs)];
    const std::uint32_t k = made.inplace;
    const echo::liveness& live = judged.live;
    if (k == echo::no_input || live.storage({t, 0}) != live.storage(steps.inputs(t)[k])) return {};
    const bool fits_beside =
        !everywhere && judged.load()[t.index()] + made.bytes <= judged.footprint.peak_bytes;
    return fits_beside ? std::nullopt : std::optional(k);
}

/// What Python reads of a plan.
struct planned {
    echo::plan made{};
    std::vector<step> steps{};
    double max_overhead = 0; ///< as it was asked for
};

std::string_view name_of(echo::step_kind kind) {
    constexpr std::string_view names[] = {"run", "recompute", "encode", "offload", "reload"};
    return names[static_cast<std::size_t>(kind)];
}

/// The plan, in which an output is written over an input where nothing reads that again and it lowers the peak, or
/// `everywhere`.
planned make_plan(graph& g, std::string_view strategy, std::optional<std::uint64_t> budget,
                  double max_overhead, double seconds, bool everywhere, const way& link) {
    const watch watching{std::chrono::duration<double>(seconds)};
    const echo::snapshot s = read(g, true);
    planned result{
        echo::make_plan(s, options_of(g, watching, strategy, budget, max_overhead, link)), {}, max_overhead};
    echo::verify(s, result.made);
    const echo::schedule& steps = result.made.steps();
    const auto judged = echo::replay{}(s, steps);
    for (const auto t : steps.steps()) {
        std::vector<place> reads;
        for (const echo::copy_id& copy : steps.inputs(t)) reads.emplace_back(copy.step.index(), copy.output);
        result.steps.emplace_back(steps[t].node.index(), name_of(steps[t].kind), std::move(reads),
                                  written_over(s, steps, judged, t, everywhere));
    }
    return result;
}

/// A schedule of the nodes in that order, each input from the latest copy. Errors: a node reads what was not made.
echo::schedule scheduled(const echo::snapshot& s, const std::vector<std::uint32_t>& order) {
    std::vector<std::optional<echo::step_id>> latest(s.node_count());
    echo::schedule steps;
    for (const std::uint32_t at : order) {
        if (at >= s.node_count())
            throw echo::error({}, "order", "names no node of the graph", "count from 0");
        const echo::node_id n(at);
        const bool again = latest[at].has_value();
        const auto t =
            steps.add({.node = n, .kind = again ? echo::step_kind::recompute : echo::step_kind::run});
        for (const echo::edge_source& from : s.sources(n)) {
            const auto& made = latest[from.producer.index()];
            if (!made)
                throw echo::error(s.name(n), "order", "reads '" + s.name(from.producer) + "' before it ran",
                                  "run it first");
            steps.read({*made, from.output});
        }
        latest[at] = t;
    }
    return steps;
}

/// Peak, part of a step's time that runs again take, and what lives at the peak: {node, output, bytes}.
using replayed =
    std::tuple<std::uint64_t, double, std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>>>;

replayed replay(const echo::snapshot& s, const echo::schedule& steps) {
    const auto judged = echo::replay{}(s, steps);
    const auto& result = judged.footprint;
    const auto times = echo::times_of(s);
    echo::ticks again = 0;
    for (const auto t : steps.steps())
        if (steps[t].kind == echo::step_kind::recompute) again += times.of_node[steps[t].node];
    replayed found{result.peak_bytes, times.part(again), {}};
    const echo::liveness& live = judged.live;
    for (const auto i : live.storages()) {
        const auto& storage = live[i];
        if (storage.resident || storage.first > result.peak_step || storage.last < result.peak_step) continue;
        std::get<2>(found).emplace_back(steps[storage.maker.step].node.index(), storage.maker.output,
                                        storage.bytes);
    }
    return found;
}

replayed replay_order(graph& g, const std::vector<std::uint32_t>& order, bool writes_over) {
    const echo::snapshot s = read(g, writes_over);
    return replay(s, scheduled(s, order));
}

replayed replay_plan(graph& g, const planned& plan) { return replay(read(g, true), plan.made.steps()); }

/// Bytes above the inputs: peak of the forward half, what it keeps for the backward half, peak of the backward half,
/// what is left at its end.
using half_peaks = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;

/// Of a schedule whose first `boundary` steps are the forward half. The backward half gives the values of the nodes
/// `handed` back when it ends.
half_peaks halves(const echo::snapshot& s, const echo::schedule& steps, std::size_t boundary,
                  const std::vector<std::uint32_t>& handed) {
    if (boundary == 0 || boundary >= steps.size())
        throw echo::error({}, "boundary", "leaves one half empty",
                          "give the first step of the backward half");
    const auto judged = echo::replay{}(s, steps);
    const auto load = judged.load();
    std::uint64_t kept = 0, end = 0;
    for (const auto i : judged.live.storages()) {
        const auto& storage = judged.live[i];
        if (!storage.resident && storage.last.index() >= boundary) {
            if (storage.first.index() < boundary) kept += storage.bytes;
            const std::uint32_t maker = steps[storage.maker.step].node.index();
            const bool given_back = std::ranges::count(handed, maker) != 0;
            if (storage.last.index() + 1 >= steps.size() && !given_back) end += storage.bytes;
        }
    }
    const auto first = load.begin() + static_cast<std::ptrdiff_t>(boundary);
    return {*std::max_element(load.begin(), first), kept, *std::max_element(first, load.end()), end};
}

half_peaks halves_of_order(graph& g, const std::vector<std::uint32_t>& order, std::size_t boundary,
                           const std::vector<std::uint32_t>& handed) {
    const echo::snapshot s = read(g, false);
    return halves(s, scheduled(s, order), boundary, handed);
}

half_peaks halves_of_plan(graph& g, const planned& plan, std::size_t boundary,
                          const std::vector<std::uint32_t>& handed) {
    return halves(read(g, true), plan.made.steps(), boundary, handed);
}

std::vector<std::pair<std::uint64_t, double>> front(graph& g, std::size_t points, double seconds,
                                                    const way& link) {
    const watch watching{std::chrono::duration<double>(seconds)};
    std::vector<std::pair<std::uint64_t, double>> all;
    for (const auto& point :
         echo::front(read(g, true), options_of(g, watching, "budget", {}, 0, link), points).points)
        all.emplace_back(point.peak_bytes, point.recompute_time_ratio);
    return all;
}

// ---- The page of a plan

/// The page of the default partition, which runs nodes in that order, beside a plan; without one beside itself.
std::string page(graph& g, const std::string& name, const std::vector<std::uint32_t>& order,
                 const planned* plan) {
    const echo::snapshot as_is = read(g, false);
    echo::schedule own = scheduled(as_is, order);
    echo::plan_report figures = echo::format::report_of_steps(as_is, own);
    figures.lower_bound_bytes = std::min(figures.peak_bytes, echo::front(as_is, {}, 1).lower_bound_bytes);
    const echo::plan before(echo::strategy::budget, std::move(own), {.encode = false}, std::move(figures));
    const echo::report::subject pytorch{.name = name + " by PyTorch",
                                        .graph = &as_is,
                                        .made = &before,
                                        .made_here = false,
                                        .notes = {"PyTorch's default partition"}};
    if (plan == nullptr) {
        const echo::memory_plan arena = echo::plan_memory(as_is, before);
        echo::report::subject same = pytorch;
        same.name = name + " by Echo";
        same.arena = &arena;
        same.notes = {"Echo has no plan that needs less: PyTorch's own partition stays"};
        return echo::report::comparison_of(pytorch, same);
    }
    const echo::snapshot over = read(g, true);
    const echo::memory_plan arena = echo::plan_memory(over, plan->made);
    return echo::report::comparison_of(pytorch, {.name = name + " by Echo",
                                                 .graph = &over,
                                                 .made = &plan->made,
                                                 .arena = &arena,
                                                 .max_overhead = std::round(plan->max_overhead * 1e4) / 1e4});
}

/// A program that somebody else has planned: its nodes run in the order in which they were added.
struct program {
    echo::snapshot s;
    echo::plan made;

    explicit program(graph& g) : s(read(g, true)), made(planned_as(s)) {}

    static echo::plan planned_as(const echo::snapshot& s) {
        std::vector<std::uint32_t> order(s.node_count());
        std::iota(order.begin(), order.end(), 0U);
        echo::schedule own = scheduled(s, order);
        echo::plan_report figures = echo::format::report_of_steps(s, own);
        return {echo::strategy::budget, std::move(own), {.encode = false}, std::move(figures)};
    }

    [[nodiscard]] echo::report::subject named(const std::string& name) const {
        return {.name = name, .graph = &s, .made = &made, .made_here = false, .is_program = true};
    }
};

/// The page of such a program, beside `other` where there is one.
std::string page_of_program(graph& g, const std::string& name, graph* other, const std::string& other_name) {
    const program one(g);
    if (other == nullptr) return echo::report::report_of(one.named(name));
    const program two(*other);
    return echo::report::comparison_of(one.named(name), two.named(other_name));
}

} // namespace

/// By Python's own zlib, which is there wherever the module is.
std::string echo::report::pack(std::string_view text) {
    const nb::gil_scoped_acquire lock;
    const nb::object packed =
        nb::module_::import_("gzip").attr("compress")(nb::bytes(text.data(), text.size()), "mtime"_a = 0);
    const auto encoded = nb::cast<nb::bytes>(nb::module_::import_("base64").attr("b64encode")(packed));
    return {encoded.c_str(), encoded.size()};
}

NB_MODULE(_core, m) {
    nb::set_leak_warnings(false); // plans are kept until the interpreter ends
    m.attr("version") = std::to_string(ECHO_VERSION_MAJOR) + "." + std::to_string(ECHO_VERSION_MINOR) + "." +
                        std::to_string(ECHO_VERSION_PATCH);
    m.attr("can_draw") = echo::report::can_draw();
    using report = echo::plan_report;
    const auto told = [](auto report::*what) {
        return [what](const planned& p) { return p.made.report().*what; };
    };
    nb::class_<planned>(m, "Plan", "Steps and report of a plan.")
        .def_ro("steps", &planned::steps)
        .def_prop_ro("peak_bytes", told(&report::peak_bytes))
        .def_prop_ro("baseline_peak_bytes", told(&report::baseline_peak_bytes))
        .def_prop_ro("lower_bound_bytes", told(&report::lower_bound_bytes))
        .def_prop_ro("recomputed_nodes", told(&report::recomputed_nodes))
        .def_prop_ro("overhead", told(&report::recompute_time_ratio))
        .def_prop_ro("stall", told(&report::stall_time_ratio))
        .def_prop_ro("offloaded_values", told(&report::offloaded_values))
        .def_prop_ro("offloaded_bytes", told(&report::offloaded_bytes))
        .def_prop_ro("host_bytes", told(&report::host_bytes))
        .def_prop_ro("notes", told(&report::notes));

    const nb::call_guard<nb::gil_scoped_release> unlocked;
    nb::class_<graph>(m, "Graph", "A training graph, filled node by node in execution order.")
        .def(nb::init<>())
        .def("add", &add, "name"_a, "op"_a, "layer"_a, "phase"_a, "kind"_a, "rerun"_a, "inputs"_a,
             "outputs"_a, "control"_a, "flops"_a, "workspace"_a, "time_us"_a.none(), "keep"_a, "writes"_a,
             "over"_a.none())
        .def("result", &result)
        .def("plan", &make_plan, "strategy"_a, "budget"_a.none(), "max_overhead"_a, "seconds"_a,
             "everywhere"_a = false, "link"_a = nb::none(), unlocked)
        .def("replay", &replay_plan, "plan"_a, unlocked)
        .def("replay", &replay_order, "order"_a, "writes_over"_a, unlocked)
        .def("halves", &halves_of_plan, "plan"_a, "boundary"_a, "handed"_a, unlocked)
        .def("halves", &halves_of_order, "order"_a, "boundary"_a, "handed"_a, unlocked)
        .def("page", &page, "name"_a, "order"_a, "plan"_a.none(), unlocked)
        .def("program_page", &page_of_program, "name"_a, "other"_a = nb::none(), "other_name"_a = "",
             unlocked)
        .def("front", &front, "points"_a, "seconds"_a, "link"_a = nb::none(), unlocked);
}
