// SPDX-License-Identifier: BSL-1.0
/// @file
/// What Algorithm 1 of the paper compares, as printed: for one node, the bytes that recomputation allocates and those
/// that it releases, over all that read an input of the node within its subgraph.
#pragma once

#include <echo/analysis/plan/decision/edge_uses.hpp>
#include <echo/analysis/plan/strategies/partition.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace echo::detail {

/// Both sums are over sets of values. Where nodes with many edges, or values with many readers, are among what counts,
/// their part of the sets is kept for the nodes that follow: in a graph that has such nodes, all their neighbours ask
/// for it.
class printed_comparison {
public:
    /// `wide`: more edges, or more readers, than this are many.
    printed_comparison(const snapshot& s, const node_groups& subgraphs, std::size_t wide = 64)
        : s_(s), subgraphs_(subgraphs), wide_(wide), read_backward_(s.value_count()),
          seen_(s.node_count(), 0), kept_(s.value_count()), own_(s.value_count()) {
        sort_readers();
    }

    /// Whether fewer bytes are released than allocated. O(edges of what reads an input of `n` within its subgraph); of
    /// these, the wide ones cost nothing if they are the same as at the last call.
    bool releases_less(node_id n) {
        const std::uint32_t group = subgraphs_.of(n);
        gather(n, group);
        if (group != kept_group_ || key_ != kept_key_) keep(group);
        ++own_.stamp;
        sums own = kept_sums_;
        for (const auto r : narrow_) add_reader(r, own, own_);
        for (const auto e : s_.inputs(n))
            if (read_backward_[e]) add(e, own.allocated, &marks::allocated, own_);
        return own.released < own.allocated;
    }

    /// Edges looked at so far, which is what the time goes into.
    std::size_t visited() const noexcept { return visited_; }

private:
    struct sums {
        std::uint64_t allocated = 0, released = 0;
    };
    /// Which values are in a set: those with the stamp of now.
    struct marks {
        explicit marks(std::size_t values) : allocated(values, 0), released(values, 0) {}
        id_vector<value_id, std::uint32_t> allocated, released;
        std::uint32_t stamp = 1;
    };

    /// The readers of every value that are in a subgraph, sorted by it.
    void sort_readers() {
        first_.reserve(s_.value_count());
        for (const auto v : s_.values()) {
            first_.push_back(readers_.size());
            for (const use& u : s_.uses(v)) {
                const std::uint32_t group = subgraphs_.of(u.reader);
                if (group != node_groups::none)
                    readers_.push_back({group, u.reader});
                else if (runs_after_forward(s_[u.reader].phase))
                    read_backward_[v] = 1;
            }
            std::sort(readers_.begin() + static_cast<std::ptrdiff_t>(first_.back()), readers_.end());
        }
    }

    std::size_t end_of(value_id v) const {
        return v.index() + 1 < first_.size() ? first_[v.next()] : readers_.size();
    }

    std::span<const std::pair<std::uint32_t, node_id>> readers(value_id v, std::uint32_t group) const {
        const auto *const begin = readers_.data() + first_[v], *const end = readers_.data() + end_of(v);
        const auto before = [](const auto& a, const auto& b) { return a.first < b.first; };
        const auto [from, to] = std::equal_range(begin, end, std::pair{group, node_id()}, before);
        return {from, to};
    }

    /// What counts for `n`: `narrow_` one by one, and `key_` for what is wide, nodes as 2n and values as 2v + 1.
    void gather(node_id n, std::uint32_t group) {
        key_.clear();
        narrow_.clear();
        ++stamp_;
        for (const auto e : s_.inputs(n)) {
            const auto all = readers(e, group);
            ++visited_;
            if (all.size() > wide_) {
                key_.push_back(2 * std::uint64_t{e.index()} + 1);
                continue;
            }
            for (const auto& [_, r] : all) {
                ++visited_;
                if (std::exchange(seen_[r], stamp_) == stamp_) continue;
                if (s_.inputs(r).size() + s_.outputs(r).size() > wide_)
                    key_.push_back(2 * std::uint64_t{r.index()});
                else
                    narrow_.push_back(r);
            }
        }
        std::sort(key_.begin(), key_.end());
        key_.erase(std::unique(key_.begin(), key_.end()), key_.end());
    }

    void keep(std::uint32_t group) {
        kept_group_ = group;
        kept_key_ = key_;
        kept_sums_ = {};
        ++kept_.stamp;
        ++stamp_;
        const auto add_once = [&](node_id r) {
            if (std::exchange(seen_[r], stamp_) != stamp_) add_reader(r, kept_sums_, kept_);
        };
        for (const auto wide : key_) {
            if (wide % 2 == 0)
                add_once(node_id(wide / 2));
            else
                for (const auto& [_, r] : readers(value_id(wide / 2), group)) add_once(r);
        }
    }

    void add_reader(node_id r, sums& to, marks& in) {
        for (const auto v : s_.outputs(r)) add(v, to.allocated, &marks::allocated, in);
        for (const auto v : s_.inputs(r)) add(v, to.released, &marks::released, in);
    }

    void add(value_id v, std::uint64_t& sum, id_vector<value_id, std::uint32_t> marks::*set, marks& in) {
        ++visited_;
        if ((kept_.*set)[v] == kept_.stamp) return;
        if (std::exchange((in.*set)[v], in.stamp) != in.stamp) sum += s_[v].bytes;
    }

    const snapshot& s_;
    const node_groups& subgraphs_;
    std::size_t wide_;
    id_vector<value_id, std::size_t> first_;                 ///< where its part of `readers_` begins
    std::vector<std::pair<std::uint32_t, node_id>> readers_; ///< subgraph and node
    id_set<value_id> read_backward_;                         ///< per value
    id_vector<node_id, std::uint32_t> seen_;                 ///< per node
    std::uint32_t stamp_ = 0;
    std::vector<std::uint64_t> key_, kept_key_;
    std::vector<node_id> narrow_;
    marks kept_, own_;
    sums kept_sums_;
    std::uint32_t kept_group_ = node_groups::none;
    std::size_t visited_ = 0;
};

} // namespace echo::detail
