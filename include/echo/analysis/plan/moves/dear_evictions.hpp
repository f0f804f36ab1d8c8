// SPDX-License-Identifier: BSL-1.0
/// @file
/// `dear_evictions`: what evictions of one plan are known to cost at least. Most swaps that are tried come to nothing
/// and leave the plan as it was, and the next one asks the same at the same peak.
#pragma once

#include <echo/analysis/plan/moves/node_filter.hpp>
#include <echo/graph/ids.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace echo {

/// Lower bounds on the prices of evictions, and what has been decided since the plan was made: a bound holds as long as
/// nothing else is decided about the nodes that it rests on.
/// A template so that only files that make plans compile it.
template <class = void>
class dear_evictions {
    struct node_change {
        node_id node;
        bool
            keeps; ///< its copy, from one place to the other; else that of the first place is gone from the other on
        node_id from, to;
        bool operator==(const node_change&) const = default;
    };
    struct basis { ///< what was decided about these nodes on that of the question's occasions
        node_filter nodes;
        std::size_t occasion;
    };
    struct lower_bound {
        storage_id storage;
        std::uint64_t price;
        std::size_t basis; ///< its number
    };
    struct occasion {
        std::vector<node_change> decided;
        std::vector<node_id> differ; ///< about these something else is decided now
    };
    struct question {
        step_id peak;
        std::int64_t excess;
        std::vector<occasion> asked;
        std::vector<lower_bound> known; ///< on the last occasion, by storage
        std::vector<basis> bases;
    };

public:
    /// Another plan: nothing is known, and nothing decided. O(what was known).
    void clear() noexcept {
        questions_.clear();
        decided_.clear();
    }
    /// The copy of the node is kept from its use at `from` up to `to`, and may not be given up. O(1).
    void keep(node_id n, node_id from, node_id to) { decided_.push_back({n, true, from, to}); }
    /// The copy of the node that is used at `from` is gone from `at` on. O(1).
    void give_up(node_id n, node_id from, node_id at) { decided_.push_back({n, false, from, at}); }
    /// How much has been decided. O(1).
    std::size_t decided() const noexcept { return decided_.size(); }
    /// What was decided last is not decided, but for the first `count`. O(1).
    void undo(std::size_t count) { decided_.resize(count); }

    /// What is known of one peak with so many bytes too many. Of use until anything else is done with what it is of.
    class answers {
    public:
        /// `before`: what was known the last time, of `of`. O(1).
        answers(question& of, const std::vector<lower_bound>& before) noexcept : of_(of), before_(before) {}

        /// Whether giving up the copy in the storage is known to cost no less than `price`. Storages are asked for in
        /// ascending order. O(decisions), but for storages that are left out.
        bool cost(storage_id i, std::uint64_t price) {
            while (next_ < before_.size() && before_[next_].storage < i) ++next_;
            if (next_ == before_.size() || before_[next_].storage != i) return false;
            const lower_bound& bound = before_[next_];
            const basis& on = of_.bases[bound.basis];
            const auto& nodes = of_.asked[on.occasion].differ;
            if (bound.price < price ||
                std::any_of(nodes.begin(), nodes.end(), [&](node_id n) { return on.nodes.may_have(n); }))
                return false;
            of_.known.push_back(bound);
            return true;
        }
        /// It costs no less than `price` as long as nothing else is decided about these nodes. Of a storage for which
        /// `cost` has just said no. O(1).
        void add(storage_id i, std::uint64_t price, const node_filter& rests_on) {
            of_.known.push_back({i, price, of_.bases.size()});
            of_.bases.push_back({rests_on, of_.asked.size() - 1});
        }

    private:
        question& of_;
        const std::vector<lower_bound>& before_;
        std::size_t next_ = 0; // of these
    };

    /// What freeing bytes at the peak costs where `excess` of them are too many.
    /// O(questions + decisions × how often this one was asked).
    answers ask(step_id peak, std::int64_t excess) {
        const auto same = [&](const question& q) { return q.peak == peak && q.excess == excess; };
        auto q = std::find_if(questions_.begin(), questions_.end(), same);
        if (q == questions_.end()) q = questions_.insert(q, question{peak, excess, {}, {}, {}});
        before_.clear();
        std::swap(before_, q->known);
        for (occasion& earlier : q->asked) earlier.differ = difference(earlier.decided, decided_);
        q->asked.push_back({decided_, {}});
        return {*q, before_};
    }

private:
    /// Nodes about which something else is decided, or in another order.
    static std::vector<node_id> difference(const std::vector<node_change>& a,
                                           const std::vector<node_change>& b) {
        const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
        std::vector<node_id> nodes;
        std::for_each(in_a, a.end(), [&](const node_change& change) { nodes.push_back(change.node); });
        std::for_each(in_b, b.end(), [&](const node_change& change) { nodes.push_back(change.node); });
        return nodes;
    }

    std::vector<node_change> decided_;
    std::vector<question> questions_;
    std::vector<lower_bound> before_; // of the question that is asked
};

} // namespace echo
