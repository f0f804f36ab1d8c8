// SPDX-License-Identifier: BSL-1.0
/// @file
/// `search_options`: a switch for each pass of the search for plans within a limit.
#pragma once

#include <echo/config.hpp>

namespace echo {

/// Which passes a search for budgets makes. The defaults are the passes that pay (bench/run ablation): without one of
/// them a search is as correct, and mostly finds plans of a higher peak or with more recomputation.
struct search_options {
    bool growth = true;  ///< evictions give up several copies together
    bool nearest = true; ///< the known plans just above a limit are brought down to it (bring_down.hpp)
    bool polish = true;  ///< below the lowest plan found, lower limits are tried one by one (lowest_peak.hpp)
    bool recreate = true; ///< a way below the limit and back (recreate.hpp)
    bool exchange = true; ///< where the whole front is searched, single decisions are changed (exchange.hpp)
    bool front = true; ///< of small graphs the whole front is searched, whatever is asked (whole_front.hpp)
};

} // namespace echo
