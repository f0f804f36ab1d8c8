// SPDX-License-Identifier: BSL-1.0
/// @file
/// What `echo-train` prints before and after training, and one step as JSON.
#pragma once

#include "command_line/one_line.hpp"
#include "plan/claim_text.hpp"
#include "plan/fused_text.hpp"
#include "plan/table.hpp"
#include "plan/units.hpp"
#include "train/prepare.hpp"
#include "train/ticker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace train {

/// Lines of a word and what belongs to it.
class lines {
public:
    template <class... Arguments>
    void add(std::string_view what, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
        fmt::format_to(std::back_inserter(text_), "{:<12}", what);
        fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
        text_ += '\n';
    }
    const std::string& text() const noexcept { return text_; }

private:
    std::string text_;
};

/// The link to where values may wait, and what leaves.
inline void add_offload(lines& out, const echo::plan_report& r, const std::string& store) {
    using echo::format::show_bytes;
    const auto per_second = [](double bytes_per_us) {
        return show_bytes(static_cast<std::uint64_t>(1e6 * bytes_per_us)) + "/s";
    };
    out.add("link", "{}: {} out, {} in, {}", store, per_second(r.link.out_bytes_per_us),
            per_second(r.link.in_bytes_per_us), r.link.both_ways ? "both at once" : "one at a time");
    if (r.offloaded_values == 0)
        out.add("offload", "nothing leaves: no better plan was found with it");
    else
        out.add("offload", "{} values, {} each way; {} of the file; waits: {:.2f} % of a step's time",
                r.offloaded_values, show_bytes(r.offloaded_bytes), show_bytes(r.host_bytes),
                100 * r.stall_time_ratio);
}

/// The model and its plan; `place` says where it is trained: a word and what belongs to it; `store` where values may
/// wait, if they may.
inline std::string opening(const options& asked, const prepared& p,
                           const std::pair<std::string, std::string>& place, const std::string& store) {
    using echo::format::show_bytes;
    const echo::plan_report& r = p.plans.plan.report();
    lines out;
    out.add("model", "{}, preset {}, batch {}, {} baseline: {} parameters, {} nodes", p.built.model.name,
            asked.preset, p.built.batch, asked.habits == engine::baseline::paper ? "paper" : "modern",
            p.parameters, p.graph->size());
    out.add("strategy", "{} ({:.1f} ms)", echo::format::claim(p.plans.plan, max_overhead_of(asked)),
            p.pass_ms);
    out.add("peak", "{} -> {} ({} smaller)", show_bytes(r.baseline_peak_bytes), show_bytes(r.peak_bytes),
            echo::format::show_ratio(r.baseline_peak_bytes, r.peak_bytes));
    out.add("bound", "{} ({}; gap {} %)", show_bytes(r.lower_bound_bytes),
            echo::format::bound_claim(p.plans.plan, max_overhead_of(asked)), echo::format::show_gap(r));
    out.add("stash", "{} -> {}", show_bytes(r.baseline_stash_bytes), show_bytes(r.stash_bytes));
    out.add("resident", "{} (parameters, gradients, optimizer state, data; not in the peak)",
            show_bytes(r.resident_bytes));
    out.add("overhead", "{:.2f} % of a step's time; nodes recomputed: {}, values encoded: {}",
            100 * r.recompute_time_ratio, r.recomputed_nodes, r.encoded_values);
    if (asked.offload) add_offload(out, r, store);
    if (p.plans.plan.host().fuse)
        out.add("fused", "{}", echo::format::fused_text(p.plans.graph, p.plans.plan));
    out.add("arena", "{} bytes, the peak is {} bytes", p.plans.memory.bytes(), r.peak_bytes);
    out.add(place.first, "{}", place.second);
    for (const auto& note : r.notes) out.add("note", "{}", echo::format::one_line(note));
    return out.text();
}

/// What was measured.
struct measured {
    float loss = 0;
    double median_ms = 0;
    double predicted_wait_ms = 0, waited_ms = 0; ///< for copies, in a step; the median
    std::uint64_t arena_bytes = 0, high_water = 0, resident_bytes = 0;
    engine::step_counts counts{};
    std::uint64_t process_before = 0,
                  process_after = 0; ///< most bytes in use: before memory was allocated, after training
    std::optional<std::uint64_t> driver_bytes{}; ///< of a device, taken
};

