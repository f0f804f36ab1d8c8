// SPDX-License-Identifier: BSL-1.0
/// @file
/// The rules of a schedule, word by word and as slow as they read: which storage each copy lies on, what is
/// live, and what is computed. Values are hashes of how they came to be, so that two schedules compute the
/// same exactly if the hashes agree. Shares nothing with the library but the data types.
#pragma once

#include <echo/analysis/schedule/schedule.hpp>

#include <algorithm>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace support {

/// What a replay by definition finds.
struct definition {
    struct cell {
        std::uint64_t bytes = 0;
        std::size_t first = 0, last = 0;
        std::size_t written = 0; ///< the latest step that wrote on it in place, counted from 1
        bool resident = false, encoded = false, holds_result = false, read_at_all = false;
        std::size_t last_read = 0;
    };
    struct copy {
        std::size_t cell = 0; ///< of what a fused step makes: none
        std::uint64_t hash = 0;
        std::size_t last_read = 0; ///< by steps that are not fused, themselves or through fused ones
        bool read = false, result = false;
        bool named = false; ///< by any step
        static constexpr std::size_t nowhere = ~std::size_t{0};
    };
    std::uint64_t peak_bytes = 0, stash_bytes = 0, resident_bytes = 0;
    std::vector<cell> cells;
    std::vector<std::vector<copy>> copies;     ///< by step, by output
    std::vector<std::uint64_t> load;           ///< by step, with workspace
    std::vector<std::uint8_t> writes_resident; ///< by node: in place
    std::vector<std::string> faults;           ///< reads of what is no longer there, and the like
    std::size_t boundary = 0;                  ///< the first backward or update step that is no view
    bool in_place = false;                     ///< some write in place took place
};

namespace detail {

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    std::uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdULL;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return x ^ (x >> 29);
}

class definition_replay {
public:
    definition_replay(const echo::snapshot& s, const echo::schedule& steps) : s_(s), steps_(steps) {}

    definition run() {
        find_reads();
        runs_.assign(s_.node_count(), 0);
        d_.writes_resident.assign(s_.node_count(), 0);
        for (std::size_t t = 0; t < steps_.size(); ++t) execute(t);
        measure();
        return std::move(d_);
    }

private:
    const echo::step_record& step(std::size_t t) const { return steps_[echo::step_id(t)]; }
    auto inputs(std::size_t t) const { return steps_.inputs(echo::step_id(t)); }
    bool runs(std::size_t t) const {
        return step(t).kind == echo::step_kind::run || step(t).kind == echo::step_kind::recompute;
    }
    bool is_encode(std::size_t t) const { return step(t).kind == echo::step_kind::encode; }
    bool is_offload(std::size_t t) const { return step(t).kind == echo::step_kind::offload; }
    /// Whether what the step makes is in one bit per element: it packs, or moves what is packed.
    bool is_packed(std::size_t t) const {
        return is_encode(t) || (!runs(t) && is_packed(inputs(t)[0].step.index()));
    }
    definition::copy& at(echo::copy_id c) { return d_.copies[c.step.index()][c.output]; }

    void find_reads() {
        d_.copies.resize(steps_.size());
        std::vector<std::size_t> latest(s_.node_count(), steps_.size());
        for (std::size_t t = 0; t < steps_.size(); ++t) {
            d_.copies[t].resize(runs(t) ? s_.outputs(step(t).node).size() : 1);
            if (runs(t)) latest[step(t).node.index()] = t;
            for (const auto c : inputs(t)) {
                if (c.step.index() >= t || c.output >= d_.copies[c.step.index()].size())
                    throw std::logic_error("a step reads what does not stand earlier");
                at(c).named = true;
            }
            if (step(t).fused) continue;
            for (std::size_t i = 0; i < inputs(t).size(); ++i)
                for (const auto c : read_at(t, i)) {
                    at(c).read = true;
                    at(c).last_read = t;
                }
        }
        for (const auto v : s_.results()) {
            const std::size_t t = latest[s_[v].producer.index()];
            if (t == steps_.size())
                d_.faults.push_back("a graph output is never made");
            else if (step(t).fused)
                d_.faults.push_back("a graph output is fused");
            else
                d_.copies[t][s_.output_index(v)].result = true;
        }
    }

    /// What step `t` reads from memory for its input `i`: instead of what a fused step makes, what that one reads.
    std::set<echo::copy_id> read_at(std::size_t t, std::size_t i) const {
        std::set<echo::copy_id> found, seen;
        std::vector<echo::copy_id> waiting{inputs(t)[i]};
        while (!waiting.empty()) {
            const auto c = waiting.back();
            waiting.pop_back();
            if (!seen.insert(c).second) continue;
            if (!step(c.step.index()).fused) found.insert(c);
            if (step(c.step.index()).fused)
                for (const auto more : inputs(c.step.index())) waiting.push_back(more);
        }
        return found;
    }

    void fault(std::size_t t, const std::string& what) {
        d_.faults.push_back("step " + std::to_string(t) + " ('" + s_.name(step(t).node) + "') " + what);
    }

