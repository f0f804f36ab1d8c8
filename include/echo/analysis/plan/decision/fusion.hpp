// SPDX-License-Identifier: BSL-1.0
/// @file
/// `fuser`: of the recomputes of a plan, which the host recomputes inside their readers. Such a step takes no time and
/// no memory; in turn what it reads must live until its last reader has run. Steps are taken in execution order, so
/// that chains grow from what they start with, and each is fused if that is legal (fusable.hpp), stays within
/// `fusion_limits`, moves no more bytes than before and leaves the peak where it is.
///
/// Legal means besides: whoever reads the step is a reader as fusable.hpp has it, or is fused too; views of what it
/// makes are fused with it; nothing packs it; and nothing writes over what it reads before the last of its readers has
/// run. The loads kept here are never below the true ones, so the replay finds no higher peak.
///
/// A first run cannot be fused. But gradients often read what an op made through a view that serves them alone, a
/// `detach`, and runs late. It runs right after what it looks at then, where it holds nothing, and what was its first
/// run is a recompute.
#pragma once

#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/analysis/schedule/footprint.hpp>
#include <echo/analysis/schedule/load_profile.hpp>
#include <echo/analysis/schedule/read_walk.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace echo {

/// Snapshot and candidates must outlive it; scratch memory is kept between uses.
/// A template so that only files that make plans compile it.
template <class = void>
class fuser {
public:
    fuser(const snapshot& s, const candidates& c, fusion_limits limits = {})
        : s_(s), c_(c), limits_(limits) {}

    /// Marks steps as fused; none is yet. `last`: these very steps replayed. Returns how many are fused. First runs
    /// of views may be put in: `origins` says where.
    /// O(steps + reads + recomputes × log steps), and as often again as passes find something, at most three.
    std::size_t operator()(schedule& steps, const replayed& last) {
        steps_ = &steps;
        live_ = &last.live;
        load_profile profile(last.load());
        profile_ = &profile;
        most_ = profile.most();
        find_readers();
        find_writes();
        last_.resize(live_->storage_count());
        for (const auto i : live_->storages()) last_[i] = (*live_)[i].last;
        for (int pass = 0; pass < 3; ++pass) {
            const std::size_t before = steps.fused_count();
            for (const auto t : steps.steps())
                if (is_candidate(t)) try_fuse(t);
            if (steps.fused_count() == before) break;
        }
        hoist();
        return steps.fused_count();
    }

    /// By step as they stand after the last use: the number it had before, or that of the one it was put in behind.
    std::span<const step_id> origins() const noexcept { return origins_; }

private:
    struct overwrite {
        storage_id on;
        step_id by;
        friend auto operator<=>(const overwrite&, const overwrite&) = default;
    };
    struct view {
        node_id of, node;
        friend auto operator<=>(const view&, const view&) = default;
    };
    struct stay {
        storage_id what;
        step_id until; ///< before
    };

    bool is_candidate(step_id t) const {
        const step_record& step = (*steps_)[t];
        return step.kind == step_kind::recompute && !step.fused && c_.fusion.fusable[step.node] &&
               s_[step.node].kind == op_kind::light;
    }

    std::span<const step_id> readers(step_id t) const { return readers_[t]; }
    void find_readers() {
        readers_.begin(steps_->size());
        for (const auto t : steps_->steps())
            for (const auto c : steps_->inputs(t)) readers_.count(c.step);
        readers_.lay_out();
        for (const auto t : steps_->steps())
            for (const auto c : steps_->inputs(t)) readers_.add(c.step, t);
    }

    /// Writes in place: copies that are no views and lie on what another step made.
    void find_writes() {
        writes_.clear();
        for (const auto t : steps_->steps()) {
            if ((*steps_)[t].kind == step_kind::encode) continue;
            for (std::uint32_t k = 0; const auto v : s_.outputs((*steps_)[t].node)) {
                const storage_id on = live_->storage({t, k++});
                if (s_[v].view_of == no_input && (*live_)[on].maker.step != t) writes_.push_back({on, t});
            }
        }
        std::sort(writes_.begin(), writes_.end());
    }
    /// The first write on the storage behind step `from`, or none.
    step_id next_write(storage_id on, step_id from) const {
        const auto w = std::upper_bound(writes_.begin(), writes_.end(), overwrite{on, from});
        return w != writes_.end() && w->on == on ? w->by : step_id::none();
    }

