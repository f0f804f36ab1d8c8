// SPDX-License-Identifier: BSL-1.0
/// @file
/// `step_resolver`: from the steps of a plan to `resolved_steps`. On the way every rule is checked that needs no
/// storage: those of the steps themselves (step_rules.hpp), and that each step reads the copies that its node needs.
#pragma once

#include <echo/analysis/schedule/schedule.hpp>
#include <echo/analysis/verify/resolved_steps.hpp>
#include <echo/analysis/verify/step_refusal.hpp>
#include <echo/analysis/verify/step_rules.hpp>
#include <echo/error.hpp>
#include <echo/graph/host_abilities.hpp>
#include <echo/graph/id_vector.hpp>
#include <echo/graph/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

namespace echo::detail {

/// Checks the steps of a plan one by one. All that it is given must outlive it.
class step_resolver {
public:
    step_resolver(const snapshot& s, const schedule& given, const host_abilities& host,
                  const id_set<node_id>& dead)
        : s_(s), given_(given), refuse_(s, given), rules_(s, given, host, dead) {}

    /// Errors name the node and the step. O(nodes + steps + copies read).
    resolved_steps operator()() {
        out_.steps.reserve(given_.size() + 1);
        out_.reads.reserve(s_.edge_count());
        out_.copies.reserve(s_.value_count());
        out_.close_step();
        for (const auto t : given_.steps()) {
            at_ = t;
            const step_record& step = given_[t];
            if (step.node.index() >= s_.node_count())
                throw error({}, step_key(t.index()), "names no node of the graph", step_refusal::advice());
            rules_.check(t);
            if (step.kind == step_kind::run || step.kind == step_kind::recompute)
                add_node();
            else
                add_single();
        }
        rules_.check_end();
        return std::move(out_);
    }

private:
    [[noreturn]] void refuse(const std::string& key, const std::string& problem) const {
        refuse_(at_, key, problem);
    }
    [[noreturn]] void refuse_input(std::size_t position, const std::string& problem) const {
        refuse_.of_input(at_, position, problem);
    }

    void add_node() {
        const node_id n = given_[at_].node;
        const auto values = s_.inputs(n);
        const auto sources = given_.inputs(at_);
        if (given_[at_].bytes != 0) refuse("bytes", "belongs to steps that run no node");
        if (sources.size() != values.size())
            refuse("inputs", "are " + std::to_string(sources.size()) + ", but the node has " +
                                 std::to_string(values.size()));
        for (std::size_t i = 0; i < values.size(); ++i) {
            const std::uint32_t copy = resolve(i, sources[i]);
            if (out_.copies[copy] != values[i])
                refuse_input(i, "takes " + shown(out_.copies[copy]) + ", but reads " + shown(values[i]));
            refuse_away(i, sources[i]);
            if (is_packed(sources[i]) && !s_.one_bit(n, i))
                refuse_input(i, "takes an encoding, but needs all bits");
            if (given_[sources[i].step].fused) rules_.check_takes_fused(at_, i);
            out_.reads.push_back(copy);
        }
        rules_.check_control(at_);
        for (const auto v : s_.outputs(n)) out_.copies.push_back(v);
        close(n, 0, false);
    }

    /// A step that takes one copy and makes one, of the same value.
    void add_single() {
        const step_kind kind = given_[at_].kind;
        const std::string key = step_refusal::key_of(kind, 0);
        const auto sources = given_.inputs(at_);
        if (sources.size() != 1) refuse(key, "takes " + std::to_string(sources.size()) + " values");
        const std::uint32_t copy = resolve(0, sources[0]);
        const value_id v = out_.copies[copy];
        if (s_[v].producer != given_[at_].node) refuse(key, "takes " + shown(v));
        const bool packed = is_packed(sources[0]);
        if (kind == step_kind::reload) {
            if (given_[sources[0].step].kind != step_kind::offload)
                refuse(key, "brings back what never left");
            if (given_[at_].bytes != given_[sources[0].step].bytes)
                refuse("bytes", "is " + std::to_string(given_[at_].bytes) + ", but " +
                                    std::to_string(given_[sources[0].step].bytes) + " left");
        } else {
            refuse_away(0, sources[0]);
            if (given_[sources[0].step].fused) refuse(key, "takes what a fused step makes, which is nowhere");
        }
        if (kind == step_kind::encode) check_encode(v, packed);
        out_.reads.push_back(copy);
        out_.copies.push_back(v);
        close(given_[at_].node, given_[at_].bytes, packed || kind == step_kind::encode);
    }
    bool is_packed(copy_id c) const {
        const std::size_t t = c.step.index();
        return out_.steps[t].packed;
    }
    /// Only a reload step reads what lies in the host's memory.
    void refuse_away(std::size_t position, copy_id c) const {
        if (given_[c.step].kind == step_kind::offload)
            refuse_input(position, "takes what lies in the host's memory");
    }

    void check_encode(value_id v, bool packed) const {
        if (packed) refuse("encode", "packs what is packed already");
        const std::uint64_t bytes = given_[at_].bytes;
        const std::uint64_t least = (s_[v].elements / 32 + (s_[v].elements % 32 != 0)) * 4;
        if (bytes < least)
            refuse("bytes", "is " + std::to_string(bytes) + ", but one bit for each element takes " +
                                std::to_string(least));
    }

    std::uint32_t resolve(std::size_t position, copy_id c) const {
        if (!(c.step < at_))
            refuse_input(position, "takes a copy of step " + std::to_string(c.step.index()) +
                                       ", which does not stand earlier");
        if (c.output >= out_.copy_count(c.step.index()))
            refuse_input(position, "takes output " + std::to_string(c.output) + " of step " +
                                       std::to_string(c.step.index()) + ", which has " +
                                       std::to_string(out_.copy_count(c.step.index())));
        return out_.copy_index(c);
    }

    void close(node_id n, std::uint64_t bytes, bool packed) {
        constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
        if (out_.copies.size() >= most || out_.reads.size() >= most)
            refuse({}, "is one too many: the plan has more than 2^32 copies or reads");
        auto& step = out_.steps.back();
        step.node = n;
        step.kind = given_[at_].kind;
        step.bytes = bytes;
        step.fused = given_[at_].fused;
        step.packed = packed;
        out_.any_fused |= step.fused;
        out_.close_step();
    }

    std::string shown(value_id v) const {
        return "output " + std::to_string(s_.output_index(v)) + " of '" + s_.name(s_[v].producer) + "'";
    }

    const snapshot& s_;
    const schedule& given_;
    step_refusal refuse_;
    step_rules rules_;
    step_id at_{};
    resolved_steps out_;
};

} // namespace echo::detail
