// SPDX-License-Identifier: BSL-1.0
/// @file
/// `plan_reader`: what a walk over an `echo-plan/1` file says, put into a `plan_document`. Checked here is
/// that every index names something; whether the plan is sound is for `verify`.
#pragma once

#include "format/plan_document.hpp"
#include "format/plan_grammar.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace echo::format {

/// A handler of `json_walker`. Errors name the step, as `step N`, and the key.
class plan_reader {
public:
    using slot = plan_slot;
    using walker = json_walker<plan_reader, plan_slot, plan_rules>;

    explicit plan_reader(const snapshot& s) : s_(s), latest_(s.node_count(), step_id::none()) {}

    /// Once the walk is over.
    plan_document finish() {
        for (const auto v : s_.results()) {
            const step_id t = latest_[s_[v].producer.index()];
            if (!t.valid() || !d_.steps[t].fused) continue;
            throw error("step " + std::to_string(t.index()), "fused",
                        "'" + s_.name(s_[v].producer) + "' makes a graph output", "do not fuse that step");
        }
        for (const auto& c : stash_) d_.stash.push_back(stored(slot::stash, c));
        for (const auto& b : blocks_) d_.blocks.push_back({stored(slot::blocks, b.maker), b.offset, b.bytes});
        return std::move(d_);
    }

    void begin(slot s) {
        if (s == slot::step) step_ = {};
        if (s == slot::step) in_step_ = true;
        if (s == slot::inputs) step_.has_inputs = true;
        if (s == slot::encode) step_.has_encode = true;
        if (s == slot::offload) step_.has_offload = true;
        if (s == slot::copy || s == slot::encode || s == slot::offload || s == slot::stashed) parts_ = 0;
        if (s == slot::block) blocks_.emplace_back();
    }
    void end(slot s) {
        if (s == slot::copy) step_.inputs.push_back(pair(s));
        if (s == slot::encode || s == slot::offload) step_.inputs.push_back(pair(s));
        if (s == slot::stashed) stash_.push_back(pair(s));
        if (s == slot::step) add_step();
        if (s == slot::step) in_step_ = false;
    }

    void value(slot s, std::uint64_t x);
    void value(slot s, double x) {
        if (!(x > 0)) refuse(s, "is no rate above 0", "say how many bytes the link moves in a microsecond");
        (s == slot::out_rate ? d_.link.out_bytes_per_us : d_.link.in_bytes_per_us) = x;
    }
    void value(slot s, bool x) {
        if (s == slot::both_ways)
            d_.link.both_ways = x;
        else
            (s == slot::fused ? step_.fused : step_.recompute) = x;
    }
    void value(slot s, std::string& x) {
        if (s == slot::graph) d_.graph = x;
        if (s == slot::strategy) d_.strategy = x;
        if (s == slot::format && x != "echo-plan/1")
            refuse(s, "is '" + x + "'", "only plans of the format echo-plan/1 are read");
    }

    [[noreturn]] void refuse(slot s, std::string_view problem, std::string_view advice) const {
        const std::string step = "step " + std::to_string(d_.steps.size());
        throw error(in_step_ || s == slot::step ? step : "", plan_rules[static_cast<std::size_t>(s)].key,
                    problem, advice);
    }

private:
    /// `[step, output]`, not checked yet.
    struct pair_draft {
        std::uint64_t step = 0, output = 0;
    };
    struct step_draft {
        std::optional<std::uint64_t> node{}, bytes{}, reload{};
        bool recompute = false, fused = false, has_inputs = false, has_encode = false, has_offload = false;
        std::vector<pair_draft> inputs{};
    };
    struct block_draft {
        pair_draft maker{};
        std::uint64_t offset = 0, bytes = 0;
    };

    pair_draft pair(slot s) const {
        if (parts_ != 2) refuse(s, "expected [step, output]", "give the index of the step and of its output");
        return pair_;
    }

