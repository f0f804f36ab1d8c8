// SPDX-License-Identifier: BSL-1.0
/// @file
/// `push_relabel`: maximum flows on CSR by highest-label push-relabel with exact initial labels, global relabelling and
/// the gap heuristic (Goldberg and Tarjan 1988; Cherkassky and Goldberg 1997), component by component.
/// Push-relabel rather than augmenting paths, because long chains with a small leak at every vertex, which is
/// what recurrences give, take augmenting paths quadratic time.
#pragma once

#include <echo/graph/height_levels.hpp>
#include <echo/graph/large_vector.hpp>
#include <echo/graph/residual_network.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace echo::detail {

/// Pushes what vertices hold, their excess, to those through which it may drain. Reusable: the memory is kept.
class push_relabel {
public:
    /// More than any sum of real capacities may reach; callers keep their sum below it.
    static constexpr flow_capacity infinite = std::numeric_limits<flow_capacity>::max() / 4;

    /// The greatest flow through the network from what vertices hold to what each may drain; the network keeps what is
    /// left of it. O(vertices² × √arcs); near-linear on graphs of training steps.
    [[nodiscard]] flow_capacity operator()(residual_network& net,
                                           const detail::large_vector<flow_capacity>& excess,
                                           const detail::large_vector<flow_capacity>& drain) {
        net_ = &net;
        const std::size_t n = excess.size();
        excess_ = excess;
        drain_ = drain;
        label_.assign(n, dead);
        current_.resize(n);
        levels_.resize(n);
        flow_capacity total = 0;
        for (std::size_t c = 0; c < net.component_count(); ++c) total += solve(net.component(c));
        return total;
    }
    /// Whether the vertex could drain more after the last flow, directly or through others.
    bool can_drain(flow_vertex v) const { return label_[v] != dead; }

private:
    static constexpr std::uint32_t dead = std::numeric_limits<std::uint32_t>::max();

    flow_capacity solve(std::span<const flow_vertex> members) {
        flow_capacity flow = 0;
        for (const flow_vertex v : members) {
            const flow_capacity direct = std::min(excess_[v], drain_[v]);
            excess_[v] -= direct;
            drain_[v] -= direct;
            flow += direct;
        }
        relabel_all(members);
        const std::size_t n = members.size();
        std::size_t work = 0, arcs = 0;
        for (const flow_vertex v : members) arcs += net_->first[v + 1] - net_->first[v];
        const std::size_t period = 4 * n + arcs;
        while (levels_.highest() > 0) {
            const std::uint32_t height = levels_.highest();
            const flow_vertex v = levels_.take_highest();
            if (v == height_levels::none) continue;
            // The gap heuristic may have killed it, or it moved up, since it was put here.
            if (label_[v] != height || excess_[v] == 0) continue;
            work += discharge(v, n, flow);
            if (work > period) {
                work = 0;
                relabel_all(members);
            }
        }
        relabel_all(members);
        return flow;
    }

    /// Exact distances to the source in the residual network; what cannot reach it is dead. Fills the buckets.
    void relabel_all(std::span<const flow_vertex> members) {
        const std::size_t n = members.size();
        queue_.clear();
        for (const flow_vertex v : members) {
            label_[v] = dead;
            current_[v] = net_->first[v];
            if (drain_[v] > 0) {
                label_[v] = 1;
                queue_.push_back(v);
            }
        }
        for (std::size_t i = 0; i < queue_.size(); ++i) {
            const flow_vertex v = queue_[i];
            for (auto e = net_->first[v]; e < net_->first[v + 1]; ++e) {
                const flow_vertex w = net_->head[e];
                if (label_[w] == dead && net_->residual[net_->reverse[e]] > 0) {
                    label_[w] = label_[v] + 1;
                    queue_.push_back(w);
                }
            }
        }
        levels_.clear(n);
        for (const flow_vertex v : queue_) {
            levels_.enter(v, label_[v]);
            if (excess_[v] > 0) levels_.activate(v, label_[v]);
        }
    }

    /// Pushes the excess of `v` down; returns the work done.
    std::size_t discharge(flow_vertex v, std::size_t n, flow_capacity& flow) {
        std::size_t work = 1;
        for (;;) {
            if (label_[v] == 1 && drain_[v] > 0) {
                const flow_capacity f = std::min(excess_[v], drain_[v]);
                drain_[v] -= f;
                excess_[v] -= f;
                flow += f;
                if (excess_[v] == 0) return work;
            }
            for (auto& e = current_[v]; e < net_->first[v + 1]; ++e, ++work) {
                const flow_vertex w = net_->head[e];
                if (net_->residual[e] == 0 || label_[w] == dead || label_[v] != label_[w] + 1) continue;
                const flow_capacity f = std::min(excess_[v], net_->residual[e]);
                net_->residual[e] -= f;
                net_->residual[net_->reverse[e]] += f;
                if (excess_[w] == 0) {
                    excess_[w] = f;
                    levels_.activate(w, label_[w]);
                } else {
                    excess_[w] =
                        std::min(infinite, excess_[w] + f); // more than can ever flow on stays as much
                }
                excess_[v] -= f;
                if (excess_[v] == 0) return work;
            }
            work += net_->first[v + 1] - net_->first[v];
            if (!relabel(v, n)) return work;
        }
    }

    /// Lifts `v` just above its lowest neighbour; false if it can no longer reach the source.
    bool relabel(flow_vertex v, std::size_t n) {
        std::uint32_t lowest = dead;
        if (drain_[v] > 0) lowest = 0;
        for (auto e = net_->first[v]; e < net_->first[v + 1]; ++e)
            if (net_->residual[e] > 0) lowest = std::min(lowest, label_[net_->head[e]]);
        const std::uint32_t old = label_[v];
        levels_.leave(v, label_[v]);
        if (levels_.is_empty(old)) {
            // Nothing is left at this height, so what stands above, `v` included, can no longer come down
            // through it.
            levels_.lift_off(old, [&](flow_vertex w) { label_[w] = dead; });
            lowest = dead;
        }
        if (lowest == dead || lowest + 1 > n) {
            label_[v] = dead;
            return false;
        }
        label_[v] = lowest + 1;
        levels_.enter(v, label_[v]);
        current_[v] = net_->first[v];
        return true;
    }

    residual_network* net_ = nullptr;
    height_levels levels_;
    detail::large_vector<std::uint32_t> current_, label_; // vertex: the arc to look at next; its height
    detail::large_vector<flow_vertex> queue_;
    detail::large_vector<flow_capacity> excess_, drain_; // vertex: what it holds; what may drain from it
};

} // namespace echo::detail
