// SPDX-License-Identifier: BSL-1.0
/// @file
/// Training steps of the engine whose values wait in a file: for bench/engine.
///   engine-offload MODEL PRESET SHARE STEPS PART [--offload FOLDER]
/// The batch is the preset's, divided by SHARE. Two plans: the least peak within 5 % of a step, and a peak of at most
/// PART of the baseline's. Each is run alone, for the memory of the process, and then step by step in turns with the
/// baseline, for the time. A line of JSON.
#include "engine/cpu/backend.hpp"
#include "engine/cpu/file_mover.hpp"
#include "engine/models/nmt.hpp"
#include "engine/models/resnet.hpp"
#include "engine/models/transformer.hpp"
#include "engine/session.hpp"
#include "process_memory.hpp"

#include <malloc.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using json = nlohmann::json;
using clock_type = std::chrono::steady_clock;
using session = engine::session<engine::cpu::backend>;
constexpr int threads = 2;

struct asked {
    std::string model, preset, folder;
    std::int64_t share = 1;
    std::size_t steps = 0;
    double part = 0;
};

/// A model's graph, and what trains it.
template <class Model>
struct subject {
    engine::graph graph{};
    engine::cpu::backend backend{threads};
    Model model;
    std::vector<engine::trained> trained;
    std::optional<session> run{};
    std::vector<float> losses{};
    std::vector<double> ms{};

    explicit subject(const asked& a)
        : model(graph, options_of(a)), trained(engine::train(graph, model.loss(), Model::optimizer())) {
        engine::complete(graph, backend);
    }
    static auto options_of(const asked& a) {
        auto options = Model::preset(a.preset);
        options.batch /= a.share;
        return options;
    }
    void begin(engine::planned made, engine::executor_options how) {
        run.emplace(graph, backend, engine::session_options{.execution = how}, std::move(made));
        model.fill(run->outside(), 1);
        losses.clear();
        ms.clear();
    }
    void step() {
        const auto begin = clock_type::now();
        losses.push_back(run->step());
        ms.push_back(std::chrono::duration<double, std::milli>(clock_type::now() - begin).count());
    }
    /// Ends the session, and gives what it had back to the system.
    void end() {
        run.reset();
        malloc_trim(0);
    }
    std::vector<float> parameters() {
        std::vector<float> all;
        for (const auto& t : trained) {
            const auto one = run->outside().f32(t.parameter);
            all.insert(all.end(), one.begin(), one.end());
        }
        return all;
    }
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

engine::planned plans_of(const engine::graph& g, const echo::plan_options& how) {
    return engine::make_plans(g, {.plan = how, .memory = {.align = 64, .limit = 5}});
}

/// The bytes of the process beside what it had when the arena had not been touched, at most in two steps. What the
/// backend makes once and keeps is made before.
template <class Model>
std::uint64_t most_memory(subject<Model>& s, const engine::planned& made, engine::executor_options how) {
    s.begin(made, how);
    s.step();
    s.end();
    s.begin(made, how);
    const std::uint64_t before = process_memory("VmRSS");
    if (!forget_most_memory()) throw echo::error({}, "/proc/self/clear_refs", "cannot be written");
    s.step();
    s.step();
    return process_memory("VmHWM") - before;
}

template <class Model>
json measure(const asked& a, subject<Model>& without, std::int64_t beside, const echo::plan_options& how,
             const char* name, engine::cpu::file_mover& moves) {
    subject<Model> with(a);
    auto node = without.graph.nodes().begin(); // the same graph, node by node
    for (engine::node* n : with.graph.nodes()) {
        n->time_us = (*node)->time_us;
        ++node;
    }
    const auto begin = clock_type::now();
    engine::planned made = plans_of(with.graph, how);
    const std::chrono::duration<double> planning = clock_type::now() - begin;
    const echo::plan_report report = made.plan.report();
    const engine::executor_options moving{.moves = &moves};
    const std::uint64_t memory = most_memory(with, made, moving);
    with.end();
    with.begin(std::move(made), moving);
    without.begin(plans_of(without.graph, {.how = echo::strategy::baseline}), {});
    for (std::size_t k = 0; k <= a.steps; ++k) without.step(), with.step(); // the first touches pages
    const bool same =
        same_bits(with.losses, without.losses) && same_bits(with.parameters(), without.parameters());
    const auto counts = with.run->execution().counts();
    json row{{"plan", name},
             {"planning_s", planning.count()},
             {"baseline_peak_bytes", report.baseline_peak_bytes},
             {"peak_bytes", report.peak_bytes},
             {"met", report.met()},
             {"arena_bytes", with.run->execution().arena_bytes()},
             {"process_bytes", memory},
             {"beside_bytes", beside},
             {"host_bytes", report.host_bytes},
             {"offloaded_bytes", report.offloaded_bytes},
             {"offloaded", counts.offloaded},
             {"reloaded", counts.reloaded},
             {"recomputed", counts.recomputed},
             {"encoded", counts.encoded},
             {"recompute_time_ratio", report.recompute_time_ratio},
             {"stall_time_ratio", report.stall_time_ratio},
             {"same_bits", same},
             {"ms", std::vector<double>(with.ms.begin() + 1, with.ms.end())},
             {"baseline_ms", std::vector<double>(without.ms.begin() + 1, without.ms.end())}};
    without.end();
    return row;
}

/// The file's rates beside steps that run, as copies find them.
template <class Model>
echo::link_model measure_beside(subject<Model>& s, engine::cpu::file_mover& moves) {
    const std::jthread steps([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) s.step();
    });
    return moves.measure();
}

