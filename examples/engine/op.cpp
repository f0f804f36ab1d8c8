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

} // namespace engine