    /// What the step finds in a copy: garbage if something was written over it since.
    std::uint64_t content(std::size_t t, echo::copy_id c) {
        if (step(c.step.index()).fused) return mix(computed(t, c.step.index()), c.output);
        if (d_.cells[at(c).cell].written > c.step.index() + 1) {
            fault(t, "reads '" + s_.name(step(c.step.index()).node) + "' after it was written over");
            return mix(0xdead, t);
        }
        return at(c).hash;
    }

    std::uint64_t only_the_bits(std::uint64_t hash) { return mix(0xb175, hash); }

    void execute(std::size_t t) {
        const echo::node_id n = step(t).node;
        const auto sources = inputs(t);
        for (const auto c : sources) {
            if (!runs(t) && step(c.step.index()).fused) fault(t, "packs or moves what is fused");
            if (is_offload(c.step.index()) != (step(t).kind == echo::step_kind::reload))
                fault(t, "reads the wrong memory");
        }
        if (is_offload(t)) {
            const auto& source = at(sources[0]);
            if (d_.cells[source.cell].resident || d_.cells[source.cell].bytes != step(t).bytes)
                fault(t, "moves no whole storage");
            d_.copies[t][0].hash = content(t, sources[0]);
            d_.copies[t][0].cell = definition::copy::nowhere;
            return;
        }
        if (step(t).kind == echo::step_kind::reload) {
            d_.copies[t][0].hash = at(sources[0]).hash;
            fresh(t, 0, {.bytes = step(t).bytes, .first = t, .encoded = is_packed(t)});
            return;
        }
        if (is_encode(t)) {
            d_.copies[t][0].hash = only_the_bits(content(t, sources[0]));
            fresh(t, 0, {.bytes = step(t).bytes, .first = t, .encoded = true});
            return;
        }
        const std::uint64_t hash = computed(t, t);
        ++runs_[n.index()];
        if (step(t).fused) {
            if (step(t).kind != echo::step_kind::recompute) fault(t, "is fused, but no recompute");
            for (auto& copy : d_.copies[t]) copy.cell = definition::copy::nowhere;
        } else {
            place(t, n);
        }
        for (std::size_t k = 0; k < d_.copies[t].size(); ++k) d_.copies[t][k].hash = mix(hash, k);
    }

    /// What step `of` computes from what is there when step `t` runs.
    std::uint64_t computed(std::size_t t, std::size_t of) {
        const echo::node_id n = step(of).node;
        const auto sources = inputs(of);
        std::uint64_t hash = mix(n.index(), 0x0b);
        if (s_[n].rerun == echo::rerun_kind::never) hash = mix(hash, runs_[n.index()]);
        for (std::size_t i = 0; i < sources.size(); ++i) {
            std::uint64_t found = content(t, sources[i]);
            const bool packed = is_packed(sources[i].step.index());
            if (s_.one_bit(n, i))
                found = packed ? found : only_the_bits(found);
            else if (packed)
                fault(t, "reads one bit per element, but needs them all");
            hash = mix(hash, found);
        }
        return hash;
    }

    void fresh(std::size_t t, std::size_t k, definition::cell c) {
        d_.cells.push_back(c);
        d_.copies[t][k].cell = d_.cells.size() - 1;
        placed_.push_back({t, k});
    }

    void place(std::size_t t, echo::node_id n) {
        const auto sources = inputs(t);
        std::set<std::size_t> taken;
        for (const auto v : s_.outputs(n)) {
            if (s_[v].view_of == echo::no_input) continue;
            taken.insert(at(sources[s_[v].view_of]).cell);
            if (step(sources[s_[v].view_of].step.index()).fused)
                throw std::logic_error("a view of what is fused is not fused");
        }
        for (std::size_t k = 0; const auto v : s_.outputs(n)) {
            const auto& value = s_[v];
            if (value.view_of != echo::no_input) {
                d_.copies[t][k].cell = at(sources[value.view_of]).cell;
                placed_.push_back({t, k});
            } else if (value.inplace != echo::no_input && takes(t, value, taken)) {
                const std::size_t target = at(sources[value.inplace]).cell;
                taken.insert(target);
                d_.cells[target].written = t + 1;
                if (d_.cells[target].resident) d_.writes_resident[n.index()] = 1;
                d_.in_place = true;
                d_.copies[t][k].cell = target;
                placed_.push_back({t, k});
            } else {
                fresh(t, k, {.bytes = value.bytes, .first = t, .resident = value.resident});
            }
            ++k;
        }
    }

    bool takes(std::size_t t, const echo::value_record& value, const std::set<std::size_t>& taken) {
        const auto sources = inputs(t);
        const std::size_t target = at(sources[value.inplace]).cell;
        if (target == definition::copy::nowhere) return false;
        const auto& cell = d_.cells[target];
        if (cell.resident) return true;
        if (cell.bytes < value.bytes || cell.encoded || taken.count(target)) return false;
        for (std::size_t i = 0; i < sources.size(); ++i)
            for (const auto c : read_at(t, i))
                if (i != value.inplace && at(c).cell == target) return false;
        for (const auto& [u, k] : placed_) {
            const auto& copy = d_.copies[u][k];
            if (copy.cell == target && (copy.result || (copy.read && copy.last_read > t))) return false;
        }
        return true;
    }

