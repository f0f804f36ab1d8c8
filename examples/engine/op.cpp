// SPDX-License-Identifier: BSL-1.0
#include "engine/op.hpp"

namespace engine {

std::string_view name_of(const op& o) {
    return std::visit([](const auto& one) -> std::string_view { return one.name; }, o);
}

tensors infer(const op& o, tensor_span in) {
    return std::visit([&](const auto& one) { return one.infer(in); }, o);
}

echo::op_facts facts(const op& o) {
    return std::visit([](const auto& one) { return one.facts(); }, o);
}

double flops(const op& o, tensor_span in, tensor_span out) {
    return std::visit(
        [&](const auto& one) -> double {
            if constexpr (requires { one.flops(in, out); })
                return one.flops(in, out);
            else
                return 0;
        },
        o);
}

namespace {

template <class Op>
constexpr bool by_element = false;
template <class Op>
constexpr bool by_element<ops::elementwise<Op>> = true;
template <class Op, std::size_t I>
constexpr bool by_element<ops::elementwise_gradient<Op, I>> = true;
template <class Op>
constexpr bool by_element<ops::broadcast<Op>> = true;
template <>
constexpr bool by_element<ops::add_n> = true;
template <>
constexpr bool by_element<ops::batch_norm> = true;

} // namespace

bool may_fuse(const op& o) {
    return std::visit([]<class Op>(const Op&) { return by_element<Op>; }, o);
}

} // namespace engine
