// SPDX-License-Identifier: BSL-1.0
/// @file
/// `resolved_steps`: a schedule whose references are indices of copies, for the replay of `verify`. Either
/// the graph's own order, or the steps of a plan, of which every rule that needs no storage is checked on the
/// way.
#pragma once

#include <echo/analysis/plan/plan.hpp>
#include <echo/graph/id_vector.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echo::detail {

/// Copies are numbered through all steps: step t makes those from `steps[t].first_copy` up to that of the
/// next step.
struct resolved_steps {
    struct step {
        node_id node{};
        step_kind kind = step_kind::run;
        std::uint32_t first_copy = 0, first_read = 0;
        std::uint64_t bytes = 0; ///< of an encoding
        bool fused = false;      ///< makes copies that no storage holds
    };
    std::vector<step> steps;          ///< and one more, where the last one's copies and reads end
    std::vector<std::uint32_t> reads; ///< copies named, those of a step in the order of its inputs
    std::vector<value_id> copies;     ///< the value that each copy holds; packed, if an encode step made it
    bool own_order = false;           ///< the graph's order, not that of a plan
    bool any_fused = false;

    std::size_t size() const noexcept { return steps.size() - 1; }
    std::size_t read_count(std::size_t t) const { return steps[t + 1].first_read - steps[t].first_read; }
    std::size_t copy_count(std::size_t t) const { return steps[t + 1].first_copy - steps[t].first_copy; }

    void close_step() {
        steps.push_back({.first_copy = static_cast<std::uint32_t>(copies.size()),
                         .first_read = static_cast<std::uint32_t>(reads.size())});
    }
};

/// `schedule[t]`, as the file calls it.
inline std::string step_key(std::size_t t) { return "schedule[" + std::to_string(t) + "]"; }

/// Every node once, as the file lists them, dead ones included. O(nodes + edges).
inline resolved_steps resolve_own_order(const snapshot& s) {
    resolved_steps out{.steps = {}, .reads = {}, .copies = {}, .own_order = true};
    out.steps.reserve(s.node_count() + 1);
    out.reads.reserve(s.edge_count());
    out.copies.reserve(s.value_count());
    out.close_step();
    for (const auto n : s.nodes()) {
        out.steps.back().node = n;
        for (const auto v : s.inputs(n)) out.reads.push_back(v.index());
        for (const auto v : s.outputs(n)) out.copies.push_back(v);
        out.close_step();
    }
    return out;
}

/// Checks the steps of a plan one by one.
class step_resolver {
public:
    step_resolver(const snapshot& s, const schedule& given, const host_abilities& host,
                  const id_set<node_id>& dead)
        : s_(s), given_(given), host_(host), dead_(dead), ran_(s.node_count()) {}

    /// Errors name the node and the step. O(nodes + steps + copies read).
    resolved_steps operator()() {
        out_.steps.reserve(given_.size() + 1);
        out_.reads.reserve(s_.edge_count());
        out_.copies.reserve(s_.value_count());
        out_.close_step();
        for (const auto t : given_.steps()) {
            const step_record& step = given_[t];
            at_ = t;
            if (step.node.index() >= s_.node_count())
                throw error({}, step_key(at_.index()), "names no node of the graph", advice());
            switch (step.kind) {
            case step_kind::run:
                check_run();
                break;
            case step_kind::recompute:
                check_recompute();
                break;
            case step_kind::encode:
                if (step.fused) refuse("fused", "is fused, but is no recompute");
                add_encode();
                continue;
            default:
                refuse("kind", "is no run, no recompute and no encode");
            }
            if (step.fused) check_fused();
            add_node();
        }
        check_results();
        for (const auto n : s_.nodes()) {
            if (ran_[n]) continue;
            if (!dead_[n])
                throw error(s_.name(n), "schedule", "runs in no step, though it is not dead", advice());
            if (!host_.erase)
                throw error(s_.name(n), "schedule", "is left out, but the host erases no nodes", advice());
        }
        return std::move(out_);
    }

private:
    static std::string_view advice() noexcept { return "make the plan again, for this very graph and host"; }

    [[noreturn]] void refuse(const std::string& key, const std::string& problem) const {
        const node_id n = given_[at_].node;
        throw error(s_.name(n), step_key(at_.index()) + (key.empty() ? "" : "." + key), problem, advice());
    }
    [[noreturn]] void refuse_input(std::size_t position, const std::string& problem) const {
        refuse(given_[at_].kind == step_kind::encode ? "encode" : "inputs[" + std::to_string(position) + "]",
               problem);
    }

    void check_run() {
        const node_id n = given_[at_].node;
        if (ran_[n]) refuse({}, "runs a second time without being a recompute");
        ran_[n] = 1;
        if (latest_run_.valid() && n < latest_run_) {
            if (!host_.move)
                refuse({}, "runs after '" + s_.name(latest_run_) +
                               "', which stands behind it in the graph, but the host moves no nodes");
        } else {
            latest_run_ = n;
        }
        if (s_[n].rerun != rerun_kind::never) return;
        if (latest_never_.valid() && n < latest_never_)
            refuse({}, "runs after '" + s_.name(latest_never_) +
                           "', which stands behind it in the graph; nodes that never rerun keep their order");
        latest_never_ = n;
    }

    void check_recompute() const {
        const node_id n = given_[at_].node;
        const node_record& node = s_[n];
        if (!host_.recompute) refuse({}, "is recomputed, but the host recomputes nothing");
        if (node.phase == phase::input) refuse({}, "is recomputed, but is an input node");
        if (node.rerun == rerun_kind::never) refuse({}, "is recomputed, but may never rerun");
        if (node.keep) refuse({}, "is recomputed, but the host wishes to keep its outputs");
        if (dead_[n]) refuse({}, "is recomputed, but nothing needs it");
        if (!ran_[n]) refuse({}, "is recomputed before it has run");
        if (host_.recompute_results) return;
        for (const auto v : s_.outputs(n))
            if (s_.is_result(v))
                refuse({}, "is recomputed and makes a graph output, which the host cannot redirect");
    }

