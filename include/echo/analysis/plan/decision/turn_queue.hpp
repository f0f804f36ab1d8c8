// SPDX-License-Identifier: BSL-1.0
/// @file
/// `turn_queue`: the turns of a decision, by the node at which they happen.
#pragma once

#include <echo/analysis/plan/decision/decision.hpp>
#include <echo/graph/id_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace echo::detail {

/// Turns by the node at which they happen. Reusable.
class turn_queue {
public:
    /// `turns` must outlive the uses. O(nodes + turns), nothing if there are none.
    void fill(const std::vector<turn>& turns, std::size_t nodes) {
        turns_ = &turns;
        first_.clear();
        if (turns.empty()) return;
        first_.assign(nodes, none);
        next_.resize(turns.size());
        for (std::uint32_t i = 0; i < turns.size(); ++i) next_[i] = std::exchange(first_[turns[i].at], i);
    }
    /// Calls `visit` with the nodes whose turn it is, the last of the turns first.
    template <class Visit>
    void at(node_id n, const Visit& visit) const {
        if (first_.empty()) return;
        for (auto i = first_[n]; i != none; i = next_[i]) visit((*turns_)[i].node);
    }

private:
    static constexpr std::uint32_t none = ~std::uint32_t{0};
    const std::vector<turn>* turns_ = nullptr;
    id_vector<node_id, std::uint32_t> first_;
    std::vector<std::uint32_t> next_;
};

} // namespace echo::detail
