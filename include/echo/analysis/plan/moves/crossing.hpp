// SPDX-License-Identifier: BSL-1.0
/// @file
/// `crosser`: of plans under a limit, one with less recomputation, put together of several. One plan forgets the better
/// things in one part of the graph, another elsewhere, and what either decides about one part seldom hangs on the rest.
/// So the best plan takes over from another what that decides about a stretch of nodes where it recomputes less, as
/// evolutionary searches cross two solutions at two points (Holland, "Adaptation in Natural and Artificial Systems",
/// 1975); but the stretch is not drawn, it is the one that should gain most.
#pragma once

#include <echo/analysis/plan/decision/edge_uses.hpp>
#include <echo/analysis/plan/decision/evaluate.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>
#include <echo/analysis/plan/moves/evict.hpp>
#include <echo/analysis/plan/moves/retain.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace echo {

/// A plan that another may take over stretches of. By node, of all nodes before it, and behind the last one of all:
/// time of their recomputes, and bytes of what they made that is live where the backward pass begins.
struct crossable {
    /// The plan.
    rated_decision plan;
    /// Time of recomputes.
    std::vector<ticks> time;
    /// Bytes live where the backward pass begins.
    std::vector<std::int64_t> bytes;
};

/// The backward pass comes by the nodes in about the reverse order. While it is within a stretch of them, what was made
/// before the stretch is held, and what was made behind it is not needed any more. So the best plan can take a stretch
/// over from another under the same limit where it holds no more bytes before the stretch than the other does, and the
/// other holds no more within the stretch than the best does.
/// A template so that only files that make plans compile it.
template <class = void>
class crosser {
public:
    /// Of the evaluator's graph. All must outlive it. O(1).
    crosser(evaluator<>& evaluate, evictor<>& evict, retainer<>& retain)
        : evaluate_(evaluate), s_(evaluate.graph()), c_(evaluate.facts()), evict_(evict), retain_(retain) {}

    /// What crossings need to know of a plan. O(nodes + steps).
    crossable prepared(const evaluated_plan& plan) const {
        const schedule& steps = plan.steps();
        crossable found{.plan = plan.rated(),
                        .time = std::vector<ticks>(s_.node_count() + 1, 0),
                        .bytes = std::vector<std::int64_t>(s_.node_count() + 1, 0)};
        for (const auto t : steps.steps())
            if (steps[t].kind == step_kind::recompute && !steps[t].fused)
                found.time[steps[t].node.index() + 1] += c_.times.of_node[steps[t].node];
        const step_id boundary = first_backward_step(s_, steps);
        for (const auto i : plan.live().storages()) {
            const storage_record& storage = plan.live()[i];
            if (!storage.resident && storage.first < boundary && storage.last >= boundary)
                found.bytes[steps[storage.maker.step].node.index() + 1] +=
                    static_cast<std::int64_t>(storage.bytes);
        }
        for (std::size_t n = 0; n < s_.node_count(); ++n) {
            found.time[n + 1] += found.time[n];
            found.bytes[n + 1] += found.bytes[n];
        }
        return found;
    }

    /// A plan that is as good as `best` or better, for a peak of at most `limit` bytes, which that of `best` keeps to;
    /// those of `others` may be higher. Again from the first of them while one gives something, until
    /// `tuning::crossings_failed` in turn gave nothing. A search for a stretch and a few replays for each. Errors: as
    /// `replay`.
    [[nodiscard]] evaluated_plan operator()(evaluated_plan best, std::span<const crossable* const> others,
                                            std::uint64_t limit) {
        if (others.empty()) return best;
        crossable now = prepared(best);
        bool better = true;
        std::size_t failed = 0; // in turn
        for (std::size_t i = 0; i < tuning::most_times_crossed && better; ++i) {
            better = false;
            for (const crossable* other : others) {
                const auto nodes = most_gained(now, *other, best.recompute() / tuning::crossing_margin);
                if (!nodes) continue;
                if (take_over(best, other->plan.decided, *nodes, limit)) {
                    better = true;
                    failed = 0;
                    now = prepared(best);
                } else if (++failed == tuning::crossings_failed) {
                    return best;
                }
            }
        }
        return best;
    }

private:
    /// Nodes `first` to the one before `end`.
    struct stretch {
        std::size_t first, end;
    };
    /// Where a stretch may begin.
    struct beginning {
        std::int64_t room; ///< how much more the other plan holds before it
        ticks behind;      ///< how much more the best recomputes before it
        std::size_t node;
    };

