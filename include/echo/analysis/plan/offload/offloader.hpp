// SPDX-License-Identifier: BSL-1.0
/// @file
/// `offloader`: moves storages of a plan out of the way while nothing uses them, as far as the link carries them.
#pragma once

#include <echo/analysis/plan/decision/candidates.hpp>
#include <echo/analysis/plan/offload/absences.hpp>
#include <echo/analysis/plan/offload/busy_times.hpp>
#include <echo/analysis/plan/offload/copy_clocks.hpp>
#include <echo/analysis/plan/offload/copy_times.hpp>
#include <echo/analysis/plan/offload/link.hpp>
#include <echo/analysis/plan/offload/moved_steps.hpp>
#include <echo/analysis/schedule/footprint.hpp>
#include <echo/analysis/schedule/load_profile.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace echo::detail {

namespace tuning {
/// A storage of less than this part of the peak stays: a copy of it costs the host a step and gives next to nothing.
inline constexpr std::uint64_t least_moved_part = 1 << 16;
/// Absences that are looked at for each move, of the largest storages: so much work bounds the time for a large graph.
inline constexpr std::size_t most_absences = 1 << 14;
/// Limits above a budget at which plans are searched for that moves may bring down to it.
inline constexpr std::uint64_t limits_above = 2;
/// Where recomputation looks at what moves leave, a step down is the peak over this.
inline constexpr std::uint64_t step_parts_beside = 32;
} // namespace tuning

/// A schedule with moves, and what its replay and its clocks say.
struct offloaded {
    schedule steps{};
    footprint_result footprint{};
    copy_figures copies{};
    std::vector<move> moves{}; ///< their steps are those of the schedule without them
};

/// At the peak, what can leave and be back in time without a wait leaves, longest absences first; then what makes the
/// computation wait least for the bytes it frees, as long as there is time for it. What has left for one peak may stay
/// away longer for another, where that ends better. What turns out not to matter stays.
class offloader {
public:
    /// All must outlive it. Errors: a link without rates.
    offloader(const snapshot& s, const candidates& c, const link_model& link)
        : s_(s), c_(c), link_(link), copying_(link, c.times.exponent), find_(s, c) {}

    /// Never a higher peak than that of `steps`. It ends below `target` bytes, and waits no longer than `most_stall`.
    /// O(moves × absences + steps log steps), with a limit on the absences; those that are away already are passed over
    /// by blocks.
    [[nodiscard]] offloaded operator()(const schedule& steps, std::uint64_t target, ticks most_stall) {
        const replayed own = replay{}(s_, steps);
        offloaded best = lowered(steps, own, target, most_stall, true);
        if (std::ranges::find(is_longer_, true) == is_longer_.end()) return best;
        offloaded other = lowered(steps, own, target, most_stall, false);
        const auto key = [&](const offloaded& of) {
            return std::pair(std::max(of.footprint.peak_bytes, target), of.copies.stall);
        };
        return key(other) < key(best) ? std::move(other) : std::move(best);
    }

private:
    /// An absence at a peak, and how it travels: where the computation waits, and for how long.
    struct option {
        std::size_t absence = 0;
        ticks out_from = 0, out_takes = 0, in_from = 0, in_takes = 0;
        ticks out_stall = 0, in_stall = 0;
        bool longer = false; ///< it is away already, but not at this peak
        ticks stall() const { return out_stall + in_stall; }
    };

    /// Steps between which an absence is no option: it is away there already, or cannot be.
    struct settled {
        std::size_t from = none, to = 0;
        bool holds(std::size_t step) const { return from <= step && step < to; }
    };