    /// The copy that a pair names; in a step, earlier ones are the only ones there are yet.
    copy_id existing(slot s, const pair_draft& c) const {
        if (c.step >= d_.steps.size())
            refuse(s,
                   "names step " + std::to_string(c.step) +
                       (in_step_ ? " which does not stand earlier"
                                 : " of a schedule with " + std::to_string(d_.steps.size())),
                   "count steps from 0");
        const step_id t(static_cast<std::size_t>(c.step));
        if (c.output >= copy_count(s_, d_.steps[t]))
            refuse(s, "names an output that step " + std::to_string(c.step) + " has not",
                   "name an existing output");
        return {t, static_cast<std::uint32_t>(c.output)};
    }

    /// Likewise, one that has storage.
    copy_id stored(slot s, const pair_draft& pair) const {
        const copy_id c = existing(s, pair);
        if (d_.steps[c.step].fused)
            refuse(s, "names step " + std::to_string(pair.step) + " which is fused and has no storage",
                   "name what lies in memory");
        if (d_.steps[c.step].kind == step_kind::offload)
            refuse(s, "names step " + std::to_string(pair.step) + " whose copy lies in the host's memory",
                   "name what lies in memory");
        return c;
    }

    void add_step();
    /// A step that runs no node has no key of one that does, and is of one kind.
    void check_alone(slot s) const {
        if (step_.node || step_.has_inputs || step_.recompute || step_.fused ||
            step_.has_encode + step_.has_offload + step_.reload.has_value() > 1)
            refuse(s, "stands beside a key of another step", "make two steps of it");
    }
    void add_encode();
    void add_offload();
    void add_reload();
    void check_in_memory(slot s, copy_id c) const;
    void check_fused(node_id n, const std::vector<copy_id>& inputs) const;

    const snapshot& s_;
    plan_document d_;
    std::vector<step_id> latest_; ///< per node: the last step so far that ran it
    step_draft step_;
    pair_draft pair_;
    std::size_t parts_ = 0;
    bool in_step_ = false;
    std::vector<pair_draft> stash_;
    std::vector<block_draft> blocks_;
};

inline void plan_reader::value(slot s, std::uint64_t x) {
    switch (s) {
    case slot::node:
        step_.node = x;
        break;
    case slot::reload:
        step_.reload = x;
        break;
    case slot::host_bytes:
        d_.link.host_bytes = x;
        break;
    case slot::encode_bytes:
        step_.bytes = x;
        break;
    case slot::arena_bytes:
        d_.arena_bytes = x;
        break;
    case slot::align:
        if (x == 0) refuse(s, "is 0", "give 1 or more");
        d_.align = x;
        break;
    case slot::block_step:
        blocks_.back().maker.step = x;
        break;
    case slot::block_output:
        blocks_.back().maker.output = x;
        break;
    case slot::block_offset:
        blocks_.back().offset = x;
        break;
    case slot::block_bytes:
        blocks_.back().bytes = x;
        break;
    default: // a part of a pair
        if (parts_ < 2) (parts_ == 0 ? pair_.step : pair_.output) = x;
        ++parts_;
    }
}

inline void plan_reader::add_encode() {
    check_alone(slot::encode);
    const copy_id source = existing(slot::encode, step_.inputs[0]);
    check_in_memory(slot::encode, source);
    const step_record& made_by = d_.steps[source.step];
    if (is_encoding(d_.steps, source)) refuse(slot::encode, "names an encoding", "encode a value");
    const std::uint64_t least = encoded_bytes(s_[held_value(s_, d_.steps, source)].elements);
    const std::uint64_t bytes = step_.bytes.value_or(least);
    if (bytes < least || bytes > std::uint64_t{1} << 62)
        refuse(slot::encode_bytes, "is not the size of the packed value",
               "give at least " + std::to_string(least));
    d_.steps.add({.node = made_by.node, .kind = step_kind::encode, .bytes = bytes});
    d_.steps.read(source);
}

inline void plan_reader::check_in_memory(slot s, copy_id c) const {
    if (d_.steps[c.step].fused)
        refuse(s, "names what a fused step makes, which is nowhere", "do not fuse that step");
    if (d_.steps[c.step].kind == step_kind::offload)
        refuse(s, "names what lies in the host's memory", "name what a reload step brings back");
}

