// SPDX-License-Identifier: BSL-1.0
// A training step in MLX as MLX runs it, and as Echo writes it: bytes by MLX's own `get_peak_memory`, loss and
// gradients bit for bit.
//   compare [--small] [--json] [--wait] [--each] [--unordered] [--steps N] [--max-overhead RATIO] [--budget RATIO]
//           [--fail] [--unknown]
// --wait: a memory limit of 1 byte makes MLX wait for what runs before it starts what comes next; without it, its main
// thread allocates up to a hundred primitives ahead. --each: every primitive is finished before the next begins.
// --unordered: without `depends`; MLX chooses when a copy is made.
// --steps: so many steps, each a graph made anew; the plan is made once and then found again.
// ECHO_REPORT=FILE.html in the environment: each graph and its plan as FILE.MODEL.…, drawn where there is an echo-plan.
#include "format/saved_step.hpp"
#include "host.hpp"
#include "models.hpp"

#include <echo/graph/snapshot_key.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <stdexcept>

namespace {

using namespace echo_mlx;

struct options {
    bool small = false, fail = false, wait = false, unknown = false, json = false;
    execution how = execution::lazily;
    double max_overhead = 0.05, budget = 0; ///< budget: a ratio of the peak of Echo's order; 0: none
    int steps = 1;
    std::string running = mx::version(); ///< of MLX
    std::string report{};                ///< FILE.html, from ECHO_REPORT: graphs and plans as FILE.MODEL.…
};

/// The plans of a training, by what the graph is: MLX makes its graph anew for each step.
struct known_plans {
    std::unordered_map<std::string, std::optional<echo::plan>> by_graph{}; ///< none: the step stays as it is
    bool of_this_mlx = true;                                               ///< false: nothing is planned
    std::string report{};                                                  ///< FILE.html; empty: none
    int made = 0, found = 0;
    /// Of the processor: to walk the graph, make or find its plan and write the new graph.
    double made_s = 0, found_s = 0;
};

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct measured {
    std::size_t peak = 0;
    double seconds = 0; ///< of the processor; -1: not told
    std::vector<std::vector<char>> bits;
};

/// Runs what is lazy and counts from what lives before.
measured evaluate(std::vector<mx::array> results) {
    mx::clear_cache();
    const bool ran = results[0].status() != mx::array::unscheduled; // step by step, already
    if (!ran) mx::reset_peak_memory();
    const double start = processor_seconds();
    mx::eval(results);
    measured m{.peak = mx::get_peak_memory(), .seconds = ran ? -1 : processor_seconds() - start, .bits = {}};
    for (mx::array& a : results) {
        mx::array whole = mx::contiguous(a);
        whole.eval();
        m.bits.emplace_back(whole.data<char>(), whole.data<char>() + whole.nbytes());
    }
    return m;
}

std::vector<mx::array> lazy_step(const model& m) {
    std::vector<int> all(m.parameters.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    const auto [loss, gradients] = mx::value_and_grad(m.loss, all)(m.parameters);
    std::vector<mx::array> results{loss};
    results.insert(results.end(), gradients.begin(), gradients.end());
    return results;
}

std::string fixed(double number) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", number);
    return text;
}

/// What ECHO_REPORT asks for: the graph and its plan as files, and drawn where there is an `echo-plan`.
void draw(const echo::snapshot& s, const echo::plan& p, const known_plans& known) {
    if (known.report.empty()) return;
    const echo::format::saved_step step(known.report, static_cast<std::size_t>(known.made));
    const std::string failed = step.write(s, p.steps());
    if (!failed.empty())
        std::fprintf(stderr, "echo: ECHO_REPORT: '%s' cannot be written\n", failed.c_str());
    else if (step.draw().empty())
        std::fprintf(stderr, "echo: to draw it: %s\n", step.line().c_str());
}

/// A plan for a graph that was not seen before. Errors: none can keep the budget.
echo::plan made_plan(const echo::snapshot& s, const options& o) {
    echo::plan_options how{.max_overhead = o.max_overhead, .encode = false};
    how.host.encode = false;
    if (o.budget > 0)
        how.budget = static_cast<std::uint64_t>(
            o.budget * static_cast<double>(echo::footprint(s, echo::baseline_schedule(s)).peak_bytes));
    if (o.fail) throw std::runtime_error("asked to fail");
    echo::plan p = echo::make_plan(s, how);
    echo::verify(s, p);
    const auto mb = [](std::uint64_t bytes) { return fixed(static_cast<double>(bytes) / 1e6) + " MB"; };
    if (!p.met() && p.lower_bound() > how.budget)
        throw std::runtime_error("a budget of " + mb(how.budget) + " is below what any plan takes, " +
                                 mb(p.lower_bound()));
    if (!p.met())
        std::fprintf(stderr, "echo: the budget is not met; the least found is %s\n", mb(p.best()).c_str());
    for (const std::string& op : p.report().unknown_ops)
        std::fprintf(stderr, "echo: unknown primitive %s is left alone\n", op.c_str());
    if (!o.json)
        std::printf("  plan: %zu nodes, %zu run again, %.1f %% of a step's time\n", s.node_count(),
                    p.report().recomputed_nodes, 100 * p.report().recompute_time_ratio);
    return p;
}

/// The step by Echo's plan, or as it was, with one line, where anything goes wrong.
std::vector<mx::array> planned(std::vector<mx::array> results, const options& o, known_plans& known,
                               std::uint64_t& predicted) try {
    if (!known.of_this_mlx) return results; // before anything of MLX's is walked
    const double start = processor_seconds();
    const tape g(results[0], {results.begin() + 1, results.end()});
    const echo::snapshot s = echo::read(g);
    const auto [entry, is_new] = known.by_graph.try_emplace(echo::snapshot_key(s));
    std::optional<echo::plan>& p = entry->second;
    if (is_new) p = made_plan(s, o); // where it throws there will be none, and nobody says so again
    if (!p) return results;
    if (is_new) draw(s, *p, known);
    predicted = p->report().resident_bytes + p->best();
    const double found = processor_seconds();
    auto all = written(g, s, *p, o.how); // step by step it also runs
    const double end = o.how == execution::step_by_step ? found : processor_seconds();
    ++(is_new ? known.made : known.found);
    (is_new ? known.made_s : known.found_s) += end - start;
    return all;
} catch (const std::exception& fault) {
    std::fprintf(stderr, "echo: the step stays as it is: %s\n", fault.what());
    return results;
}

/// Whether the MLX that runs is the one that this was built for. Says so, in one line, where it is not.
bool is_this_mlx(const options& o) try {
    refuse_other(o.running);
    return true;
} catch (const echo::error& fault) {
    std::fprintf(stderr, "echo: the step stays as it is: %s\n", fault.what());
    return false;
}

bool compare(const model& m, const options& o) {
    const measured before = evaluate(lazy_step(m));
    std::uint64_t predicted = 0;
    known_plans known{.of_this_mlx = is_this_mlx(o)};
    if (o.report.ends_with(".html"))
        known.report = o.report.substr(0, o.report.size() - 4) + m.name + ".html";
    mx::reset_peak_memory();
    const measured after = evaluate(planned(lazy_step(m), o, known, predicted));
    bool same = before.bits == after.bits;
    double later_s = 0; // of steps whose plan was found
    for (int step = 1; step < o.steps; ++step) {
        const measured later = evaluate(planned(lazy_step(m), o, known, predicted));
        same &= before.bits == later.bits;
        later_s += later.seconds;
    }
    const double share = later_s > 0 ? 100 * known.found_s / later_s : 0;
    if (o.steps > 1 && !o.json)
        std::printf("  %d steps: planned %d times, found %d times, which took %.2f %% of a step\n", o.steps,
                    known.made, known.found, share);
    const auto mb = [](auto bytes) { return static_cast<double>(bytes) / 1e6; };
    if (o.json) {
        std::printf(
            R"({"model": "%s", "mlx MB": %.1f, "mlx s": %.2f, "echo MB": %.1f, "echo s": %s, )"
            R"("predicted MB": %.1f, "plans": %d, "plan s": %.3f, "found": %d, "found %%": %.2f, "same bits": %s})"
            "\n",
            m.name.c_str(), mb(before.peak), before.seconds, mb(after.peak),
            after.seconds < 0 ? "null" : fixed(after.seconds).c_str(), mb(predicted), known.made,
            known.made_s, known.found, share, same ? "true" : "false");
        return same;
    }
    const std::string seconds = after.seconds < 0 ? "-" : fixed(after.seconds) + " s";
    std::printf(
        "%-12s MLX %8.1f MB %6.2f s   Echo %8.1f MB %8s (predicted %8.1f MB)   ratio %.3f   bits %s\n",
        m.name.c_str(), mb(before.peak), before.seconds, mb(after.peak), seconds.c_str(), mb(predicted),
        mb(after.peak) / mb(before.peak), same ? "same" : "DIFFER");
    return same;
}

} // namespace

