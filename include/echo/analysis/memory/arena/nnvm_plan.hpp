// SPDX-License-Identifier: BSL-1.0
/// @file
/// `plan_by_nnvm`: NNVM's PlanMemory as a whole, for hosts whose memory it lays out: the order in which the ops run,
/// which outputs share a storage, and the pool that the storages lie in (nnvm_pool.hpp). It walks the ops in the order
/// in which they run, and counts who will still read each storage. An output lies on an input's storage if the op
/// offers it, the input is in the pool and taken by no other output, both have the same size, the output is read, and
/// nobody else reads what lies there (of an identity: even then).
///
/// `plan_memory` with the option `pool` asks the same pool for the storages of a schedule; its rules of sharing are
/// Echo's (nnvm_sharing.hpp says where they differ).
#pragma once

#include <echo/analysis/memory/arena/nnvm_pool.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace echo::arena {

/// One output of one op, by positions.
struct nnvm_entry {
    std::uint32_t op = 0;     ///< its position among all
    std::uint32_t output = 0; ///< from 0
    /// By op, then output.
    friend auto operator<=>(const nnvm_entry&, const nnvm_entry&) = default;
};

/// An op as NNVM's planner sees it.
struct nnvm_op {
    std::vector<nnvm_entry> inputs{};                               ///< what it reads
    std::vector<std::uint32_t> control{};                           ///< ops behind which it stands
    std::vector<std::uint64_t> bytes{};                             ///< of each output
    std::vector<std::pair<std::uint32_t, std::uint32_t>> inplace{}; ///< (input, output), in the op's order
    bool identity = false;                                          ///< lies there even if others read it
    bool variable = false;                                          ///< its storage is not of the pool
    std::uint32_t ignored = ~std::uint32_t{0};                      ///< an input that is not read
};

/// A graph as NNVM's planner sees it. Refers to its parts.
struct nnvm_graph {
    std::span<const nnvm_op> ops{};           ///< in any order
    std::span<const nnvm_entry> outputs{};    ///< that are read in the end: in the pool,
    std::span<const nnvm_entry> own_memory{}; ///< or with memory of their own
};

/// What the pool comes to.
struct nnvm_planned {
    std::uint64_t bytes = 0;            ///< of its blocks
    std::vector<std::uint32_t> order{}; ///< in which the ops run; what no output hangs on is not there
    /// How often each output is read, the ends included; by `first_output[op] + output`.
    std::vector<std::uint32_t> readers{};
    std::vector<std::uint32_t> first_output{}; ///< by op, and one more at the end
};

/// The order in which NNVM numbers ops, and in which they run: depth first from the outputs, what an op reads before
/// what it stands behind. O(ops + edges). Errors: none.
inline std::vector<std::uint32_t> nnvm_order(const nnvm_graph& g) {
    std::vector<std::uint32_t> found;
    std::vector<std::uint8_t> seen(g.ops.size(), 0);
    std::vector<std::pair<std::uint32_t, std::size_t>> path;
    const auto enter = [&](std::uint32_t n) {
        if (!std::exchange(seen[n], 1)) path.emplace_back(n, 0);
    };
    for (const auto ends : {g.outputs, g.own_memory})
        for (const nnvm_entry& y : ends) {
            enter(y.op);
            while (!path.empty()) {
                auto& [n, next] = path.back();
                const nnvm_op& op = g.ops[n];
                const std::size_t i = next++, inputs = op.inputs.size();
                if (i < inputs + op.control.size()) {
                    enter(i < inputs ? op.inputs[i].op : op.control[i - inputs]);
                    continue;
                }
                found.push_back(n);
                path.pop_back();
            }
        }
    return found;
}

/// Walks a graph once.
class nnvm_planner {
public:
    /// Counts who reads what. The graph must outlive it.
    explicit nnvm_planner(const nnvm_graph& g)
        : g_(g), planned_{.order = nnvm_order(g)}, pool_(items(), nnvm_pool{}.match_range) {
        block_.assign(items_.size(), none);
        held_.assign(items_.size(), 0);
        planned_.readers.assign(items_.size(), 0);
        for (const auto n : planned_.order)
            for (std::uint32_t i = 0; i < g.ops[n].inputs.size(); ++i)
                planned_.readers[value(g.ops[n].inputs[i])] += i != g.ops[n].ignored;
        for (const nnvm_entry& y : g.outputs) ++planned_.readers[value(y)];
        for (const nnvm_entry& y : g.own_memory) ++planned_.readers[value(y)], block_[value(y)] = outside;
    }

