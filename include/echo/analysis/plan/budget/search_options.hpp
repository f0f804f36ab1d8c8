// SPDX-License-Identifier: BSL-1.0
/// @file
/// `search_options`: a switch for each pass of the search for plans within a limit.
#pragma once

#include <cstddef>

namespace echo {

/// Which passes a search for budgets makes. The defaults are the passes that pay (bench/run ablation); a search
/// without one of them is as correct, and mostly finds plans of a higher peak or with more recomputation.
struct search_options {
    bool growth = true;       ///< evictions give up several copies together
    bool walk = true;         ///< plans are brought down to a limit in small steps
    bool polish = true;       ///< below the lowest plan within a time, lower limits are tried one by one
    bool ruin = true;         ///< a way below the limit and back
    bool local_search = true; ///< runs are tried one by one, then changes are drawn at random
    bool other_way = true;    ///< where much may be gained, the least peak at the same price is searched
    bool from_higher = true;  ///< where much may be gained, a second walk begins at a higher limit
    bool where_dear = true;   ///< where much is recomputed, limits below are searched
    bool light_ops = true;   ///< where much is recomputed, the minimum cut is brought down by light ops alone
    bool proofs = true;      ///< bounds on the way end a search, or let it go on
    bool whole_front = true; ///< the whole front of small graphs is searched, whatever is asked
    bool other_starts = true;  ///< small graphs are searched from the plans of the other strategies as well
    bool neighbours = true;    ///< limits near the lowest plan are searched as well
    bool cheap_columns = true; ///< cuts at low prices are brought down to the least peak
};

} // namespace echo
