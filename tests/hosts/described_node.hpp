// SPDX-License-Identifier: BSL-1.0
/// @file
/// What the nodes of the test hosts have in common: every fact that a snapshot holds of a node, over any
/// handle type.
#pragma once

#include <echo/graph/graph_traits.hpp>
#include <echo/graph/snapshot.hpp>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

namespace hosts {

template <class Handle>
struct described_node {
    using value = echo::value_of<Handle>;

    std::string name, op, layer;
    echo::phase phase = echo::phase::forward;
    echo::op_kind kind = echo::op_kind::light;
    echo::rerun_kind rerun = echo::rerun_kind::pure;
    bool keep = false, unknown = false, is_encode = false;
    double flops = 0;
    std::uint64_t workspace = 0;
    std::optional<double> time_us;
    echo::positions one_bit;
    std::vector<value> inputs;
    std::vector<Handle> control;
    std::vector<echo::tensor> outputs;
    std::optional<echo::tensor> moved{}; ///< of a node that offloads: what left, as it comes back
};

/// Everything of `n` except its edges.
template <class Handle>
described_node<Handle> describe(const echo::snapshot& s, echo::node_id n) {
    const echo::node_record& from = s[n];
    described_node<Handle> to;
    to.name = s.name(n);
    to.op = s.op_name(from.op);
    to.layer = s.layer_name(from.layer);
    to.phase = from.phase;
    to.kind = from.kind;
    to.rerun = from.rerun;
    to.keep = from.keep;
    to.unknown = from.unknown_op;
    to.flops = from.flops;
    to.workspace = from.workspace;
    if (from.time_us >= 0) to.time_us = from.time_us;
    for (std::size_t i = 0; i < s.inputs(n).size(); ++i)
        if (s.one_bit(n, i)) to.one_bit.insert(i);
    for (const auto v : s.outputs(n)) {
        echo::tensor t{.shape = {static_cast<std::int64_t>(s[v].elements)},
                       .type = s[v].type,
                       .bytes = s[v].bytes,
                       .resident = s[v].resident};
        if (s[v].view_of != echo::no_input) t.view_of = s[v].view_of;
        if (s[v].inplace != echo::no_input) t.inplace = s[v].inplace;
        to.outputs.push_back(t);
    }
    return to;
}

/// The node that packs output `output` of `of` into one bit per element.
template <class Handle>
described_node<Handle> make_encode(const described_node<Handle>& of, const echo::value_of<Handle>& v) {
    described_node<Handle> made;
    made.name = of.name + ".encode";
    made.op = "encode";
    made.phase = echo::phase::forward; // a backward node would move the boundary of the stash
    made.is_encode = true;
    made.inputs = {v};
    made.outputs = {{.bytes = echo::encoded_bytes(echo::encodable_elements(of.outputs[v.output]))}};
    return made;
}

/// The node behind which output `v` of `of` has left for the host's memory.
template <class Handle>
described_node<Handle> make_offload(const described_node<Handle>& of, const echo::value_of<Handle>& v,
                                    std::uint64_t bytes) {
    described_node<Handle> made;
    made.name = of.name + ".offload";
    made.op = "offload";
    made.phase = echo::phase::forward; // as that of an encoding
    made.is_encode = of.is_encode;
    made.inputs = {v};
    made.outputs = {{.bytes = 0}};
    made.moved = of.outputs[v.output];
    made.moved->bytes = bytes;
    made.moved->view_of.reset();
    made.moved->inplace.reset();
    return made;
}

/// The node that brings back what left with `of`, whose handle is `offload`.
template <class Handle>
described_node<Handle> make_reload(const described_node<Handle>& of, Handle offload) {
    described_node<Handle> made;
    made.name = of.name + ".reload";
    made.op = "reload";
    made.phase = echo::phase::forward;
    made.is_encode = of.is_encode;
    made.inputs = {{offload, 0}};
    made.outputs = {*of.moved};
    return made;
}

/// `find(handle)` gives the node of a handle. An input that an encoding feeds is no longer read as one bit.
template <class Handle, class Find>
echo::op_facts facts_of(const described_node<Handle>& n, const Find& find) {
    echo::op_facts facts{.name = n.op, .known = !n.unknown, .kind = n.kind, .rerun = n.rerun};
    for (std::size_t i = 0; i < n.inputs.size() && i < 63; ++i)
        if (n.one_bit.contains(i) && !find(n.inputs[i].producer).is_encode) facts.one_bit_inputs.insert(i);
    return facts;
}

/// Nothing is written over an encoding.
template <class Handle, class Find>
std::vector<echo::tensor> outputs_of(const described_node<Handle>& n, const Find& find) {
    auto outputs = n.outputs;
    for (auto& t : outputs)
        if (t.inplace && find(n.inputs[*t.inplace].producer).is_encode) t.inplace.reset();
    return outputs;
}

} // namespace hosts
