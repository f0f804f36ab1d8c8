// SPDX-License-Identifier: BSL-1.0
/// @file
/// `write_graph`: an `echo-graph/1` file of a snapshot, for tools that look at a host's graph from outside. What the
/// format has no key for (`keep`, `may_fuse`, `draws_by_element`) is left out. Of shapes a snapshot keeps the number of
/// elements; it is written where the bytes do not tell it.
#pragma once

#include "format/json_out.hpp"

#include <echo/graph/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace echo::format {

namespace detail {

class graph_writer {
public:
    graph_writer(const snapshot& s, json_out& out) : s_(s), out_(out) {}

    void operator()(node_id n) {
        const node_record& of = s_[n];
        out_.put("{\"name\": ");
        out_.text(s_.name(n));
        text(", \"op\": ", s_.op_name(of.op));
        text(", \"phase\": ", name_of(of.phase));
        if (!s_.layer_name(of.layer).empty()) text(", \"layer\": ", s_.layer_name(of.layer));
        if (!of.unknown_op) text(", \"kind\": ", name_of(of.kind));
        if (!of.unknown_op) text(", \"rerun\": ", name_of(of.rerun));
        out_.put(", \"inputs\": ");
        list(s_.sources(n), [&](const edge_source& x) { pair(x.producer.index(), x.output); });
        out_.put(", \"outputs\": ");
        list(s_.outputs(n), [&](value_id v) { output(v); });
        if (!s_.control(n).empty()) {
            out_.put(", \"control\": ");
            list(s_.control(n), [&](node_id c) { out_.put(c.index()); });
        }
        one_bit(n);
        if (of.flops > 0) number(", \"flops\": ", of.flops);
        if (of.time_us >= 0) number(", \"time_us\": ", of.time_us);
        if (of.workspace > 0) out_.put(", \"workspace\": ", of.workspace);
        out_.put("}");
    }

    template <class Range, class Write>
    void list(const Range& all, const Write& write) {
        out_.put("[");
        for (std::string_view comma; const auto& one : all) {
            out_.put(comma);
            write(one);
            comma = ", ";
        }
        out_.put("]");
    }
    void value(value_id v) { pair(s_[v].producer.index(), s_.output_index(v)); }

private:
    void text(std::string_view key, std::string_view value) {
        out_.put(key);
        out_.text(value);
    }
    void number(std::string_view key, double value) {
        out_.put(key);
        out_.number(value);
    }
    void pair(std::uint32_t node, std::uint32_t output) { out_.put("[", node, ", ", output, "]"); }

    void output(value_id v) {
        out_.put("{\"bytes\": ", s_[v].bytes);
        if (s_[v].type != dtype::other) text(", \"dtype\": ", name_of(s_[v].type));
        if (s_[v].elements != encodable_elements({.type = s_[v].type, .bytes = s_[v].bytes}))
            out_.put(", \"shape\": [", s_[v].elements, "]");
        if (s_[v].view_of != no_input) out_.put(", \"view_of\": ", s_[v].view_of);
        if (s_[v].inplace != no_input) out_.put(", \"inplace\": ", s_[v].inplace);
        out_.put("}");
    }

    void one_bit(node_id n) {
        std::string_view comma;
        for (std::size_t i = 0; i < s_.inputs(n).size(); ++i) {
            if (!s_.one_bit(n, i)) continue;
            out_.put(comma.empty() ? ", \"one_bit_inputs\": [" : comma, i);
            comma = ", ";
        }
        if (!comma.empty()) out_.put("]");
    }

    const snapshot& s_;
    json_out& out_;
};

} // namespace detail

/// The graph under that name. O(nodes + edges).
inline void write_graph(const byte_sink& sink, const snapshot& s, std::string_view name) {
    json_out out(sink);
    detail::graph_writer write(s, out);
    out.put("{\"format\": \"echo-graph/1\",\n \"name\": ");
    out.text(name);
    out.put(",\n \"nodes\": [");
    for (const auto n : s.nodes()) {
        out.put(n.index() ? ",\n  " : "\n  ");
        write(n);
    }
    out.put("],\n \"outputs\": ");
    write.list(s.results(), [&](value_id v) { write.value(v); });
    out.put(",\n \"resident\": ");
    std::vector<value_id> resident;
    for (const auto v : s.values())
        if (s[v].resident && s[s[v].producer].phase != phase::input) resident.push_back(v);
    write.list(resident, [&](value_id v) { write.value(v); });
    out.put("}\n");
    out.flush();
}

} // namespace echo::format
