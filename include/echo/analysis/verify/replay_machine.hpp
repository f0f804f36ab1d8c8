// SPDX-License-Identifier: BSL-1.0
/// @file
/// `replay_machine`: steps are run as a machine would run them, storage by storage, with a count of the reads still to
/// come. Written from docs/formats.md ("Storage") alone; it shares nothing with the replay that plans are made with
/// (footprint.hpp), so that each can find the other's mistakes.
#pragma once

#include <echo/analysis/verify/checked_figures.hpp>
#include <echo/analysis/verify/copy_reads.hpp>
#include <echo/analysis/verify/resolved_steps.hpp>
#include <echo/analysis/verify/result_copies.hpp>
#include <echo/analysis/verify/stale_read.hpp>
#include <echo/error.hpp>
#include <echo/graph/snapshot.hpp>
#include <echo/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace echo::detail {

/// Runs resolved steps. Snapshot and steps must outlive it.
class replay_machine {
public:
    replay_machine(const snapshot& s, const resolved_steps& r) : s_(s), r_(r), reads_(r) {}

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
            // What lies in the host's memory has no storage to be read.
            const bool reloads = r_.steps[t].kind == step_kind::reload;
            gathered_ = reloads ? std::span<const std::uint32_t>{} : reads_.gather(t);
            read_inputs();
            if (runs(t))
                place_outputs();
            else if (r_.steps[t].kind == step_kind::offload)
                check_leaves();
            else
                make(first_copy(), r_.steps[t].bytes, false, r_.steps[t].packed);
            measure();
            release();
        }
        finish();
        return std::move(f_);
    }

private:
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    bool runs(std::size_t t) const {
        return r_.steps[t].kind == step_kind::run || r_.steps[t].kind == step_kind::recompute;
    }
    std::uint32_t first_copy() const { return r_.steps[now_].first_copy; }
    checked_storage& under(std::uint32_t copy) { return f_.storages[f_.storage_of[copy]]; }
    std::uint32_t stamp() const { return now_ + 1; }

    void prepare() {
        const std::size_t copies = r_.copies.size();
        f_.storage_of.assign(copies, none);
        f_.storages.reserve(copies);
        f_.makes_resident.assign(s_.node_count());
        f_.writes_resident.assign(s_.node_count());
        read_counts_ = reads_.counts();
        results_ = result_copies(s_, r_);
        is_result_.assign(copies, 0);
        for (const auto copy : results_) is_result_[copy] = 1;
    }

    /// The stash is what crosses the first backward or update step that is no view.
    void find_boundary() {
        if (boundary_ != none || !runs(now_)) return;
        const node_record& node = s_[r_.steps[now_].node];
        if ((node.phase == phase::backward || node.phase == phase::update) && node.kind != op_kind::view)
            boundary_ = now_;
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
            const std::uint32_t over = f_.storage_of[reads_.named(now_)[value.inplace]];
            if (over != none && f_.storages[over].resident) f_.writes_resident[n] = 1;
        }
        measure();
    }

    /// Storages leave as a whole, and none that is resident.
    void check_leaves() {
        const checked_storage& storage = under(gathered_[0]);
        const std::uint64_t bytes = r_.steps[now_].bytes;
        const auto refuse = [&](const char* key, const std::string& problem) {
            throw error(s_.name(r_.steps[now_].node), step_key(now_) + key, problem,
                        "move whole storages that are not resident");
        };
        if (storage.resident) refuse(".offload", "leaves, though it lies on resident storage");
        if (bytes != storage.bytes)
            refuse(".bytes",
                   "is " + std::to_string(bytes) + ", but the storage has " + std::to_string(storage.bytes));
    }

    /// Whether its storage was written over after the copy was made.
    bool stale(std::uint32_t copy) { return under(copy).written > reads_.maker(copy) + 1; }
    stale_copy written_over(std::uint32_t copy) { return {copy, under(copy).written - 1}; }

    void read_inputs() {
        for (const auto copy : gathered_) {
            if (stale(copy)) refuse_stale_read(s_, r_, written_over(copy), now_);
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
        const auto inputs = reads_.named(now_);
        for (const auto v : s_.outputs(n))
            if (s_[v].view_of != no_input) under(inputs[s_[v].view_of]).bound_stamp = stamp();
        for (std::uint32_t copy = first_copy(); const auto v : s_.outputs(n)) {
            const value_record& value = s_[v];
            if (value.view_of != no_input) {
                put(copy, f_.storage_of[inputs[value.view_of]]);
            } else if (value.inplace != no_input && !reads_.is_fused(inputs[value.inplace]) &&
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

    /// Whether an output of so many bytes takes this storage of an input. The step's own reads are counted
    /// already, so the reads left are those of later steps.
    bool takes(const checked_storage& target, std::uint64_t bytes) const {
        if (target.resident) return true;
        return target.reads_left == 0 && !target.holds_result && target.bytes >= bytes &&
               target.positions == 1 && !target.encoded && target.bound_stamp != stamp();
    }

    void put(std::uint32_t copy, std::uint32_t on) {
        f_.storage_of[copy] = on;
        f_.storages[on].reads_left += read_counts_[copy];
        if (is_result_[copy]) f_.storages[on].holds_result = true;
    }

    void make(std::uint32_t copy, std::uint64_t bytes, bool resident, bool encoded) {
        f_.storages.push_back({.bytes = bytes, .first = now_, .resident = resident, .encoded = encoded});
        put(copy, static_cast<std::uint32_t>(f_.storages.size() - 1));
        (resident ? f_.resident_bytes : live_) = sum(resident ? f_.resident_bytes : live_, bytes);
    }

    void measure() {
        const std::uint64_t workspace = runs(now_) ? s_[r_.steps[now_].node].workspace : 0;
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
        for (std::uint32_t c = first_copy(); c < r_.steps[now_ + 1].first_copy; ++c)
            if (f_.storage_of[c] != none) release(under(c));
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
            if (stale(copy)) refuse_stale_result(s_, r_, written_over(copy));
    }

    const snapshot& s_;
    const resolved_steps& r_;
    copy_reads reads_;
    checked_figures f_;
    std::vector<std::uint32_t> read_counts_;  ///< by copy: how often it is read in all
    std::span<const std::uint32_t> gathered_; ///< the copies whose bytes the step reads, some more than once
    std::vector<std::uint8_t> is_result_;     ///< by copy
    std::vector<std::uint32_t> results_;      ///< copies that are graph outputs
    std::uint64_t live_ = 0;
    std::uint32_t now_ = 0, boundary_ = none;
};

} // namespace echo::detail
