// expect: Op::forward must be a constant expression on echo::real<float>
// SPDX-License-Identifier: BSL-1.0
#include <echo/op_traits.hpp>

#ifdef REJECT
double gain();
#else
constexpr double gain() { return 2; }
#endif

struct my_op {
    static constexpr auto forward = [](auto x) { return gain() * x; };
};
template <>
struct echo::op_traits<my_op> : echo::elementwise<my_op> {};
