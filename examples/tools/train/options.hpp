// SPDX-License-Identifier: BSL-1.0
/// @file
/// The command line of `echo-train` as a value.
#pragma once

#include "command_line/amount.hpp"
#include "command_line/parse.hpp"
#include "command_line/refuse_comma.hpp"
#include "engine/graph.hpp"
#include "plan/strategy_text.hpp"
#include "train/help.hpp"

#include <echo/analysis/make_plan.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace train {

using echo::format::usage_error;

/// Where a model is trained.
enum class device : std::uint8_t { cpu, cuda };
constexpr std::string_view name_of(device d) noexcept { return d == device::cpu ? "cpu" : "cuda"; }

struct options {
    std::string model{}, preset = "tiny";
    device on = device::cpu;
    echo::strategy how = echo::strategy::budget;
    std::optional<echo::format::peak_budget> budget{}; ///< of the peak
    std::optional<double> max_overhead{}; ///< part of the graph's time; without it, that of `plan_options`
    engine::baseline habits = engine::baseline::modern;
    std::optional<std::int64_t> batch{};
    std::uint64_t steps = 100, seed = 1;
    std::optional<double> rate{};
    int threads = 0;            ///< 0: one per core
    std::uint64_t evaluate = 0; ///< every so many steps; 0: at the end only
    std::string data{};         ///< empty: a generated task
    std::optional<std::string>
        offload{}; ///< on cpu: values may wait in a file in this folder; empty: in the usual one
    bool json = false, profile = false;
    bool tf32 = false;    ///< on cuda
    bool dry_run = false; ///< on cuda: print what a step would call
    std::string print{};  ///< not empty: print this and do nothing else
};

/// The part of the graph's time within which the least peak is looked for.
inline double max_overhead_of(const options& asked) {
    return asked.max_overhead.value_or(echo::plan_options{}.max_overhead);
}

/// Errors: `usage_error`, also where it is not within [least, most].
template <class Number>
Number parse_whole(std::string_view option, std::string_view text, Number least, Number most) {
    echo::format::refuse_comma(option, text);
    Number number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, failure] = std::from_chars(text.data(), end, number);
    if (failure != std::errc{} || stop != end || number < least || number > most)
        throw usage_error(
            fmt::format("{} {}: must be a whole number from {} to {}", option, text, least, most));
    return number;
}

/// Errors: `usage_error`.
inline double parse_rate(std::string_view text) {
    std::string_view rest = text;
    const double number = echo::format::take_number("--rate", rest);
    if (!rest.empty() || !(number > 0))
        throw usage_error(fmt::format("--rate {}: must be a number above 0", text));
    return number;
}

/// Errors: `usage_error`.
inline engine::baseline parse_baseline(std::string_view text) {
    if (text == "paper") return engine::baseline::paper;
    if (text == "modern") return engine::baseline::modern;
    throw usage_error(fmt::format("--baseline {} is none of paper, modern", text));
}

/// Errors: `usage_error`.
inline device parse_device(std::string_view text) {
    if (text == "cpu") return device::cpu;
    if (text == "cuda") return device::cuda;
    throw usage_error(fmt::format("--device {} is none of cpu, cuda", text));
}

/// Errors: `usage_error`.
inline options parse_options(int count, const char* const* arguments) {
    options chosen;
    std::string on, strategy, budget, overhead, baseline, batch, steps, rate, seed, threads, evaluate,
        offload;
    CLI::App app;
    app.add_option("MODEL", chosen.model)->required();
    app.add_option("--preset", chosen.preset);
    app.add_option("--device", on);
    app.add_option("--strategy", strategy);
    app.add_option("--budget", budget);
    app.add_option("--max-overhead", overhead);
    app.add_option("--baseline", baseline);
    app.add_option("--batch", batch);
    app.add_option("--steps", steps);
    app.add_option("--rate", rate);
    app.add_option("--seed", seed);
    app.add_option("--threads", threads);
    app.add_option("--evaluate", evaluate);
    app.add_option("--offload", offload)->expected(0, 1);
    auto* const data = app.add_option("--data", chosen.data);
    app.add_flag("--json", chosen.json);
    app.add_flag("--profile", chosen.profile);
    app.add_flag("--tf32", chosen.tf32);
    app.add_flag("--dry-run", chosen.dry_run);
    chosen.print = echo::format::parse(app, count, arguments, "echo-train", help_text());
    if (!chosen.print.empty()) return chosen;

    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    const auto given = [&](const char* option) { return app.count(option) > 0; };
    if (given("--device")) chosen.on = parse_device(on);
    if (given("--budget")) chosen.budget = echo::format::parse_budget(budget);
    if (given("--max-overhead")) chosen.max_overhead = echo::format::parse_part("--max-overhead", overhead);
    if (given("--baseline")) chosen.habits = parse_baseline(baseline);
    if (given("--batch")) chosen.batch = parse_whole<std::int64_t>("--batch", batch, 1, most);
    if (given("--steps")) chosen.steps = parse_whole<std::uint64_t>("--steps", steps, 1, most);
    if (given("--rate")) chosen.rate = parse_rate(rate);
    if (given("--seed"))
        chosen.seed =
            parse_whole<std::uint64_t>("--seed", seed, 0, std::numeric_limits<std::uint64_t>::max());
    if (given("--threads")) chosen.threads = parse_whole("--threads", threads, 1, 1024);
    if (given("--evaluate")) chosen.evaluate = parse_whole<std::uint64_t>("--evaluate", evaluate, 1, most);

    if (given("--strategy")) chosen.how = echo::format::parse_strategy(strategy);
    if (given("--offload")) chosen.offload = offload;
    if (chosen.offload && chosen.how != echo::strategy::budget)
        throw usage_error("--offload goes with --strategy budget only");
    if (chosen.offload && chosen.on == device::cuda)
        throw usage_error("--offload goes with --device cpu only");
    if (chosen.budget && chosen.max_overhead) throw usage_error("give one of --budget and --max-overhead");
    if (chosen.max_overhead && chosen.how != echo::strategy::budget)
        throw usage_error("--max-overhead goes with --strategy budget only");
    if (chosen.json && (chosen.profile || chosen.evaluate))
        throw usage_error("--json goes with none of --profile and --evaluate");
    if (chosen.on == device::cuda && given("--threads"))
        throw usage_error("--threads goes with --device cpu only");
    if (chosen.on == device::cpu && (chosen.tf32 || chosen.dry_run))
        throw usage_error(
            fmt::format("{} goes with --device cuda only", chosen.tf32 ? "--tf32" : "--dry-run"));
    if (chosen.dry_run && (chosen.json || chosen.profile || chosen.evaluate))
        throw usage_error("--dry-run goes with none of --json, --profile and --evaluate: nothing is trained");
    if (data->count() > 0 && chosen.data.empty()) throw usage_error("--data names no file");
    return chosen;
}

} // namespace train