/// Training and its memory; `planned` is the size of the arena.
inline std::string closing(const options& asked, const prepared& p, std::uint64_t planned,
                           const measured& m) {
    using echo::format::show_bytes;
    lines out;
    out.add("loss", "{:.9g} after {} steps", m.loss, asked.steps);
    out.add("speed", "{:.4g} samples/s, {:.1f} ms a step (median)",
            1000 * static_cast<double>(p.built.batch) / std::max(m.median_ms, 1e-3), m.median_ms);
    out.add("arena", "{} bytes planned, {} taken, {} reached", planned, m.arena_bytes, m.high_water);
    out.add("steps", "{} run, {} recomputed ({} fused, {} seeded), {} encoded, {} late, {} in place",
            m.counts.run, m.counts.recomputed, m.counts.fused, m.counts.seeded, m.counts.encoded,
            m.counts.late, m.counts.inplace);
    if (asked.offload)
        out.add(
            "offload",
            "{} copies left, {} came back; waits a step: {:.1f} ms predicted, {:.1f} ms measured (median)",
            m.counts.offloaded, m.counts.reloaded, m.predicted_wait_ms, m.waited_ms);
    const std::uint64_t known = m.arena_bytes + m.resident_bytes;
    if (m.driver_bytes) {
        out.add("device", "{} taken, says the driver: {} arena and residents, {} besides",
                show_bytes(*m.driver_bytes), show_bytes(known),
                show_bytes(*m.driver_bytes - std::min(known, *m.driver_bytes)));
        out.add("process", "{} at most ({} were there before)", show_bytes(m.process_after),
                show_bytes(m.process_before));
        return out.text();
    }
    out.add("process", "{} at most: {} arena and residents, {} besides ({} were there before)",
            show_bytes(m.process_after), show_bytes(known),
            show_bytes(m.process_after - std::min(known, m.process_after)), show_bytes(m.process_before));
    return out.text();
}

/// Time of a step, bytes that a step writes, and bytes live at the peak, by layer.
inline std::string profile_table(const prepared& p,
                                 const std::map<std::string, engine::layer_profile>& layers,
                                 std::uint64_t steps) {
    using echo::format::show_bytes;
    const auto total = [](const engine::layer_profile& l) {
        return l.forward_us + l.recompute_us + l.backward_us + l.update_us;
    };
    double all = 0;
    std::set<std::string> names;
    for (const auto& [name, layer] : layers) {
        all += total(layer);
        names.insert(name);
    }
    for (const auto& row : p.before.by_layer) names.insert(row.name);
    for (const auto& row : p.after.by_layer) names.insert(row.name);
    std::vector<std::pair<std::string, engine::layer_profile>> rows;
    for (const auto& name : names) {
        const auto found = layers.find(name);
        rows.emplace_back(name, found == layers.end() ? engine::layer_profile{} : found->second);
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [&](const auto& a, const auto& b) { return total(a.second) > total(b.second); });
    const auto ms = [&](double us) { return fmt::format("{:.2f}", us / 1000 / static_cast<double>(steps)); };
    const auto live = [](const echo::memory_profile& at, const std::string& name) {
        for (const auto& row : at.by_layer)
            if (row.name == name) return show_bytes(row.bytes);
        return show_bytes(0);
    };
    echo::format::table shown({"layer", "time %", "forward ms", "recompute ms", "backward ms", "update ms",
                               "written a step", "at the peak", "without Echo"});
    for (const auto& [name, l] : rows)
        shown.add({name.empty() ? "(no layer)" : echo::format::one_line(name),
                   fmt::format("{:.1f}", all > 0 ? 100 * total(l) / all : 0), ms(l.forward_us),
                   ms(l.recompute_us), ms(l.backward_us), ms(l.update_us), show_bytes(l.bytes / steps),
                   live(p.after, name), live(p.before, name)});
    return shown.text();
}

inline std::string step_json(const step_done& s, std::uint64_t arena_bytes, device on,
                             std::optional<std::uint64_t> driver_bytes) {
    return fmt::format("{{\"step\": {}, \"loss\": {:.9g}, \"loss_hex\": \"{:a}\", \"arena_bytes\": {}, "
                       "\"step_ms\": {:.3f}, \"device\": \"{}\"{}}}\n",
                       s.step, s.loss, s.loss, arena_bytes, s.ms, name_of(on),
                       driver_bytes ? fmt::format(", \"driver_bytes\": {}", *driver_bytes) : "");
}

} // namespace train
