// SPDX-License-Identifier: BSL-1.0
/// @file
/// Whatever bytes an ONNX file holds, the reader either refuses them with an `echo::error` of one line, or gives a
/// graph that is planned, and that is written back as a model which needs exactly the memory that was planned.

#include "onnx/model.hpp"
#include "promises.hpp"

#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan_memory.hpp>
#include <echo/analysis/schedule/footprint.hpp>
#include <echo/analysis/verify.hpp>
#include <echo/graph/read.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

using namespace echo::format;
using fuzz::attempt;
using fuzz::require;

/// The reader copies the process, which must have one thread then; libFuzzer has another for its bound on memory. What
/// is allocated at once stays bounded.
extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
    static char without_thread[] = "-rss_limit_mb=0", at_once[] = "-malloc_limit_mb=2048";
    static std::vector<char*> all(*arguments, *arguments + *count);
    all.insert(all.end(), {without_thread, at_once, nullptr});
    *count += 2;
    *arguments = all.data();
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const onnx_options asked{.dims = {{"batch", 2}}};
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    auto model = attempt([&] { return onnx_model(bytes, {}); });
    if (!model) model = attempt([&] { return onnx_model(bytes, asked); });
    if (!model) return 0;
    const auto s = attempt([&] { return echo::read(model->graph()); });
    if (!s) return 0;
    const auto p = attempt([&] { return echo::make_plan(*s, {.how = echo::strategy::min_cut}); });
    if (!p) return 0;
    echo::verify(*s, *p, echo::plan_memory(*s, *p));
    const auto written = attempt([&] { return model->write(*s, p->steps()); });
    if (!written || !written->unchecked.empty()) return 0;
    // Extents that were given on the command line are still symbolic in it.
    auto again = attempt([&] { return onnx_model(written->bytes, {}); });
    if (!again) again = attempt([&] { return onnx_model(written->bytes, asked); });
    require(again.has_value(), "a model is read as it was written");
    const auto t = echo::read(again->graph());
    require(echo::footprint(t, echo::baseline_schedule(t)).peak_bytes == p->report().peak_bytes,
            "what is written is what was planned");
    return 0;
}
