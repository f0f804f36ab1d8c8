// SPDX-License-Identifier: BSL-1.0
/// @file
/// `evictor`: lowers the peak of a plan to a limit. What is live at the peak without being read there is forgotten
/// and made again for its next reader, together with what its maker reads where that pays; cheapest time per byte
/// at the peak first. Only bytes at the peak count: once it has moved, so has the price.
#pragma once

#include <echo/analysis/copy_history.hpp>
#include <echo/analysis/evaluate.hpp>
#include <echo/analysis/load_profile.hpp>
#include <echo/graph/ranking.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace echo {

/// When to give up.
struct eviction_options {
    std::size_t rounds = 30; ///< replays
    ticks most =
        std::numeric_limits<ticks>::max(); ///< of recomputation; a plan beyond is not worth going on with
    bool patient = false;                  ///< goes on where the last round was too slow to arrive
    bool everywhere = true; ///< prices count all that is above the limit in a gap, not only the peak
};

/// Relieves decisions of one snapshot; scratch memory is kept between uses. A round is a replay and
/// O(steps + reads + peaks × (storages + idle storages × what making them again needs)), with at most 8 peaks.
/// A template so that only files that make plans compile it.
template <class = void>
class evictor {
public:
    explicit evictor(evaluator& evaluate) : evaluate_(evaluate), s_(evaluate.graph()), c_(evaluate.facts()) {}

    /// Nodes that must not be forgotten, or nothing. Must outlive the uses.
    void lock(std::span<const std::uint8_t> locked) { locked_ = locked; }

    /// `t` must be the last that was evaluated. Returns whether its peak is at most `limit` then, in which case it is
    /// again the last that was evaluated; if it cannot be lowered so far, `t` is the lowest that was reached.
    bool operator()(rated_decision& t, std::uint64_t limit, const eviction_options& options) {
        rated_decision best;
        std::uint64_t before = 0;
        for (std::size_t round = 0;; ++round) {
            const std::uint64_t peak = t.footprint.peak_bytes;
            if (peak <= limit) return true;
            if (round == 0 || t.better_than(best)) best = t;
            // What goes on as slowly as in the last round does not arrive.
            const std::uint64_t gained = round > 2 && before > peak ? before - peak : 0;
            const bool too_slow = round > 2 && !options.everywhere && !options.patient &&
                                  gained * (options.rounds - round) < peak - limit;
            if (round == options.rounds || too_slow || t.recompute > options.most ||
                !evict_once(t, limit, options.everywhere))
                break;
            before = peak;
            evaluate_(t);
        }
        t = std::move(best);
        return false;
    }

    /// Lowers the peak of any rated_decision towards `limit` as far as it goes, a little at a time: for a limit far below the
    /// peak, too much would be forgotten at once.
    void in_steps(rated_decision& t, std::uint64_t limit) {
        for (std::uint64_t part = 16; part <= 256;) {
            evaluate_(t);
            const std::uint64_t peak = t.footprint.peak_bytes;
            if (peak <= limit) return;
            rated_decision next = t;
            if ((*this)(next, std::max(limit, peak - peak / part - 1), {.rounds = 20, .patient = true}) ||
                next.footprint.peak_bytes < peak)
                t = std::move(next);
            else
                part *= 4;
        }
    }

    /// Forgets something that is live without being used at step `at` of `t`, the last rated_decision evaluated: of what could
    /// be forgotten there, number `which` (modulo how many there are). Returns whether there is any.
    bool forget_at(rated_decision& t, step_id at, std::size_t which) {
        begin(t);
        load_profile profile(evaluate_.last().load());
        peak_ = at;
        over_count_.clear();
        members_.clear();
        proposals_.clear();
        find_idle();
        const std::size_t pulls = proposals_.size();
        if (pulls > 0 && which % 4 == 0) return apply(proposals_[which / 4 % pulls], profile);
        return !idle_.empty() && propose(which / 4 % idle_.size(), no_excess) &&
               apply(proposals_.back(), profile);
    }

private:
    static constexpr std::int64_t no_excess = std::numeric_limits<std::int64_t>::max();

