// SPDX-License-Identifier: BSL-1.0
/// @file
/// `train_on`: trains a model at a place, and says how it goes. A place is
///   backend                    the backend (engine/call.hpp)
///   kind                       which device it is
///   words()                    a word and what belongs to it, for people
///   expect_room(planned)       refuses what does not fit
///   guard(planned, f)          runs f; says more where it runs out of memory
///   driver_bytes()             what was taken of a device, if it is one
///   moves()                    carries values to where they may wait; null: nothing leaves
///   store_words()              where that is, for people; called only where something may leave
///   link_of(options, prepared) measures how fast values travel, and the times of nodes, likewise
#pragma once

#include "plan/unmet.hpp"
#include "train/evaluate.hpp"
#include "train/memory.hpp"
#include "train/report.hpp"
#include "train/status.hpp"
#include "train/timed_mover.hpp"

#include <chrono>
#include <optional>

namespace train {

/// Trains a prepared model and says how it goes.
template <class Place>
class trainer {
public:
    trainer(const options& asked, prepared& p, Place& on) : asked_(asked), prepared_(p), on_(on) {
        measured_.process_before = most_resident_bytes();
        if (engine::mover* const moves = on.moves()) moves_.emplace(*moves);
        for (const engine::node* n : p.graph->nodes())
            measured_.predicted_wait_ms +=
                p.plans.plan.report().stall_time_ratio * n->time_us.value_or(0) / 1000;
        session_.emplace(*p.graph, on.backend,
                         engine::session_options{
                             .execution = {.profile = asked.profile, .moves = moves_ ? &*moves_ : nullptr},
                             .seed = asked.seed},
                         std::move(p.plans));
    }

    void run() {
        ticker tick(asked_.steps, prepared_.built.batch, !asked_.json);
        for (std::uint64_t i = 1; i <= asked_.steps; ++i) {
            const step_done done = step(i);
            if (asked_.json)
                echo::format::print(
                    step_json(done, session_->execution().arena_bytes(), on_.kind, on_.driver_bytes()));
            else if (asked_.evaluate && (i == 1 || i % asked_.evaluate == 0))
                tick.line(done, fmt::format("{} {:.4g}", prepared_.built.model.metric_name, quality()));
            tick(done);
        }
        tick.wipe();
        if (!asked_.json) echo::format::print(end());
    }

private:
    step_done step(std::uint64_t i) {
        prepared_.built.model.fill(session_->outside(), i);
        const auto start = std::chrono::steady_clock::now();
        measured_.loss = session_->step();
        session_->wait();
        const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
        times_.push_back(took.count());
        if (moves_) waits_.push_back(moves_->waited_ms());
        return {i, measured_.loss, took.count()};
    }

    /// How good the model is now. Errors: those of `evaluator`.
    double quality() {
        if (!evaluator_)
            evaluator_.emplace(model_request{.name = asked_.model,
                                             .preset = asked_.preset,
                                             .batch = asked_.batch,
                                             .data = asked_.data,
                                             .seed = asked_.seed},
                               asked_.habits, on_);
        return (*evaluator_)(*prepared_.graph, session_->outside());
    }
    std::string quality_at_the_end() {
        lines out;
        const std::string_view name = prepared_.built.model.metric_name;
        try {
            const double is = quality();
            out.add(name, "{:.4g} ({} samples{}, without dropout)", is, evaluator_->samples(),
                    asked_.data.empty() ? " that were not trained on" : " of the file");
        } catch (const echo::error& e) {
            out.add(name, "not measured: {}", echo::format::one_line(e.what()));
        }
        return out.text();
    }

    std::string end() {
        const auto& execution = session_->execution();
        measured& m = measured_;
        m.process_after = most_resident_bytes(); // before the model is evaluated at the end
        m.arena_bytes = execution.arena_bytes();
        m.high_water = execution.high_water();
        m.driver_bytes = on_.driver_bytes();
        m.resident_bytes = session_->outside().bytes();
        m.counts = execution.counts();
        m.median_ms = median(times_);
        if (moves_) m.waited_ms = median(waits_);
        std::string text = closing(asked_, prepared_, session_->memory().bytes(), m);
        text += quality_at_the_end();
        if (asked_.profile) text += '\n' + profile_table(prepared_, execution.profile(), asked_.steps);
        return text;
    }

    static double median(std::vector<double>& of) {
        const auto middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
        std::nth_element(of.begin(), middle, of.end());
        return *middle;
    }

    const options& asked_;
    prepared& prepared_;
    Place& on_;
    measured measured_;
    std::optional<timed_mover> moves_;
    std::optional<engine::session<decltype(Place::backend)>> session_;
    std::optional<evaluator<Place>> evaluator_;
    std::vector<double> times_, waits_; ///< of the steps; ms
};

/// Prepares and trains. Errors: those of preparing, and of training.
template <class Place>
status train_on(const options& asked, Place& on) {
    std::optional<echo::format::progress> line(std::in_place);
    prepared p = prepare(
        asked, [&](engine::graph& g) { engine::complete(g, on.backend); },
        [&](prepared& made) { return on.link_of(asked, made); }, *line);
    line.reset();
    if (!p.plans.plan.met())
        return complain(asked.model + ": ", echo::format::why_unmet(p.plans.graph, p.plans.plan.report()),
                        budget_unmet);
    on.expect_room(p.plans);
    if (!asked.json)
        echo::format::print(opening(asked, p, on.words(), asked.offload ? on.store_words() : ""));
    on.guard(p.plans, [&] { trainer<Place>(asked, p, on).run(); });
    return success;
}

} // namespace train
