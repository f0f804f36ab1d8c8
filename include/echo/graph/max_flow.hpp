// SPDX-License-Identifier: BSL-1.0
/// @file
/// `flow_network`: minimum s–t cuts, by `push_relabel`.
#pragma once

#include <echo/graph/large_vector.hpp>
#include <echo/graph/push_relabel.hpp>
#include <echo/graph/residual_network.hpp>

#include <algorithm>
#include <cstddef>

namespace echo::detail {

/// A network whose terminals are implicit: every vertex has a capacity from the source and one to the sink.
/// Reusable: `clear` keeps the memory.
class flow_network {
public:
    /// What an arc carries at most, in whole units of the caller's.
    using capacity = flow_capacity;
    /// Numbers the vertices, from 0.
    using vertex = flow_vertex;
    /// More than any sum of real capacities may reach; callers keep their sum below it.
    static constexpr capacity infinite = push_relabel::infinite;

    /// No vertex and no arc; the memory is kept.
    void clear() {
        source_.clear();
        sink_.clear();
        arcs_.clear();
    }
    /// A vertex without capacities to source and sink; its number.
    vertex add_vertex() {
        source_.push_back(0);
        sink_.push_back(0);
        return static_cast<vertex>(source_.size() - 1);
    }
    /// How many vertices there are.
    std::size_t vertex_count() const noexcept { return source_.size(); }
    /// How many arcs there are, those from the source and to the sink left out.
    std::size_t arc_count() const noexcept { return arcs_.size(); }
    /// Adds capacity from the source to the vertex.
    void from_source(vertex v, capacity c) { source_[v] = std::min(infinite, source_[v] + c); }
    /// Adds capacity from the vertex to the sink.
    void to_sink(vertex v, capacity c) { sink_[v] = std::min(infinite, sink_[v] + c); }
    /// An arc; several between the same vertices add up.
    void add_arc(vertex from, vertex to, capacity c) { arcs_.push_back({from, to, c}); }

    /// Computes a minimum cut and returns its capacity. `on_source_side` then tells each vertex' side; of
    /// several minimum cuts it is the one with the fewest vertices on the source's side. Capacities are as
    /// given on return.
    [[nodiscard]] capacity cut() {
        residual_.build(arcs_, source_.size());
        return flow_(residual_, sink_, source_);
    }
    /// On which side of the last cut the vertex is.
    bool on_source_side(vertex v) const { return flow_.can_drain(v); }
    /// How many connected parts the network of the last cut has, terminals left out.
    std::size_t component_count() const noexcept { return residual_.component_count(); }

private:
    detail::large_vector<capacity> source_, sink_;
    detail::large_vector<flow_arc> arcs_;
    residual_network residual_;
    push_relabel flow_;
};

} // namespace echo::detail