    /// A node that is forgotten. `storage`: what that frees; `from`, `to`: its last use before, the next one behind.
    struct member {
        node_id node;
        storage_id storage;
        step_id from, to;
    };
    struct proposal {
        std::size_t first, count; // in members_
        std::int64_t freed;
        bool pulls = false; // the members are made earlier rather than forgotten
    };

    bool is_locked(node_id n) const { return !locked_.empty() && locked_[n.index()]; }
    bool droppable(node_id n) const {
        const std::size_t i = n.index();
        if (is_locked(n)) return false;
        return c_.rerunnable[i] || (trial_->decided.heavy && c_.heavy_rerunnable[i]);
    }
    node_id home(step_id t) const { return evaluate_.homes()[t.index()]; }
    bool in_forward(step_id t) const { return !is_backward(s_[home(t)].phase); }

    void begin(rated_decision& t) {
        trial_ = &t;
        live_ = &evaluate_.last().live();
        history_.read(s_, c_.base, evaluate_.steps(), *live_);
        touched_.assign(s_.node_count(), 0);
        is_demanded_.resize(s_.node_count(), 0);
    }

    bool evict_once(rated_decision& t, std::uint64_t limit, bool everywhere) {
        begin(t);
        const auto load = evaluate_.last().load();
        load_profile profile(load);
        over_count_.assign(everywhere ? load.size() + 1 : 0, 0);
        over_sum_.assign(over_count_.size(), 0);
        const int bits =
            static_cast<int>(std::bit_width(t.footprint.peak_bytes) + std::bit_width(load.size()));
        over_shift_ = std::max(0, bits - 62);
        for (std::size_t i = 0; i + 1 < over_count_.size(); ++i) {
            const std::uint64_t over = load[i] > limit ? load[i] - limit : 0;
            over_count_[i + 1] = over_count_[i] + (over > 0);
            over_sum_[i + 1] = over_sum_[i] + (over >> over_shift_);
        }
        // The fewer at once, the better is known what each is worth; large graphs cannot afford a replay for each.
        left_ = s_.node_count() < 512 ? 1 : s_.node_count();
        bool changed = false;
        for (int peaks = 0; peaks < 8 && left_ > 0; ++peaks) {
            const std::int64_t excess = profile.most() - static_cast<std::int64_t>(limit);
            if (excess <= 0 || !evict_at(step_id(profile.peak()), excess, profile)) break;
            changed = true;
        }
        return changed;
    }

    bool evict_at(step_id peak, std::int64_t excess, load_profile& profile) {
        peak_ = peak;
        members_.clear();
        proposals_.clear();
        find_idle();
        ranking by_price;
        for (std::uint32_t i = 0; i < proposals_.size(); ++i) by_price.add(i, std::uint64_t{0});
        for (std::size_t i = 0; i < idle_.size(); ++i)
            if (const auto price = propose(i, excess))
                by_price.add(static_cast<std::uint32_t>(proposals_.size() - 1), *price);
        const auto order = by_price.descending();
        std::int64_t relieved = 0;
        for (std::size_t i = order.size(); i-- > 0 && relieved < excess && left_ > 0;) {
            const proposal& p = proposals_[order[i]];
            if (!apply(p, profile)) continue;
            relieved += p.freed;
            --left_;
        }
        return relieved > 0;
    }

    /// Storages that are live at the peak without being used there, and could be forgotten.
    void find_idle() {
        idle_.clear();
        idle_of_.assign(s_.node_count(), nobody);
        for (const auto i : live_->storages()) {
            const storage_record& storage = (*live_)[i];
            if (storage.first >= peak_ || storage.last <= peak_ || storage.resident || storage.encoded ||
                storage.holds_result)
                continue;
            const auto reads = history_.reads(i);
            step_id from = storage.first;
            std::size_t next = 0;
            for (; next < reads.size() && reads[next].by <= peak_; ++next) from = reads[next].by;
            if (next == reads.size() || from == peak_) continue;
            const step_id to = reads[next].by;
            const node_id content = reads[next].content;
            if (in_forward(to) || home(from) >= home(to)) continue;
            propose_pull(i, from, reads.subspan(next));
            bool one = droppable(content) || runs_late(content, i, from);
            for (; next < reads.size(); ++next) one &= reads[next].content == content;
            if (!one) continue;
            idle_of_[content.index()] = static_cast<std::uint32_t>(idle_.size());
            idle_.push_back({content, i, from, to});
        }
    }