    /// `longer`: what has left may stay away longer.
    offloaded lowered(const schedule& steps, const replayed& own, std::uint64_t target, ticks most_stall,
                      bool longer) {
        begin(steps, own);
        is_longest_.assign(absences_.size(), !longer);
        load_profile load(own.load());
        while (static_cast<std::uint64_t>(load.most()) > target) {
            const auto best = find_best(load.peak(), most_stall - stalled_);
            if (!best) break;
            carry_out(*best, load);
        }
        stay(load, target);
        offloaded moved = write();
        moved.copies = replay_copies(moved.steps, c_.times, link_);
        if (moved.footprint.peak_bytes < own.footprint.peak_bytes && moved.copies.stall <= most_stall &&
            moved.copies.host_bytes <= link_.host_bytes) {
            moved.moves = moves_;
            return moved;
        }
        return {.steps = steps, .footprint = own.footprint};
    }

    void begin(const schedule& steps, const replayed& own) {
        steps_ = &steps;
        const std::uint64_t least = own.footprint.peak_bytes / tuning::least_moved_part + 1;
        absences_ = find_(steps, own.live, least);
        moves_.clear();
        on_host_.clear();
        out_.clear();
        in_.clear();
        stalled_ = 0;
        host_bytes_ = 0;
        begin_.assign(steps.size() + 1, 0);
        arrive_ = begin_;
        for (std::size_t i = 0; const auto t : steps.steps()) {
            const bool runs = runs_node(steps[t].kind) && !steps[t].fused;
            arrive_[i + 1] = begin_[i + 1] = begin_[i] + (runs ? c_.times.of_node[steps[t].node] : 0);
            ++i;
        }
        order_absences();
        move_of_.assign(absences_.size(), none);
        is_longer_.assign(absences_.size(), false);
        settled_.assign(absences_.size(), {});
        block_settled_.assign(absences_.size() / block + 1, {});
    }
    /// The largest, as many as are looked at; the longest first.
    void order_absences() {
        if (absences_.size() > tuning::most_absences) {
            std::ranges::stable_sort(absences_, std::ranges::greater{}, &absence::bytes);
            absences_.resize(tuning::most_absences);
        }
        std::ranges::stable_sort(absences_, std::ranges::greater{}, [&](const absence& a) {
            return at(a.used_next) - at(a.used_before.next());
        });
    }
    /// When the computation comes to step `t`, and begins it unless it waits.
    ticks arrival(step_id t) const { return *(arrive_.begin() + t.index()); }
    ticks at(step_id t) const { return *(begin_.begin() + t.index()); }
    /// The schedule with the moves, but those whose storage has another size there: where what is written in place has
    /// found another place.
    offloaded write() {
        for (;;) {
            step_mover mover(s_, *steps_);
            offloaded moved{.steps = mover(moves_)};
            const replayed found = replay_(s_, moved.steps);
            moved.footprint = found.footprint;
            const auto is_another = [&](const move& m) {
                const copy_id source = moved.steps.inputs(mover.left_by(m.of.content))[0];
                return found.live[found.live.storage(source)].bytes != m.of.bytes;
            };
            if (std::erase_if(moves_, is_another) == 0) return moved;
        }
    }

    busy_times& way_in() { return link_.both_ways ? in_ : out_; }
    const busy_times& way_in() const { return link_.both_ways ? in_ : out_; }

