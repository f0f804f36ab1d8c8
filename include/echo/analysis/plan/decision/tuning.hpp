// SPDX-License-Identifier: BSL-1.0
/// @file
/// The numbers by which searches for plans are tuned, except those that follow a graph's size (search_effort.hpp). Each
/// was chosen by measuring (bench/run scaling regret peers); none of them decides whether a plan is right.
#pragma once

#include <echo/analysis/plan/decision/cost.hpp>

#include <cstddef>
#include <cstdint>

namespace echo::tuning {

// Plans that are gone and may come back (evaluate.hpp).
/// Nodes, values and edges of all of them together, and how many they are at most: with twice as many hardly more come
/// back.
inline constexpr std::size_t size_kept = 400'000, most_plans_kept = 32;

// Evictions (evict.hpp, eviction_price.hpp).
/// A price of a byte is a whole number of this part of a tick: fine enough for large maps that are quick to make, and
/// coarse enough that of small ones none is too dear to be counted.
inline constexpr std::uint64_t price_parts = std::uint64_t{1} << 30;
inline constexpr std::size_t most_copies_grown = 12; ///< copies added to an eviction one after the other
/// With more inputs to keep, nothing else is looked for that they serve.
inline constexpr std::size_t most_kept_searched = 3;
/// Of a node with more inputs it is remembered which of them may be missing.
inline constexpr std::size_t few_inputs = 16;
/// Nodes whose readers are looked at for one eviction, and how many of those readers.
inline constexpr std::size_t most_sources = 24, most_readers = 64;
inline constexpr int most_demand_depth = 8;  ///< of what is made again for what is made again
inline constexpr int most_sibling_depth = 2; ///< the same for what is given up along with others
inline constexpr int peaks_per_round = 8;    ///< brought down between two replays
/// Nodes of a graph; of larger ones a replay for each is too dear.
inline constexpr std::size_t evicted_singly_below = 512;
inline constexpr std::size_t rounds_before_slow = 2; ///< rounds before one can be too slow to arrive

// Ways down (evict.hpp, budget.hpp): by a part of the peak at a time, and by smaller ones where that fails.
/// A step down is the peak over the first, and at last over the second; each smaller step is so many times
/// finer.
inline constexpr std::uint64_t first_step_parts = 16, last_step_parts = 256, finer = 4;
/// Rounds of evictions for one step down.
inline constexpr std::size_t rounds_per_step = 20;

// Copies that are kept again (rerun_savings.hpp).
/// Steps up the tree of savings, to find what two runs have in common.
inline constexpr int most_climbed = 64;

// Local search (local_search.hpp).
/// After so many draws the search begins anew from the best plan.
inline constexpr std::size_t draws_between_restarts = 100;
inline constexpr std::size_t kinds_drawn = 20; ///< of which, from 0: some make a run earlier,
/// So many of the kinds make a run earlier.
inline constexpr std::size_t kinds_earlier = 4;
/// Those up to here keep something, the others forget something.
inline constexpr std::size_t kinds_in_backward = 11;
inline constexpr std::size_t most_earlier_nodes = 3; ///< half the time; else as far as the gap reaches
/// Of what could be forgotten, modulo how many there are.
inline constexpr std::size_t places_drawn = std::size_t{1} << 20;
/// Rounds of evictions.
inline constexpr std::size_t rounds_after_draw = 8, rounds_after_keeping = 10;
inline constexpr ticks worse_part = 5; ///< what recomputes by a fifth more may lead on
/// What recomputes by a tenth more on the way may be cheaper in the end.
inline constexpr ticks dearer_part = 10;
inline constexpr int retained_after_draw = 3, retained_after_keeping = 2; ///< rounds

// Ruin and recreate (ruin_and_recreate.hpp).
/// A plan is led below the limit by a part of it: first by this one, then by twice as much, up to the last.
inline constexpr std::uint64_t first_ruin_parts = 32, last_ruin_parts = 8;
inline constexpr int retained_after_ruin = 8; ///< rounds

// Cut candidates (cut_candidates.hpp).
/// How many prices of time there are.
inline constexpr std::size_t cut_prices = 8;
inline constexpr std::size_t extreme_rates = 20;   ///< one op in so many is left out at either end
inline constexpr std::uint64_t cheapest_part = 16; ///< the last price is so much below the lowest rate

// Searches at limits (budget.hpp).
inline constexpr std::size_t cuts_of_least = 4; ///< of small graphs, for the peak that no plan goes below
inline constexpr std::size_t rungs_apart = 3;   ///< of limits that are neighbours
inline constexpr std::size_t dear_columns = 3;  ///< prices, from the dearest on, of the cuts to start from
/// Rounds of evictions that lead a start down.
inline constexpr std::size_t rounds_of_lead = 40, rounds_of_lead_in_small = 30;
/// Plans whose peaks lie next above a limit: led to one that is asked for, to a rung on the walk down to one, and to a
/// rung on the way to the lowest.
inline constexpr std::ptrdiff_t led_to_limit = 6, led_on_walk = 4, led_to_rung = 6;
/// Rounds.
inline constexpr int retained_after_lead = 3, retained_at_end = 4, retained_from_deepest = 20;
/// What recomputes by a fourth more than what is known at a limit is led no further to it.
inline constexpr ticks dearer_led_part = 4;
/// Starts that are led straight to a limit before plans are walked to it.
inline constexpr std::size_t starts_led_straight = 4;
/// Of so many points of a front all starts are led to one.
inline constexpr std::size_t points_per_search = 3;
inline constexpr std::ptrdiff_t led_along_front = 2; ///< plans next above that are led to each of the others
/// Plans at a limit or below it that keep again what there is room for, where the least peak is looked for.
inline constexpr std::ptrdiff_t retained_below = 2;
/// Rounds in which each of either keeps again what there is room for.
inline constexpr int retained_from_below = 8;
/// Recomputing for a tenth of a step is worth a longer search, and for a quarter one that is longer still.
inline constexpr ticks costly_part = 10, dear_part = 4;
inline constexpr std::size_t rungs_below_dear = 2; ///< more limits that are searched then
/// Where no plan can be cheaper by more than one part in so many, a search ends; where one may be by more than one in
/// so many, it goes on.
inline constexpr ticks proved_part = 400, far_part = 16;
inline constexpr std::size_t cuts_of_proof = 8; ///< for the bound that says so
/// Recomputation that is asked for often, as a part of the graph's time; rising.
inline constexpr double common_prices[] = {0.01, 0.02, 0.05, 0.1};
/// Where what is found at a limit is dearer than one of these by no more than one part in so many, the least peak at
/// that price is looked for as well.
inline constexpr ticks common_price_part = 2;
inline constexpr std::size_t most_times_swapped = 11; ///< at one limit, while it helps
inline constexpr std::size_t rungs_swapped = 3;       ///< below the limit, where it goes on,
inline constexpr std::ptrdiff_t led_below = 3;        ///< and plans next above each that are led to it
/// Rungs from the start of a walk down to a limit: between half and one and a half times so many. A stride takes it
/// some of them further; they are a multiple of those.
inline constexpr std::size_t rungs_walked = 16, rungs_in_stride = 4;
inline constexpr std::size_t rungs_failed = 3;    ///< in turn, before local search goes no further down
inline constexpr std::uint64_t fine_parts = 2048; ///< of the peak: a step of the last of the way down
inline constexpr std::ptrdiff_t led_finely = 2;   ///< plans next above that are led each such step
/// Below the lowest plan, where a limit is out of reach: that far the starts are led then.
inline constexpr std::size_t rungs_approached = 8;
/// Passes over the front, and how many neighbours a plan is led to.
inline constexpr std::size_t passes_of_learning = 3, neighbours_learned = 4;
inline constexpr std::size_t first_rungs_down = 4; ///< doubled until a rung is not reached
/// Nodes of a graph whose starts are all led to each limit.
inline constexpr std::size_t searched_anew_below = 161;
/// Where a large graph is searched for the least peak within a time, no more is tried once its nodes times the replays
/// come to so many; an eviction that is priced takes as long as the replay of some nodes.
inline constexpr std::size_t most_work = 300'000'000, nodes_per_price = 8;
/// Of what is left: how many searches there will be is not known.
inline constexpr double progress_part = 1.0 / 16;

// Strategies (strategies.hpp).
/// Nodes of a graph whose cut is lowered towards the bound.
inline constexpr std::size_t lowered_up_to = 8192;
inline constexpr std::size_t cuts_of_lowering = 8; ///< for that bound
inline constexpr double share_of_cuts = 0.1;       ///< of a search for budgets, in its progress

// The report's bound (bound_of_plan.hpp): cuts and places of cuts, by how much a cut takes.
/// What nodes times cuts may come to.
inline constexpr std::size_t nodes_cut = 200'000;
/// The same of cuts where time has a price, of which the first few tell nearly all.
inline constexpr std::size_t nodes_cut_at_prices = 10'000;
/// What nodes times places for the cuts may come to, and how many places there are at least; places or cuts at most.
inline constexpr std::size_t nodes_searched = 50'000, fewest_places = 6, most_cuts = 64;
/// Places, the most loaded ones of the plan, whose cuts tell where else to take some.
inline constexpr std::size_t places_cut_first = 8;

// The host's allocator (allocator_choice.hpp).
/// How often the host's allocator is asked at most.
inline constexpr std::size_t most_questions = 16;
/// Limits lie this part of the first one apart.
inline constexpr std::uint64_t limit_parts = 64;

} // namespace echo::tuning
