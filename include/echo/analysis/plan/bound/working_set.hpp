// SPDX-License-Identifier: BSL-1.0
/// @file
/// The least that one step needs while it runs: inputs, outputs and workspace, less all that a plan might avoid.
#pragma once

#include <echo/analysis/plan/bound/schedule_rules.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace echo::detail {

/// What the working set of a step says about one storage that it reads.
struct counted_storage {
    /// The value that made the storage.
    value_id base{};
    std::uint64_t bytes = 0; ///< counted: all of it, or no more than an encoding where one bit is enough
    /// All of it counts, and not only one bit per element.
    bool whole = false;
    /// An output of the step may take the storage over, and so is not counted; it takes that many bytes if the storage
    /// has to last.
    std::uint64_t taken_over = 0;
};

/// One input of a step that a plan might recompute inside it: it need not be there, but what it is made from must.
struct read_inside {
    /// What the step reads.
    value_id value{};
    /// It is enough to know one bit per element.
    bool one_bit = false;
};

/// Counts working sets; scratch memory is kept between calls. The rules must outlive it.
class working_set {
public:
    explicit working_set(const schedule_rules& rules) : rules_(rules), s_(rules.graph()) {
        share_of_.assign(s_.value_count(), none);
    }

    /// Bytes that are live while `n` runs in any schedule. O(inputs + outputs²).
    std::uint64_t operator()(node_id n) {
        for (const auto& share : shares_) share_of_[share.base] = none;
        shares_.clear();
        inside_.clear();
        read_inputs(n);
        std::uint64_t sum = s_[n].workspace;
        for (const auto& share : shares_) sum += share.bytes;
        return sum + count_outputs(n);
    }
    /// Of the last call: the storages that it reads.
    const std::vector<counted_storage>& storages() const noexcept { return shares_; }
    /// Of the last call.
    const std::vector<read_inside>& inside() const noexcept { return inside_; }

private:
    static constexpr std::uint32_t none = ~std::uint32_t{0};

    void read_inputs(node_id n) {
        for (std::size_t k = 0; const auto v : s_.inputs(n)) {
            const value_id base = rules_.base(v);
            const bool bit = rules_.reads_bit(n, k++);
            if (!rules_.counts(base)) continue;
            if (rules_.may_run_inside(n, base)) {
                inside_.push_back({v, bit});
                continue;
            }
            std::uint32_t& at = share_of_[base];
            if (at == none) {
                at = static_cast<std::uint32_t>(shares_.size());
                shares_.push_back({.base = base});
            }
            const std::uint64_t all = s_[base].bytes;
            shares_[at].whole |= !bit;
            shares_[at].bytes =
                std::max(shares_[at].bytes, bit ? std::min(encoded_bytes(s_[v].elements), all) : all);
        }
    }

    /// Of the outputs that may take over one storage at most one does: the largest is left out.
    std::uint64_t count_outputs(node_id n) {
        std::uint64_t sum = 0;
        for (const auto v : s_.outputs(n)) {
            if (s_[v].view_of != no_input || !rules_.counts(v)) continue;
            const std::uint64_t bytes = s_[v].bytes;
            counted_storage* over = may_take_over(n, v);
            if (!over) {
                if (s_[v].inplace == no_input || !reads_inside(n, s_[v].inplace)) sum += bytes;
                continue;
            }
            sum += std::min(over->taken_over, bytes);
            over->taken_over = std::max(over->taken_over, bytes);
        }
        return sum;
    }
    bool reads_inside(node_id n, std::uint32_t position) const {
        return rules_.may_run_inside(n, rules_.base(s_.inputs(n)[position]));
    }

    /// The storage that output `v` may take over by the rules of formats.md, as far as they can be judged without a
    /// schedule.
    counted_storage* may_take_over(node_id n, value_id v) {
        const std::uint32_t k = s_[v].inplace;
        if (k == no_input) return nullptr;
        const value_id base = rules_.base(s_.inputs(n)[k]);
        const std::uint32_t at = share_of_[base];
        if (at == none) return nullptr;
        // Only a storage that was itself taken over can be larger than what lies on it.
        if (s_[base].inplace == no_input && s_[base].bytes < s_[v].bytes) return nullptr;
        for (std::size_t j = 0; const auto other : s_.inputs(n)) {
            if (j != k && rules_.base(other) == base && !rules_.reads_bit(n, j)) return nullptr;
            ++j;
        }
        for (const auto other : s_.outputs(n))
            if (s_[other].view_of != no_input && rules_.base(other) == base) return nullptr;
        return &shares_[at];
    }

    const schedule_rules& rules_;
    const snapshot& s_;
    std::vector<counted_storage> shares_;
    std::vector<read_inside> inside_;
    id_vector<value_id, std::uint32_t> share_of_; ///< base value: its entry of `shares_`, or `none`
};

} // namespace echo::detail
