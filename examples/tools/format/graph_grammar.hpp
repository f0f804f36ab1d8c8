// SPDX-License-Identifier: BSL-1.0
/// @file
/// The grammar of `echo-graph/1`: which keys stand in which object, and the JSON type of each.
#pragma once

#include "format/json_walker.hpp"

namespace echo::format {

enum class graph_slot : std::uint8_t {
    document,
    format,
    graph_name,
    nodes,
    results,
    residents,
    node,
    name,
    op,
    phase,
    layer,
    inputs,
    control,
    outputs,
    flops,
    time_us,
    workspace,
    kind,
    rerun,
    one_bit_inputs,
    output,
    dtype,
    shape,
    bytes,
    view_of,
    inplace,
    input,
    result,
    resident,
    control_node,
    position,
    extent,
    input_part,
    result_part,
    resident_part,
    ignored
};

inline constexpr grammar<graph_slot> graph_rules = [] {
    using enum graph_slot;
    using enum json_type;
    return grammar<graph_slot>{{
        {"", object},
        {"format", text, document, true},
        {"name", text, document},
        {"nodes", array, document, true, node},
        {"outputs", array, document, true, result},
        {"resident", array, document, false, resident},
        {"nodes", object},
        {"name", text, node},
        {"op", text, node, true},
        {"phase", text, node, true},
        {"layer", text, node},
        {"inputs", array, node, true, input},
        {"control", array, node, false, control_node},
        {"outputs", array, node, true, output},
        {"flops", number, node},
        {"time_us", number, node},
        {"workspace", whole, node},
        {"kind", text, node},
        {"rerun", text, node},
        {"one_bit_inputs", array, node, false, position},
        {"outputs", object},
        {"dtype", text, output},
        {"shape", array, output, false, extent},
        {"bytes", whole, output},
        {"view_of", whole, output},
        {"inplace", whole, output},
        {"inputs", array, ignored, false, input_part},
        {"outputs", array, ignored, false, result_part},
        {"resident", array, ignored, false, resident_part},
        {"control", whole},
        {"one_bit_inputs", whole},
        {"shape", whole},
        {"inputs", whole},
        {"outputs", whole},
        {"resident", whole},
        {"", any},
    }};
}();

} // namespace echo::format
