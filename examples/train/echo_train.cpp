// SPDX-License-Identifier: BSL-1.0
/// @file
/// `echo-train`: trains the paper's models with and without Echo (`echo-train --help`).

#include "plan/unmet.hpp"
#include "train/evaluate.hpp"
#include "train/memory.hpp"
#include "train/report.hpp"

#include <chrono>
#include <exception>
#include <new>
#include <optional>

namespace {

using namespace train;
using echo::format::print;

/// What the exit status says.
enum status : int { success = 0, bad_input = 1, bad_usage = 2, budget_unmet = 3 };

int complain(std::string_view about, std::string_view message) {
    echo::format::print_error("echo-train", std::string(about) + std::string(message));
    return bad_input;
}

/// Trains a prepared model and says how it goes.
class trainer {
public:
    trainer(const options& asked, prepared& p, engine::cpu::backend& on)
        : asked_(asked), prepared_(p), on_(on) {
        measured_.process_before = most_resident_bytes();
        session_.emplace(*p.graph, on,
                         engine::session_options{.execution = {.profile = asked.profile}, .seed = asked.seed},
                         std::move(p.plans));
    }

    void run() {
        ticker tick(asked_.steps, prepared_.built.batch, !asked_.json);
        for (std::uint64_t i = 1; i <= asked_.steps; ++i) {
            const step_done done = step(i);
            if (asked_.json)
                print(step_json(done, session_->execution().arena_bytes()));
            else if (asked_.evaluate && (i == 1 || i % asked_.evaluate == 0))
                tick.line(done, fmt::format("{} {:.4g}", prepared_.built.model.metric_name, quality()));
            tick(done);
        }
        tick.wipe();
        if (!asked_.json) print(end());
    }

private:
    step_done step(std::uint64_t i) {
        prepared_.built.model.fill(session_->outside(), i);
        const auto start = std::chrono::steady_clock::now();
        measured_.loss = session_->step();
        const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
        times_.push_back(took.count());
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
        m.resident_bytes = session_->outside().bytes();
        m.counts = execution.counts();
        const auto middle = times_.begin() + static_cast<std::ptrdiff_t>(times_.size() / 2);
        std::nth_element(times_.begin(), middle, times_.end());
        m.median_ms = *middle;
        std::string text = closing(asked_, prepared_, session_->memory().bytes(), m);
        text += quality_at_the_end();
        if (asked_.profile) text += '\n' + profile_table(prepared_, execution.profile(), asked_.steps);
        return text;
    }

    const options& asked_;
    prepared& prepared_;
    engine::cpu::backend& on_;
    measured measured_;
    std::optional<engine::session<engine::cpu::backend>> session_;
    std::optional<evaluator> evaluator_;
    std::vector<double> times_; ///< of the steps; ms
};

int run(const options& asked) {
    const std::string about = asked.model + ": ";
    try {
        engine::cpu::backend on(asked.threads);
        std::optional<echo::format::progress> line(std::in_place);
        prepared p = prepare(asked, on, *line);
        line.reset();
        if (!p.plans.plan.met()) {
            complain(about, echo::format::why_unmet(p.plans.graph, p.plans.plan.report()));
            return budget_unmet;
        }
        expect_room(p.plans);
        if (!asked.json) print(opening(asked, p, on.threads()));
        trainer(asked, p, on).run();
        return success;
    } catch (const usage_error&) {
        throw;
    } catch (const std::bad_alloc&) {
        return complain(about, "not enough memory; give a smaller --batch or --preset, or a --budget");
    } catch (const std::exception& e) {
        return complain(about, e.what());
    }
}

} // namespace

int main(int count, char** arguments) {
    try {
        const options asked = parse_options(count, arguments);
        if (asked.print.empty()) return run(asked);
        print(asked.print);
        return success;
    } catch (const usage_error& e) {
        complain("", std::string(e.what()) + "; see echo-train --help");
        return bad_usage;
    } catch (const std::exception& e) {
        return complain("", e.what());
    }
}