    bool try_fuse(step_id t) {
        if (!gather(t)) return false;
        for (const step_id g : group_) steps_->fuse(g);
        if (within_limits(t) && extend(t)) return true;
        for (const step_id g : group_) steps_->fuse(g, false);
        return false;
    }

    /// The step with the views of what it makes, and the steps inside which they would be recomputed.
    bool gather(step_id t) {
        group_.assign(1, t);
        real_.clear();
        for (std::size_t i = 0; i < group_.size(); ++i) {
            for (const step_id r : readers(group_[i])) {
                if (std::find(group_.begin(), group_.end(), r) != group_.end()) continue;
                if (!takes_in(r, group_[i])) return false;
                if (is_view_of(r, group_[i])) {
                    if (group_.size() > limits_.readers) return false;
                    group_.push_back(r);
                } else if (!add_real(r)) {
                    return false;
                }
            }
        }
        return !real_.empty();
    }

    bool is_view_of(step_id r, step_id base) const {
        for (const auto v : s_.outputs((*steps_)[r].node))
            if (s_[v].view_of != no_input && steps_->inputs(r)[s_[v].view_of].step == base) return true;
        return false;
    }

    bool takes_in(step_id r, step_id made) const {
        const step_record& step = (*steps_)[r];
        const node_id n = step.node;
        if (step.kind == step_kind::encode) return false;
        if (is_view_of(r, made))
            return c_.fusion.fusable[n] && (step.kind == step_kind::recompute || may_run_early(step.node));
        if (!c_.fusion.reader[n]) return false;
        for (const copy_id c : steps_->inputs(r))
            if (c.step == made && s_[s_.output((*steps_)[made].node, c.output)].elements < c_.fusion.work[n])
                return false;
        return true;
    }

    /// Whether the view could as well run right after what it looks at.
    bool may_run_early(node_id n) const {
        return c_.hoistable[n] || (c_.movable[n] && s_.control(n).empty());
    }

    /// Adds the steps inside which `r` is recomputed, or itself, to `real_`. False if they are too many.
    bool add_real(step_id r) {
        up_.assign(1, r);
        while (!up_.empty()) {
            const step_id u = up_.back();
            up_.pop_back();
            if ((*steps_)[u].fused) {
                up_.insert(up_.end(), readers(u).begin(), readers(u).end());
                if (up_.size() > limits_.readers * limits_.inside) return false;
            } else if (std::find(real_.begin(), real_.end(), u) == real_.end()) {
                if (real_.size() == limits_.readers) return false;
                real_.push_back(u);
            }
        }
        return true;
    }

    /// Of the group, marked as fused, whose readers are `real_`.
    bool within_limits(step_id t) {
        const auto real = real_;
        for (const step_id r : real) {
            const node_id reader = (*steps_)[r].node;
            std::size_t light = 0, keys = s_[reader].rerun == rerun_kind::seeded;
            for (const step_id inner : walk_.inside(*steps_, r)) {
                const node_record& node = s_[(*steps_)[inner].node];
                light += node.kind == op_kind::light;
                keys += node.rerun == rerun_kind::seeded;
            }
            if (light > limits_.inside) return false;
            read_in_truth(r);
            if (read_.size() + s_.outputs(reader).size() + keys > limits_.tensors) return false;
        }
        // What was recomputed inside `t` is recomputed inside its readers now.
        inner_ = walk_.inside(*steps_, t);
        inner_.push_back(t);
        return std::all_of(inner_.begin(), inner_.end(), [&](step_id i) { return moves_no_more(i); });
    }

    void read_in_truth(step_id t) {
        read_.clear();
        walk_(*steps_, t, [&](std::uint32_t, copy_id c) {
            if (std::find(read_.begin(), read_.end(), c) == read_.end()) read_.push_back(c);
        });
    }
    std::uint64_t bytes_of(copy_id c) const {
        const step_record& maker = (*steps_)[c.step];
        return maker.kind == step_kind::encode ? maker.bytes : s_[s_.output(maker.node, c.output)].bytes;
    }

    /// Each reader reads what the step reads, which the step read once, to write what they all read.
    bool moves_no_more(step_id t) {
        real_.clear();
        if (!add_real(t)) return false;
        detail::uint128 in = 0, out = 0;
        read_in_truth(t);
        for (const copy_id c : read_) in += bytes_of(c);
        for (const auto v : s_.outputs((*steps_)[t].node)) out += s_[v].bytes;
        const std::size_t count = real_.size(); // at least 1
        return s_[(*steps_)[t].node].kind == op_kind::view || (count - 1) * in <= (count + 1) * out;
    }

