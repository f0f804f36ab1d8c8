// SPDX-License-Identifier: BSL-1.0
/// @file
/// Every schedule of a tiny graph that formats.md allows with each gradient once and the gradients in their order: a
/// shortest-path search over what is done and what is there, written from formats.md and as slow as it reads. It shares
/// nothing with the library but the data types, the times, and which nodes are dead.
#pragma once

#include <echo/analysis/plan/decision/cost.hpp>
#include <echo/analysis/schedule/schedule.hpp>
#include <echo/graph/dead_nodes.hpp>

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <type_traits>
#include <utility>
#include <vector>

namespace support {

/// What the schedules may do.
struct schedule_freedom {
    bool encode = true;        ///< what some reader needs one bit of may be packed, at any time
    bool heavy = false;        ///< compute-heavy nodes may run again
    std::size_t ways = 200000; ///< how many are tried before the search gives up
};

/// Searches the schedules of one snapshot of at most 64 nodes and values.
class every_schedule {
public:
    every_schedule(const echo::snapshot& s, schedule_freedom freedom)
        : s_(s), freedom_(freedom), live_(echo::detail::live_nodes(s)), times_(echo::times_of(s).of_node) {
        for (const auto n : s.nodes())
            if (live_[n]) all_ |= bit(n.index());
    }

    static bool can_search(const echo::snapshot& s) { return s.node_count() <= 64 && s.value_count() <= 64; }

    /// The least time run again of all schedules that never need more than `limit` bytes; none if there is no
    /// such schedule that runs again for at most `most`. See `gave_up`.
    std::optional<echo::ticks> least_time(std::uint64_t limit,
                                          echo::ticks most = std::numeric_limits<echo::ticks>::max()) {
        limit_ = limit;
        most_ = most;
        gave_up_ = false;
        tried_ = 0;
        known_.clear();
        found_.clear();
        waiting_ = {};
        reach({}, {.from = none});
        while (!waiting_.empty()) {
            const auto [time, at] = waiting_.top();
            waiting_.pop();
            const state here = found_[at].now;
            if (known_[here] != at) continue; // there is a shorter way
            if (is_end(here)) {
                end_ = at;
                return time;
            }
            go_on(here, at);
            gave_up_ = tried_ > freedom_.ways;
            if (gave_up_) return {};
        }
        return {};
    }
    /// The last search ended early: there may be a schedule.
    bool gave_up() const { return gave_up_; }

    /// The schedule that the last search found.
    echo::schedule steps() const {
        std::vector<std::size_t> way;
        for (std::size_t at = end_; at != none; at = found_[at].by.from) way.push_back(at);
        echo::schedule out;
        std::vector<echo::step_id> plain(s_.value_count(), echo::step_id::none()), packed = plain;
        for (std::size_t i = way.size(); i-- > 0;) {
            const move& by = found_[way[i]].by;
            if (by.from == none) continue;
            if (by.encode) {
                const echo::value_id v(by.what);
                const auto t = out.add({.node = s_[v].producer,
                                        .kind = echo::step_kind::encode,
                                        .bytes = echo::encoded_bytes(s_[v].elements)});
                out.read({plain[v.index()], s_.output_index(v)});
                packed[v.index()] = t;
                continue;
            }
            const echo::node_id n(by.what);
            const auto t =
                out.add({.node = n, .kind = by.again ? echo::step_kind::recompute : echo::step_kind::run});
            for (std::size_t k = 0; const auto v : s_.inputs(n)) {
                if (by.packed_inputs >> k++ & 1U)
                    out.read({packed[v.index()], 0});
                else
                    out.read({plain[v.index()], s_.output_index(v)});
            }
            for (const auto v : s_.outputs(n)) plain[v.index()] = t;
        }
        return out;
    }

private:
    using mask = std::uint64_t;
    static constexpr std::size_t none = ~std::size_t{0};
    static mask bit(std::size_t i) { return mask{1} << i; }

    /// A storage: which values can be read from it.
    struct cell {
        mask values = 0;
        std::uint64_t bytes = 0;
        bool encoded = false, resident = false;
        friend auto operator<=>(const cell&, const cell&) = default;
    };
    struct state {
        mask done = 0;
        std::vector<cell> cells{}; ///< sorted
        friend auto operator<=>(const state&, const state&) = default;
    };
    struct move {
        std::size_t from = none;
        std::size_t what = 0; ///< a node, or the value that is packed
        bool encode = false, again = false;
        mask packed_inputs = 0;
        echo::ticks time = 0;
    };
    struct place {
        state now;
        move by;
    };

    void reach(state next, const move& by) {
        if (by.time > most_) return;
        std::erase_if(next.cells, [&](const cell& c) { return !c.resident && !is_wanted(next, c); });
        std::sort(next.cells.begin(), next.cells.end());
        const auto [at, is_new] = known_.try_emplace(next, found_.size());
        if (!is_new && found_[at->second].by.time <= by.time) return;
        at->second = found_.size();
        waiting_.push({by.time, found_.size()});
        found_.push_back({std::move(next), by});
    }