    /// What is read only to make something again or late, and more bytes than that, need not be there: what is made of
    /// it can be made before the peak.
    void propose_pull(storage_id i, step_id from, std::span<const storage_read> reads) {
        const std::size_t first = members_.size();
        std::int64_t freed = bytes_of(i);
        for (const storage_read& read : reads) {
            const node_id n = evaluate_.steps()[read.by].node;
            if (s_[n].phase != phase::forward || s_[n].kind == op_kind::view || !ready(n, read.by, from))
                freed = 0;
            if (freed <= 0) break;
            if (is_member(n, first)) continue;
            members_.push_back({n, i, from, read.by});
            for (std::uint32_t k = 0; k < s_.outputs(n).size(); ++k)
                if (live_->last_read({read.by, k}).valid()) freed -= bytes_of(live_->storage({read.by, k}));
        }
        if (freed > 0 && members_.size() > first)
            proposals_.push_back({first, members_.size() - first, freed, true});
        else
            members_.resize(first);
    }

    /// Whether all that step `by` reads is there at step `at` already.
    bool ready(node_id n, step_id by, step_id at) const {
        for (const auto c : evaluate_.steps().inputs(by)) {
            if (evaluate_.steps()[c.step].fused) return false;
            const storage_record& storage = (*live_)[live_->storage(c)];
            if (!storage.resident && (c.step > at || storage.first > at)) return false;
        }
        return !is_locked(n);
    }

    /// Whether the node could as well run late, for the first time: then it costs nothing.
    bool runs_late(node_id n, storage_id i, step_id from) const {
        return c_.late_is_free(n) && (*live_)[i].first == from && in_forward(from) && !is_locked(n);
    }
    ticks cost(const member& m) const {
        return runs_late(m.node, m.storage, m.from) ? 0 : c_.rerun[m.node.index()];
    }

    /// How much of what is above the limit goes, summed over the steps of the gap: a plan must come down everywhere.
    std::uint64_t relief(const member& gap, std::int64_t freed) const {
        const auto bytes = static_cast<std::uint64_t>(freed);
        if (over_count_.empty()) return bytes;
        const std::size_t first = gap.from.index() + 1, last = gap.to.index();
        const std::uint64_t most = (bytes >> over_shift_) * (over_count_[last] - over_count_[first]);
        return std::max<std::uint64_t>(1, std::min(most, over_sum_[last] - over_sum_[first]));
    }

    std::int64_t bytes_of(storage_id i) const { return static_cast<std::int64_t>((*live_)[i].bytes); }

    bool is_member(node_id n, std::size_t first) const {
        for (std::size_t m = first; m < members_.size(); ++m)
            if (members_[m].node == n) return true;
        return false;
    }

    /// Adds the cheapest way to free an idle storage, if there is one; returns its price, in 2^-40 ticks per byte.
    /// What its maker reads must be there at the next use: still live then, or kept over the peak, or made again as
    /// well. Of what would be kept, the largest is made again instead, one after the other; and what else can then be
    /// made from that is forgotten too.
    std::optional<std::uint64_t> propose(std::size_t which, std::int64_t excess) {
        growing_ = {.first = members_.size(), .to = idle_[which].to};
        extended_.clear();
        undemand(0);
        add_member(idle_[which]);
        std::optional<std::uint64_t> best;
        std::size_t best_count = 0;
        std::int64_t best_freed = 0;
        const auto consider = [&] {
            const std::int64_t freed = growing_.bytes - kept_over_peak();
            if (freed <= 0) return;
            const std::uint64_t price =
                detail::mul_div(static_cast<std::uint64_t>(growing_.time), std::uint64_t{1} << 40,
                                relief(members_[growing_.first], std::min(freed, excess)));
            if (best && price >= *best) return;
            best = price;
            best_count = members_.size() - growing_.first;
            best_freed = freed;
        };
        for (int size = 0; size <= 12; ++size) {
            consider();
            const std::size_t before = members_.size();
            // What is kept may serve several; with many to keep, that is not worth the search.
            for (std::size_t e = 0; extended_.size() <= 3 && e < extended_.size(); ++e)
                add_siblings(extended_[e].node, excess);
            if (members_.size() > before) consider();
            const std::size_t largest = largest_extended();
            if (largest == extended_.size()) break;
            const member also = extended_[largest];
            extended_.erase(extended_.begin() + static_cast<std::ptrdiff_t>(largest));
            add_member(also, false);
            add_siblings(also.node, excess);
        }
        members_.resize(growing_.first + (best ? best_count : 0));
        if (!best || !changes_all(growing_.first)) {
            members_.resize(growing_.first);
            return std::nullopt;
        }
        proposals_.push_back({growing_.first, best_count, best_freed});
        return best;
    }