    /// What the group reads lives until its last reader; what the step made is not there. False, and nothing changed,
    /// if that is written over before, or if the peak would rise.
    bool extend(step_id t) {
        real_.clear();
        add_real(t);
        const step_id until = *std::max_element(real_.begin(), real_.end());
        stays_.clear();
        free_made(t, -1);
        bool fits = true;
        for (const step_id g : group_) {
            read_in_truth(g);
            for (const copy_id c : read_) fits = fits && stays(live_->storage(c), t, until);
        }
        if (fits) return true;
        for (std::size_t i = stays_.size(); i-- > 0;) {
            const auto& [what, before] = stays_[i];
            profile_->add(before.index() + 1, last_[what].index(), -bytes(what));
            last_[what] = before;
        }
        free_made(t, 1);
        return false;
    }

    std::int64_t bytes(storage_id i) const { return static_cast<std::int64_t>((*live_)[i].bytes); }

    bool stays(storage_id what, step_id from, step_id until) {
        const step_id write = next_write(what, from);
        if (write.valid() && write <= until) return false;
        step_id& last = last_[what];
        if ((*live_)[what].resident || last >= until) return true;
        const std::size_t first = last.index() + 1;
        profile_->add(first, until.index(), bytes(what));
        stays_.push_back({what, last});
        last = until;
        return profile_->most(first, until.index()) <= most_;
    }

    /// Whoever wrote over what the step made has storage of its own then.
    void free_made(step_id t, std::int64_t sign) {
        for (std::uint32_t k = 0; k < s_.outputs((*steps_)[t].node).size(); ++k) {
            const storage_id i = live_->storage({t, k});
            if ((*live_)[i].maker.step != t) continue;
            const step_id write = next_write(i, t);
            const std::size_t end = write.valid() ? write.index() - 1 : last_[i].index();
            profile_->add(t.index(), end, sign * bytes(i));
        }
    }

    /// Views that are fused, but run there for the first time, run behind the first run of what they look at.
    void hoist() {
        hoisted_.clear();
        origins_.clear();
        for (const auto t : steps_->steps()) {
            const step_record& step = (*steps_)[t];
            origins_.push_back(t);
            if (step.fused && step.kind == step_kind::run)
                hoisted_.push_back({s_[s_.inputs(step.node)[0]].producer, step.node});
        }
        if (hoisted_.empty()) return;
        std::sort(hoisted_.begin(), hoisted_.end());
        origins_.clear();
        rewritten_.clear();
        number_.assign(steps_->size(), step_id::none());
        for (const auto t : steps_->steps()) {
            step_record step = (*steps_)[t];
            const bool first = step.kind == step_kind::run && !step.fused;
            if (step.fused) step.kind = step_kind::recompute;
            number_[t] = rewritten_.add(step);
            for (const copy_id c : steps_->inputs(t)) rewritten_.read({number_[c.step], c.output});
            origins_.push_back(t);
            if (first) run_views(step.node, number_[t], t);
        }
        std::swap(*steps_, rewritten_);
    }

    void run_views(node_id base, step_id made, step_id origin) {
        views_.assign(1, {base, made});
        while (!views_.empty()) {
            const auto [looked_at, run] = views_.back();
            views_.pop_back();
            auto h = std::lower_bound(hoisted_.begin(), hoisted_.end(), view{looked_at, node_id(0)});
            for (; h != hoisted_.end() && h->of == looked_at; ++h) {
                const step_id t = rewritten_.add({.node = h->node});
                rewritten_.read({run, s_.output_index(s_.inputs(h->node)[0])});
                origins_.push_back(origin);
                views_.emplace_back(h->node, t);
            }
        }
    }

    const snapshot& s_;
    const candidates& c_;
    fusion_limits limits_;
    schedule* steps_ = nullptr;
    const liveness* live_ = nullptr; // of the steps, nothing being fused
    load_profile* profile_ = nullptr;
    std::int64_t most_ = 0;
    id_lists<step_id, step_id> readers_;  // by step: those that read it, some more than once, in order
    std::vector<overwrite> writes_;       // sorted
    id_vector<storage_id, step_id> last_; // storage: live up to there
    read_walk walk_;
    std::vector<step_id> group_, real_, inner_, up_;
    std::vector<copy_id> read_;
    std::vector<stay> stays_;
    std::vector<view> hoisted_; // sorted
    std::vector<std::pair<node_id, step_id>> views_;
    schedule rewritten_;
    id_vector<step_id, step_id> number_;
    std::vector<step_id> origins_;
};

} // namespace echo
