// SPDX-License-Identifier: BSL-1.0
/// @file
/// `write_plan`: an `echo-plan/1` file from a document and the text of its report. The same document gives
/// the same bytes.
#pragma once

#include "format/json_out.hpp"
#include "format/plan_document.hpp"

#include <string_view>
#include <vector>

namespace echo::format {
namespace detail {

/// Writes the steps; `inputs` only where a step does not read the latest copies made before it.
class step_writer {
public:
    step_writer(const snapshot& s, const schedule& steps, json_out& out)
        : s_(s), steps_(steps), out_(out), latest_(s.node_count(), step_id::none()) {}

    void operator()(step_id t) {
        const step_record& step = steps_[t];
        const auto inputs = steps_.inputs(t);
        if (step.kind == step_kind::encode) {
            out_.put(R"({"encode": [)", inputs[0].step.index(), ", ", inputs[0].output, R"(], "bytes": )",
                     step.bytes, "}");
            return;
        }
        if (step.kind == step_kind::offload) {
            out_.put(R"({"offload": [)", inputs[0].step.index(), ", ", inputs[0].output, R"(], "bytes": )",
                     step.bytes, "}");
            return;
        }
        if (step.kind == step_kind::reload) {
            out_.put(R"({"reload": )", inputs[0].step.index(), "}");
            return;
        }
        out_.put(R"({"node": )", step.node.index());
        if (step.kind == step_kind::recompute) out_.put(R"(, "recompute": true)");
        if (step.fused) out_.put(R"(, "fused": true)");
        if (!reads_latest(step.node, inputs)) {
            out_.put(R"(, "inputs": [)");
            for (std::string_view comma; const auto c : inputs) {
                out_.put(comma, "[", c.step.index(), ", ", c.output, "]");
                comma = ", ";
            }
            out_.put("]");
        }
        out_.put("}");
        latest_[step.node.index()] = t;
    }

private:
    bool reads_latest(node_id n, std::span<const copy_id> inputs) const {
        for (std::size_t i = 0; const auto v : s_.inputs(n)) {
            const copy_id usual{latest_[s_[v].producer.index()], s_.output_index(v)};
            if (inputs[i++] != usual) return false;
        }
        return true;
    }

    const snapshot& s_;
    const schedule& steps_;
    json_out& out_;
    std::vector<step_id> latest_; ///< per node: the last step so far that ran it
};

} // namespace detail

/// `report` is the JSON of the report object (write_report.hpp). O(steps + copies).
inline void write_plan(const byte_sink& sink, const snapshot& s, const plan_document& d,
                       std::string_view report = "{}") {
    json_out out(sink);
    out.put("{\"format\": \"echo-plan/1\",\n \"graph\": ");
    out.text(d.graph);
    out.put(",\n \"strategy\": ");
    out.text(d.strategy);
    out.put(",\n \"schedule\": [");
    detail::step_writer write_step(s, d.steps, out);
    for (const auto t : d.steps.steps()) {
        out.put(t.index() ? ",\n  " : "\n  ");
        write_step(t);
    }
    out.put("],\n");
    if (d.link) {
        out.put(" \"link\": {\"out_bytes_per_us\": ");
        out.number(d.link.out_bytes_per_us);
        out.put(", \"in_bytes_per_us\": ");
        out.number(d.link.in_bytes_per_us);
        if (!d.link.both_ways) out.put(", \"both_ways\": false");
        if (d.link.host_bytes != link_model{}.host_bytes) out.put(", \"host_bytes\": ", d.link.host_bytes);
        out.put("},\n");
    }
    out.put(" \"stash\": [");
    for (std::string_view comma; const auto c : d.stash) {
        out.put(comma, "\n  [", c.step.index(), ", ", c.output, "]");
        comma = ",";
    }
    out.put("],\n \"arena\": {\"bytes\": ", d.arena_bytes, ", \"align\": ", d.align, ", \"blocks\": [");
    for (std::string_view comma; const auto& b : d.blocks) {
        out.put(comma, "\n  {\"step\": ", b.maker.step.index(), ", \"output\": ", b.maker.output,
                ", \"offset\": ", b.offset, ", \"bytes\": ", b.bytes, "}");
        comma = ",";
    }
    out.put("]},\n \"report\": ", report, "}\n");
    out.flush();
}

} // namespace echo::format
