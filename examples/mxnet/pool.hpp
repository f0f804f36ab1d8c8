// SPDX-License-Identifier: BSL-1.0
/// @file
/// The judge: bytes of the pool into which MXNet's planner lays a step, and the time of its copies. The pool is NNVM's:
/// a request takes the smallest free block that is large enough and at most 16 times larger, else the largest that is
/// at least a sixteenth and grows it, else a new block. Gradients that are asked for lie outside.
#pragma once

#include "nnvm.hpp"

#include <map>

namespace echo_mxnet {

/// Blocks and who holds them.
class pool {
public:
    std::uint64_t total = 0;

    index request(std::uint64_t bytes) {
        auto at = free_.lower_bound(bytes);
        if (at == free_.end() || at->first > bytes * range) {
            if (at == free_.begin() || std::prev(at)->first < bytes / range) {
                blocks_.push_back(bytes);
                total += bytes;
                return static_cast<index>(blocks_.size() - 1);
            }
            --at;
        }
        const index block = at->second;
        free_.erase(at);
        total += std::max(bytes, blocks_[block]) - blocks_[block];
        blocks_[block] = std::max(bytes, blocks_[block]);
        return block;
    }
    void release(index block) { free_.emplace(blocks_[block], block); }

private:
    static constexpr std::uint64_t range = 16;
    std::vector<std::uint64_t> blocks_;
    std::multimap<std::uint64_t, index> free_;
};

struct verdict {
    std::uint64_t bytes = 0;
    double copies_us = 0; ///< what runs in addition
    std::size_t copies = 0;
    /// Copies of which another output is read, but not the first. MXNet's LayerNorm does nothing where its first output
    /// is not wanted, so the gradient would read moments that were never computed: such marks are not to be made.
    std::size_t unsound = 0;
};

/// O(nodes log blocks).
inline verdict judge(const step_graph& g) {
    constexpr index none = ~index{0}, outside = none - 1;
    const std::vector<index> order = g.order();
    std::vector<index> first(g.nodes.size() + 1, 0); // number of a node's first value
    for (std::size_t n = 0; n < g.nodes.size(); ++n)
        first[n + 1] = first[n] + static_cast<index>(g.nodes[n].elements.size());
    const auto value = [&](entry e) { return first[e.node] + e.output; };

    std::vector<index> block(first.back(), none), readers(first.back(), 0), held(first.back(), 0);
    for (const index n : order)
        for (index i = 0; i < g.nodes[n].inputs.size(); ++i)
            if (i != g.nodes[n].ignored) ++readers[value(g.nodes[n].inputs[i])];
    for (std::size_t y = 0; y < g.outputs.size(); ++y) {
        ++readers[value(g.outputs[y])];
        if (y >= g.results) block[value(g.outputs[y])] = outside;
    }

    pool blocks;
    verdict found;
    std::vector<std::pair<std::uint64_t, index>> wanted;
    for (const index n : order) {
        const pass_node& at = g.nodes[n];
        if (at.variable) continue;
        if (n >= g.first_copy && n < g.behind_copies) {
            ++found.copies;
            found.copies_us += at.time_us;
            const auto rest = readers.begin() + first[n];
            const auto read = [](index count) { return count > 0; };
            found.unsound += at.stops_unwanted && *rest == 0 &&
                             std::any_of(rest, rest + std::ptrdiff_t(at.elements.size()), read);
        }
        std::uint64_t taken = 0;
        for (const auto& [input, output] : at.inplace) {
            if (input >= at.inputs.size() || output >= at.elements.size()) continue;
            const entry x = at.inputs[input];
            const index from = block[value(x)], to = first[n] + output;
            if (taken >> input & 1 || block[to] != none || from >= outside) continue;
            if (!(held[from] == 1 && input != at.ignored) && !at.identity) continue;
            if (readers[to] == 0 || at.elements[output] != g.nodes[x.node].elements[x.output]) continue;
            taken |= std::uint64_t{1} << input;
            block[to] = from;
            held[from] += readers[to];
        }
        wanted.clear();
        for (index k = 0; k < at.elements.size(); ++k)
            if (block[first[n] + k] == none) wanted.emplace_back(at.elements[k], first[n] + k);
        std::stable_sort(wanted.begin(), wanted.end());
        for (std::size_t k = wanted.size(); k-- > 0;) {
            const index made = blocks.request(4 * wanted[k].first);
            held[made] = readers[wanted[k].second];
            block[wanted[k].second] = made;
        }
        for (index i = 0; i < at.inputs.size(); ++i) {
            const index from = block[value(at.inputs[i])];
            if (i == at.ignored || from >= outside) continue;
            if (--held[from] == 0) blocks.release(from);
        }
        for (index k = 0; k < at.elements.size(); ++k)
            if (const index made = block[first[n] + k]; made < outside && held[made] == 0)
                blocks.release(made);
    }
    found.bytes = blocks.total;
    return found;
}

inline verdict judge(const forward_pass& f, const marks& marked) { return judge(step_graph(f, marked)); }

} // namespace echo_mxnet
