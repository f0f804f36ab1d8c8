// SPDX-License-Identifier: BSL-1.0
/// @file
/// `plan_progress`: how far the making of a plan is, of the cuts that come first and the search behind them.
#pragma once

#include <echo/analysis/plan/budget/progress.hpp>
#include <echo/analysis/plan/decision/tuning.hpp>

namespace echo::detail {

/// Tells the part of all that is done, and never the same or less again.
class plan_progress {
public:
    plan_progress(const plan_progress&) = delete; // its parts point to it
    plan_progress& operator=(const plan_progress&) = delete;
    /// `searches`: whether anything comes behind the cuts.
    plan_progress(progress_callback all, bool searches)
        : all_(all), cuts_(searches ? tuning::progress_part : 1) {}

    /// The part of the cuts that is done.
    void tell_cuts(double part) { tell(cuts_ * part); }
    /// Takes the part of the search that is done.
    progress_callback of_search() { return search_; }

private:
    struct search_part {
        plan_progress* self;
        void operator()(double part) const { self->tell(self->cuts_ + (1 - self->cuts_) * part); }
    };

    void tell(double part) {
        if (!all_ || part <= told_) return;
        told_ = part;
        all_(part);
    }

    progress_callback all_;
    double cuts_;
    double told_ = -1;
    search_part search_{this};
};

/// One of two searches: half of the whole.
struct half_progress {
    progress_callback all{};
    double before = 0; ///< what was done before it
    void operator()(double part) const { all(before + part / 2); }
};

} // namespace echo::detail