/// Without `bytes`, those of the value: of the storage, where that has as many.
inline void plan_reader::add_offload() {
    check_alone(slot::offload);
    const copy_id source = existing(slot::offload, step_.inputs[0]);
    check_in_memory(slot::offload, source);
    const step_record& made_by = d_.steps[source.step];
    const std::uint64_t usual =
        runs_node(made_by.kind) ? s_[s_.output(made_by.node, source.output)].bytes : made_by.bytes;
    const std::uint64_t bytes = step_.bytes.value_or(usual);
    if (bytes > std::uint64_t{1} << 62)
        refuse(slot::encode_bytes, "is not the size of a storage", "give that of the storage that leaves");
    d_.steps.add({.node = made_by.node, .kind = step_kind::offload, .bytes = bytes});
    d_.steps.read(source);
}

inline void plan_reader::add_reload() {
    check_alone(slot::reload);
    const copy_id source = existing(slot::reload, {*step_.reload, 0});
    const step_record& left = d_.steps[source.step];
    if (left.kind != step_kind::offload)
        refuse(slot::reload, "names step " + std::to_string(*step_.reload) + " which is no offload",
               "name the step with which the value left");
    if (step_.bytes && *step_.bytes != left.bytes)
        refuse(slot::encode_bytes, "is not what left", "leave it out");
    d_.steps.add({.node = left.node, .kind = step_kind::reload, .bytes = left.bytes});
    d_.steps.read(source);
}

/// What a step that is fused, or that reads one that is, may not be.
inline void plan_reader::check_fused(node_id n, const std::vector<copy_id>& inputs) const {
    if (step_.fused && !step_.recompute)
        refuse(slot::fused, "'" + s_.name(n) + "' is fused, but is no recompute", "fuse recomputes only");
    if (step_.fused && s_[n].kind == op_kind::heavy)
        refuse(slot::fused, "'" + s_.name(n) + "' is fused, but heavy", "fuse light ops only");
    if (step_.fused) return;
    for (const auto v : s_.outputs(n))
        if (s_[v].view_of != no_input && d_.steps[inputs[s_[v].view_of].step].fused)
            refuse(slot::inputs, "'" + s_.name(n) + "' is a view of what a fused step makes, but not fused",
                   "fuse the view as well");
}

inline void plan_reader::add_step() {
    if (d_.steps.size() + 1 >= step_id::limit())
        refuse(slot::schedule, "more than 2^32 steps", "split the graph");
    if (step_.has_encode) return add_encode();
    if (step_.has_offload) return add_offload();
    if (step_.reload) return add_reload();
    if (!step_.node) refuse(slot::node, "missing", "give node, encode, offload or reload");
    if (*step_.node >= s_.node_count())
        refuse(slot::node, "names node " + std::to_string(*step_.node) + " which the graph has not",
               "read the graph that the plan was made for");
    const node_id n(static_cast<std::size_t>(*step_.node));
    std::vector<copy_id> inputs;
    for (const auto& c : step_.inputs) inputs.push_back(existing(slot::inputs, c));
    if (!step_.has_inputs) {
        for (const auto v : s_.inputs(n)) {
            const step_id latest = latest_[s_[v].producer.index()];
            if (!latest.valid())
                refuse(slot::node, "'" + s_.name(n) + "' runs before '" + s_.name(s_[v].producer) + "'",
                       "put steps in execution order");
            inputs.push_back({latest, s_.output_index(v)});
        }
    }
    if (inputs.size() != s_.inputs(n).size())
        refuse(slot::inputs,
               "has " + std::to_string(inputs.size()) + " entries, but '" + s_.name(n) + "' reads " +
                   std::to_string(s_.inputs(n).size()),
               "name them all, or none");
    check_fused(n, inputs);
    const step_id t = d_.steps.add(
        {.node = n, .kind = step_.recompute ? step_kind::recompute : step_kind::run, .fused = step_.fused});
    for (const auto c : inputs) d_.steps.read(c);
    latest_[n.index()] = t;
}

} // namespace echo::format
