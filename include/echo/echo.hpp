// SPDX-License-Identifier: BSL-1.0
/// @file
/// All of Echo that a host needs to read, plan, place, verify and apply. Not included, because not every host wants
/// them: ops as types (op_traits.hpp, symbol.hpp, ops/), the vocabularies (vocabulary/), the Boost.Graph adapter
/// (graph/boost.hpp), the profile of the peak (analysis/profile.hpp) and drawing (graph/graphviz.hpp).
#pragma once

#include <echo/analysis/apply.hpp>
#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan_memory.hpp>
#include <echo/analysis/schedule/footprint.hpp>
#include <echo/analysis/verify.hpp>
#include <echo/error.hpp>
#include <echo/fwd.hpp>
#include <echo/graph/abilities.hpp>
#include <echo/graph/dead_nodes.hpp>
#include <echo/graph/read.hpp>
#include <echo/op_facts.hpp>
#include <echo/tensor.hpp>
#include <echo/version.hpp>
