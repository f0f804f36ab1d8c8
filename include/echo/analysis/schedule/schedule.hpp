// SPDX-License-Identifier: BSL-1.0
/// @file
/// `schedule`: the steps of a plan as a value. A step runs a node, runs it again, packs a value into one bit per
/// element, or moves a copy to the host's memory or back; each of its inputs names the step that made the copy that it
/// reads.
#pragma once

#include <echo/graph/id_vector.hpp>
#include <echo/graph/snapshot.hpp>

#include <cstdint>
#include <span>

namespace echo {

/// What a step does: it runs a node, runs it again, encodes a value in one bit per element, waits until a copy has
/// left for the host's memory, or begins to bring one back (docs/formats.md, "Offload").
enum class step_kind : std::uint8_t { run, recompute, encode, offload, reload };

/// Whether a step of this kind runs a node.
constexpr bool runs_node(step_kind kind) noexcept {
    return kind == step_kind::run || kind == step_kind::recompute;
}

/// One output of one step: a copy of a value, or an encoding (output 0 of an encode step). What an offload step makes
/// lies in the host's memory; what a reload step makes is once more what left.
struct copy_id {
    /// The step that makes it.
    step_id step{};
    /// Which of the step's outputs, from 0.
    std::uint32_t output = 0;
    friend constexpr auto operator<=>(const copy_id&, const copy_id&) = default;
};

/// One step as `schedule` keeps it. For the kinds that run no node, `node` is the producer of the value.
struct step_record {
    /// What runs.
    node_id node{};
    /// What it does.
    step_kind kind = step_kind::run;
    /// Of a recompute: the host recomputes it inside its readers. Its outputs have no storage and it takes no time;
    /// whoever reads them reads its inputs instead, then (read_walk.hpp).
    bool fused = false;
    std::uint64_t bytes = 0; ///< of the encoding, or of what is moved; 0 for the kinds that run a node
    friend bool operator==(const step_record&, const step_record&) = default;
};

/// Steps in execution order. `inputs(t)` has one copy per input of the node, in order; one for a step that runs no
/// node: the copy that is packed or that leaves, or for a reload step, what its offload step made.
class schedule {
public:
    std::size_t size() const noexcept { return steps_.size(); }
    bool empty() const noexcept { return steps_.empty(); }
    /// All steps, in the order in which they run.
    id_range<step_id> steps() const noexcept { return {0, steps_.size()}; }
    /// What a step does. O(1).
    const step_record& operator[](step_id t) const { return steps_[t]; }
    /// What a step reads. O(1).
    std::span<const copy_id> inputs(step_id t) const {
        return {inputs_.data() + first_[t], inputs_.data() + first_[t.next()]};
    }

    /// No step; the memory is kept.
    void clear() noexcept {
        steps_.clear();
        inputs_.clear();
        first_.resize(1);
        fused_ = 0;
    }
    /// Room for so many, so that adding them takes no memory.
    void reserve(std::size_t steps, std::size_t inputs) {
        steps_.reserve(steps);
        first_.reserve(steps + 1);
        inputs_.reserve(inputs);
    }
    /// Appends a step without inputs; `read` then appends them one by one. O(1) amortised.
    step_id add(const step_record& step) {
        return add(step, 0, [](std::size_t) { return copy_id{}; });
    }
    /// Appends a step with so many inputs, the one at position `k` being `copy_at(k)`. O(inputs) amortised.
    template <class CopyAt>
    step_id add(const step_record& step, std::size_t inputs, const CopyAt& copy_at) {
        step_record& added = steps_.add();
        added.node = step.node, added.kind = step.kind, added.fused = step.fused, added.bytes = step.bytes;
        fused_ += step.fused;
        for (std::size_t k = 0; k < inputs; ++k) inputs_.push_back(copy_at(k));
        first_.add() = static_cast<std::uint32_t>(inputs_.size());
        return step_id(steps_.size() - 1);
    }
    /// One more input of the last step. O(1) amortised.
    void read(copy_id copy) {
        inputs_.push_back(copy);
        ++first_.back();
    }
    /// Marks a recompute as fused, or takes the mark off. O(1).
    void fuse(step_id t, bool fused = true) {
        fused_ += std::size_t{fused} - std::size_t{steps_[t].fused};
        steps_[t].fused = fused;
    }
    /// How many steps run inside their readers. O(1).
    std::size_t fused_count() const noexcept { return fused_; }

    friend bool operator==(const schedule&, const schedule&) = default;

private:
    id_vector<step_id, step_record> steps_;
    detail::large_vector<copy_id> inputs_;
    id_vector<step_id, std::uint32_t> first_{1, 0};
    std::size_t fused_ = 0;
};

/// Copies that a step makes: one of each output of its node, or one where it runs none.
inline std::size_t copy_count(const snapshot& s, const step_record& step) {
    return runs_node(step.kind) ? s.outputs(step.node).size() : 1;
}

/// The copy whose bits `c` holds, made by a step that is neither `offload` nor `reload`. O(moves of the copy). Errors:
/// none.
inline copy_id first_made(const schedule& steps, copy_id c) {
    while (steps[c.step].kind == step_kind::offload || steps[c.step].kind == step_kind::reload)
        c = steps.inputs(c.step)[0];
    return c;
}

/// Whether the copy is in one bit per element. O(moves of the copy). Errors: none.
inline bool is_encoding(const schedule& steps, copy_id c) {
    return steps[first_made(steps, c).step].kind == step_kind::encode;
}

/// The value that a copy holds, be it encoded. O(moves of the copy). Errors: none.
inline value_id held_value(const snapshot& s, const schedule& steps, copy_id c) {
    c = first_made(steps, c);
    if (steps[c.step].kind == step_kind::encode) c = steps.inputs(c.step)[0];
    c = first_made(steps, c);
    return s.output(steps[c.step].node, c.output);
}

/// Every node once in the host's order, each reading the only copy there is: what the host would run. O(nodes
/// + edges). Errors: none.
[[nodiscard]] inline schedule baseline_schedule(const snapshot& s) {
    schedule all;
    all.reserve(s.node_count(), s.edge_count());
    for (const auto n : s.nodes()) {
        all.add({.node = n});
        for (const edge_source& from : s.sources(n)) all.read({step_id(from.producer.index()), from.output});
    }
    return all;
}

} // namespace echo