template <class Model>
void measure_model(const asked& a) {
    engine::cpu::file_mover moves(a.folder);
    subject<Model> without(a);
    without.begin(plans_of(without.graph, {.how = echo::strategy::baseline}), {.profile = true});
    for (int k = 0; k < 3; ++k) without.step();
    without.run->execution().store_times();
    const auto baseline_peak = without.run->plan().report().peak_bytes;
    const echo::link_model link = measure_beside(without, moves);
    without.end();
    const engine::planned plain = plans_of(without.graph, {.how = echo::strategy::baseline});
    const std::int64_t beside = static_cast<std::int64_t>(most_memory(without, plain, {})) -
                                static_cast<std::int64_t>(plain.memory.bytes()); // in a step, and given back
    without.end();
    echo::plan_options how{
        .how = echo::strategy::budget, .host = {.fuse = true, .offload = true}, .link = link};
    json rows = json::array();
    rows.push_back(measure(a, without, beside, how, "5 % of a step", moves));
    how.budget = static_cast<std::uint64_t>(a.part * static_cast<double>(baseline_peak));
    rows.push_back(measure(a, without, beside, how, "budget", moves));
    std::cout << json{{"direct", moves.file().direct()},
                      {"out_bytes_per_us", link.out_bytes_per_us},
                      {"in_bytes_per_us", link.in_bytes_per_us},
                      {"both_ways", link.both_ways},
                      {"plans", rows}}
              << std::endl;
}

int run(const std::vector<std::string>& words) {
    asked a;
    if (words.size() == 5 || (words.size() == 7 && words[5] == "--offload")) {
        a = {.model = words[0],
             .preset = words[1],
             .folder = words.size() == 7 ? words[6] : "",
             .share = std::stol(words[2]),
             .steps = std::stoul(words[3]),
             .part = std::stod(words[4])};
        if (a.model == "nmt") return measure_model<models::nmt>(a), 0;
        if (a.model == "transformer") return measure_model<models::transformer>(a), 0;
        if (a.model == "resnet") return measure_model<models::resnet>(a), 0;
    }
    std::cerr << "usage: engine-offload nmt|transformer|resnet PRESET SHARE STEPS PART [--offload FOLDER]\n";
    return 2;
}

} // namespace

int main(int argc, char** argv) {
    try {
        return run({argv + 1, argv + argc});
    } catch (const std::exception& e) {
        std::cerr << "engine-offload: " << e.what() << '\n';
        return 1;
    }
}
