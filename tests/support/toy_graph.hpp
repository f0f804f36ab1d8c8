// SPDX-License-Identifier: BSL-1.0
/// @file
/// Small graphs by hand: one line per op. Sizes are bytes; nodes and values are the same thing, because every
/// node makes one value unless said otherwise.
#pragma once

#include <echo/graph/snapshot_builder.hpp>

#include <string>
#include <utility>
#include <vector>

namespace support {

class toy_graph {
public:
    using value = echo::value_id;

    value input(std::uint64_t bytes) {
        return add({.phase = echo::phase::input, .rerun = echo::rerun_kind::never}, {}, {{.bytes = bytes}});
    }
    value light(std::vector<value> in, std::uint64_t bytes) {
        return add({.kind = echo::op_kind::light, .rerun = echo::rerun_kind::pure}, in, {{.bytes = bytes}});
    }
    value heavy(std::vector<value> in, std::uint64_t bytes) {
        return add({.kind = echo::op_kind::heavy, .rerun = echo::rerun_kind::pure}, in, {{.bytes = bytes}});
    }
    value view(value of) {
        return add({.kind = echo::op_kind::view, .rerun = echo::rerun_kind::pure}, {of},
                   {{.bytes = so_far()[of].bytes, .view_of = 0}});
    }
    /// The backward pass begins: a node that reads nothing.
    value seed() { return backward({}, 1); }
    value backward(std::vector<value> in, std::uint64_t bytes, echo::positions one_bit = {}) {
        return add({.phase = echo::phase::backward,
                    .kind = echo::op_kind::light,
                    .rerun = echo::rerun_kind::pure,
                    .one_bit_inputs = one_bit},
                   in, {{.bytes = bytes}});
    }
    value heavy_backward(std::vector<value> in, std::uint64_t bytes) {
        return add(
            {.phase = echo::phase::backward, .kind = echo::op_kind::heavy, .rerun = echo::rerun_kind::pure},
            in, {{.bytes = bytes}});
    }
    value backward_view(value of) {
        return add(
            {.phase = echo::phase::backward, .kind = echo::op_kind::view, .rerun = echo::rerun_kind::pure},
            {of}, {{.bytes = so_far()[of].bytes, .view_of = 0}});
    }
    /// The first output of a node of which all is said.
    value add(echo::node_description d, std::vector<value> in, std::vector<echo::tensor> out) {
        const std::string name = std::to_string(builder_.node_count());
        for (auto& t : out)
            if (t.type == echo::dtype::other) t.type = echo::dtype::f32;
        d.name = name;
        d.inputs = in;
        d.outputs = out;
        return builder_.output(builder_.add(d), 0);
    }
    static value output(value first, std::size_t k) { return value(first.index() + k); }
    echo::node_id node(value v) const { return so_far()[v].producer; }
    const echo::snapshot& so_far() const { return builder_.so_far(); }
    const echo::snapshot_builder& builder() const { return builder_; }

    echo::snapshot finish(std::vector<value> results) {
        for (const auto v : results) builder_.add_result(v);
        return std::move(builder_).finish();
    }

private:
    echo::snapshot_builder builder_;
};

} // namespace support
