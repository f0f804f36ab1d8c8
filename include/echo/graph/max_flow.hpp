// SPDX-License-Identifier: BSL-1.0
/// @file
/// Minimum s–t cut on CSR: highest-label push-relabel with exact initial labels, global relabelling and the
/// gap heuristic (Goldberg and Tarjan 1988; Cherkassky and Goldberg 1997), component by component.
/// Push-relabel rather than augmenting paths, because long chains with a small leak at every vertex, which is
/// what recurrences give, take augmenting paths quadratic time.
#pragma once

#include <echo/graph/large_vector.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

namespace echo {

/// A network whose terminals are implicit: every vertex has a capacity from the source and one to the sink.
/// Reusable: `clear` keeps the memory.
class flow_network {
public:
    /// What an arc carries at most, in whole units of the caller's.
    using capacity = std::int64_t;
    /// Numbers the vertices, from 0.
    using vertex = std::uint32_t;
    /// More than any sum of real capacities may reach; callers keep their sum below it.
    static constexpr capacity infinite = std::numeric_limits<capacity>::max() / 4;

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
    capacity cut() {
        build();
        capacity total = 0;
        for (std::size_t c = 0; c + 1 < component_first_.size(); ++c)
            total += solve(
                {by_component_.data() + component_first_[c], by_component_.data() + component_first_[c + 1]});
        return total;
    }
    /// On which side of the last cut the vertex is.
    bool on_source_side(vertex v) const { return label_[v] != dead; }
    /// How many connected parts the network of the last cut has, terminals left out.
    std::size_t component_count() const noexcept { return component_first_.size() - 1; }

private:
    struct arc {
        vertex from, to;
        capacity c;
    };
    static constexpr std::uint32_t dead = std::numeric_limits<std::uint32_t>::max();

    vertex find(vertex v) {
        while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
        return v;
    }

    void build() {
        const std::size_t n = source_.size();
        first_.assign(n + 1, 0);
        parent_.resize(n);
        for (vertex v = 0; v < n; ++v) parent_[v] = v;
        for (const arc& a : arcs_) {
            ++first_[a.from + 1];
            ++first_[a.to + 1];
            const vertex x = find(a.from), y = find(a.to);
            if (x != y) parent_[std::max(x, y)] = std::min(x, y);
        }
        for (std::size_t v = 0; v < n; ++v) first_[v + 1] += first_[v];
        head_.resize(2 * arcs_.size());
        residual_.resize(2 * arcs_.size());
        reverse_.resize(2 * arcs_.size());
        current_.assign(first_.begin(), first_.end() - 1);
        // The network is solved backwards, from the sink, because what then cannot reach the terminal is the largest
        // sink side there is. Arcs stand before their reverses: excess then runs on along a chain rather than back.
        place_.resize(arcs_.size());
        for (std::size_t k = 0; k < arcs_.size(); ++k) place_[k] = current_[arcs_[k].to]++;
        for (std::size_t k = 0; k < arcs_.size(); ++k) {
            const arc& a = arcs_[k];
            const std::uint32_t i = place_[k], j = current_[a.from]++;
            head_[i] = a.from, residual_[i] = a.c, reverse_[i] = j;
            head_[j] = a.to, residual_[j] = 0, reverse_[j] = i;
        }
        group_components(n);
        excess_.assign(sink_.begin(), sink_.end());
        drain_.assign(source_.begin(), source_.end());
        label_.assign(n, dead);
        next_active_.resize(n);
        level_next_.resize(n);
        level_previous_.resize(n);
    }

    /// Vertices ordered by component, components by their smallest vertex: a counting sort.
    void group_components(std::size_t n) {
        component_first_.assign(1, 0);
        current_.assign(n, 0);
        for (vertex v = 0; v < n; ++v) ++current_[find(v)];
        std::uint32_t at = 0;
        for (vertex v = 0; v < n; ++v) {
            if (parent_[v] != v) continue;
            const std::uint32_t size = current_[v];
            current_[v] = at;
            component_first_.push_back(at += size);
        }
        by_component_.resize(n);
        for (vertex v = 0; v < n; ++v) by_component_[current_[find(v)]++] = v;
    }

    /// Exact distances to the source in the residual network; what cannot reach it is dead. Fills the buckets.
    void relabel_all(std::span<const vertex> members) {
        const std::size_t n = members.size();
        queue_.clear();
        for (const vertex v : members) {
            label_[v] = dead;
            current_[v] = first_[v];
            if (drain_[v] > 0) {
                label_[v] = 1;
                queue_.push_back(v);
            }
        }
        for (std::size_t i = 0; i < queue_.size(); ++i) {
            const vertex v = queue_[i];
            for (auto e = first_[v]; e < first_[v + 1]; ++e) {
                const vertex w = head_[e];
                if (label_[w] == dead && residual_[reverse_[e]] > 0) {
                    label_[w] = label_[v] + 1;
                    queue_.push_back(w);
                }
            }
        }
        active_head_.assign(n + 2, none);
        level_head_.assign(n + 2, none);
        highest_ = top_ = 0;
        for (const vertex v : queue_) {
            enter_level(v);
            if (excess_[v] > 0) activate(v);
        }
    }

