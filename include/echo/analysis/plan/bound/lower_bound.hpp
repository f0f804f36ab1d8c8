// SPDX-License-Identifier: BSL-1.0
/// @file
/// A certified lower bound on the peak of every legal schedule (formats.md) that runs each gradient once and keeps
/// their order, and that runs again light nodes only, or also heavy ones. What else a schedule may do is all allowed
/// for: schedule_rules.hpp.
///
/// Every node has its working set (working_set.hpp). While a gradient runs, there is also live what later steps need
/// and cannot make: held_cut.hpp. The bound is the largest of these. Where the host fuses, an input that could be
/// recomputed inside its reader need not be live, but what it is made from must.
#pragma once

#include <echo/analysis/plan/bound/held_cut.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace echo::detail {

/// Computes bounds for one snapshot. Snapshot and candidates must outlive it.
class lower_bound {
public:
    lower_bound(const lower_bound&) = delete; // it points into itself
    lower_bound& operator=(const lower_bound&) = delete;
    /// `encode`: values may be kept in one bit per element. `heavy`: compute-heavy nodes may run again.
    lower_bound(const snapshot& s, const candidates& c, bool encode, bool heavy = false)
        : rules_(s, c, encode, heavy), count_(rules_), held_(rules_) {}

    /// The largest working set of one step. O(nodes + edges).
    std::uint64_t working_sets() {
        std::uint64_t most = 0;
        for (const auto n : rules_.graph().nodes())
            if (rules_.is_live(n)) most = std::max(most, count_(n));
        return most;
    }

    /// The largest working set of one step, with the results that gradients before it have made: what is live whatever
    /// else waits in the host's memory. O(nodes + edges).
    std::uint64_t working_sets_with_results() {
        const snapshot& s = rules_.graph();
        id_vector<node_id, std::uint64_t> made(s.node_count(), 0);
        id_set<value_id> held(s.value_count());
        for (const auto v : s.results())
            if (const value_id base = rules_.base(v);
                rules_.is_gradient(s[base].producer) && rules_.counts(base) && held.add(base))
                made[s[base].producer] += s[base].bytes;
        std::uint64_t most = 0, results = 0;
        for (const auto n : s.nodes()) {
            if (!rules_.is_live(n)) continue;
            std::uint64_t live = count_(n);
            if (rules_.is_gradient(n)) {
                live += results;
                for (const counted_storage& each : count_.storages())
                    if (held[each.base]) live -= std::min(live, each.bytes);
                results += made[n];
            }
            most = std::max(most, live);
        }
        return most;
    }

    /// The least that is live while gradient `at` runs. O(nodes + edges) and a cut.
    std::uint64_t while_running(node_id at) { return static_cast<std::uint64_t>(held_(at, {})); }

    /// The bound, the cuts taken at the given nodes, as far as they are gradients.
    std::uint64_t operator()(std::span<const node_id> at) {
        std::uint64_t bound = working_sets();
        for (const auto n : at)
            if (rules_.is_gradient(n)) bound = std::max(bound, while_running(n));
        return bound;
    }

    /// The same with at most so many cuts more, where those known let expect the most: what a cut finds beyond what is
    /// live for certain changes little from one gradient to the next. O(nodes + edges + cuts × gradients) and the cuts.
    std::uint64_t operator()(std::span<const node_id> at, std::size_t more_cuts) {
        list_gradients();
        std::uint64_t bound = working_sets();
        const auto cut = [&](std::size_t i) {
            places_[i].found = while_running(places_[i].at);
            places_[i].known = true;
            bound = std::max(bound, places_[i].found);
        };
        for (std::size_t i = 0; i < places_.size(); ++i)
            if (i == 0 || std::find(at.begin(), at.end(), places_[i].at) != at.end()) cut(i);
        for (; more_cuts > 0; --more_cuts) {
            const std::size_t i = most_hopeful(bound);
            if (i == places_.size()) break;
            cut(i);
        }
        return bound;
    }

private:
    struct place {
        node_id at{};
        std::uint64_t certain = 0; ///< bytes live for certain
        std::uint64_t found = 0;   ///< by a cut, if it is known
        bool known = false;
        std::uint64_t beyond() const { return found > certain ? found - certain : 0; }
    };

    void list_gradients() {
        const auto held = certainly_held();
        places_.clear();
        for (const auto n : rules_.graph().nodes())
            if (rules_.is_gradient(n)) places_.push_back({n, count_(n) + held[n]});
    }

    /// The place with the most to expect by its known neighbours, if that is more than `bound`; else none.
    std::size_t most_hopeful(std::uint64_t bound) {
        hopes_.assign(places_.size(), 0);
        std::uint64_t beyond = 0;
        for (std::size_t i = 0; i < places_.size(); ++i) {
            if (places_[i].known) beyond = places_[i].beyond();
            hopes_[i] = beyond;
        }
        std::size_t best = places_.size();
        beyond = 0;
        for (std::size_t i = places_.size(); i-- > 0;) {
            if (places_[i].known) {
                beyond = places_[i].beyond();
                continue;
            }
            const std::uint64_t hope = places_[i].certain + std::max(beyond, hopes_[i]);
            if (hope <= bound) continue;
            bound = hope;
            best = i;
        }
        return best;
    }

    /// By node: bytes of what a gradient behind it reads in full, was there before it and cannot be made again.
    id_vector<node_id, std::uint64_t> certainly_held() const {
        const snapshot& s = rules_.graph();
        id_vector<value_id, node_id> last(s.value_count(), node_id(0));
        for (const auto n : s.nodes()) {
            if (!rules_.is_gradient(n)) continue;
            for (std::size_t k = 0; const auto v : s.inputs(n))
                if (!rules_.reads_bit(n, k++)) last[rules_.base(v)] = n;
        }
        for (const auto v : s.results()) last[rules_.base(v)] = node_id(s.node_count());
        id_vector<node_id, std::uint64_t> held(s.node_count() + 1, 0);
        for (const auto v : s.values()) {
            if (rules_.base(v) != v || !rules_.counts(v)) continue;
            const node_id maker = s[v].producer;
            const std::uint32_t first = rules_.needed_first(maker);
            if (first >= last[v].index() || first + 1 == last[v].index() || rules_.may_rerun(maker)) continue;
            const node_id from(first + 1);
            held[from] += s[v].bytes;
            held[last[v]] -= s[v].bytes; // wraps; the running sum does not
        }
        std::uint64_t now = 0;
        for (std::uint64_t& bytes : held.values()) bytes = now += bytes;
        return held;
    }

    schedule_rules rules_;
    working_set count_;
    held_cut held_;
    std::vector<place> places_; ///< the gradients, in order
    std::vector<std::uint64_t> hopes_;
};

} // namespace echo::detail