    /// Whether any step may still read it, or it holds a result.
    bool is_wanted(const state& now, const cell& c) const {
        for (const auto v : s_.values()) {
            if (!(c.values & bit(v.index()))) continue;
            if (!c.encoded && s_.is_result(v)) return true;
            for (const auto& u : s_.uses(v))
                if (live_[u.reader] && (!is_done(now, u.reader) || may_run_again(u.reader))) return true;
        }
        return false;
    }
    static bool is_done(const state& now, echo::node_id n) { return now.done & bit(n.index()); }
    bool is_end(const state& now) const {
        if (now.done != all_) return false;
        for (const auto v : s_.results())
            if (find(now, v, false) == none) return false;
        return true;
    }
    static std::size_t find(const state& now, echo::value_id v, bool encoded) {
        for (std::size_t i = 0; i < now.cells.size(); ++i)
            if (now.cells[i].encoded == encoded && now.cells[i].values & bit(v.index())) return i;
        return none;
    }

    bool only_views(echo::node_id n) const {
        for (const auto v : s_.outputs(n))
            if (s_[v].view_of == echo::no_input) return false;
        return !s_.outputs(n).empty();
    }
    bool is_gradient(echo::node_id n) const {
        return (s_[n].phase == echo::phase::backward || s_[n].phase == echo::phase::update) && !only_views(n);
    }
    bool may_run_again(echo::node_id n) const {
        const auto& node = s_[n];
        return node.phase != echo::phase::input && !is_gradient(n) && node.rerun != echo::rerun_kind::never &&
               !node.keep && (freedom_.heavy || node.kind != echo::op_kind::heavy);
    }
    bool may_run(const state& now, echo::node_id n) const {
        if (!live_[n]) return false;
        if (is_done(now, n)) {
            for (const auto v : s_.outputs(n))
                if (find(now, v, false) == none) return may_run_again(n);
            return false;
        }
        for (const auto c : s_.control(n))
            if (!is_done(now, c)) return false;
        for (echo::node_id m(0); m < n; m = echo::node_id(m.index() + 1)) {
            if (!live_[m] || is_done(now, m)) continue;
            const auto never = echo::rerun_kind::never;
            if (s_[m].rerun == never && s_[n].rerun == never) return false;
            if (is_gradient(m) && is_gradient(n)) return false;
        }
        return true;
    }

    // ---- Steps

    void go_on(const state& now, std::size_t at) {
        for (const auto n : s_.nodes()) { // inputs cost nothing and stand in nobody's way
            if (s_[n].phase != echo::phase::input || is_done(now, n) || !may_run(now, n)) continue;
            return run(now, at, n);
        }
        for (const auto n : s_.nodes())
            if (may_run(now, n)) run(now, at, n);
        if (freedom_.encode)
            for (const auto v : s_.values()) pack(now, at, v);
    }

    void pack(const state& now, std::size_t at, echo::value_id v) {
        bool asked = false;
        for (const auto& u : s_.uses(v)) asked |= live_[u.reader] && s_.one_bit(u.reader, u.position);
        const std::size_t source = find(now, v, false);
        if (!asked || source == none || find(now, v, true) != none) return;
        const std::uint64_t bytes = echo::encoded_bytes(s_[v].elements);
        move by{.from = at, .what = v.index(), .encode = true, .time = found_[at].by.time};
        with_room(now, bytes, {source}, [&](state next) {
            next.cells.push_back({bit(v.index()), bytes, true, false});
            reach(std::move(next), by);
        });
    }

    /// In every way that its inputs can be read.
    void run(const state& now, std::size_t at, echo::node_id n) {
        const auto inputs = s_.inputs(n);
        move by{.from = at, .what = n.index(), .again = is_done(now, n), .time = found_[at].by.time};
        if (by.again) by.time += times_[n];
        for (mask packed = 0; packed < bit(inputs.size()) && ++tried_ <= freedom_.ways; ++packed) {
            std::vector<std::size_t> read;
            bool can = true;
            for (std::size_t k = 0; k < inputs.size() && can; ++k) {
                const bool one = packed >> k & 1U;
                read.push_back(find(now, inputs[k], one));
                can = read.back() != none && (!one || s_.one_bit(n, k));
            }
            by.packed_inputs = packed;
            if (can) place_outputs(now, n, read, 0, {}, by);
        }
    }

