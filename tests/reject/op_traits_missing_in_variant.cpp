// expect: this op has no op_traits
// SPDX-License-Identifier: BSL-1.0
#include <echo/op_traits.hpp>

#include <variant>

struct first_op {};
struct second_op {};
template <>
struct echo::op_traits<first_op> : echo::stateful {};
#ifndef REJECT
template <>
struct echo::op_traits<second_op> : echo::stateful {};
#endif

echo::op_facts facts(const std::variant<first_op, second_op>& op) { return echo::facts_of(op); }
