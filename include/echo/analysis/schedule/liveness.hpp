// SPDX-License-Identifier: BSL-1.0
/// @file
/// Storages of a schedule and the steps during which each is live: views, in-place writes and residents
/// resolved in step order, as docs/formats.md defines them (section "Storage").
#pragma once

#include <echo/analysis/schedule/copy_ends.hpp>
#include <echo/analysis/schedule/read_walk.hpp>
#include <echo/analysis/schedule/schedule.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace echo {

/// One storage. Live from step `first` to step `last`, both included.
struct storage_record {
    /// Of the storage.
    std::uint64_t bytes = 0;
    /// Steps, both included.
    step_id first{}, last{};
    step_id last_read{}; ///< the last step that reads any value on it; `none()` if no step does
    copy_id maker{};     ///< the copy that made it; its node and output decide whether it is resident
    /// Its maker lies on resident storage: it lives throughout.
    bool resident = false;
    bool holds_result = false; ///< a graph output lies on it: live to the end
    bool encoded = false;      ///< made by an encode step, or brought back from one that was
};

/// Which storage each copy of a schedule lies on.
class liveness {
public:
    /// How many storages there are. O(1).
    std::size_t storage_count() const noexcept { return storages_.size(); }
    /// All storages, by their makers. O(1).
    id_range<storage_id> storages() const noexcept { return {0, storages_.size()}; }
    /// What is known of a storage. O(1).
    const storage_record& operator[](storage_id s) const { return storages_[s]; }
    /// `storage_id::none()` for what a fused step makes, and for what lies in the host's memory.
    storage_id storage(copy_id c) const { return of_copy_[first_copy_[c.step] + c.output]; }
    /// How many outputs all steps have together. O(1).
    std::size_t copy_count() const noexcept { return of_copy_.size(); }
    /// Position of a copy among all copies, in step order: an index for side tables.
    std::size_t copy_index(copy_id c) const { return first_copy_[c.step] + c.output; }
    /// The last step that reads the copy, itself or through fused steps; `step_id::none()` if no step does.
    step_id last_read(copy_id c) const { return last_read_[copy_index(c)]; }
    /// The last step at which the copy, which is no view, is in its storage: the step that writes another over it in
    /// place, if there is one, or else the storage's last. Writes on resident storage do not count. O(1).
    step_id last_held(copy_id c) const {
        const auto at = copy_index(c);
        const step_id end = ends_[at];
        return end.valid() ? end : storages_[of_copy_[at]].last;
    }

    friend class liveness_analysis;

private:
    void write_over(storage_id i, copy_id made) {
        ends_.write(i, copy_index(storages_[i].maker), copy_index(made), made.step);
    }

    id_vector<storage_id, storage_record> storages_;
    detail::large_vector<storage_id> of_copy_;
    id_vector<step_id, std::uint32_t> first_copy_;
    detail::large_vector<step_id> last_read_;
    detail::copy_ends ends_;
};

namespace detail {

[[noreturn]] inline void refuse_fused(const snapshot& s, const schedule& steps, step_id t, const char* key,
                                      const std::string& what) {
    throw error(s.name(steps[t].node), key, "what a fused step makes " + what, "do not fuse that step");
}

[[noreturn]] inline void refuse_overwritten(const snapshot& s, const schedule& steps, copy_id c,
                                            const std::string& problem) {
    throw error(s.name(steps[c.step].node), "inplace", problem, "read the value before it is overwritten");
}

} // namespace detail

