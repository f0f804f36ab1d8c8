// SPDX-License-Identifier: BSL-1.0
/// @file
/// `rated_decision`: a decision with the figures of its replay; small enough to remember many. `evaluated_plan`: all
/// that its replay has found as well.
#pragma once

#include <echo/analysis/plan/decision/cost.hpp>
#include <echo/analysis/plan/decision/decision.hpp>
#include <echo/analysis/schedule/copy_history.hpp>
#include <echo/analysis/schedule/footprint.hpp>
#include <echo/graph/id_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <span>
#include <utility>

namespace echo::detail {

/// What the replay of a plan says of it in short.
struct plan_figures {
    footprint_result footprint{};
    ticks recompute = 0; ///< time of the steps that run a node again, those fused left out

    /// A lower peak, or of equal peaks, less recomputation.
    bool better_than(const plan_figures& other) const {
        if (footprint.peak_bytes != other.footprint.peak_bytes)
            return footprint.peak_bytes < other.footprint.peak_bytes;
        return recompute < other.recompute;
    }
};

/// A decision and its replayed figures.
struct rated_decision : plan_figures {
    /// What was decided.
    decision decided{};
};

/// What an evaluated plan holds.
struct plan_data {
    rated_decision rated;
    schedule steps;
    id_vector<step_id, node_id> homes;
    replayed judged;
    bool is_whole = false;    ///< all of it is what the evaluator makes of `rated.decided`
    bool is_retained = false; ///< under so many bytes there is no room to keep more (retain.hpp):
    std::uint64_t retained_at = 0;
    mutable bool has_runs = false, has_reads = false;
    mutable copy_history history{}; ///< of the steps, as far as it was asked for

    /// Gives its memory back.
    void forget_history() noexcept {
        has_runs = has_reads = false;
        history = {};
    }
};

/// The memory of plans that are gone, for those to come; the last of them as they were, for searches come back to what
/// they know. Each plan is a list of one, so that it changes hands without being moved, and to give it back takes no
/// memory and cannot fail.
class plan_pool {
public:
    /// `kept`: how many plans that are gone stay as they were, one at least.
    explicit plan_pool(std::size_t kept) : kept_(kept) {}
    plan_pool(const plan_pool&) = delete; // plans point to it
    plan_pool& operator=(const plan_pool&) = delete;

    /// With what its last user left in it, who has been gone for longest.
    std::list<plan_data> take() {
        std::list<plan_data> taken;
        if (idle_.size() < kept_)
            taken.emplace_back();
        else
            taken.splice(taken.begin(), idle_, std::prev(idle_.end()));
        taken.front().is_whole = false;
        return taken;
    }
    /// The plan of the decision, if it is one of those that are kept; or none. O(kept × its size).
    std::list<plan_data> find(const decision& decided) {
        std::list<plan_data> found;
        const auto place = std::ranges::find_if(
            idle_, [&](const plan_data& d) { return d.is_whole && d.rated.decided == decided; });
        if (place != idle_.end()) found.splice(found.begin(), idle_, place);
        return found;
    }
    /// Takes back what `take` or `find` gave. Of a large graph, where one plan is kept, without its history, which is
    /// as large as the plan.
    void give_back(std::list<plan_data>& data) noexcept {
        if (kept_ == 1) data.front().forget_history();
        idle_.splice(idle_.begin(), data);
    }

private:
    std::size_t kept_;
    std::list<plan_data> idle_; // the last that was given back first
};

/// A decision carried out: its steps, where they belong, what is live when, and its figures. Moved, never copied; its
/// memory goes back to the evaluator that made it, which must outlive it.
class evaluated_plan {
public:
    /// The plan of `other`, which has none then. O(1).
    evaluated_plan(evaluated_plan&& other) noexcept = default;
    /// The plan of `other`; the memory of the one before goes back to its evaluator. O(1).
    evaluated_plan& operator=(evaluated_plan other) noexcept {
        std::swap(pool_, other.pool_);
        data_.swap(other.data_);
        return *this;
    }
    ~evaluated_plan() {
        if (!data_.empty()) pool_->give_back(data_);
    }

    /// The decision with its figures.
    const rated_decision& rated() const noexcept { return data().rated; }
    /// The decision.
    const decision& decided() const noexcept { return data().rated.decided; }
    /// What the replay found.
    const footprint_result& footprint() const noexcept { return data().rated.footprint; }
    /// Bytes.
    std::uint64_t peak_bytes() const noexcept { return footprint().peak_bytes; }
    /// Time of the steps that run a node again, those fused left out.
    ticks recompute() const noexcept { return data().rated.recompute; }

    /// What runs, in this order.
    const schedule& steps() const noexcept { return data().steps; }
    /// By step: the node in whose place or for whose sake it runs. Ascending; empty where steps were given.
    const id_vector<step_id, node_id>& homes() const noexcept { return data().homes; }
    /// What is live when.
    const liveness& live() const noexcept { return data().judged.live; }
    /// Live bytes and workspace at each step.
    std::span<const std::uint64_t> load() const noexcept { return data().judged.load(); }

    /// Whether it is known that there is no room to keep more under this limit, in bytes.
    bool is_retained_at(std::uint64_t limit) const noexcept {
        return data().is_retained && data().retained_at == limit;
    }
    /// Remembers that for as long as the plan is remembered.
    void set_retained_at(std::uint64_t limit) noexcept {
        data().is_retained = true;
        data().retained_at = limit;
    }

    /// As of rated decisions.
    bool better_than(const evaluated_plan& other) const { return rated().better_than(other.rated()); }

private:
    friend class evaluator;
    evaluated_plan(detail::plan_pool& pool, std::list<detail::plan_data> data)
        : pool_(&pool), data_(std::move(data)) {}

    detail::plan_data& data() noexcept { return data_.front(); }
    const detail::plan_data& data() const noexcept { return data_.front(); }

    detail::plan_pool* pool_;
    std::list<detail::plan_data> data_; // one, or none where it was moved away
};

} // namespace echo::detail
