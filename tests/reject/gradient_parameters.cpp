// expect: Op::gradient must take the output gradients, then the inputs, then the outputs of Op::forward
// SPDX-License-Identifier: BSL-1.0
#include <echo/op_traits.hpp>

struct my_op {
    static constexpr auto forward = [](auto x) { return tanh(x); };
#ifdef REJECT
    static constexpr auto gradient = [](auto dy, auto y) { return dy * (1 - y * y); };
#else
    static constexpr auto gradient = [](auto dy, auto, auto y) { return dy * (1 - y * y); };
#endif
};
template <>
struct echo::op_traits<my_op> : echo::elementwise<my_op> {};

static_assert(echo::facts_of<my_op>().gradient_reads == echo::reads{.outputs = {0}});
