// SPDX-License-Identifier: BSL-1.0
/// @file
/// Training steps of the engine's CUDA back end, for bench/gpu: a program that is told what to do, line by line, and
/// answers each line with one of JSON.
///
///     gpu-steps MODEL PRESET PLAN     MODEL as in workload.hpp; PLAN baseline, mirror, echo, min_cut or fused
///       build BATCH                   builds the graph and plans it; 0: the preset's batch. Nothing is allocated
///       make                          allocates; the first steps: as they are, recorded, replayed
///       steps N                       N steps, one by one
///       busy SECONDS                  steps for so long, and what the card drew meanwhile
///       learn SECONDS LOSS            steps on new data from the start, until the loss is reached or the time is over
///       profile N                     time by layer and by op; what was made goes, since such steps are others
///
/// A place is
///   backend                    the backend (engine/call.hpp)
///   alignment                  of tensors, bytes
///   describe(answer&)          adds what the machine is
///   free_bytes()               of the device, if it is one
///   joules(), watts(), clock_MHz()  of the card, where they are known
#pragma once

#include "answer.hpp"
#include "engine/session.hpp"
#include "workload.hpp"

#include <echo/analysis/fused_profile.hpp>

#include <chrono>
#include <deque>
#include <iostream>
#include <numeric>
#include <sstream>