    /// What the pool comes to; once.
    nnvm_planned run() && {
        for (const auto n : planned_.order) {
            if (g_.ops[n].variable) continue;
            share(n);
            request(n);
            release(n);
        }
        for (std::size_t b = 0; b < pool_.count(); ++b) planned_.bytes += pool_.bytes(b);
        return std::move(planned_);
    }

private:
    static constexpr std::uint32_t none = ~std::uint32_t{0}, outside = none - 1;

    /// Every output is an item that may ask for a block; times are not read.
    std::span<const interval> items() {
        planned_.first_output.push_back(0);
        for (const nnvm_op& op : g_.ops) {
            for (const std::uint64_t bytes : op.bytes)
                items_.push_back({.bytes = std::max<std::uint64_t>(bytes, 1)});
            planned_.first_output.push_back(static_cast<std::uint32_t>(items_.size()));
        }
        return items_;
    }
    std::uint32_t value(nnvm_entry e) const { return planned_.first_output[e.op] + e.output; }

    void share(std::uint32_t n) {
        const nnvm_op& op = g_.ops[n];
        taken_.assign(op.inputs.size(), 0);
        for (const auto& [input, output] : op.inplace) {
            if (input >= op.inputs.size() || output >= op.bytes.size()) continue;
            const nnvm_entry x = op.inputs[input];
            const std::uint32_t from = block_[value(x)], to = value({n, output});
            if (taken_[input] || block_[to] != none || from >= outside) continue;
            if (!(held_[from] == 1 && input != op.ignored) && !op.identity) continue;
            if (planned_.readers[to] == 0 || op.bytes[output] != g_.ops[x.op].bytes[x.output]) continue;
            taken_[input] = 1;
            block_[to] = from;
            held_[from] += planned_.readers[to];
        }
    }

    /// The largest first, of equal ones the last output.
    void request(std::uint32_t n) {
        wanted_.clear();
        for (std::uint32_t k = 0; k < g_.ops[n].bytes.size(); ++k)
            if (const std::uint32_t v = value({n, k}); block_[v] == none)
                wanted_.emplace_back(g_.ops[n].bytes[k], v);
        std::stable_sort(wanted_.begin(), wanted_.end());
        for (std::size_t k = wanted_.size(); k-- > 0;) {
            const std::uint32_t v = wanted_[k].second;
            block_[v] = wanted_[k].first == 0 ? outside : pool_.take(v);
            if (block_[v] != outside) held_[block_[v]] = planned_.readers[v];
        }
    }

    void release(std::uint32_t n) {
        const nnvm_op& op = g_.ops[n];
        for (std::uint32_t i = 0; i < op.inputs.size(); ++i) {
            const std::uint32_t from = block_[value(op.inputs[i])];
            if (i != op.ignored && from < outside && --held_[from] == 0) pool_.give(from);
        }
        for (std::uint32_t k = 0; k < op.bytes.size(); ++k)
            if (const std::uint32_t made = block_[value({n, k})]; made < outside && held_[made] == 0)
                pool_.give(made);
    }

    const nnvm_graph& g_;
    nnvm_planned planned_;
    std::vector<interval> items_;
    nnvm_blocks pool_;
    std::vector<std::uint8_t> taken_;                             // inputs of this op, by its outputs
    std::vector<std::pair<std::uint64_t, std::uint32_t>> wanted_; // bytes and output
    std::vector<std::uint32_t> block_,
        held_; // by output: its block; by block: how often it will still be read
};

/// What NNVM takes for the graph. O(ops + edges + the search for blocks).
[[nodiscard]] inline nnvm_planned plan_by_nnvm(const nnvm_graph& g) { return nnvm_planner(g).run(); }

} // namespace echo::arena
