// SPDX-License-Identifier: BSL-1.0
/// @file
/// `rated_decision`: a decision with the figures of its replay; small enough to remember many. `evaluated_plan`: all
/// that its replay has found as well.
#pragma once

#include <echo/analysis/plan/decision/cost.hpp>
#include <echo/analysis/plan/decision/decision.hpp>
#include <echo/analysis/schedule/footprint.hpp>
#include <echo/graph/id_vector.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace echo {

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

namespace detail {

/// What an evaluated plan holds.
struct plan_data {
    rated_decision rated;
    schedule steps;
    id_vector<step_id, node_id> homes;
    replayed judged;
};

/// The memory of plans that are gone, for those to come.
template <class = void>
class plan_pool {
public:
    struct give_back {
        plan_pool* pool = nullptr;
        void operator()(plan_data* data) const noexcept { pool->idle_.emplace_back(data); }
    };
    using handle = std::unique_ptr<plan_data, give_back>;

    plan_pool() = default;
    plan_pool(const plan_pool&) = delete; // plans point to it
    plan_pool& operator=(const plan_pool&) = delete;

    /// With what its last user left in it.
    handle take() {
        if (idle_.empty()) {
            idle_.reserve(++made_); // giving back never fails
            return handle(new plan_data, give_back{this});
        }
        handle taken(idle_.back().release(), give_back{this});
        idle_.pop_back();
        return taken;
    }

private:
    std::vector<std::unique_ptr<plan_data>> idle_;
    std::size_t made_ = 0;
};

} // namespace detail

/// A decision carried out: its steps, where they belong, what is live when, and its figures. Moved, never copied; its
/// memory goes back to the evaluator that made it, which must outlive it.
class evaluated_plan {
public:
    /// The decision with its figures.
    const rated_decision& rated() const noexcept { return data_->rated; }
    /// The decision.
    const decision& decided() const noexcept { return data_->rated.decided; }
    /// What the replay found.
    const footprint_result& footprint() const noexcept { return data_->rated.footprint; }
    /// Bytes.
    std::uint64_t peak_bytes() const noexcept { return footprint().peak_bytes; }
    /// Time of the steps that run a node again, those fused left out.
    ticks recompute() const noexcept { return data_->rated.recompute; }

    /// What runs, in this order.
    const schedule& steps() const noexcept { return data_->steps; }
    /// By step: the node in whose place or for whose sake it runs.
    const id_vector<step_id, node_id>& homes() const noexcept { return data_->homes; }
    /// What is live when.
    const liveness& live() const noexcept { return data_->judged.live; }
    /// Live bytes and workspace at each step.
    std::span<const std::uint64_t> load() const noexcept { return data_->judged.load(); }

    /// As of rated decisions.
    bool better_than(const evaluated_plan& other) const { return rated().better_than(other.rated()); }

private:
    template <class>
    friend class evaluator;
    explicit evaluated_plan(detail::plan_pool<>::handle data) : data_(std::move(data)) {}
    detail::plan_pool<>::handle data_;
};

} // namespace echo