namespace gpu_bench {

using seconds = std::chrono::duration<double>;

inline double now() {
    return std::chrono::duration_cast<seconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The same bits are the same text.
inline std::string bits(float loss) {
    char made[32];
    std::snprintf(made, sizeof made, "%a", static_cast<double>(loss));
    return made;
}

/// A backend that knows what each kind of op has taken, where steps are timed one by one.
template <class Backend>
class by_op : public Backend {
public:
    struct spent {
        double us = 0;
        std::uint64_t runs = 0;
    };

    using Backend::Backend;

    double timed(const engine::op& o, const engine::call& c) { return note(o, o, c); }
    /// What runs inside the last is counted with it.
    double timed(std::span<const engine::op_call> together) { return note(*together.back().what, together); }
    const std::map<std::string, spent>& all_spent() const noexcept { return spent_; }
    void forget() { spent_.clear(); }

private:
    template <class... What>
    double note(const engine::op& o, const What&... what) {
        double us = 0;
        if constexpr (requires(Backend& b) { b.timed(what...); }) {
            us = Backend::timed(what...);
        } else {
            const double begin = now();
            Backend::run(what...);
            us = 1e6 * (now() - begin);
        }
        auto& all = spent_[std::string(engine::name_of(o))];
        all.us += us;
        ++all.runs;
        return us;
    }

    std::map<std::string, spent> spent_;
};

/// Whether steps run others inside them. A template, so that an engine without such steps is no error.
template <class Counts>
constexpr bool fuses = requires(const Counts& c) { c.fused; };

inline echo::plan_options plan_of(std::string_view name) {
    for (const auto how :
         {echo::strategy::baseline, echo::strategy::mirror, echo::strategy::echo, echo::strategy::min_cut})
        if (name == echo::name_of(how)) return {.how = how};
    if (name != "fused")
        throw echo::error({}, "plan", "there is no '" + std::string(name) + "'",
                          "give baseline, mirror, echo, min_cut or fused");
    if (!fuses<engine::step_counts>)
        throw echo::error({}, "fused", "this engine has no fused steps", "measure the other plans");
    echo::plan_options made{.how = echo::strategy::min_cut};
    made.host.fuse = true;
    return made;
}

template <class Place>
class server {
public:
    server(Place& place, std::string model, std::string preset, std::string_view plan)
        : place_(place), model_(std::move(model)), preset_(std::move(preset)), how_(plan_of(plan)) {}

    void build(std::int64_t batch, answer& out) {
        drop();
        planned_.reset();
        work_ = make_workload(model_, preset_, batch);
        engine::train(work_->graph, work_->model.loss, work_->model.optimizer);
        engine::complete(work_->graph, place_.backend);
        const double begin = now();
        options_ = {.plan = how_, .memory = {.align = place_.alignment}};
        if (how_.how == echo::strategy::baseline || how_.how == echo::strategy::mirror)
            options_.memory.pool.emplace(); // NNVM's, as echo-train has it
        planned_ = engine::make_plans(work_->graph, options_);
        const echo::plan_report& r = planned_->plan.report();
        std::uint64_t parameters = 0;
        for (const engine::value& v : work_->graph.inputs(engine::role::parameter))
            parameters += engine::elements(work_->graph[v]);
        out.add("batch", work_->batch)
            .add("nodes", work_->graph.size())
            .add("parameters", parameters)
            .add("plan_ms", 1e3 * (now() - begin))
            .add("peak_bytes", r.peak_bytes)
            .add("bound_bytes", r.lower_bound_bytes)
            .add("planned_arena_bytes", planned_->memory.bytes())
            .add("planned_resident_bytes", r.resident_bytes)
            .add("predicted_overhead", r.recompute_time_ratio)
            .add("fused_nodes", r.fused_nodes)
            .add("free_bytes", place_.free_bytes());
        note_fused(out);
    }

    void make(answer& out) {
        require(planned_.has_value(), "build");
        drop();
        const auto before = place_.free_bytes();
        session_.emplace(work_->graph, place_.backend, options_, planned(*planned_));
        work_->model.fill(session_->outside(), 1);
        std::vector<std::string> losses;
        std::vector<double> ms;
        run(3, losses, ms);
        const auto after = place_.free_bytes();
        const auto& execution = session_->execution();
        const engine::step_counts c = execution.counts();
        out.add("arena_bytes", execution.arena_bytes())
            .add("reached_bytes", execution.high_water())
            .add("resident_bytes", session_->outside().bytes())
            .add("driver_bytes",
                 before && after ? std::optional(*before - std::min(*before, *after)) : std::nullopt)
            .add("recorded", execution.recorded())
            .add("run", c.run)
            .add("recomputed", c.recomputed)
            .add("encoded", c.encoded)
            .add("losses", losses)
            .add("ms", ms);
        if constexpr (fuses<engine::step_counts>) add_fused(c, out);
    }

    void steps(std::uint64_t count, answer& out) {
        require(session_.has_value(), "make");
        std::vector<std::string> losses;
        std::vector<double> ms;
        run(count, losses, ms);
        out.add("losses", losses).add("ms", ms);
    }

    void busy(double most, answer& out) {
        require(session_.has_value(), "make");
        std::uint64_t count = 0;
        std::vector<double> drawn;
        const auto joules = place_.joules();
        const double begin = now();
        double looked = begin;
        do {
            session_->step();
            ++count;
            if (now() - looked < 0.05) continue; // asking takes time, too
            looked = now();
            if (const auto w = place_.watts()) drawn.push_back(*w);
        } while (now() - begin < most);
        const auto clock = place_.clock_MHz();
        session_->wait();
        const double took = now() - begin;
        const auto spent = place_.joules();
        out.add("clock_MHz", clock);
        out.add("steps", count)
            .add("seconds", took)
            .add("joules", joules && spent ? std::optional(*spent - *joules) : std::nullopt);
        out.add("watts", drawn.empty() ? std::nullopt
                                       : std::optional(std::accumulate(drawn.begin(), drawn.end(), 0.0) /
                                                       static_cast<double>(drawn.size())));
    }

    /// The loss is a mean over the last steps: that of one batch jumps.
    void learn(double most, double wanted, answer& out) {
        constexpr std::size_t averaged = 8;
        require(planned_.has_value(), "build");
        drop();
        session_.emplace(work_->graph, place_.backend, options_, planned(*planned_));
        std::deque<double> last;
        std::vector<double> at, shown;
        const auto joules = place_.joules();
        const double begin = now();
        double mean = 0;
        bool reached = false;
        while (!reached && now() - begin < most) {
            work_->model.fill(session_->outside(), session_->iteration() + 1);
            last.push_back(static_cast<double>(session_->step()));
            if (last.size() > averaged) last.pop_front();
            mean = std::accumulate(last.begin(), last.end(), 0.0) / static_cast<double>(last.size());
            reached = last.size() == averaged && mean <= wanted;
            if (session_->iteration() % averaged == 0 || reached) {
                at.push_back(now() - begin);
                shown.push_back(mean);
            }
        }
        session_->wait();
        const double took = now() - begin;
        const auto spent = place_.joules();
        out.add("reached", reached)
            .add("steps", session_->iteration())
            .add("seconds", took)
            .add("loss", mean)
            .add("joules", joules && spent ? std::optional(*spent - *joules) : std::nullopt)
            .add("curve_seconds", at)
            .add("curve_losses", shown);
    }

    void profile(std::uint64_t count, answer& out) {
        require(planned_.has_value(), "build");
        drop();
        engine::session_options timed = options_;
        timed.execution.profile = true;
        session_.emplace(work_->graph, place_.backend, timed, planned(*planned_));
        work_->model.fill(session_->outside(), 1);
        session_->step(); // kernels are loaded at their first use
        const auto first = session_->execution().profile();
        place_.backend.forget();
        for (std::uint64_t i = 0; i < count; ++i) session_->step();
        answer layers, ops;
        const double n = static_cast<double>(count);
        for (const auto& [name, all] : session_->execution().profile()) {
            const auto& early = first.at(name);
            layers.add(name.empty() ? "other" : name,
                       answer()
                           .add("forward_us", (all.forward_us - early.forward_us) / n)
                           .add("backward_us", (all.backward_us - early.backward_us) / n)
                           .add("recompute_us", (all.recompute_us - early.recompute_us) / n)
                           .add("update_us", (all.update_us - early.update_us) / n));
        }
        for (const auto& [name, all] : place_.backend.all_spent())
            ops.add(name, answer().add("us", all.us / n).add("runs", static_cast<double>(all.runs) / n));
        out.add("layers", layers).add("ops", ops);
        drop();
    }

private:
    using planned = engine::planned;
    using session = engine::session<decltype(Place::backend)>;

    static void require(bool there, const char* earlier) {
        if (!there)
            throw echo::error({}, "command", "comes too early",
                              std::string("say '") + earlier + "' before it");
    }
    void drop() { session_.reset(); }

    void run(std::uint64_t count, std::vector<std::string>& losses, std::vector<double>& ms) {
        for (std::uint64_t i = 0; i < count; ++i) {
            const double begin = now();
            const float loss = session_->step();
            session_->wait();
            ms.push_back(1e3 * (now() - begin));
            losses.push_back(bits(loss));
        }
    }

    /// Names and numbers of the ops that run inside their readers, and the bytes that are not moved for it.
    void note_fused(answer& out) const {
        const echo::fused_profile found = echo::profile_fused(planned_->graph, planned_->plan.steps());
        answer all;
        for (const auto& row : found.by_op) all.add(row.name, row.steps);
        out.add("fused_ops", all).add("fused_bytes_not_moved", found.bytes_saved());
    }

    template <class Counts>
    static void add_fused(const Counts& c, answer& out) {
        out.add("fused", c.fused);
    }

    Place& place_;
    std::string model_, preset_;
    echo::plan_options how_;
    engine::session_options options_{};
    std::unique_ptr<workload> work_{};
    std::optional<planned> planned_{};
    std::optional<session> session_{};
};

/// Runs the program at a place. Returns its exit status.
template <class Place>
int serve(Place& place, const std::vector<std::string>& words) {
    if (words.size() != 3) {
        std::cerr << "usage: gpu-steps MODEL PRESET PLAN\n";
        return 2;
    }
    const auto say = [](const answer& a) { std::cout << a.text() << std::endl; };
    server<Place> on(place, words[0], words[1], words[2]);
    answer ready;
    place.describe(ready);
    say(ready);
    for (std::string line, what; std::getline(std::cin, line);) {
        std::istringstream in(line);
        std::int64_t number = 0;
        double most = 0, loss = 0;
        answer out;
        try {
            in >> what;
            if (what == "build" && in >> number && number >= 0)
                on.build(number, out);
            else if (what == "make")
                on.make(out);
            else if (what == "steps" && in >> number && number > 0)
                on.steps(static_cast<std::uint64_t>(number), out);
            else if (what == "busy" && in >> most)
                on.busy(most, out);
            else if (what == "learn" && in >> most >> loss)
                on.learn(most, loss, out);
            else if (what == "profile" && in >> number && number > 0)
                on.profile(static_cast<std::uint64_t>(number), out);
            else
                throw echo::error({}, "command", "'" + line + "' is none", "steps.hpp lists them");
        } catch (const std::exception& e) {
            out = answer().add("error", e.what());
        }
        say(out);
    }
    return 0;
}

} // namespace gpu_bench
