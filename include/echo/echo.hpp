// SPDX-License-Identifier: BSL-1.0
/// @file
/// All of Echo that a host needs to read, plan, place and apply. Not included, because not every host wants
/// them: the vocabularies (vocabulary/), the mathematics of the field's ops (ops/) and the Boost.Graph
/// adapter (graph/boost.hpp).
#pragma once

#include <echo/analysis/apply.hpp>
#include <echo/analysis/make_plan.hpp>
#include <echo/analysis/plan_memory.hpp>
#include <echo/analysis/profile.hpp>
#include <echo/analysis/verify.hpp>
#include <echo/error.hpp>
#include <echo/fwd.hpp>
#include <echo/graph/dead_nodes.hpp>
#include <echo/graph/graphviz.hpp>
#include <echo/graph/read.hpp>
#include <echo/op_facts.hpp>
#include <echo/tensor.hpp>
#include <echo/version.hpp>
