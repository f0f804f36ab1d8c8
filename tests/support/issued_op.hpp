// SPDX-License-Identifier: BSL-1.0
/// @file
/// `issued_op`: what a device keeps of an op that runs later than it is issued.
#pragma once

#include "engine/call.hpp"

#include <list>
#include <vector>

namespace support {

/// All of a call by value, as a kernel has its arguments.
struct issued_op {
    engine::op what;
    engine::call with;
    std::list<echo::tensor> tensors{};
    std::vector<engine::input_view> in{};
    std::vector<engine::output_view> out{};

    issued_op(const engine::op& o, const engine::call& c) : what(o), with(c) {
        for (const auto& i : c.inputs) in.push_back({i.data, &tensors.emplace_back(*i.what), i.packed});
        for (const auto& k : c.outputs) out.push_back({k.data, &tensors.emplace_back(*k.what)});
        with.inputs = {}, with.outputs = {};
    }
    issued_op(const issued_op&) = delete;
};

} // namespace support
