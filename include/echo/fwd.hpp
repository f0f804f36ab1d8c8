// SPDX-License-Identifier: BSL-1.0
/// @file
/// Declarations of Echo's main types, for headers that only name them.
#pragma once

#include <echo/config.hpp>

#include <cstdint>

namespace echo {

class error;
enum class dtype : std::uint8_t;
class shape;
struct tensor;
struct op_facts;
enum class op_kind : std::uint8_t;
enum class rerun_kind : std::uint8_t;
enum class phase : std::uint8_t;

template <class Op>
struct op_traits;
template <class G>
struct graph_traits;
template <class Node>
struct value_of;

class snapshot;
class schedule;
class plan;
class memory_plan;
struct plan_options;
struct plan_report;
struct host_abilities;

} // namespace echo
