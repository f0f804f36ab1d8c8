// SPDX-License-Identifier: BSL-1.0
/// @file
/// `graph_reader`: what a walk over an `echo-graph/1` file says, put into drafts of nodes for a
/// `graph_assembler`. What an index refers to is the assembler's affair.
#pragma once

#include "format/graph_assembler.hpp"
#include "format/graph_grammar.hpp"

#include <limits>
#include <string>
#include <vector>

namespace echo::format {

/// A handler of `json_walker`. Every error is an `echo::error` that names the node and the key.
class graph_reader {
public:
    using slot = graph_slot;
    using walker = json_walker<graph_reader, graph_slot, graph_rules>;

    explicit graph_reader(graph_assembler& assembler) : assembler_(assembler) {}

    const std::vector<edge_draft>& results() const noexcept { return results_; }
    const std::vector<edge_draft>& residents() const noexcept { return residents_; }

    void begin(slot s) {
        if (s == slot::node) {
            draft_.clear();
            in_node_ = true;
        } else if (s == slot::output) {
            draft_.outputs.push_back({.first_extent = draft_.extents.size()});
            dtype_.clear();
            in_output_ = true;
        } else if (s == slot::shape) {
            draft_.outputs.back().has_shape = true;
        } else if (s == slot::input || s == slot::result || s == slot::resident) {
            edge_parts_ = 0;
        }
    }

    void end(slot s) {
        if (s == slot::node) {
            assembler_.add(draft_);
            in_node_ = false;
        } else if (s == slot::output) {
            end_output();
            in_output_ = false;
        } else if (s == slot::input) {
            draft_.inputs.push_back(edge(s));
        } else if (s == slot::result) {
            results_.push_back(edge(s));
        } else if (s == slot::resident) {
            residents_.push_back(edge(s));
        }
    }

    void value(slot s, std::uint64_t x);
    void value(slot s, double x) { (s == slot::flops ? draft_.flops : draft_.time_us.emplace()) = x; }
    void value(slot, bool) {}
    void value(slot s, std::string& x);

    [[noreturn]] void refuse(slot s, std::string_view problem, std::string_view advice) const;

private:
    edge_draft edge(slot s) const {
        if (edge_parts_ != 2)
            refuse(s, "expected [node, output], got " + std::to_string(edge_parts_) + " numbers",
                   "give the index of the node and of its output");
        return edge_;
    }
    void end_output() const {
        const output_draft& o = draft_.outputs.back();
        if (!o.bytes && o.has_shape && !dtype_.empty() && size_of(o.type) == 0)
            refuse(slot::bytes, "missing for dtype '" + dtype_ + "' whose size is not known", "give bytes");
    }

    /// The enumerator of that name, out of 0 to `last`.
    template <class Enum>
    Enum choose(slot s, const std::string& name, Enum last) const {
        std::string names;
        for (std::uint8_t i = 0; i <= static_cast<std::uint8_t>(last); ++i) {
            if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
            names += (i ? ", " : "") + std::string(name_of(static_cast<Enum>(i)));
        }
        refuse(s, "is '" + name + "'", "give one of " + names);
    }

    graph_assembler& assembler_;
    node_draft draft_;
    std::vector<edge_draft> results_, residents_;
    edge_draft edge_;
    std::size_t edge_parts_ = 0;
    std::string dtype_; ///< of the output at work, as written
    bool in_node_ = false, in_output_ = false;
};

inline void graph_reader::value(slot s, std::uint64_t x) {
    switch (s) {
    case slot::workspace:
        draft_.workspace = x;
        break;
    case slot::bytes:
        draft_.outputs.back().bytes = x;
        break;
    case slot::view_of:
        draft_.outputs.back().view_of = x;
        break;
    case slot::inplace:
        draft_.outputs.back().inplace = x;
        break;
    case slot::extent:
        if (x > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
            refuse(s, "an extent does not fit in 63 bits", "check the extents");
        draft_.extents.push_back(static_cast<std::int64_t>(x));
        ++draft_.outputs.back().rank;
        break;
    case slot::position:
        draft_.one_bit_inputs.push_back(x);
        break;
    case slot::control_node:
        draft_.control.push_back(x);
        break;
    default: // a part of an edge
        if (edge_parts_ < 2) (edge_parts_ == 0 ? edge_.node : edge_.output) = x;
        ++edge_parts_;
    }
}

inline void graph_reader::value(slot s, std::string& x) {
    switch (s) {
    case slot::format:
        if (x != "echo-graph/1")
            refuse(s, "is '" + x + "'", "only files of the format echo-graph/1 are read");
        break;
    case slot::graph_name:
        assembler_.set_name(x);
        break;
    case slot::name:
        draft_.name = x;
        break;
    case slot::op:
        draft_.op = x;
        break;
    case slot::layer:
        draft_.layer = x;
        break;
    case slot::phase:
        draft_.phase = choose(s, x, echo::phase::update);
        break;
    case slot::kind:
        draft_.kind = choose(s, x, op_kind::view);
        break;
    case slot::rerun:
        draft_.rerun = choose(s, x, rerun_kind::never);
        break;
    default: // dtype
        draft_.outputs.back().type = dtype_of(x);
        dtype_ = x;
    }
}

inline void graph_reader::refuse(slot s, std::string_view problem, std::string_view advice) const {
    const std::string_view name = graph_rules[static_cast<std::size_t>(s)].key;
    std::string node, key(name);
    if (in_node_)
        node = draft_.name.empty() ? "#" + std::to_string(assembler_.size()) : draft_.name;
    else if (s == slot::node)
        node = "#" + std::to_string(assembler_.size());
    if (in_output_)
        key = "outputs[" + std::to_string(draft_.outputs.size() - 1) + "]." + key;
    else if (s == slot::output)
        key += "[" + std::to_string(draft_.outputs.size()) + "]";
    throw error(node, key, problem, advice);
}

} // namespace echo::format
