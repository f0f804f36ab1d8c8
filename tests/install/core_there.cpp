// SPDX-License-Identifier: BSL-1.0
#include "core.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/graph/snapshot_builder.hpp>

echo::snapshot chain() {
    const echo::tensor made{.shape = {1024}, .type = echo::dtype::f32};
    echo::snapshot_builder b;
    b.add({.phase = echo::phase::input, .outputs = {&made, 1}});
    for (std::size_t n = 1; n < 5; ++n) {
        const auto from = b.output(echo::node_id(n - 1), 0);
        b.add({.phase = n < 3 ? echo::phase::forward : echo::phase::backward,
               .kind = echo::op_kind::light,
               .rerun = echo::rerun_kind::pure,
               .inputs = {&from, 1},
               .outputs = {&made, 1}});
    }
    b.add_result(b.output(echo::node_id(4), 0));
    return std::move(b).finish();
}

std::uint64_t peak_elsewhere(const echo::snapshot& s) { return echo::make_plan(s).report().peak_bytes; }
