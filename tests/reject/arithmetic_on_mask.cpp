// expect: x * (m > 0)
// SPDX-License-Identifier: BSL-1.0
#include <echo/op_traits.hpp>

struct my_op {
    static constexpr auto forward = [](auto x, auto m) {
#ifdef REJECT
        return x * (m > 0);
#else
        return x * select(m > 0, 1, 0);
#endif
    };
};
template <>
struct echo::op_traits<my_op> : echo::light<my_op> {};

static_assert(echo::facts_of<my_op>().one_bit_inputs == echo::positions{1});