    /// The best of what could be away at step `peak`, if anything could.
    std::optional<option> find_best(std::size_t peak, ticks most_stall) {
        std::optional<option> best;
        for (std::size_t i = 0; i < absences_.size(); ++i) {
            if (i % block == 0 && block_settled_[i / block].holds(peak)) {
                i += block - 1;
                continue;
            }
            const absence& a = absences_[i];
            if (settled_[i].holds(peak) || a.used_before.index() >= peak || a.used_next.index() <= peak)
                continue;
            const bool is_new = move_of_[i] == none;
            if (is_new && host_bytes_ + a.bytes > link_.host_bytes) continue;
            const option o = is_new ? schedule_copies(i, step_id(peak)) : stay_away(i, step_id(peak));
            if (o.stall() == 0) return o; // those to come are shorter
            if (o.stall() <= most_stall && (!best || is_better(o, *best))) best = o;
        }
        return best;
    }
    bool is_better(const option& a, const option& b) const {
        const absence &of_a = absences_[a.absence], &of_b = absences_[b.absence];
        return product(a.stall(), of_b.bytes) < product(b.stall(), of_a.bytes);
    }
    option schedule_copies(std::size_t i, step_id peak) const {
        const absence& a = absences_[i];
        option o{.absence = i};
        const bool is_there = std::ranges::binary_search(on_host_, a.content);
        o.out_takes = is_there ? 0 : copying_.out(a.bytes);
        o.in_takes = copying_.in(a.bytes);
        const ticks made = at(a.content.step.next());
        o.out_from = is_there ? at(a.used_before.next()) : out_.earliest(made, o.out_takes);
        o.out_stall = std::max<ticks>(0, o.out_from + o.out_takes - at(peak));
        come_back(o, peak);
        return o;
    }
    /// As late as it is not waited for, but behind the peak.
    void come_back(option& o, step_id peak) const {
        // Behind the peak, the copy out has ended, or what is there waits for it: one engine is free of it.
        const ticks soonest = arrival(peak.next()), next = at(absences_[o.absence].used_next);
        o.in_from = way_in().latest(next, o.in_takes);
        if (o.in_from < soonest) {
            o.in_from = way_in().earliest(soonest, o.in_takes);
            o.in_stall = std::max<ticks>(0, o.in_from + o.in_takes - next);
        }
        o.in_from += o.out_stall; // all that is behind the peak waits as well
    }
    static bool is_away(const move& m, step_id at) { return m.gone <= at && at < m.back; }
    /// What moves already is away at this peak as well: the computation waits for its copy before it, or it comes back
    /// behind it.
    option stay_away(std::size_t i, step_id peak) {
        const move& m = moves_[move_of_[i]];
        option o{.absence = i,
                 .out_from = m.out_from,
                 .out_takes = m.out_takes,
                 .in_takes = m.in_takes,
                 .longer = true};
        if (peak < m.gone) o.out_stall = std::max<ticks>(0, o.out_from + o.out_takes - at(peak));
        way_in().give_back(m.in_from, m.in_takes);
        come_back(o, peak);
        way_in().take(m.in_from, m.in_takes);
        return o;
    }

    void carry_out(const option& o, load_profile& load) {
        const absence& a = absences_[o.absence];
        const auto place = std::ranges::lower_bound(on_host_, a.content);
        if (place == on_host_.end() || *place != a.content) {
            on_host_.insert(place, a.content);
            host_bytes_ += a.bytes;
        }
        const step_id peak(load.peak());
        if (o.out_stall > 0) wait(peak, o.out_stall);
        if (o.in_stall > 0) wait(a.used_next, o.in_stall);
        move made{.of = a,
                  .out_from = o.out_from,
                  .in_from = o.in_from,
                  .out_takes = o.out_takes,
                  .in_takes = o.in_takes};
        place_steps(made);
        if (o.longer) {
            is_longer_[o.absence] = true;
            move& before = moves_[move_of_[o.absence]];
            is_longest_[o.absence] =
                !is_away(made, peak) || made.gone > before.gone || made.back < before.back;
            change(load, before, 1);
            before = std::move(made);
        } else {
            move_of_[o.absence] = moves_.size();
            moves_.push_back(std::move(made));
        }
        if (o.longer || o.stall() > 0) {
            take_all();
        } else {
            out_.take(o.out_from, o.out_takes);
            way_in().take(o.in_from, o.in_takes);
        }
        change(load, moves_[move_of_[o.absence]], -1);
        settle(o.absence);
    }
    /// It has moved: it is an option where it is not away, unless it cannot be away longer.
    void settle(std::size_t i) {
        const move& m = moves_[move_of_[i]];
        settled_[i] = is_longest_[i] ? settled{0, none} : settled{m.gone.index(), m.back.index()};
        settled all{0, none};
        const std::size_t first = i / block * block, end = std::min(first + block, absences_.size());
        for (std::size_t k = first; k < end; ++k) {
            all.from = std::max(all.from, settled_[k].from);
            all.to = std::min(all.to, settled_[k].to);
        }
        block_settled_[i / block] = all;
    }