int main(int count, char** words) try {
    options o;
    if (const char* const report = std::getenv("ECHO_REPORT")) o.report = report;
    for (int i = 1; i < count; ++i) {
        const std::string_view word = words[i];
        if (word == "--small")
            o.small = true;
        else if (word == "--unknown") // a primitive that the facts do not name
            o.unknown = true;
        else if (word == "--each")
            o.how = execution::step_by_step;
        else if (word == "--unordered")
            o.how = execution::unordered;
        else if (word == "--wait")
            o.wait = true;
        else if (word == "--json") // a line for each model
            o.json = true;
        else if (word == "--fail")
            o.fail = true;
        else if (word == "--running" && i + 1 < count) // as if MLX were of that version
            o.running = words[++i];
        else if (word == "--steps" && i + 1 < count)
            o.steps = std::stoi(words[++i]);
        else if (word == "--max-overhead" && i + 1 < count)
            o.max_overhead = std::stod(words[++i]);
        else if (word == "--budget" && i + 1 < count)
            o.budget = std::stod(words[++i]);
        else
            throw std::invalid_argument("unknown option " + std::string(word));
    }
    mx::set_default_device(mx::Device::cpu);
    if (o.wait) mx::set_memory_limit(1);
    mx::random::seed(3);
    bool same = true;
    { // one model lives at a time: what MLX counts is all there is
        model m = o.small ? transformer(4, 64, 64, 3) : transformer(8, 128, 256, 6);
        if (o.unknown)
            m.loss = [loss = m.loss](const std::vector<mx::array>& w) { return mx::arctan(loss(w)); };
        same = compare(m, o);
    }
    same &= compare(o.small ? convnet(4, 16, 16, 4) : convnet(8, 32, 64, 8), o);
    return same ? 0 : 1;
} catch (const std::exception& fault) {
    std::cerr << "compare: " << fault.what()
              << "\nusage: compare [--small] [--json] [--wait] [--each] [--unordered] [--steps N] "
                 "[--max-overhead RATIO] [--budget RATIO] [--fail] [--unknown]\n";
    return 2;
}
