// SPDX-License-Identifier: BSL-1.0
/// @file
/// `residual_network`: what each arc of a network can still carry, both ways, as CSR by vertex, and the parts of the
/// network that no arc connects.
#pragma once

#include <echo/graph/large_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace echo::detail {

/// What an arc of a network carries at most, in whole units of the caller's.
using flow_capacity = std::int64_t;
/// Numbers the vertices of a network, from 0.
using flow_vertex = std::uint32_t;

/// An arc of a network.
struct flow_arc {
    flow_vertex from; ///< where it begins
    flow_vertex to;   ///< where it ends
    flow_capacity c;  ///< what it carries at most
};

/// Each arc stands twice: at its end with what it can still carry, and at its beginning with what could be taken back.
/// Reusable: `build` keeps the memory.
class residual_network {
public:
    /// From the arcs of a network of so many vertices; nothing flows yet. Arcs are turned round: the network is solved
    /// backwards, from the sink, because what then cannot reach the terminal is the largest sink side there is.
    /// O((vertices + arcs) × α(vertices)).
    void build(const detail::large_vector<flow_arc>& arcs, std::size_t vertices) {
        lay_out(arcs, vertices);
        // Arcs stand before their reverses: excess then runs on along a chain rather than back.
        place_.resize(arcs.size());
        for (std::size_t k = 0; k < arcs.size(); ++k) place_[k] = at_[arcs[k].to]++;
        for (std::size_t k = 0; k < arcs.size(); ++k) {
            const flow_arc& a = arcs[k];
            const std::uint32_t i = place_[k], j = at_[a.from]++;
            head[i] = a.from, residual[i] = a.c, reverse[i] = j;
            head[j] = a.to, residual[j] = 0, reverse[j] = i;
        }
        group_components(vertices);
    }

    /// How many parts there are that no arc connects.
    std::size_t component_count() const noexcept { return component_first_.size() - 1; }
    /// The vertices of such a part, in order. Parts are in the order of their smallest vertices.
    std::span<const flow_vertex> component(std::size_t c) const noexcept {
        return {by_component_.data() + component_first_[c], by_component_.data() + component_first_[c + 1]};
    }

    detail::large_vector<std::uint32_t> first;    ///< vertex: its first arc; one more than vertices
    detail::large_vector<flow_vertex> head;       ///< arc: the vertex to which it leads
    detail::large_vector<flow_capacity> residual; ///< arc: what it can still carry
    detail::large_vector<std::uint32_t> reverse;  ///< arc: the same the other way

private:
    /// Counts the arcs of each vertex, and joins the parts that they connect.
    void lay_out(const detail::large_vector<flow_arc>& arcs, std::size_t n) {
        first.assign(n + 1, 0);
        parent_.resize(n);
        for (flow_vertex v = 0; v < n; ++v) parent_[v] = v;
        for (const flow_arc& a : arcs) {
            ++first[a.from + 1];
            ++first[a.to + 1];
            const flow_vertex x = find(a.from), y = find(a.to);
            if (x != y) parent_[std::max(x, y)] = std::min(x, y);
        }
        for (std::size_t v = 0; v < n; ++v) first[v + 1] += first[v];
        head.resize(2 * arcs.size());
        residual.resize(2 * arcs.size());
        reverse.resize(2 * arcs.size());
        at_.assign(first.begin(), first.end() - 1);
    }

    flow_vertex find(flow_vertex v) {
        while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
        return v;
    }

    /// Vertices ordered by component, components by their smallest vertex: a counting sort.
    void group_components(std::size_t n) {
        component_first_.assign(1, 0);
        at_.assign(n, 0);
        for (flow_vertex v = 0; v < n; ++v) ++at_[find(v)];
        std::uint32_t at = 0;
        for (flow_vertex v = 0; v < n; ++v) {
            if (parent_[v] != v) continue;
            const std::uint32_t size = at_[v];
            at_[v] = at;
            component_first_.push_back(at += size);
        }
        by_component_.resize(n);
        for (flow_vertex v = 0; v < n; ++v) by_component_[at_[find(v)]++] = v;
    }

    detail::large_vector<std::uint32_t> component_first_{0}, place_, at_;
    detail::large_vector<flow_vertex> by_component_, parent_;
};

} // namespace echo::detail
