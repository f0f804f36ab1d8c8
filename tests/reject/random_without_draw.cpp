// expect: a random op states `static constexpr bool is_random = true`
// SPDX-License-Identifier: BSL-1.0
#include <echo/op_traits.hpp>

struct my_op {
#ifndef REJECT
    static constexpr bool is_random = true;
#endif
    static constexpr auto forward = [](auto x, auto u) { return x + u; };
};
template <>
struct echo::op_traits<my_op> : echo::random<my_op> {};
