// SPDX-License-Identifier: BSL-1.0
/// @file
/// The grammar of `echo-plan/1`: which keys stand in which object, and the JSON type of each. The report is
/// derived from the rest and not read.
#pragma once

#include "format/json_walker.hpp"

namespace echo::format {

enum class plan_slot : std::uint8_t {
    document,
    format,
    graph,
    strategy,
    schedule,
    stash,
    arena,
    report,
    step,
    node,
    recompute,
    fused,
    inputs,
    encode,
    encode_bytes,
    offload,
    reload,
    link,
    out_rate,
    in_rate,
    both_ways,
    host_bytes,
    copy,
    stashed,
    arena_bytes,
    align,
    blocks,
    block,
    block_step,
    block_output,
    block_offset,
    block_bytes,
    copy_part,
    encode_part,
    offload_part,
    stash_part,
    ignored
};

inline constexpr grammar<plan_slot> plan_rules = [] {
    using enum plan_slot;
    using enum json_type;
    return grammar<plan_slot>{{
        {"", object},
        {"format", text, document, true},
        {"graph", text, document},
        {"strategy", text, document},
        {"schedule", array, document, true, step},
        {"stash", array, document, false, stashed},
        {"arena", object, document},
        {"report", object, document},
        {"schedule", object},
        {"node", whole, step},
        {"recompute", boolean, step},
        {"fused", boolean, step},
        {"inputs", array, step, false, copy},
        {"encode", array, step, false, encode_part},
        {"bytes", whole, step},
        {"offload", array, step, false, offload_part},
        {"reload", whole, step},
        {"link", object, document},
        {"out_bytes_per_us", number, link, true},
        {"in_bytes_per_us", number, link, true},
        {"both_ways", boolean, link},
        {"host_bytes", whole, link},
        {"inputs", array, ignored, false, copy_part},
        {"stash", array, ignored, false, stash_part},
        {"bytes", whole, arena, true},
        {"align", whole, arena},
        {"blocks", array, arena, true, block},
        {"blocks", object},
        {"step", whole, block, true},
        {"output", whole, block, true},
        {"offset", whole, block, true},
        {"bytes", whole, block, true},
        {"inputs", whole},
        {"encode", whole},
        {"offload", whole},
        {"stash", whole},
        {"", any},
    }};
}();

} // namespace echo::format
