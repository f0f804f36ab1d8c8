// expect: deleted
// SPDX-License-Identifier: BSL-1.0
#include <echo/op_traits.hpp>

struct my_op {
    static constexpr auto forward = [](auto x) {
#ifdef REJECT
        if (x > 0) return 1 * x;
        return 2 * x;
#else
        return select(x > 0, 1 * x, 2 * x);
#endif
    };
};
template <>
struct echo::op_traits<my_op> : echo::light<my_op> {};

static_assert(echo::facts_of<my_op>().kind == echo::op_kind::light);