    void measure() {
        const std::size_t end = steps_.size();
        for (std::size_t t = 0; t < end; ++t) {
            for (const auto& copy : d_.copies[t]) {
                if (copy.cell == definition::copy::nowhere) continue;
                auto& cell = d_.cells[copy.cell];
                cell.last = std::max({cell.last, t, copy.read ? copy.last_read : t});
                if (copy.read) {
                    cell.read_at_all = true;
                    cell.last_read = std::max(cell.last_read, copy.last_read);
                }
                if (copy.result) {
                    cell.last = end - 1;
                    if (cell.written > t + 1) d_.faults.push_back("a graph output is written over");
                }
            }
        }
        d_.boundary = end;
        for (std::size_t t = end; t-- > 0;) {
            const auto& node = s_[step(t).node];
            const bool backward = node.phase == echo::phase::backward || node.phase == echo::phase::update;
            if (runs(t) && backward && node.kind != echo::op_kind::view) d_.boundary = t;
        }
        d_.load.assign(end, 0);
        for (const auto& cell : d_.cells) {
            if (cell.resident) {
                d_.resident_bytes += cell.bytes;
                continue;
            }
            for (std::size_t t = cell.first; t <= cell.last; ++t) d_.load[t] += cell.bytes;
            if (cell.first < d_.boundary && cell.read_at_all && cell.last_read >= d_.boundary)
                d_.stash_bytes += cell.bytes;
        }
        for (std::size_t t = 0; t < end; ++t) {
            if (runs(t)) d_.load[t] += s_[step(t).node].workspace;
            d_.peak_bytes = std::max(d_.peak_bytes, d_.load[t]);
        }
    }

    const echo::snapshot& s_;
    const echo::schedule& steps_;
    definition d_;
    std::vector<std::size_t> runs_;
    std::vector<std::pair<std::size_t, std::size_t>> placed_; ///< copies so far
};

} // namespace detail

/// O(steps²).
inline definition by_definition(const echo::snapshot& s, const echo::schedule& steps) {
    return detail::definition_replay(s, steps).run();
}

/// By node: nothing that must happen needs it.
inline std::vector<std::uint8_t> dead_by_definition(const echo::snapshot& s, const definition& own_order) {
    std::vector<std::uint8_t> dead(s.node_count(), 1);
    for (bool changed = true; changed;) {
        changed = false;
        const auto need = [&](echo::node_id n) {
            changed |= std::exchange(dead[n.index()], std::uint8_t{0}) != 0;
        };
        for (const auto v : s.results()) need(s[v].producer);
        for (const auto n : s.nodes()) {
            if (s[n].phase == echo::phase::update || own_order.writes_resident[n.index()]) need(n);
            if (dead[n.index()]) continue;
            for (const auto v : s.inputs(n)) need(s[v].producer);
            for (const auto c : s.control(n)) need(c);
        }
    }
    return dead;
}

/// Everything that is wrong with a schedule as a replacement of the graph's own order: what it does not
/// compute, or computes from other values. Empty: every node that is not dead runs, and finds in every input
/// what it found before; so do the graph outputs.
inline std::vector<std::string> wrong(const echo::snapshot& s, const echo::schedule& steps) {
    const echo::schedule own = echo::baseline_schedule(s);
    const definition before = by_definition(s, own), after = by_definition(s, steps);
    auto faults = after.faults;
    const auto dead = dead_by_definition(s, before);
    std::vector<std::size_t> ran(s.node_count(), steps.size());
    std::size_t latest_never = 0;
    for (std::size_t t = 0; t < steps.size(); ++t) {
        const auto& step = steps[echo::step_id(t)];
        const std::size_t n = step.node.index();
        const auto fault = [&](const char* what) { faults.push_back("'" + s.name(step.node) + "' " + what); };
        if (step.kind != echo::step_kind::run && step.kind != echo::step_kind::recompute) continue;
        for (std::size_t k = 0; k < after.copies[t].size(); ++k)
            if (after.copies[t][k].hash != before.copies[n][k].hash) fault("computes something else");
        for (const auto c : s.control(step.node))
            if (ran[c.index()] == steps.size()) fault("runs before what it must run after");
        if (step.kind == echo::step_kind::recompute) {
            if (s[step.node].rerun == echo::rerun_kind::never) fault("runs again");
            if (before.writes_resident[n]) fault("writes twice");
            if (ran[n] == steps.size()) fault("is recomputed before it has run");
            continue;
        }
        if (ran[n] != steps.size()) fault("runs twice");
        ran[n] = t;
        if (s[step.node].rerun != echo::rerun_kind::never) continue;
        if (n < latest_never) fault("runs out of order");
        latest_never = n;
    }
    for (const auto n : s.nodes())
        if (!dead[n.index()] && ran[n.index()] == steps.size())
            faults.push_back("'" + s.name(n) + "' never runs");
    return faults;
}

} // namespace support
