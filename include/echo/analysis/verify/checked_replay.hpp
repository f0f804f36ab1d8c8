// SPDX-License-Identifier: BSL-1.0
/// @file
/// The replay of `verify`: steps are run as a machine would run them, storage by storage, with a count of the
/// reads still to come. Written from docs/formats.md ("Storage") alone; it shares nothing with the replay that
/// plans are made with (footprint.hpp), so that each can find the other's mistakes.
#pragma once

#include <echo/analysis/verify/resolved_steps.hpp>

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echo::detail {

/// A storage as the replay met it. Steps are counted from 1 in `written` and the stamps, where 0 means none.
struct checked_storage {
    std::uint64_t bytes = 0;
    std::uint32_t first = 0, last = 0;           ///< steps between which it is live, both included
    std::uint32_t reads_left = 0;                ///< of values that lie on it already
    std::uint32_t written = 0;                   ///< the latest step that wrote on it in place
    std::uint32_t read_stamp = 0, positions = 0; ///< the latest step that reads it, and by how many inputs
    std::uint32_t bound_stamp = 0; ///< the latest step with an output that is a view of it or has taken it
    bool resident = false, encoded = false, holds_result = false, freed = false, stashed = false;
};

/// What a replay found.
struct checked_figures {
    std::uint64_t peak_bytes = 0; ///< non-resident storages and workspace
    std::uint64_t load_bytes = 0; ///< the same without workspace: no arena can be smaller
    std::uint64_t stash_bytes = 0;
    std::uint64_t resident_bytes = 0;
    std::vector<checked_storage> storages;
    std::vector<std::uint32_t> storage_of; ///< by copy
    id_set<node_id> makes_resident;        ///< the nodes
    id_set<node_id> writes_resident;       ///< in place
};

/// Runs resolved steps.
class replay_machine {
public:
    replay_machine(const snapshot& s, const resolved_steps& r) : s_(s), r_(r) {}

    /// Errors: a value is read, or is a graph output, after a step wrote on its storage in place; sums that
    /// 64 bits do not hold. O(nodes + steps + copies + reads).
    checked_figures operator()() {
        prepare();
        for (std::size_t t = 0; t < r_.size(); ++t) {
            now_ = static_cast<std::uint32_t>(t);
            find_boundary();
            if (r_.steps[t].fused) {
                pass_by();
                continue;
            }
            gather(t);
            read_inputs();
            if (r_.steps[t].kind == step_kind::encode)
                make(first_copy(), r_.steps[t].bytes, false, true);
            else
                place_outputs();
            measure();
            release();
        }
        finish();
        return std::move(f_);
    }

private:
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    std::uint32_t first_copy() const { return r_.steps[now_].first_copy; }
    /// The copies that the step names as its inputs; a fused step makes some of them nowhere.
    std::span<const std::uint32_t> named(std::size_t t) const {
        return {r_.reads.data() + r_.steps[t].first_read, r_.read_count(t)};
    }
    checked_storage& under(std::uint32_t copy) { return f_.storages[f_.storage_of[copy]]; }
    std::uint32_t stamp() const { return now_ + 1; }

    void prepare() {
        const std::size_t copies = r_.copies.size();
        f_.storage_of.assign(copies, none);
        f_.storages.reserve(copies);
        f_.makes_resident.assign(s_.node_count());
        f_.writes_resident.assign(s_.node_count());
        made_by_.resize(copies);
        reads_of_.assign(copies, 0);
        is_result_.assign(copies, 0);
        for (std::size_t t = 0; t < r_.size(); ++t)
            for (std::uint32_t c = r_.steps[t].first_copy; c < r_.steps[t + 1].first_copy; ++c)
                made_by_[c] = static_cast<std::uint32_t>(t);
        unfolded_.assign(r_.any_fused ? r_.size() : 0, 0);
        for (std::size_t t = 0; t < r_.size(); ++t) {
            if (r_.steps[t].fused) continue;
            gather(t);
            for (const auto c : gathered_) ++reads_of_[c];
        }
        // A graph output is the copy of the latest step that produces it.
        id_vector<node_id, std::uint32_t> latest(s_.node_count(), none);
        for (std::size_t t = 0; t < r_.size(); ++t)
            if (r_.steps[t].kind != step_kind::encode)
                latest[r_.steps[t].node] = static_cast<std::uint32_t>(t);
        for (const auto v : s_.results()) {
            const std::uint32_t t = latest[s_[v].producer];
            if (t == none) throw error(s_.name(s_[v].producer), "outputs", "a graph output is never made");
            const std::uint32_t copy = r_.steps[t].first_copy + s_.output_index(v);
            if (!is_result_[copy]) results_.push_back(copy);
            is_result_[copy] = 1;
        }
    }

    /// The stash is what crosses the first backward or update step that is no view.
    void find_boundary() {
        if (boundary_ != none || r_.steps[now_].kind == step_kind::encode) return;
        const node_record& node = s_[r_.steps[now_].node];
        if ((node.phase == phase::backward || node.phase == phase::update) && node.kind != op_kind::view)
            boundary_ = now_;
    }

    /// Puts the copies whose bytes step `t` reads into `gathered_`. In place of one that a fused step makes stand those
    /// which that step names, and so on; per named input, each fused step is unfolded once.
    void gather(std::size_t t) {
        gathered_.clear();
        for (const auto copy : named(t)) {
            if (!r_.any_fused || !r_.steps[made_by_[copy]].fused) {
                gathered_.push_back(copy);
                continue;
            }
            ++unfolding_;
            to_unfold_.assign(1, made_by_[copy]);
            while (!to_unfold_.empty()) {
                const std::uint32_t fused = to_unfold_.back();
                to_unfold_.pop_back();
                if (unfolded_[fused] == unfolding_) continue;
                unfolded_[fused] = unfolding_;
                for (const auto c : named(fused))
                    if (r_.steps[made_by_[c]].fused)
                        to_unfold_.push_back(made_by_[c]);
                    else
                        gathered_.push_back(c);
            }
        }
    }

    /// A fused step makes nothing, and nothing is read until its readers run. What it would make or write over on
    /// resident storage, were it run, it may not.
    void pass_by() {
        const node_id n = r_.steps[now_].node;
        for (const auto v : s_.outputs(n)) {
            const value_record& value = s_[v];
            if (value.view_of != no_input) continue;
            if (value.resident) f_.makes_resident[n] = 1;
            if (value.inplace == no_input) continue;
            const std::uint32_t over = f_.storage_of[named(now_)[value.inplace]];
            if (over != none && f_.storages[over].resident) f_.writes_resident[n] = 1;
        }
        measure();
    }

    bool stale(std::uint32_t copy) { return under(copy).written > made_by_[copy] + 1; }

    void read_inputs() {
        for (const auto copy : gathered_) {
            if (stale(copy)) refuse_stale(copy);
            checked_storage& storage = under(copy);
            --storage.reads_left;
            if (storage.read_stamp != stamp()) {
                storage.read_stamp = stamp();
                storage.positions = 0;
            }
            ++storage.positions;
            if (boundary_ != none && !storage.resident && !storage.stashed && storage.first < boundary_) {
                storage.stashed = true;
                f_.stash_bytes += storage.bytes;
            }
        }
    }

    void place_outputs() {
        const node_id n = r_.steps[now_].node;
        const auto inputs = named(now_);
        for (const auto v : s_.outputs(n))
            if (s_[v].view_of != no_input) under(inputs[s_[v].view_of]).bound_stamp = stamp();
        for (std::uint32_t copy = first_copy(); const auto v : s_.outputs(n)) {
            const value_record& value = s_[v];
            if (value.view_of != no_input) {
                put(copy, f_.storage_of[inputs[value.view_of]]);
            } else if (value.inplace != no_input && !is_fused(inputs[value.inplace]) &&
                       takes(under(inputs[value.inplace]), value.bytes)) {
                checked_storage& target = under(inputs[value.inplace]);
                target.written = target.bound_stamp = stamp();
                if (target.resident) f_.writes_resident[n] = 1;
                put(copy, f_.storage_of[inputs[value.inplace]]);
            } else {
                if (value.resident) f_.makes_resident[n] = 1;
                make(copy, value.bytes, value.resident, false);
            }
            ++copy;
        }
    }

    bool is_fused(std::uint32_t copy) const { return r_.steps[made_by_[copy]].fused; }

    /// Whether an output of so many bytes takes this storage of an input. The step's own reads are counted
    /// already, so the reads left are those of later steps.
    bool takes(const checked_storage& target, std::uint64_t bytes) const {
        if (target.resident) return true;
        return target.reads_left == 0 && !target.holds_result && target.bytes >= bytes &&
               target.positions == 1 && !target.encoded && target.bound_stamp != stamp();
    }

    void put(std::uint32_t copy, std::uint32_t on) {
        f_.storage_of[copy] = on;
        f_.storages[on].reads_left += reads_of_[copy];
        if (is_result_[copy]) f_.storages[on].holds_result = true;
    }

    void make(std::uint32_t copy, std::uint64_t bytes, bool resident, bool encoded) {
        f_.storages.push_back({.bytes = bytes, .first = now_, .resident = resident, .encoded = encoded});
        put(copy, static_cast<std::uint32_t>(f_.storages.size() - 1));
        (resident ? f_.resident_bytes : live_) = sum(resident ? f_.resident_bytes : live_, bytes);
    }

    void measure() {
        const step_kind kind = r_.steps[now_].kind;
        const std::uint64_t workspace = kind == step_kind::encode ? 0 : s_[r_.steps[now_].node].workspace;
        const std::uint64_t all = sum(live_, workspace);
        if (live_ > f_.load_bytes) f_.load_bytes = live_;
        if (all > f_.peak_bytes) f_.peak_bytes = all;
    }

    std::uint64_t sum(std::uint64_t a, std::uint64_t b) const {
        if (const auto c = checked_add(a, b)) return *c;
        throw error(s_.name(r_.steps[now_].node), step_key(now_), "64 bits do not hold the bytes live here");
    }

    /// Frees what this step was the last to read, or made and nobody reads.
    void release() {
        for (const auto copy : gathered_) release(under(copy));
        for (std::uint32_t c = first_copy(); c < r_.steps[now_ + 1].first_copy; ++c) release(under(c));
    }
    void release(checked_storage& storage) {
        if (storage.reads_left || storage.holds_result || storage.resident || storage.freed) return;
        storage.freed = true;
        storage.last = now_;
        live_ -= storage.bytes;
    }

    void finish() {
        for (auto& storage : f_.storages)
            if (!storage.freed) storage.last = static_cast<std::uint32_t>(r_.size() - 1);
        for (const auto copy : results_)
            if (stale(copy)) refuse_stale_result(copy);
    }

    std::string written_over(std::uint32_t copy) {
        const node_id maker = s_[r_.copies[copy]].producer;
        const std::uint32_t writer = under(copy).written - 1;
        return "'" + s_.name(maker) + "' after '" + s_.name(r_.steps[writer].node) + "' (step " +
               std::to_string(writer) + ") wrote over it in place";
    }
    std::string_view advice() const {
        return r_.own_order
                   ? "the order of the graph itself is wrong: read the value before it is written over"
                   : "read the value before it is written over";
    }
    [[noreturn]] void refuse_stale(std::uint32_t copy) {
        throw error(s_.name(r_.steps[now_].node), r_.own_order ? "inputs" : step_key(now_) + ".inputs",
                    "reads " + written_over(copy), advice());
    }
    [[noreturn]] void refuse_stale_result(std::uint32_t copy) {
        throw error(s_.name(s_[r_.copies[copy]].producer), "outputs",
                    "the graph's results name " + written_over(copy), advice());
    }

    const snapshot& s_;
    const resolved_steps& r_;
    checked_figures f_;
    std::vector<std::uint32_t> made_by_;  ///< by copy: its step
    std::vector<std::uint32_t> reads_of_; ///< by copy: how often it is read in all
    std::vector<std::uint32_t> gathered_; ///< the copies that the step reads, some more than once
    std::vector<std::uint32_t> unfolded_; ///< by step: the last unfolding that met it
    std::vector<std::uint32_t> to_unfold_;
    std::uint32_t unfolding_ = 0;
    std::vector<std::uint8_t> is_result_; ///< by copy
    std::vector<std::uint32_t> results_;  ///< copies that are graph outputs
    std::uint64_t live_ = 0;
    std::uint32_t now_ = 0, boundary_ = none;
};

/// The nodes that are dead: no graph output, no update node and no node that writes in place on resident storage (by
/// the replay of the graph's own order) needs them, through inputs or control. O(nodes + edges).
inline id_set<node_id> dead_nodes(const snapshot& s, const checked_figures& own_order) {
    id_set<node_id> dead(s.node_count(), true);
    for (const auto v : s.results()) dead.erase(s[v].producer);
    for (std::size_t i = s.node_count(); i-- > 0;) {
        const node_id n(i);
        if (s[n].phase == phase::update || own_order.writes_resident[n]) dead.erase(n);
        if (dead[n]) continue;
        for (const auto v : s.inputs(n)) dead.erase(s[v].producer);
        for (const auto c : s.control(n)) dead.erase(c);
    }
    return dead;
}

/// A schedule, found sound, with the figures of its replay and of the graph's own order.
struct checked_schedule {
    resolved_steps steps;
    checked_figures before, after;
};

/// Errors: as `verify`, as far as they concern the steps. O(nodes + edges + steps + copies read).
inline checked_schedule checked_replay(const snapshot& s, const schedule& given,
                                       const host_abilities& host = {}) {
    const resolved_steps own_order = resolve_own_order(s);
    checked_figures before = replay_machine(s, own_order)();
    resolved_steps steps = step_resolver(s, given, host, dead_nodes(s, before))();
    checked_figures after = replay_machine(s, steps)();
    for (std::size_t t = 0; t < steps.size(); ++t) {
        if (steps.steps[t].kind != step_kind::recompute) continue;
        const node_id n = steps.steps[t].node;
        if (before.makes_resident[n] || before.writes_resident[n] || after.makes_resident[n] ||
            after.writes_resident[n])
            throw error(s.name(n), step_key(t), "is recomputed, but makes or writes over a resident storage",
                        "such nodes run once only");
    }
    return {std::move(steps), std::move(before), std::move(after)};
}

} // namespace echo::detail