/// One pass forwards over the steps. Reusable: scratch memory is kept between calls.
class liveness_analysis {
public:
    /// Errors: a value is read, or is a graph output, after a step wrote over its storage in place (the
    /// graph's own order is then wrong); what a fused step makes is a graph output, is packed, or has a view that is
    /// not fused. O(steps + copies), and what is read through fused steps.
    [[nodiscard]] liveness operator()(const snapshot& s, const schedule& steps) {
        liveness live;
        (*this)(s, steps, live);
        return live;
    }
    /// The same into `live`, whose memory is used again.
    void operator()(const snapshot& s, const schedule& steps, liveness& live) {
        std::swap(live_, live); // worked on here, and given back below
        analyse(s, steps);
        std::swap(live_, live);
    }

private:
    void analyse(const snapshot& s, const schedule& steps) {
        index_copies(s, steps);
        find_last_reads(s, steps);
        auto& storages = live_.storages_;
        storages.clear();
        written_.clear();
        live_.ends_.clear();
        for (const auto t : steps.steps()) {
            if (steps[t].fused) continue; // its readers read its inputs
            if (!written_.empty()) check_reads(s, steps, t);
            if (runs_node(steps[t].kind))
                run(s, steps, t);
            else
                move(s, steps, t);
        }
        const step_id end(steps.empty() ? 0 : steps.size() - 1);
        for (const storage_id i : storages.ids()) {
            storage_record& storage = storages[i];
            if (storage.last_read.valid()) storage.last = std::max(storage.last, storage.last_read);
            if (storage.holds_result) storage.last = end;
        }
        for (const auto v : s.results())
            if (const copy_id c{last_copy_[s[v].producer], s.output_index(v)};
                c.step.valid() && overwritten(c))
                detail::refuse_overwritten(s, steps, c, "a graph output is written over in place");
    }

    void index_copies(const snapshot& s, const schedule& steps) {
        auto& first = live_.first_copy_;
        first.resize(steps.size());
        last_copy_.assign(s.node_count(), step_id::none());
        std::uint32_t copies = 0;
        for (const auto t : steps.steps()) {
            first[t] = copies;
            copies += static_cast<std::uint32_t>(copy_count(s, steps[t]));
            if (runs_node(steps[t].kind)) last_copy_[steps[t].node] = t;
        }
        live_.storages_.reserve(copies); // growing would take twice as much
        live_.of_copy_.assign(copies, storage_id::none());
        live_.last_read_.assign(copies, step_id::none());
        is_result_.assign(copies, 0);
    }

    void find_last_reads(const snapshot& s, const schedule& steps) {
        for (const auto t : steps.steps())
            if (!steps[t].fused)
                for (const auto c : steps.inputs(t)) live_.last_read_[live_.copy_index(c)] = t;
        if (steps.fused_count() > 0) find_reads_through(s, steps);
        for (const auto v : s.results())
            if (const auto t = last_copy_[s[v].producer]; t.valid()) {
                if (steps[t].fused) detail::refuse_fused(s, steps, t, "outputs", "is a graph output");
                is_result_[live_.copy_index({t, s.output_index(v)})] = 1;
            }
    }

    /// What a fused step reads is read when its own readers run. They stand behind it.
    void find_reads_through(const snapshot& s, const schedule& steps) {
        for (std::size_t i = steps.size(); i-- > 0;) {
            const step_id t(i);
            if (!steps[t].fused) continue;
            step_id last = step_id::none();
            for (std::uint32_t k = 0; k < copy_count(s, steps[t]); ++k)
                if (const step_id read = live_.last_read({t, k});
                    read.valid() && (!last.valid() || read > last))
                    last = read;
            if (!last.valid()) continue;
            for (const auto c : steps.inputs(t)) {
                step_id& read = live_.last_read_[live_.copy_index(c)];
                if (!read.valid() || last > read) read = last;
            }
        }
    }

    /// A step after the one that made the copy has written on its storage.
    bool overwritten(copy_id c) const {
        const storage_id i = live_.storage(c);
        if (i.index() >= written_.size()) return false;
        const step_id write = written_[i];
        return write.valid() && write > c.step;
    }

    void check_reads(const snapshot& s, const schedule& steps, step_id t) {
        walk_(steps, t, [&](std::uint32_t, copy_id c) {
            if (overwritten(c))
                detail::refuse_overwritten(s, steps, c,
                                           "read by '" + s.name(steps[t].node) + "' after a write in place");
        });
    }