    /// What becomes of outputs: `taken[k]`, the cell that output k lies on; none if it gets its own.
    void place_outputs(const state& now, echo::node_id n, const std::vector<std::size_t>& read, std::size_t k,
                       std::vector<std::size_t> taken, const move& by) {
        if (k == s_.outputs(n).size()) return finish(now, n, read, taken, by);
        const auto& value = s_[s_.output(n, k)];
        const auto and_with = [&](std::size_t on) {
            auto more = taken;
            more.push_back(on);
            place_outputs(now, n, read, k + 1, std::move(more), by);
        };
        if (value.view_of != echo::no_input) return and_with(read[value.view_of]);
        if (value.inplace == echo::no_input) return and_with(none);
        const std::size_t target = read[value.inplace];
        if (now.cells[target].resident) return and_with(target);
        and_with(none);
        bool may = !now.cells[target].encoded && now.cells[target].bytes >= value.bytes;
        for (std::size_t j = 0; j < read.size(); ++j) may &= j == value.inplace || read[j] != target;
        for (std::size_t j = 0; j < s_.outputs(n).size(); ++j) {
            const auto& other = s_[s_.output(n, j)];
            may &= other.view_of == echo::no_input || read[other.view_of] != target;
            may &= j >= k || taken[j] != target;
        }
        if (may) and_with(target);
    }

    void finish(const state& now, echo::node_id n, const std::vector<std::size_t>& read,
                const std::vector<std::size_t>& taken, const move& by) {
        std::uint64_t fresh = 0;
        for (std::size_t k = 0; k < taken.size(); ++k) {
            const auto& value = s_[s_.output(n, k)];
            const bool on_resident = taken[k] != none && now.cells[taken[k]].resident;
            if (by.again && value.view_of == echo::no_input && (value.resident || on_resident)) return;
            if (taken[k] == none && !value.resident) fresh += value.bytes;
        }
        with_room(now, fresh + s_[n].workspace, read, [&](state next, const std::vector<std::size_t>& moved) {
            next.done |= bit(n.index());
            for (std::size_t k = 0; k < taken.size(); ++k) {
                const echo::value_id v = s_.output(n, k);
                if (taken[k] != none && s_[v].view_of == echo::no_input)
                    next.cells[moved[taken[k]]].values = 0;
            }
            for (std::size_t k = 0; k < taken.size(); ++k) {
                const echo::value_id v = s_.output(n, k);
                if (taken[k] != none)
                    next.cells[moved[taken[k]]].values |= bit(v.index());
                else if (find(next, v, false) == none) // else there are two copies, and one is dropped again
                    next.cells.push_back({bit(v.index()), s_[v].bytes, false, s_[v].resident});
            }
            reach(std::move(next), by);
        });
    }

    /// Calls `visit` with the state without each smallest set of cells whose loss makes room for `more` bytes. Cells
    /// that `used` names stay. `visit` may ask for the new places of cells.
    template <class Visit>
    void with_room(const state& now, std::uint64_t more, const std::vector<std::size_t>& used,
                   const Visit& visit) {
        std::uint64_t load = more;
        std::vector<std::size_t> others;
        for (std::size_t i = 0; i < now.cells.size(); ++i) {
            if (now.cells[i].resident) continue;
            load += now.cells[i].bytes;
            if (now.cells[i].bytes > 0 && std::find(used.begin(), used.end(), i) == used.end())
                others.push_back(i);
        }
        // There may be more cells than bits in a mask; the ways end long before the last subset of so many.
        const mask subsets = bit(std::min<std::size_t>(others.size(), 63));
        for (mask drop = 0; drop < subsets && ++tried_ <= freedom_.ways; ++drop) {
            std::uint64_t left = load, least = ~std::uint64_t{0};
            std::vector<bool> gone(now.cells.size());
            for (std::size_t i = 0; i < others.size() && i < 64; ++i) {
                if (!(drop >> i & 1U)) continue;
                left -= now.cells[others[i]].bytes;
                least = std::min(least, now.cells[others[i]].bytes);
                gone[others[i]] = true;
            }
            if (left > limit_ || (drop && left + least <= limit_)) continue;
            state next{.done = now.done};
            std::vector<std::size_t> moved(now.cells.size(), none);
            for (std::size_t i = 0; i < now.cells.size(); ++i) {
                if (gone[i]) continue;
                moved[i] = next.cells.size();
                next.cells.push_back(now.cells[i]);
            }
            if constexpr (std::is_invocable_v<Visit, state, const std::vector<std::size_t>&>)
                visit(std::move(next), moved);
            else
                visit(std::move(next));
        }
    }

    const echo::snapshot& s_;
    schedule_freedom freedom_;
    echo::id_set<echo::node_id> live_;
    echo::id_vector<echo::node_id, echo::ticks> times_;
    mask all_ = 0;
    std::size_t tried_ = 0;
    std::uint64_t limit_ = 0;
    echo::ticks most_ = 0;
    bool gave_up_ = false;
    std::map<state, std::size_t> known_;
    std::vector<place> found_;
    std::priority_queue<std::pair<echo::ticks, std::size_t>, std::vector<std::pair<echo::ticks, std::size_t>>,
                        std::greater<>>
        waiting_;
    std::size_t end_ = none;
};

} // namespace support