    void check_fused() {
        const node_record& node = s_[given_[at_].node];
        if (given_[at_].kind != step_kind::recompute) refuse("fused", "is fused, but is no recompute");
        if (!host_.fuse) refuse("fused", "is fused, but the host fuses nothing");
        if (node.kind == op_kind::heavy) refuse("fused", "is fused, but heavy");
        if (!node.same_in_any_kernel())
            refuse("fused", "is fused, but draws random numbers, which another kernel would draw otherwise");
        out_.any_fused = true;
    }

    /// Of a step that takes what a fused step makes.
    void check_takes_in(std::size_t position) const {
        const node_id n = given_[at_].node;
        if (s_[n].kind == op_kind::heavy)
            refuse_input(position,
                         "is recomputed inside the step, which is heavy: hosts fuse into light ops only");
        if (given_[at_].fused) return;
        for (const auto v : s_.outputs(n))
            if (s_[v].view_of == position)
                refuse_input(position, "is fused, but the step, a view of it, is not");
    }

    /// A graph output is the copy of the latest step that produces it.
    void check_results() {
        if (!out_.any_fused) return;
        id_vector<node_id, step_id> latest(s_.node_count(), step_id::none());
        for (const auto t : given_.steps())
            if (given_[t].kind != step_kind::encode) latest[given_[t].node] = t;
        for (const auto v : s_.results()) {
            at_ = latest[s_[v].producer];
            if (at_.valid() && given_[at_].fused) refuse("fused", "is fused, but makes a graph output");
        }
    }

    void add_node() {
        const node_id n = given_[at_].node;
        const auto values = s_.inputs(n);
        const auto sources = given_.inputs(at_);
        if (given_[at_].bytes != 0) refuse("bytes", "belongs to encode steps only");
        if (sources.size() != values.size())
            refuse("inputs", "are " + std::to_string(sources.size()) + ", but the node has " +
                                 std::to_string(values.size()));
        for (std::size_t i = 0; i < values.size(); ++i) {
            const std::uint32_t copy = resolve(i, sources[i]);
            if (out_.copies[copy] != values[i])
                refuse_input(i, "takes " + shown(out_.copies[copy]) + ", but reads " + shown(values[i]));
            if (given_[sources[i].step].kind == step_kind::encode && !s_.one_bit(n, i))
                refuse_input(i, "takes an encoding, but needs all bits");
            if (given_[sources[i].step].fused) check_takes_in(i);
            out_.reads.push_back(copy);
        }
        for (const auto c : s_.control(n))
            if (!ran_[c]) refuse("control", "runs before '" + s_.name(c) + "', which it must run after");
        for (const auto v : s_.outputs(n)) out_.copies.push_back(v);
        close(n, 0);
    }

    void add_encode() {
        if (!host_.encode) refuse("encode", "is packed, but the host encodes nothing");
        const auto sources = given_.inputs(at_);
        if (sources.size() != 1) refuse("encode", "packs " + std::to_string(sources.size()) + " values");
        const std::uint32_t copy = resolve(0, sources[0]);
        if (given_[sources[0].step].kind == step_kind::encode)
            refuse("encode", "packs what is packed already");
        if (given_[sources[0].step].fused)
            refuse("encode", "packs what a fused step makes, which is nowhere");
        const value_id v = out_.copies[copy];
        if (s_[v].producer != given_[at_].node) refuse("encode", "packs " + shown(v));
        const std::uint64_t bytes = given_[at_].bytes;
        const std::uint64_t least = (s_[v].elements / 32 + (s_[v].elements % 32 != 0)) * 4;
        if (bytes < least)
            refuse("bytes", "is " + std::to_string(bytes) + ", but one bit for each element takes " +
                                std::to_string(least));
        out_.reads.push_back(copy);
        out_.copies.push_back(v);
        close(given_[at_].node, bytes);
    }

    std::uint32_t resolve(std::size_t position, copy_id c) const {
        if (!(c.step < at_))
            refuse_input(position, "takes a copy of step " + std::to_string(c.step.index()) +
                                       ", which does not stand earlier");
        if (c.output >= out_.copy_count(c.step.index()))
            refuse_input(position, "takes output " + std::to_string(c.output) + " of step " +
                                       std::to_string(c.step.index()) + ", which has " +
                                       std::to_string(out_.copy_count(c.step.index())));
        return out_.steps[c.step.index()].first_copy + c.output;
    }

    void close(node_id n, std::uint64_t bytes) {
        constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
        if (out_.copies.size() >= most || out_.reads.size() >= most)
            refuse({}, "is one too many: the plan has more than 2^32 copies or reads");
        auto& step = out_.steps.back();
        step.node = n;
        step.kind = given_[at_].kind;
        step.bytes = bytes;
        step.fused = given_[at_].fused;
        out_.close_step();
    }

    std::string shown(value_id v) const {
        return "output " + std::to_string(s_.output_index(v)) + " of '" + s_.name(s_[v].producer) + "'";
    }

    const snapshot& s_;
    const schedule& given_;
    const host_abilities& host_;
    const id_set<node_id>& dead_;
    id_set<node_id> ran_; ///< its first run stands earlier
    node_id latest_run_ = node_id::none(), latest_never_ = node_id::none();
    step_id at_{};
    resolved_steps out_;
};

} // namespace echo::detail
