// expect: this op has no op_traits: specialise echo::op_traits<Op> by inheriting a category
// SPDX-License-Identifier: BSL-1.0
#include <echo/op_traits.hpp>

struct my_op {};
#ifndef REJECT
template <>
struct echo::op_traits<my_op> : echo::compute_heavy<my_op> {};
#endif

static_assert(echo::facts_of<my_op>().name == "my_op");
