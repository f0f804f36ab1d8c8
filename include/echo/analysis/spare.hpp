// SPDX-License-Identifier: BSL-1.0
/// @file
/// `spare`: of plans of equal peak, the one with less recomputation. What is made again before or after the
/// peak often need not be: there is room to keep it. Nodes are taken off the plan where the room is, dearest
/// time per byte first.
#pragma once

#include <echo/analysis/evaluate.hpp>
#include <echo/graph/ranking.hpp>

#include <algorithm>
#include <bit>
#include <vector>

namespace echo {
namespace detail {

/// Maximum over a range of steps, with addition to a range. O(log steps) each.
class load_profile {
public:
    explicit load_profile(std::span<const std::uint64_t> load)
        : leaves_(std::bit_ceil(std::max<std::size_t>(load.size(), 1))), most_(2 * leaves_, 0),
          added_(2 * leaves_, 0) {
        std::copy(load.begin(), load.end(), most_.begin() + static_cast<std::ptrdiff_t>(leaves_));
        for (std::size_t i = leaves_; i-- > 1;) most_[i] = std::max(most_[2 * i], most_[2 * i + 1]);
    }

    std::uint64_t most(std::size_t first, std::size_t last) const {
        std::uint64_t found = 0;
        for (std::size_t l = first + leaves_, r = last + leaves_ + 1; l < r; l /= 2, r /= 2) {
            if (l & 1) found = std::max(found, with_ancestors(l++));
            if (r & 1) found = std::max(found, with_ancestors(--r));
        }
        return found;
    }

    void add(std::size_t first, std::size_t last, std::uint64_t bytes) {
        const std::size_t l0 = first + leaves_, r0 = last + leaves_;
        for (std::size_t l = l0, r = r0 + 1; l < r; l /= 2, r /= 2) {
            if (l & 1) raise(l++, bytes);
            if (r & 1) raise(--r, bytes);
        }
        pull(l0);
        pull(r0);
    }

private:
    std::uint64_t with_ancestors(std::size_t i) const {
        std::uint64_t value = most_[i];
        for (i /= 2; i > 0; i /= 2) value += added_[i];
        return value;
    }
    void raise(std::size_t i, std::uint64_t bytes) {
        most_[i] += bytes;
        added_[i] += bytes;
    }
    void pull(std::size_t i) {
        for (i /= 2; i > 0; i /= 2) most_[i] = std::max(most_[2 * i], most_[2 * i + 1]) + added_[i];
    }

    std::size_t leaves_;
    std::vector<std::uint64_t> most_, added_;
};

/// One round: takes off the plan what fits under `limit` with the rest as it is. Returns whether anything
/// was.
inline bool spare_once(evaluator& evaluate, const trial& t, std::uint64_t limit, choice& decided) {
    const snapshot& s = evaluate.graph();
    const liveness& live = evaluate.last().live();
    load_profile profile(evaluate.last().load());

    struct saving {
        step_id again, original;
    };
    std::vector<saving> savings;
    ranking by_price; // microseconds saved per byte kept
    std::vector<step_id> first(s.node_count(), step_id::none());
    for (const auto step : t.steps.steps()) {
        const step_record& record = t.steps[step];
        if (record.kind == step_kind::run) first[record.node.index()] = step;
        if (record.kind != step_kind::recompute) continue;
        const double us = evaluate.facts().time_us[record.node.index()];
        if (us <= 0) continue;
        double bytes = 1;
        for (const auto v : s.outputs(record.node))
            if (live.last_read({step, s.output_index(v)}).valid()) bytes += static_cast<double>(s[v].bytes);
        by_price.add(static_cast<std::uint32_t>(savings.size()), us / bytes);
        savings.push_back({step, first[record.node.index()]});
    }
    bool changed = false;
    for (const auto i : by_price.descending()) {
        const auto [again, original] = savings[i];
        // Keeping an output fills the gap between the original's last reader and the copy that is made now.
        const node_id n = t.steps[again].node;
        std::vector<std::pair<std::size_t, std::uint64_t>> gaps;
        bool fits = true;
        for (std::uint32_t k = 0; k < s.outputs(n).size() && fits; ++k) {
            if (!live.last_read({again, k}).valid()) continue;
            const storage_record& storage = live[live.storage({original, k})];
            if (storage.resident || storage.last >= again) continue;
            const std::size_t from = storage.last.index() + 1;
            fits = profile.most(from, again.index()) + storage.bytes <= limit;
            if (fits) {
                profile.add(from, again.index(), storage.bytes);
                gaps.emplace_back(from, storage.bytes);
            }
        }
        if (!fits) {
            for (const auto& [from, bytes] : gaps) profile.add(from, again.index(), ~bytes + 1);
            continue;
        }
        decided.again[n.index()] = 0;
        changed = true;
    }
    return changed;
}

} // namespace detail

/// Takes nodes off the plan `t` as long as its peak stays at most `limit`; at most `rounds` rounds of a
/// replay each. O(recomputes × log steps) a round.
inline void spare(evaluator& evaluate, trial& t, std::uint64_t limit, int rounds = 3) {
    for (int i = 0; i < rounds; ++i) {
        evaluate(t);
        trial next{.decided = t.decided, .steps = {}, .footprint = {}};
        if (!detail::spare_once(evaluate, t, limit, next.decided)) return;
        evaluate(next);
        if (next.footprint.peak_bytes > limit || next.recompute_us >= t.recompute_us) return;
        t = std::move(next);
    }
}

} // namespace echo
