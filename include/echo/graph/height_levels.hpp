// SPDX-License-Identifier: BSL-1.0
/// @file
/// `height_levels`: the vertices of push-relabel by their heights, in lists, and those of them that hold excess.
#pragma once

#include <echo/graph/large_vector.hpp>
#include <echo/graph/residual_network.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace echo::detail {

/// Lists by height. Every operation takes constant time, save `clear` and `lift_off`. Reusable: the memory is kept.
class height_levels {
public:
    /// No vertex.
    static constexpr flow_vertex none = std::numeric_limits<flow_vertex>::max();

    /// Makes room for vertices below `n`.
    void resize(std::size_t n) {
        next_active_.resize(n);
        next_.resize(n);
        previous_.resize(n);
    }
    /// Empties the lists of heights up to `n` + 1.
    void clear(std::size_t n) {
        active_.assign(n + 2, none);
        head_.assign(n + 2, none);
        highest_ = top_ = 0;
    }
    /// Puts the vertex, which is in no list, at the height.
    void enter(flow_vertex v, std::uint32_t height) {
        next_[v] = head_[height];
        previous_[v] = none;
        if (head_[height] != none) previous_[head_[height]] = v;
        head_[height] = v;
        top_ = std::max(top_, height);
    }
    /// Takes the vertex out of the list of its height.
    void leave(flow_vertex v, std::uint32_t height) {
        if (previous_[v] != none)
            next_[previous_[v]] = next_[v];
        else
            head_[height] = next_[v];
        if (next_[v] != none) previous_[next_[v]] = previous_[v];
    }
    /// Whether no vertex is at the height.
    bool is_empty(std::uint32_t height) const { return head_[height] == none; }
    /// Empties all heights above this one, and calls `f` with each vertex that was there.
    template <class F>
    void lift_off(std::uint32_t height, F&& f) {
        for (std::uint32_t d = height + 1; d <= top_; ++d) {
            for (flow_vertex w = head_[d]; w != none; w = next_[w]) f(w);
            head_[d] = none;
        }
        top_ = height;
    }

    /// Says that the vertex, at this height, holds excess.
    void activate(flow_vertex v, std::uint32_t height) {
        next_active_[v] = active_[height];
        active_[height] = v;
        highest_ = std::max(highest_, height);
    }
    /// The greatest height at which vertices may hold excess; 0 if none does.
    std::uint32_t highest() const noexcept { return highest_; }
    /// Takes a vertex off those at the greatest height; none, and the next lower height is the greatest, if there is
    /// none left. It may have moved, or lost its excess, since it was put there.
    flow_vertex take_highest() {
        const flow_vertex v = active_[highest_];
        if (v == none)
            --highest_;
        else
            active_[highest_] = next_active_[v];
        return v;
    }

private:
    detail::large_vector<flow_vertex> active_, next_active_; // height: first with excess; vertex: the next
    detail::large_vector<flow_vertex> head_, next_,
        previous_; // height: first vertex; vertex: its neighbours in the list
    std::uint32_t highest_ = 0, top_ = 0;
};

} // namespace echo::detail
