// expect: Op::gradient must return one gradient per input of Op::forward
// SPDX-License-Identifier: BSL-1.0
#include <echo/op_traits.hpp>

struct my_op {
    static constexpr auto forward = [](auto a, auto b) { return a * b; };
#ifdef REJECT
    static constexpr auto gradient = [](auto dy, auto, auto b, auto) { return dy * b; };
#else
    static constexpr auto gradient = [](auto dy, auto, auto b, auto) {
        return std::tuple{dy * b, echo::no_gradient{}};
    };
#endif
};
template <>
struct echo::op_traits<my_op> : echo::light<my_op> {};

static_assert(echo::facts_of<my_op>().gradient_reads == echo::reads{.inputs = {1}});
