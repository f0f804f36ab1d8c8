// SPDX-License-Identifier: BSL-1.0
/// @file
/// `copy_reads`: whose bytes a step reads. A fused step makes nothing; in place of what it would make, its readers read
/// what it names as its own inputs.
#pragma once

#include <echo/analysis/verify/resolved_steps.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace echo::detail {

/// Looks through the fused steps of a schedule. Copies and steps are numbered as in `resolved_steps`, which must
/// outlive it.
class copy_reads {
public:
    /// O(steps + copies).
    explicit copy_reads(const resolved_steps& r)
        : r_(r), made_by_(r.copies.size()), unfolded_(r.any_fused ? r.size() : 0, 0) {
        for (std::size_t t = 0; t < r_.size(); ++t)
            for (std::uint32_t c = r_.steps[t].first_copy; c < r_.steps[t + 1].first_copy; ++c)
                made_by_[c] = static_cast<std::uint32_t>(t);
    }

    /// The step that makes a copy, were it run.
    std::uint32_t maker(std::uint32_t copy) const { return made_by_[copy]; }
    /// Whether a fused step makes the copy, which is then nowhere.
    bool is_fused(std::uint32_t copy) const { return r_.steps[made_by_[copy]].fused; }
    /// The copies that the step names as its inputs, in their order.
    std::span<const std::uint32_t> named(std::size_t t) const {
        return {r_.reads.data() + r_.steps[t].first_read, r_.read_count(t)};
    }

    /// The copies whose bytes step `t` reads, some more than once; valid until the next call. In place of one that a
    /// fused step makes stand those which that step names, and so on; per named input, each fused step is unfolded
    /// once.
    std::span<const std::uint32_t> gather(std::size_t t) {
        gathered_.clear();
        for (const auto copy : named(t)) {
            if (r_.any_fused && is_fused(copy))
                unfold(made_by_[copy]);
            else
                gathered_.push_back(copy);
        }
        return gathered_;
    }

    /// By copy, how often it is read in all. O(steps + reads).
    std::vector<std::uint32_t> counts() {
        std::vector<std::uint32_t> all(r_.copies.size(), 0);
        for (std::size_t t = 0; t < r_.size(); ++t) {
            if (r_.steps[t].fused) continue;
            for (const auto c : gather(t)) ++all[c];
        }
        return all;
    }

private:
    void unfold(std::uint32_t fused) {
        ++unfolding_;
        to_unfold_.assign(1, fused);
        while (!to_unfold_.empty()) {
            const std::uint32_t t = to_unfold_.back();
            to_unfold_.pop_back();
            if (unfolded_[t] == unfolding_) continue;
            unfolded_[t] = unfolding_;
            for (const auto c : named(t))
                if (is_fused(c))
                    to_unfold_.push_back(made_by_[c]);
                else
                    gathered_.push_back(c);
        }
    }

    const resolved_steps& r_;
    std::vector<std::uint32_t> made_by_; ///< by copy: its step
    std::vector<std::uint32_t> gathered_;
    std::vector<std::uint32_t> unfolded_; ///< by step: the last unfolding that met it
    std::vector<std::uint32_t> to_unfold_;
    std::uint32_t unfolding_ = 0;
};

} // namespace echo::detail