    /// The computation waits before step `t`; so does what was to travel from then on.
    void wait(step_id t, ticks by) {
        const ticks from = at(t);
        stalled_ += by;
        for (auto each = begin_.begin() + t.index(); each != begin_.end(); ++each) *each += by;
        for (auto each = arrive_.begin() + t.index() + 1; each != arrive_.end(); ++each) *each += by;
        for (move& m : moves_) {
            if (m.out_from >= from) m.out_from += by;
            if (m.in_from >= from) m.in_from += by;
        }
    }
    void take_all() {
        out_.clear();
        in_.clear();
        for (const move& m : moves_) {
            out_.take(m.out_from, m.out_takes);
            way_in().take(m.in_from, m.in_takes);
        }
    }

    /// The first step that begins when the copy has left, and the last that is come to before it has to come back.
    void place_steps(move& m) const {
        const auto first = static_cast<std::ptrdiff_t>(m.of.used_before.index()) + 1;
        const auto last = static_cast<std::ptrdiff_t>(m.of.used_next.index());
        const auto gone =
            std::lower_bound(begin_.begin() + first, begin_.begin() + last, m.out_from + m.out_takes);
        m.gone = step_id(static_cast<std::size_t>(gone - begin_.begin()));
        const auto back = std::upper_bound(arrive_.begin() + first, arrive_.begin() + last + 1, m.in_from);
        m.back = std::max(m.gone, step_id(static_cast<std::size_t>(back - arrive_.begin()) - 1));
    }
    static void change(load_profile& load, const move& m, std::int64_t sign) {
        if (m.gone < m.back)
            load.add(m.gone.index(), m.back.index() - 1, sign * static_cast<std::int64_t>(m.of.bytes));
    }

    /// What was moved first and could have stayed without a higher peak, stays.
    void stay(load_profile& load, std::uint64_t target) {
        const auto peak = std::max(load.most(), static_cast<std::int64_t>(std::min(target, most_load)));
        std::vector<copy_id> contents;
        for (const move& m : moves_) contents.push_back(m.of.content);
        std::ranges::sort(contents);
        const auto stays = [&](const move& m) {
            const bool shared = std::ranges::equal_range(contents, m.of.content).size() > 1;
            if (shared || m.gone >= m.back) return false;
            const auto most = load.most(m.gone.index(), m.back.index() - 1);
            if (most + static_cast<std::int64_t>(m.of.bytes) > peak) return false;
            change(load, m, 1);
            return true;
        };
        std::ranges::reverse(moves_);
        std::erase_if(moves_, stays);
        std::ranges::reverse(moves_);
        for (move& m : moves_) place_steps(m);
    }

    static constexpr std::size_t none = static_cast<std::size_t>(-1);
    static constexpr std::size_t block = 64; ///< absences that are passed over together
    static constexpr std::uint64_t most_load = std::uint64_t{1} << 61;

    const snapshot& s_;
    const candidates& c_;
    const link_model& link_;
    copy_times copying_;
    absence_finder find_;
    replay replay_;
    const schedule* steps_ = nullptr;
    std::vector<absence> absences_;
    std::vector<move> moves_;
    std::vector<std::size_t> move_of_;   ///< by absence, as a position in `moves_`; or none
    std::vector<bool> is_longest_;       ///< by absence: it cannot be away longer
    std::vector<bool> is_longer_;        ///< by absence: it was made to be
    std::vector<settled> settled_;       ///< by absence
    std::vector<settled> block_settled_; ///< by block: where all of its absences are
    std::vector<copy_id> on_host_;       ///< what leaves, ascending
    std::vector<ticks> begin_;           ///< of each step, waits included; and of the end
    std::vector<ticks> arrive_;          ///< likewise, of the wait before it
    busy_times out_, in_;
    ticks stalled_ = 0;
    std::uint64_t host_bytes_ = 0;
};

} // namespace echo::detail
