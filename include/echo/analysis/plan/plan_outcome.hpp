// SPDX-License-Identifier: BSL-1.0
/// @file
/// `plan_outcome`: the plan that will be made, so far: steps and what they achieve; and which of two outcomes is the
/// better.
#pragma once

#include <echo/analysis/plan/decision/evaluated_plan.hpp>
#include <echo/analysis/plan/offload/copy_clocks.hpp>
#include <echo/analysis/plan/plan_options.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace echo::detail {

struct plan_outcome {
    plan_figures figures{};
    schedule steps{};
    std::uint64_t allocated_bytes = 0; ///< by the host's allocator, if there is one
    copy_figures copies{};             ///< of the steps that move values
};

/// What a host that fuses gets: the better of the plan whose search knew of fusion, and the plan without fusion, with
/// what can be fused in that very plan. So fusion makes nothing worse.
class fusion_comparison {
public:
    explicit fusion_comparison(const plan_options& options) : options_(options) {}

    /// Whether `other` is to be taken for `best`. `other_plain`: the time that `other` recomputes without fusion.
    bool takes(const plan_outcome& best, const plan_outcome& other, ticks other_plain) const {
        if (options_.allocator) return is_smaller(other, best);
        return !is_better(best.figures, other.figures) || is_dearer(best.figures, other_plain);
    }

private:
    bool has_budget() const { return options_.budget != any_peak; }

    /// By bytes of the allocator, and time: bytes within the budget are all the same.
    bool is_smaller(const plan_outcome& one, const plan_outcome& other) const {
        const std::uint64_t least = has_budget() ? options_.budget : 0;
        const auto key = [&](const plan_outcome& of) {
            return std::pair(std::max(of.allocated_bytes, least), of.figures.recompute);
        };
        return key(one) < key(other);
    }
    bool is_better(const plan_figures& one, const plan_figures& other) const {
        if (options_.how != strategy::budget || !has_budget()) return one.better_than(other);
        const auto over = [&](const plan_figures& of) {
            return std::max(of.footprint.peak_bytes, options_.budget);
        };
        if (over(one) != over(other)) return over(one) < over(other);
        if (one.recompute != other.recompute) return one.recompute < other.recompute;
        return one.footprint.peak_bytes < other.footprint.peak_bytes;
    }
    /// Where no price was named, a lower peak is not worth more recomputation.
    bool is_dearer(const plan_figures& one, ticks other_plain) const {
        return options_.how != strategy::budget && one.recompute > other_plain;
    }

    const plan_options& options_;
};

} // namespace echo::detail
