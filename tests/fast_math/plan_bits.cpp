// SPDX-License-Identifier: BSL-1.0
/// @file
/// `plan-bits GRAPH…`: one line per graph and way to plan it, with a number made of every step of the plan and every
/// offset of its arena. Built twice, on echo::core as usual and all of it with -Ofast: tests/fast_math/compare.py wants
/// the same lines of both.

#include "format/read_file.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan_memory.hpp>
#include <echo/analysis/schedule/footprint.hpp>
#include <echo/graph/read.hpp>
#include <echo/vocabulary/aten.hpp>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <string_view>

namespace {

/// FNV-1a over numbers.
class digest {
public:
    void add(std::uint64_t x) {
        for (int i = 0; i < 8; ++i, x >>= 8) value_ = (value_ ^ (x & 0xff)) * 1099511628211U;
    }
    std::uint64_t value() const { return value_; }

private:
    std::uint64_t value_ = 14695981039346656037U;
};

std::uint64_t bits_of(const echo::snapshot& s, const echo::plan& p) {
    digest all;
    for (const auto t : p.steps().steps()) {
        const echo::step_record& step = p.steps()[t];
        for (const std::uint64_t x : {std::uint64_t{step.node.index()}, static_cast<std::uint64_t>(step.kind),
                                      step.bytes, std::uint64_t{step.fused}})
            all.add(x);
        for (const auto c : p.steps().inputs(t)) all.add(std::uint64_t{c.step.index()} << 32 | c.output);
    }
    const auto m = echo::plan_memory(s, p, {.limit = 0});
    for (const auto& b : m.blocks()) all.add(b.offset);
    all.add(p.report().lower_bound_bytes);
    return all.value();
}

void print(const char* file) {
    const auto s = echo::read(
        echo::format::read_graph_file(file, [](std::string_view op) { return echo::aten.find(op); }));
    const std::uint64_t half = echo::footprint(s, echo::baseline_schedule(s)).peak_bytes / 2;
    const auto show = [&](const char* how, const echo::plan_options& options) {
        std::printf("%s %s %016llx\n", file, how,
                    static_cast<unsigned long long>(bits_of(s, echo::make_plan(s, options))));
    };
    show("default", {});
    show("half", {.budget = half});
    show("fused", {.host = {.fuse = true}});
    for (const auto how : echo::all_strategies) show(echo::name_of(how).data(), {.how = how});
    try {
        static_cast<void>(echo::make_plan(s, {.max_overhead = std::numeric_limits<double>::quiet_NaN()}));
        std::puts("a max_overhead that is no number passes");
    } catch (const echo::error&) {
        std::puts("a max_overhead that is no number is refused");
    }
}

} // namespace

int main(int argc, char** argv) {
    try {
        for (int i = 1; i < argc; ++i) print(argv[i]);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "plan-bits: %s\n", e.what());
        return 1;
    }
}
