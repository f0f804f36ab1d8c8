// SPDX-License-Identifier: BSL-1.0
/// @file
/// Training steps of the engine, timed: for bench/engine.
///   engine-steps peer resnet|lstm|cells FOLDER   writes parameters and data into FOLDER, then for each number that it
///                                             reads runs so many steps; a peer reads the files and does the same.
///                                             After the first steps it writes the gradients of the last of them
///   engine-steps echo MODEL PRESET STEPS      so many steps of each strategy beside the baseline's, in turns of some
///                                             milliseconds, in which one stands still: what slows the machine slows both
/// It answers with a line of JSON each time.
#include "engine/cpu/backend.hpp"
#include "engine/models/nmt.hpp"
#include "engine/models/pieces.hpp"
#include "engine/models/random.hpp"
#include "engine/models/resnet.hpp"
#include "engine/models/transformer.hpp"
#include "engine/session.hpp"
#include "process_memory.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <mutex>
#include <thread>

namespace {

using json = nlohmann::json;
constexpr int threads = 2;

using clock_type = std::chrono::steady_clock;
double ms_since(clock_type::time_point begin) {
    return std::chrono::duration<double, std::milli>(clock_type::now() - begin).count();
}

// Against a peer: models that are written in both places.

struct peer_model {
    engine::graph graph;
    engine::value loss;
    std::function<void(engine::residents&)> fill;
};

void make_resnet(peer_model& m) {
    const auto made = std::make_shared<models::resnet>(
        m.graph, models::resnet_options{.depth = 50, .batch = 16, .image = 64, .classes = 100});
    m.loss = made->loss();
    m.fill = [made](engine::residents& outside) { made->fill(outside, 1); };
}

/// An LSTM cell that is given its part of the gates.
models::lstm_state advance(engine::graph& g, const models::lstm& cell, engine::value from_x,
                           const models::lstm_state& last) {
    const auto from_h = cell.h2h(g, last.h);
    const auto gates = engine::slice_channel(g, engine::add(g, from_x, from_h), 4);
    const auto in = engine::sigmoid(g, gates[0]), forget = engine::sigmoid(g, gates[1]);
    const auto change = engine::tanh(g, gates[2]), out = engine::sigmoid(g, gates[3]);
    const auto kept = engine::multiply(g, forget, last.c), added = engine::multiply(g, in, change);
    const auto c = engine::add(g, kept, added);
    return {engine::multiply(g, out, engine::tanh(g, c)), c};
}

/// A language model: an embedding, two layers of LSTM cells, scores of the next word. What enters a layer is multiplied
/// for all steps at once, as torch.nn.LSTM does, or step by step.
void make_lstm(peer_model& m, bool at_once) {
    constexpr std::int64_t batch = 32, length = 35, hidden = 512, words = 2000, layers = 2;
    engine::graph& g = m.graph;
    const auto tokens = engine::data(g, "tokens", engine::i32({batch, length}));
    const auto labels = engine::data(g, "labels", engine::i32({length * batch}));
    const auto table = models::weights(g, "embedding.weight", words, hidden);
    auto x = engine::embedding(g, table, tokens);
    x = engine::swap_axes(g, x, 0, 1);
    for (std::int64_t l = 0; l < layers; ++l) {
        const engine::graph::scope scope(g, "l" + std::to_string(l));
        const auto cell = models::lstm::make(g, hidden, hidden);
        if (at_once) x = cell.i2h(g, x);
        const auto steps = engine::slice_channel(g, x, length, 0, true);
        models::lstm_state state;
        state.h = engine::zeros(g, {batch, hidden});
        state.c = engine::zeros(g, {batch, hidden});
        std::vector<engine::value> shown;
        for (std::size_t t = 0; t < steps.size(); ++t) {
            const engine::graph::scope step(g, "t" + std::to_string(t));
            state = at_once ? advance(g, cell, steps[t], state) : cell(g, steps[t], state);
            shown.push_back(state.h);
        }
        x = engine::stack(g, shown, 0);
    }
    x = engine::reshape(g, x, {length * batch, hidden});
    const auto w = models::weights(g, "output.weight", words, hidden);
    const auto b = engine::parameter(g, "output.bias", {words}, {});
    const auto scores = engine::fully_connected(g, x, w, b);
    m.loss = engine::softmax_output(g, scores, labels);
    g.results().push_back(m.loss);
    m.fill = [=](engine::residents& outside) {
        models::random_numbers random(1, 1);
        for (const auto& v : {tokens, labels})
            for (auto& t : outside.i32(v)) t = static_cast<std::int32_t>(random.below(words));
    };
}

/// Tensors as they lie in memory, one behind the other, and a list of what stands where: NAME.bin and NAME.json.
class tensor_file {
public:
    explicit tensor_file(const std::filesystem::path& name)
        : name_(name), bytes_(name.string() + ".bin", std::ios::binary) {}
    void add(const std::string& name, const engine::value& v, engine::residents& outside) {
        const auto& t = v.producer->outputs[v.output];
        bytes_.write(reinterpret_cast<const char*>(outside(v)),
                     static_cast<std::streamsize>(engine::elements(t) * 4));
        list_.push_back({{"name", name},
                         {"parameter", v.producer->role == engine::role::parameter},
                         {"type", std::string(echo::name_of(t.type))},
                         {"shape", engine::extents_of(t.shape)}});
    }
    void end() {
        std::ofstream(name_.string() + ".json") << list_;
        if (!bytes_.flush()) throw echo::error({}, name_.string(), "cannot be written");
    }

private:
    std::filesystem::path name_;
    std::ofstream bytes_;
    json list_ = json::array();
};

void against_peer(const std::string& called, const std::string& folder) {
    const std::uint64_t before = process_memory("VmRSS");
    peer_model m;
    called == "resnet" ? make_resnet(m) : make_lstm(m, called == "lstm");
    const auto trained = engine::train(m.graph, m.loss, {.with_sgd = {.rate = 0.01, .momentum = 0.9}});
    engine::cpu::backend on(threads);
    engine::session<engine::cpu::backend> s(m.graph, on);
    m.fill(s.outside());
    tensor_file all(std::filesystem::path(folder) / "tensors");
    for (const auto which : {engine::role::data, engine::role::parameter, engine::role::state})
        for (const auto& v : m.graph.inputs(which)) all.add(v.producer->name, v, s.outside());
    all.end();
    std::cout << json{{"ready", true}} << std::endl;
    for (int count = 0; std::cin >> count;) {
        json losses = json::array(), ms = json::array();
        for (int i = 0; i < count; ++i) {
            const auto begin = clock_type::now();
            losses.push_back(s.step());
            ms.push_back(ms_since(begin));
        }
        if (s.iteration() == static_cast<std::uint64_t>(count)) {
            tensor_file gradients(std::filesystem::path(folder) / "gradients");
            for (const auto& t : trained) gradients.add(t.parameter.producer->name, t.gradient, s.outside());
            gradients.end();
        }
        std::cout << json{{"losses", losses},
                          {"ms", ms},
                          {"tensor_bytes", s.execution().arena_bytes() + s.outside().bytes()},
                          {"process_bytes", process_memory("VmHWM") - before}}
                  << std::endl;
    }
}

// With Echo against without.

/// Lets two threads run in turns. A turn is short beside what changes on a busy machine, and long beside what it costs
/// to fill a cache again.
class turns {
public:
    /// Waits for the first turn.
    void enter(int me) {
        std::unique_lock lock(mutex_);
        wait(lock, me);
    }
    /// Passes the turn on if it has taken long enough.
    void pause(int me) {
        if (ms_since(begin_) < turn_ms) return;
        std::unique_lock lock(mutex_);
        pass(me);
        wait(lock, me);
    }
    void leave(int me) {
        const std::scoped_lock lock(mutex_);
        left_[me] = true;
        pass(me);
    }
    /// Milliseconds of its turns so far; to be asked in one of them.
    double ms(int me) const { return spent_[me] + ms_since(begin_); }

private:
    static constexpr double turn_ms = 25;