    void enter_level(vertex v) {
        const std::uint32_t d = label_[v];
        level_next_[v] = level_head_[d];
        level_previous_[v] = none;
        if (level_head_[d] != none) level_previous_[level_head_[d]] = v;
        level_head_[d] = v;
        top_ = std::max(top_, d);
    }
    void leave_level(vertex v) {
        if (level_previous_[v] != none)
            level_next_[level_previous_[v]] = level_next_[v];
        else
            level_head_[label_[v]] = level_next_[v];
        if (level_next_[v] != none) level_previous_[level_next_[v]] = level_previous_[v];
    }
    void activate(vertex v) {
        const std::uint32_t d = label_[v];
        next_active_[v] = active_head_[d];
        active_head_[d] = v;
        highest_ = std::max(highest_, d);
    }

    capacity solve(std::span<const vertex> members) {
        capacity flow = 0;
        for (const vertex v : members) {
            const capacity direct = std::min(excess_[v], drain_[v]);
            excess_[v] -= direct;
            drain_[v] -= direct;
            flow += direct;
        }
        relabel_all(members);
        const std::size_t n = members.size();
        std::size_t work = 0, arcs = 0;
        for (const vertex v : members) arcs += first_[v + 1] - first_[v];
        const std::size_t period = 4 * n + arcs;
        while (highest_ > 0) {
            if (active_head_[highest_] == none) {
                --highest_;
                continue;
            }
            const vertex v = active_head_[highest_];
            active_head_[highest_] = next_active_[v];
            // The gap heuristic may have killed it, or it moved up, since it was put here.
            if (label_[v] != highest_ || excess_[v] == 0) continue;
            work += discharge(v, n, flow);
            if (work > period) {
                work = 0;
                relabel_all(members);
            }
        }
        relabel_all(members);
        return flow;
    }

    /// Pushes the excess of `v` down; returns the work done.
    std::size_t discharge(vertex v, std::size_t n, capacity& flow) {
        std::size_t work = 1;
        for (;;) {
            if (label_[v] == 1 && drain_[v] > 0) {
                const capacity f = std::min(excess_[v], drain_[v]);
                drain_[v] -= f;
                excess_[v] -= f;
                flow += f;
                if (excess_[v] == 0) return work;
            }
            for (auto& e = current_[v]; e < first_[v + 1]; ++e, ++work) {
                const vertex w = head_[e];
                if (residual_[e] == 0 || label_[w] == dead || label_[v] != label_[w] + 1) continue;
                const capacity f = std::min(excess_[v], residual_[e]);
                residual_[e] -= f;
                residual_[reverse_[e]] += f;
                if (excess_[w] == 0) {
                    excess_[w] = f;
                    activate(w);
                } else {
                    excess_[w] =
                        std::min(infinite, excess_[w] + f); // more than can ever flow on stays as much
                }
                excess_[v] -= f;
                if (excess_[v] == 0) return work;
            }
            work += first_[v + 1] - first_[v];
            if (!relabel(v, n)) return work;
        }
    }

    /// Lifts `v` just above its lowest neighbour; false if it can no longer reach the source.
    bool relabel(vertex v, std::size_t n) {
        std::uint32_t lowest = dead;
        if (drain_[v] > 0) lowest = 0;
        for (auto e = first_[v]; e < first_[v + 1]; ++e)
            if (residual_[e] > 0) lowest = std::min(lowest, label_[head_[e]]);
        const std::uint32_t old = label_[v];
        leave_level(v);
        if (level_head_[old] == none) {
            // Nothing is left at this height, so what stands above, `v` included, can no longer come down
            // through it.
            for (std::uint32_t d = old + 1; d <= top_; ++d) {
                for (vertex w = level_head_[d]; w != none; w = level_next_[w]) label_[w] = dead;
                level_head_[d] = none;
            }
            top_ = old;
            lowest = dead;
        }
        if (lowest == dead || lowest + 1 > n) {
            label_[v] = dead;
            return false;
        }
        label_[v] = lowest + 1;
        enter_level(v);
        current_[v] = first_[v];
        return true;
    }

    static constexpr vertex none = std::numeric_limits<vertex>::max();
    detail::large_vector<capacity> source_, sink_;
    detail::large_vector<arc> arcs_;
    detail::large_vector<std::uint32_t> first_, place_, reverse_, current_, label_, component_first_{0};
    detail::large_vector<vertex> head_, parent_, by_component_, queue_, active_head_, next_active_,
        level_head_, level_next_, level_previous_;
    detail::large_vector<capacity> residual_, excess_, drain_;
    std::uint32_t highest_ = 0, top_ = 0;
};

} // namespace echo