    /// Whether it makes `best` better if what `other` decides about the stretch takes the place of what it does; it is
    /// the better plan then.
    bool take_over(evaluated_plan& best, const decision& other, const stretch& nodes, std::uint64_t limit) {
        const ticks before = best.recompute();
        const ticks most = before + before / tuning::dearer_crossing_part;
        auto evicted = evict_(evaluate_(crossed(best.decided(), other, nodes)), limit,
                              {.rounds = tuning::rounds_after_crossing, .most = most});
        if (!evicted.met || evicted.plan.recompute() > most) return false;
        auto plan = retain_(std::move(evicted.plan), limit, tuning::retained_after_draw);
        if (plan.recompute() >= before) return false;
        best = std::move(plan);
        return true;
    }

    /// The stretch in which the other plan recomputes least beside the best, by more than `least`, of those that can be
    /// taken over. Behind one that goes to the end of the graph nothing is held, so that it may hold more. O(nodes ×
    /// beginnings), of which there are few.
    static std::optional<stretch> most_gained(const crossable& best, const crossable& other, ticks least) {
        const auto has_less = [](const beginning& a, std::int64_t room) { return a.room < room; };
        std::optional<stretch> found;
        std::vector<beginning> beginnings; // of which none has more room and is less behind: both rise
        const std::size_t end = best.time.size() - 1;
        for (std::size_t n = 0; n <= end; ++n) {
            const std::int64_t room = other.bytes[n] - best.bytes[n];
            const ticks behind = best.time[n] - other.time[n];
            auto at = std::lower_bound(beginnings.begin(), beginnings.end(), room, has_less);
            const auto from = n == end ? beginnings.begin() : at;
            if (from != beginnings.end() && behind - from->behind > least) {
                least = behind - from->behind;
                found = stretch{from->node, n};
            }
            if (room < 0 || (at != beginnings.end() && at->behind <= behind)) continue;
            if (at != beginnings.end() && at->room == room) ++at;
            auto first = at;
            while (first != beginnings.begin() && std::prev(first)->behind >= behind) --first;
            beginnings.insert(beginnings.erase(first, at), {room, behind, n});
        }
        return found;
    }

    /// What `best` decides, but for the stretch, where it is what `other` does. O(stretch + turns).
    decision crossed(const decision& best, const decision& other, const stretch& nodes) const {
        decision next = best;
        next.heavy = best.heavy || other.heavy;
        for (std::size_t i = nodes.first; i < nodes.end; ++i) {
            const node_id n(i);
            next.again[n] = other.again[n];
            for (const auto v : s_.outputs(n)) next.encoded[v] = other.encoded[v];
        }
        take_turns(next.forgets, best.forgets, other.forgets, nodes);
        take_turns(next.early, best.early, other.early, nodes);
        return next;
    }
    static void take_turns(std::vector<turn>& next, const std::vector<turn>& best,
                           const std::vector<turn>& other, const stretch& nodes) {
        const auto at = [](const std::vector<turn>& turns, std::size_t node) {
            return std::lower_bound(turns.begin(), turns.end(), turn{node_id(node), node_id(0)});
        };
        next.assign(best.begin(), at(best, nodes.first));
        next.insert(next.end(), at(other, nodes.first), at(other, nodes.end));
        next.insert(next.end(), at(best, nodes.end), best.end());
    }

    evaluator<>& evaluate_;
    const snapshot& s_;
    const candidates& c_;
    evictor<>& evict_;
    retainer<>& retain_;
};

} // namespace echo
