// SPDX-License-Identifier: BSL-1.0
/// @file
/// `schedule`: the steps of a plan as a value. A step runs a node, runs it again, or packs a value into one
/// bit per element; each of its inputs names the step that made the copy it reads.
#pragma once

#include <echo/graph/id_vector.hpp>
#include <echo/graph/snapshot.hpp>

#include <cstdint>
#include <span>

namespace echo {

/// What a step does: it runs a node, runs it again, or encodes a value in one bit per element.
enum class step_kind : std::uint8_t { run, recompute, encode };

/// One output of one step: a copy of a value, or an encoding (output 0 of an encode step).
struct copy_id {
    /// The step that makes it.
    step_id step{};
    /// Which of the step's outputs, from 0.
    std::uint32_t output = 0;
    friend constexpr auto operator<=>(const copy_id&, const copy_id&) = default;
};

/// One step as `schedule` keeps it. For `encode`, `node` is the producer of the encoded value.
struct step_record {
    /// What runs.
    node_id node{};
    /// Whether it runs for the first time, again, or makes an encoding.
    step_kind kind = step_kind::run;
    /// Of a recompute: the host recomputes it inside its readers. Its outputs have no storage and it takes no time;
    /// whoever reads them reads its inputs instead, then (read_walk.hpp).
    bool fused = false;
    std::uint64_t bytes = 0; ///< of the encoding; 0 for the other kinds
    friend bool operator==(const step_record&, const step_record&) = default;
};

/// Steps in execution order. `inputs(t)` has one copy per input of the node, in order; one for an encode
/// step.
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

/// Copies that a step makes: one of each output of its node, or one for an encode step.
[[nodiscard]] inline std::size_t copy_count(const snapshot& s, const step_record& step) {
    return step.kind == step_kind::encode ? 1 : s.outputs(step.node).size();
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