    /// A step that runs no node.
    void move(const snapshot& s, const schedule& steps, step_id t) {
        const bool reloads = steps[t].kind == step_kind::reload;
        if (!reloads && steps[steps.inputs(t)[0].step].fused)
            detail::refuse_fused(s, steps, t, steps[t].kind == step_kind::encode ? "encode" : "offload",
                                 steps[t].kind == step_kind::encode ? "is packed" : "leaves");
        if (steps[t].kind != step_kind::offload)
            make({t, 0}, steps[t].bytes, false, is_encoding(steps, {t, 0}));
    }

    void run(const snapshot& s, const schedule& steps, step_id t) {
        copy_id made{t, 0};
        for (const auto v : s.outputs(steps[t].node)) {
            const value_record& value = s[v];
            if (value.view_of != no_input) {
                const storage_id base = live_.storage(steps.inputs(t)[value.view_of]);
                if (!base.valid())
                    detail::refuse_fused(s, steps, t, "view_of", "has a view that is not fused");
                lie_on(base, made);
            } else if (value.inplace != no_input && may_overwrite(s, steps, t, v)) {
                write_on(live_.storage(steps.inputs(t)[value.inplace]), made);
            } else {
                make(made, value.bytes, value.resident, false);
            }
            ++made.output;
        }
    }

    /// What is not resident is not written over while it is still to be read: see `may_overwrite`.
    void write_on(storage_id target, copy_id made) {
        lie_on(target, made);
        if (!live_.storages_[target].resident) return live_.write_over(target, made);
        written_.resize(live_.storages_.size(), step_id::none());
        written_[target] = made.step;
    }

    /// Whether output `v` of step `t` takes the storage of the input it names (the rules of docs/formats.md in
    /// their order).
    bool may_overwrite(const snapshot& s, const schedule& steps, step_id t, value_id v) {
        const auto sources = steps.inputs(t);
        const std::uint32_t k = s[v].inplace;
        const storage_id target = live_.storage(sources[k]);
        if (!target.valid()) return false; // it is recomputed inside
        const storage_record& storage = live_.storages_[target];
        if (storage.resident) return true;
        if (storage.encoded || storage.holds_result || storage.bytes < s[v].bytes) return false;
        if (storage.last_read.valid() && storage.last_read > t) return false;
        bool read_elsewhere = false;
        walk_(steps, t,
              [&](std::uint32_t i, copy_id c) { read_elsewhere |= i != k && live_.storage(c) == target; });
        if (read_elsewhere) return false;
        std::uint32_t j = 0;
        for (const auto other : s.outputs(steps[t].node)) {
            const auto made = live_.copy_index({t, j++});
            if (other == v) continue;
            if (live_.of_copy_[made] == target) return false;
            if (s[other].view_of != no_input && live_.storage(sources[s[other].view_of]) == target)
                return false;
        }
        return true;
    }

    /// The record is filled where it lies: to copy it would wait until all of its parts are written.
    void make(copy_id made, std::uint64_t bytes, bool resident, bool encoded) {
        const auto at = live_.copy_index(made);
        storage_record& storage = live_.storages_.add();
        storage.bytes = bytes;
        storage.first = storage.last = made.step;
        storage.last_read = live_.last_read_[at];
        storage.maker = made;
        storage.resident = resident;
        storage.encoded = encoded;
        storage.holds_result = is_result_[at];
        live_.of_copy_[at] = storage_id(live_.storages_.size() - 1);
    }

    void lie_on(storage_id target, copy_id made) {
        const auto at = live_.copy_index(made);
        live_.of_copy_[at] = target;
        storage_record& storage = live_.storages_[target];
        if (is_result_[at]) storage.holds_result = true;
        const step_id read = live_.last_read_[at];
        step_id& last = storage.last_read;
        if (read.valid() && (!last.valid() || read > last)) last = read;
        storage.last = std::max(storage.last, made.step);
    }

    liveness live_;
    read_walk walk_;
    /// Per resident storage: the last step that wrote on it in place. Those made behind the last such step are not in
    /// it.
    id_vector<storage_id, step_id> written_;
    detail::large_vector<std::uint8_t> is_result_; ///< per copy
    id_vector<node_id, step_id> last_copy_;        ///< per node: the last step that runs it
};

} // namespace echo