    /// `frees`: its storage is live at the peak.
    void add_member(const member& m, bool frees = true) {
        members_.push_back(m);
        if (frees) growing_.bytes += bytes_of(m.storage);
        growing_.time += cost(m) + demand_inputs(m.node, growing_.to, growing_.first, 8);
    }

    /// Of two numbers of 0 or more.
    static detail::uint128 product(std::int64_t a, std::int64_t b) {
        return detail::uint128{static_cast<std::uint64_t>(a)} * static_cast<std::uint64_t>(b);
    }

    std::int64_t kept_over_peak() const {
        std::int64_t bytes = 0;
        for (const member& e : extended_) bytes += bytes_of(e.storage);
        return bytes;
    }

    /// Of what would be kept and could be forgotten instead; the number of what would be kept if there is none.
    std::size_t largest_extended() const {
        std::size_t largest = extended_.size();
        for (std::size_t i = 0; i < extended_.size(); ++i) {
            const member& e = extended_[i];
            if (home(e.from) >= home(growing_.to)) continue;
            if (!droppable(e.node) && !runs_late(e.node, e.storage, e.from)) continue;
            if (largest == extended_.size() || bytes_of(e.storage) > bytes_of(extended_[largest].storage))
                largest = i;
        }
        return largest;
    }

    /// Adds idle storages that are made from what `source` makes and nothing that is not there, directly or through
    /// one another, unless they cost more per byte than the rest.
    void add_siblings(node_id source, std::int64_t excess) {
        sources_.assign(1, source);
        for (std::size_t i = 0; i < sources_.size() && i < 24; ++i)
            for (const auto v : s_.outputs(sources_[i]))
                for (const use& u : s_.uses(v)) {
                    if (s_[u.reader].phase != phase::forward) continue;
                    if (s_[u.reader].kind == op_kind::view) sources_.push_back(u.reader);
                    const std::uint32_t idle = idle_of_[u.reader.index()];
                    if (idle == nobody || is_member(u.reader, growing_.first)) continue;
                    const std::int64_t freed = growing_.bytes - kept_over_peak();
                    if (freed >= excess) return;
                    const ticks own = cost(idle_[idle]);
                    const std::int64_t share = bytes_of(idle_[idle].storage);
                    if (freed > 0 && product(own, freed) > product(growing_.time, share)) continue;
                    const std::size_t extended = extended_.size(), demanded = demanded_.size();
                    if (demand_inputs(u.reader, growing_.to, growing_.first, 2) > 0 ||
                        extended_.size() > extended) {
                        extended_.resize(extended);
                        undemand(demanded);
                        continue;
                    }
                    members_.push_back(idle_[idle]);
                    growing_.bytes += bytes_of(idle_[idle].storage);
                    growing_.time += own;
                    sources_.push_back(u.reader);
                }
    }

    /// Adds what making `n` for step `to` keeps live over the peak to `extended_`; returns the time of what is not
    /// there any more and must be made as well.
    ticks demand_inputs(node_id n, step_id to, std::size_t first, int depth) {
        ticks time = 0;
        for (const auto v : s_.inputs(n)) {
            const value_id base = c_.base[v.index()];
            const node_id maker = s_[base].producer;
            if (c_.resident[base.index()] || s_[maker].phase != phase::forward) continue;
            bool known = is_member(maker, first);
            for (const member& e : extended_) known |= e.node == maker;
            if (known) continue;
            const step_id run = history_.run_before(maker, to);
            if (!run.valid()) continue;
            if (is_forgotten(maker, run, to) || evaluate_.steps()[run].fused) {
                if (is_demanded_[maker.index()]) continue;
                is_demanded_[maker.index()] = 1;
                demanded_.push_back(maker);
                if (depth > 0) time += c_.rerun[maker.index()] + demand_inputs(maker, to, first, depth - 1);
                continue;
            }
            const storage_id i = live_->storage({run, s_.output_index(base)});
            const storage_record& storage = (*live_)[i];
            if (storage.last >= peak_ || storage.first > peak_) continue;
            extended_.push_back({maker, i, storage.last, to});
        }
        return time;
    }

