// SPDX-License-Identifier: BSL-1.0
/// @file
/// The numbers by which searches for plans are tuned, except those that follow a graph's size (search_effort.hpp). Each
/// was chosen by measuring (bench/run scaling regret peers); none of them decides whether a plan is right.
#pragma once

#include <echo/analysis/plan/decision/cost.hpp>

#include <cstddef>
#include <cstdint>

namespace echo::detail::tuning {

// Plans that are gone and may come back (evaluate.hpp).
/// Nodes, values and edges of all of them together, and how many they are at most: with twice as many hardly more come
/// back.
inline constexpr std::size_t size_kept = 400'000, most_plans_kept = 32;

// Evictions (evict.hpp, eviction_price.hpp).
/// A price of a byte is a whole number of this part of a tick: fine enough for large maps that are quick to make, and
/// coarse enough that of small ones none is too dear to be counted.
inline constexpr std::uint64_t price_parts = std::uint64_t{1} << 30;
inline constexpr std::size_t most_copies_grown = 12; ///< copies added to an eviction one after the other
/// Of a node with more inputs it is remembered which of them may be missing.
inline constexpr std::size_t few_inputs = 16;
inline constexpr std::size_t most_readers = 64; ///< readers that are looked at for one eviction
inline constexpr int most_demand_depth = 8;     ///< of what is made again for what is made again
/// Nodes of a graph; of larger ones a replay for each is too dear.
inline constexpr std::size_t evicted_singly_below = 512;

// Ways down (evict.hpp, recreate.hpp).
/// A step down is the peak over this.
inline constexpr std::uint64_t step_parts = 16;

// Copies that are kept again (rerun_savings.hpp).
/// Steps up the tree of savings, to find what two runs have in common.
inline constexpr int most_climbed = 64;

// Cut candidates (cut_candidates.hpp).
/// How many prices of time there are.
inline constexpr std::size_t cut_prices = 8;
inline constexpr std::size_t extreme_rates = 20;   ///< one op in so many is left out at either end
inline constexpr std::uint64_t cheapest_part = 16; ///< the last price is so much below the lowest rate

// The search for budgets (budget/).
inline constexpr std::size_t dear_columns = 3; ///< prices, from the dearest on, of the cuts to start from
inline constexpr std::ptrdiff_t nearest = 6;   ///< known plans just above a limit that are brought down to it
inline constexpr std::ptrdiff_t retained_below = 2; ///< plans within a limit that keep again what fits
/// Where more than one part in so many of a step is recomputed, starts come down in stops.
inline constexpr ticks deep_part = 10;
inline constexpr std::size_t stops_to_deep_limit = 16; ///< how many
/// So many limits in turn that give nothing, and no lower ones are tried.
inline constexpr std::size_t limits_failed = 2;
/// A limit that is tried is lower than the last by a part of it: by the first part at first, and for a host's
/// allocator; by the third at last.
inline constexpr std::uint64_t first_limit_parts = 64, limit_parts = 256, last_limit_parts = 4096;
/// Nodes times replays for changes of single decisions at one limit: most small graphs are tried through by then.
inline constexpr std::size_t most_exchanged = 100'000;
inline constexpr std::size_t points_of_whole_front = 40; ///< limits along the front of a small graph
/// Where a large graph is searched for the least peak within a time, no more is tried once its nodes times the replays
/// come to so many; an eviction that is priced takes as long as the replay of some nodes.
inline constexpr std::size_t most_work = 300'000'000, nodes_per_price = 8;
/// Of what is left, for each pass and for the cuts before them: how many there will be is not known.
inline constexpr double progress_part = 1.0 / 16;

// The report's bound (bound_of_plan.hpp): cuts and places of cuts, by how much a cut takes.
/// What nodes times cuts may come to.
inline constexpr std::size_t nodes_cut = 200'000;
/// The same of cuts where time has a price, of which the first few tell nearly all.
inline constexpr std::size_t nodes_cut_at_prices = 10'000;
/// So many cuts, or places for them, tell nearly all.
inline constexpr std::size_t few_cuts = 8;
inline constexpr std::size_t most_cuts = 64; ///< cuts or places for them at most

// The host's allocator (allocator_choice.hpp).
/// How often the host's allocator is asked at most.
inline constexpr std::size_t most_questions = 16;

} // namespace echo::detail::tuning