    void pass(int me) {
        spent_[me] += ms_since(begin_);
        now_ = left_[1 - me] ? me : 1 - me;
        changed_.notify_all();
    }
    void wait(std::unique_lock<std::mutex>& lock, int me) {
        changed_.wait(lock, [&] { return now_ == me; });
        begin_ = clock_type::now();
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    int now_ = 0;
    std::array<bool, 2> left_{};
    std::array<double, 2> spent_{};
    clock_type::time_point begin_; ///< of this turn
};

/// The CPU, given up between calls when others have their turn.
class taking_turns : public engine::cpu::backend {
public:
    using backend::backend;
    void take(turns* all, int me) { all_ = all, me_ = me; }

    void run(const engine::op& o, const engine::call& c) {
        pause();
        backend::run(o, c);
    }
    void run(std::span<const engine::op_call> chain) {
        pause();
        backend::run(chain);
    }

private:
    void pause() {
        if (all_) all_->pause(me_);
    }
    turns* all_ = nullptr;
    int me_ = 0;
};

using session = engine::session<taking_turns>;

struct contender {
    std::string name;
    std::unique_ptr<engine::graph> graph;
    std::unique_ptr<taking_turns> backend;
    std::unique_ptr<session> run{};
    std::vector<float> losses{};
};

template <class Model>
contender contend(const std::string& preset, const std::string& name, const echo::plan_options& how,
                  const contender* profiled) {
    contender c{.name = name,
                .graph = std::make_unique<engine::graph>(),
                .backend = std::make_unique<taking_turns>(threads)};
    const Model m(*c.graph, Model::preset(preset));
    engine::train(*c.graph, m.loss(), Model::optimizer());
    if (profiled) { // the same graph, node by node
        auto from = profiled->graph->nodes().begin();
        engine::complete(*c.graph);
        for (engine::node* n : c.graph->nodes()) {
            n->time_us = (*from)->time_us;
            ++from;
        }
    }
    c.run = std::make_unique<session>(
        *c.graph, *c.backend, engine::session_options{.plan = how, .execution = {.profile = !profiled}});
    m.fill(c.run->outside(), 1);
    return c;
}

/// Milliseconds of each of so many steps of both.
std::array<std::vector<double>, 2> side_by_side(contender& a, contender& b, std::size_t steps) {
    std::array<std::vector<double>, 2> ms;
    turns all;
    const auto run = [&](contender& c, int me) {
        c.backend->take(&all, me);
        all.enter(me);
        for (std::size_t k = 0; k < steps; ++k) {
            const double before = all.ms(me);
            c.losses.push_back(c.run->step());
            ms[me].push_back(all.ms(me) - before);
        }
        all.leave(me);
        c.backend->take(nullptr, me);
    };
    std::thread other([&] { run(b, 1); });
    run(a, 0);
    other.join();
    return ms;
}

bool same_bits(const contender& a, const contender& b) {
    const std::size_t both = std::min(a.losses.size(), b.losses.size());
    return std::memcmp(a.losses.data(), b.losses.data(), both * sizeof(float)) == 0;
}

template <class Model>
void with_and_without(const std::string& preset, std::size_t steps) {
    // Times are taken node by node, and what is timed in that way runs in no chains.
    contender timed = contend<Model>(preset, "baseline", {.how = echo::strategy::baseline}, nullptr);
    const auto before = timed.run->plan().report();
    timed.run->step();
    timed.run->execution().store_times();
    timed.run.reset();
    contender without = contend<Model>(preset, "baseline", {.how = echo::strategy::baseline}, &timed);
    json rows = json::array();
    constexpr echo::host_abilities host{.fuse = true};
    const echo::plan_options plans[] = {
        {.how = echo::strategy::echo, .host = host},
        {.how = echo::strategy::min_cut, .host = host},
        {.how = echo::strategy::budget, .budget = before.baseline_peak_bytes / 2, .host = host}};
    for (const auto& how : plans) {
        contender with = contend<Model>(preset, std::string(echo::name_of(how.how)), how, &timed);
        side_by_side(without, with, 1); // pages are touched, and loops are chosen
        const auto [baseline_ms, ms] = side_by_side(without, with, steps);
        const auto& report = with.run->plan().report();
        const auto counts = with.run->execution().counts();
        rows.push_back({{"strategy", with.name},
                        {"peak_bytes", report.peak_bytes},
                        {"arena_bytes", with.run->execution().arena_bytes()},
                        {"met", with.run->plan().met()},
                        {"predicted_overhead", report.recompute_time_ratio},
                        {"recomputed", counts.recomputed},
                        {"fused", counts.fused},
                        {"encoded", counts.encoded},
                        {"same_losses", same_bits(with, without)},
                        {"ms", ms},
                        {"baseline_ms", baseline_ms}});
    }
    std::cout << json{{"feature_map_bytes", before.baseline_stash_bytes},
                      {"baseline_peak_bytes", before.peak_bytes},
                      {"baseline_arena_bytes", without.run->execution().arena_bytes()},
                      {"strategies", rows}}
              << std::endl;
}

int run(const std::vector<std::string>& words) {
    if (words.size() == 3 && words[0] == "peer" &&
        (words[1] == "resnet" || words[1] == "lstm" || words[1] == "cells")) {
        against_peer(words[1], words[2]);
        return 0;
    }
    if (words.size() == 4 && words[0] == "echo") {
        const auto steps = static_cast<std::size_t>(std::stoul(words[3]));
        if (words[1] == "nmt") return with_and_without<models::nmt>(words[2], steps), 0;
        if (words[1] == "transformer") return with_and_without<models::transformer>(words[2], steps), 0;
        if (words[1] == "resnet") return with_and_without<models::resnet>(words[2], steps), 0;
    }
    std::cerr
        << "usage: engine-steps peer resnet|lstm|cells FOLDER | echo nmt|transformer|resnet PRESET STEPS\n";
    return 2;
}

} // namespace

int main(int argc, char** argv) {
    try {
        return run({argv + 1, argv + argc});
    } catch (const std::exception& e) {
        std::cerr << "engine-steps: " << e.what() << '\n';
        return 1;
    }
}