    /// Takes back what was demanded last, but for the first `count`.
    void undemand(std::size_t count) {
        for (; demanded_.size() > count; demanded_.pop_back()) is_demanded_[demanded_.back().index()] = 0;
    }

    bool is_forgotten(node_id n, step_id run, step_id to) const {
        const decision& decided = trial_->decided;
        if (decided.again[n.index()] && in_forward(run)) return true;
        const auto f = std::lower_bound(decided.forgets.begin(), decided.forgets.end(),
                                        turn{n, node_id(home(run).index() + 1)});
        return f != decided.forgets.end() && f->node == n && f->at <= home(to);
    }

    /// Where the member is forgotten: at the peak, but behind its last use.
    node_id forgotten_at(const member& m) const {
        const node_id at = std::min(home(peak_), home(m.to));
        return std::max(node_id(home(m.from).index() + 1), at);
    }

    bool changes_all(std::size_t first) const {
        const decision& decided = trial_->decided;
        for (std::size_t k = first; k < members_.size(); ++k) {
            const member& m = members_[k];
            if (in_forward(m.from) ? decided.again[m.node.index()] != 0
                                   : std::binary_search(decided.forgets.begin(), decided.forgets.end(),
                                                        turn{m.node, forgotten_at(m)}))
                return false;
        }
        return true;
    }

    bool apply(const proposal& p, load_profile& profile) {
        for (std::size_t k = p.first; k < p.first + p.count; ++k)
            if (touched_[members_[k].node.index()]) return false;
        for (std::size_t k = p.first; k < p.first + p.count; ++k) {
            const member& m = members_[k];
            touched_[m.node.index()] = 1;
            for (const auto v : s_.inputs(m.node)) touched_[s_[c_.base[v.index()]].producer.index()] = 1;
            if (p.pulls && in_forward(m.from)) {
                trial_->decided.again[m.node.index()] = 0;
                trial_->decided.remember(m.node, m.node, home(m.to));
            } else if (p.pulls)
                trial_->decided.make_early(m.node, home(m.from));
            else if (in_forward(m.from))
                trial_->decided.again[m.node.index()] = 1;
            else
                trial_->decided.forget(m.node, forgotten_at(m));
            if (k == p.first) // the gap is free; what it costs elsewhere the replay tells
                profile.add(m.from.index() + 1, m.to.index() - 1, -p.freed);
        }
        return true;
    }

    evaluator& evaluate_;
    const snapshot& s_;
    const candidates& c_;
    std::span<const std::uint8_t> locked_{};
    rated_decision* trial_ = nullptr;
    const liveness* live_ = nullptr;
    step_id peak_{};
    std::size_t left_ = 0; // how many more proposals may be applied before the next replay
    copy_history<> history_;
    static constexpr std::uint32_t nobody = ~std::uint32_t{0};
    std::vector<member> idle_, members_, extended_;
    std::vector<std::uint32_t> idle_of_; // node: index in idle_
    std::vector<node_id> sources_;
    std::vector<node_id>
        demanded_; // forgotten, and made again for the proposal that grows: each is paid once
    std::vector<std::uint8_t> is_demanded_;
    struct {
        std::size_t first = 0; // in members_
        step_id to{};
        std::int64_t bytes = 0; // live at the peak
        ticks time = 0;
    } growing_;
    std::vector<proposal> proposals_;
    std::vector<std::uint32_t> over_count_; // before each step: steps above the limit
    std::vector<std::uint64_t> over_sum_;   // and by how much, in 2^over_shift_ bytes
    int over_shift_ = 0;
    std::vector<std::uint8_t> touched_;
};

} // namespace echo
