// expect: an element-wise op states `static constexpr auto forward`
// SPDX-License-Identifier: BSL-1.0
#include <echo/op_traits.hpp>

struct my_op {};
#ifdef REJECT
template <>
struct echo::op_traits<my_op> : echo::elementwise<my_op> {};
#else
template <>
struct echo::op_traits<my_op> : echo::light<my_op> {};
#endif
