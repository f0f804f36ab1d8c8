// expect: Op::forward must take the op's inputs
// SPDX-License-Identifier: BSL-1.0
#include <echo/op_traits.hpp>

struct my_op {
#ifdef REJECT
    static constexpr auto forward = [](float x) { return 2 * x; };
#else
    static constexpr auto forward = [](auto x) { return 2 * x; };
#endif
};
template <>
struct echo::op_traits<my_op> : echo::elementwise<my_op> {};
