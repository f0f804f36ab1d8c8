// SPDX-License-Identifier: BSL-1.0
/// @file
/// The paper's pass (its Algorithm 1), in two readings.
///
/// `echo_pass` does what the paper's prose describes: all light ops of a subgraph start on the recomputation
/// path, then nodes are trimmed from it, from the front in groups (all that share an input are compared as
/// one: the frontier rule) and from the back, as long as the stash released is at least the stash allocated,
/// until nothing changes. Edges are counted once; graph inputs and parameters never count, since they stay
/// resident; an input that a gradient reads anyway counts on neither side; what is left without a reader
/// leaves with its reader. `echo_as_printed` is the algorithm to the letter, for comparison: it can keep
/// recomputations that cost memory.
#pragma once

#include <echo/analysis/plan/decision/schedule_builder.hpp>
#include <echo/analysis/plan/strategies/anchors.hpp>
#include <echo/analysis/plan/strategies/echo_printed.hpp>
#include <echo/analysis/plan/strategies/partition.hpp>

#include <algorithm>
#include <vector>

namespace echo::detail {

/// Which forward values the backward pass reads, and how.
struct gradient_needs {
    id_set<value_id> full;    ///< base value: all of it is read
    id_set<value_id> one_bit; ///< value: one bit per element is read, and nothing needs more of it

    /// O(nodes + edges).
    gradient_needs(const snapshot& s, const candidates& c, bool encode)
        : full(s.value_count()), one_bit(s.value_count()) {
        for_each_gradient_read(s, c, encode, node_id::none(),
                               [&](value_id v, bool bit) { (bit ? one_bit[v] : full[c.base[v]]) = 1; });
        for (const auto v : s.values()) {
            const value_id base = c.base[v];
            if (full[base] || c.costless[base]) one_bit[v] = 0;
        }
    }
};

class echo_trimmer {
public:
    echo_trimmer(const snapshot& s, const candidates& c, const gradient_needs& needs)
        : s_(s), c_(c), needs_(needs) {}

    void run(const backward_needs& when, decision& out) {
        start(when);
        // Views are on no path, they follow what they lie on; but they connect.
        const node_groups subgraphs = node_groups::connected(
            s_, [&](node_id n) { return on_path_[n] || (c_.rerunnable[n] && !makes_storage(n)); });
        for (std::size_t g = 0; g < subgraphs.size(); ++g) {
            const auto members = subgraphs.members(g);
            while (trim_forwards(members) || trim_backwards(members)) {}
        }
        out.again = on_path_;
        out.encoded = needs_.one_bit;
    }

private:
    /// The path: everything that may be made again and that a gradient demands, directly or through others.
    void start(const backward_needs& when) {
        on_path_.assign(s_.node_count());
        readers_.assign(s_.value_count(), 0);
        for (std::size_t i = s_.node_count(); i-- > 0;) {
            const node_id n(i);
            if (!c_.live[n] || s_[n].phase != phase::forward) continue;
            if (!(c_.rerunnable[n] || c_.late_is_free(n)) || when.anchor[n] || !demanded(n)) continue;
            on_path_[n] = 1;
            for (const auto v : s_.inputs(n)) ++readers_[base(v)];
        }
        visited_.assign(s_.node_count());
        touched_.assign(s_.value_count());
    }

    value_id base(value_id v) const { return c_.base[v]; }
    std::uint64_t price(value_id b) const { return c_.costless[b] ? 0 : s_[b].bytes; }
    /// Bytes of keeping a storage for the backward pass are paid whatever the path is.
    bool paid_anyway(value_id b) const {
        return c_.costless[b] || (needs_.full[b] && !on_path_[s_[b].producer]);
    }
    bool demanded(value_id b) const { return needs_.full[b] || readers_[b] > 0; }
    bool makes_storage(node_id n) const {
        for (const auto v : s_.outputs(n))
            if (base(v) == v) return true;
        return false;
    }
    bool demanded(node_id n) const {
        for (const auto v : s_.outputs(n))
            if (base(v) == v && demanded(v)) return true;
        return false;
    }

    /// Tries to take a group off the path. Committed if it releases at least what it allocates.
    bool try_trim(std::span<const node_id> group) {
        removed_.assign(group.begin(), group.end());
        for (const auto n : group) on_path_[n] = 0;
        std::uint64_t released = 0, allocated = 0;
        dropped_.clear();
        for (std::size_t i = 0; i < removed_.size(); ++i) {
            for (const auto v : s_.inputs(removed_[i])) {
                const value_id b = base(v);
                dropped_.push_back(b);
                if (--readers_[b] > 0) continue;
                const node_id maker = s_[b].producer;
                if (on_path_[maker]) {
                    if (!demanded(maker)) {
                        on_path_[maker] = 0;
                        removed_.push_back(maker);
                    }
                } else if (!paid_anyway(b) && !is_output_of(group, b)) {
                    released += price(b);
                }
            }
        }
        for (const auto n : group)
            for (const auto v : s_.outputs(n))
                if (base(v) == v && demanded(v)) allocated += price(v);
        if (released >= allocated) return true;
        for (const auto b : dropped_) ++readers_[b];
        for (const auto n : removed_) on_path_[n] = 1;
        return false;
    }

    bool is_output_of(std::span<const node_id> group, value_id b) const {
        return std::find(group.begin(), group.end(), s_[b].producer) != group.end();
    }

    /// Nothing that it reads is made on the path.
    bool at_front(node_id n) const {
        for (const auto v : s_.inputs(n))
            if (on_path_[s_[base(v)].producer]) return false;
        return true;
    }
    /// No node of the path reads it.
    bool at_back(node_id n) const {
        for (const auto v : s_.outputs(n))
            if (base(v) == v && readers_[v] > 0) return false;
        return true;
    }

    bool trim_forwards(std::span<const node_id> members) {
        bool changed = false;
        for (const auto n : members) {
            if (!on_path_[n] || visited_[n] || !at_front(n)) continue;
            frontier_group(n);
            if (try_trim(group_)) changed = true;
        }
        for (const auto n : members) visited_[n] = 0;
        return changed;
    }

    bool trim_backwards(std::span<const node_id> members) {
        bool changed = false;
        for (std::size_t i = members.size(); i-- > 0;)
            if (on_path_[members[i]] && at_back(members[i])) changed |= try_trim({&members[i], 1});
        return changed;
    }

    /// `n` and all nodes of the path that share with it, directly or through others, an input that is stashed
    /// for them.
    void frontier_group(node_id n) {
        group_.assign(1, n);
        visited_[n] = 1;
        shared_.clear();
        for (std::size_t i = 0; i < group_.size(); ++i) {
            for (const auto v : s_.inputs(group_[i])) {
                const value_id b = base(v);
                if (paid_anyway(b) || on_path_[s_[b].producer] || touched_[b]) continue;
                touched_[b] = 1;
                shared_.push_back(b);
                join_readers(b);
            }
        }
        for (const auto b : shared_) touched_[b] = 0;
    }

    void join_readers(value_id v) {
        for (const use& u : s_.uses(v)) {
            if (!on_path_[u.reader] || visited_[u.reader]) continue;
            visited_.insert(u.reader);
            group_.push_back(u.reader);
        }
    }

    const snapshot& s_;
    const candidates& c_;
    const gradient_needs& needs_;
    id_set<node_id> on_path_, visited_;
    id_set<value_id> touched_;
    id_vector<value_id, std::uint32_t> readers_; ///< per base value: reads by nodes of the path
    std::vector<node_id> group_, removed_;
    std::vector<value_id> dropped_, shared_;
};

/// The paper's pass as its prose has it, with the anchors that `when` names. Each trimming step costs the
/// edges it touches; rounds are repeated until nothing changes, in practice two or three times. Always ends:
/// every round removes a node. Errors: none.
inline decision echo_pass(const snapshot& s, const candidates& c, const gradient_needs& needs,
                          const backward_needs& when) {
    decision out = decision::nothing(s);
    detail::echo_trimmer(s, c, needs).run(when, out);
    return out;
}

/// Algorithm 1 as printed, line by line (lines 12 to 28): every edge with its own size, parameters included, one node
/// at a time, once. O(nodes + edges × (log of the fan-out + `wide`²)), and the edges of nodes and values that are wide
/// (echo_printed.hpp) each time that other ones of them count than for the node before: neither a fan of readers nor
/// one node that reads them all makes it quadratic. Errors: none.
inline decision echo_as_printed(const snapshot& s, const candidates& c, const gradient_needs& needs) {
    decision out = decision::nothing(s);
    const node_groups subgraphs = partition(s, c);
    detail::printed_comparison compare(s, subgraphs);
    enum : std::uint8_t { not_asked, keep, remove };
    id_vector<value_id, std::uint8_t> answer(s.value_count(),
                                             not_asked); // for the nodes that read this value alone
    for (std::size_t g = 0; g < subgraphs.size(); ++g) {
        for (const auto n : subgraphs.members(g)) {
            if (!c.rerunnable[n]) continue;
            bool binarised = false;
            for (const auto v : s.outputs(n)) binarised |= needs.one_bit[v] != 0;
            if (binarised) continue;
            const auto inputs = s.inputs(n);
            std::uint8_t once = not_asked;
            std::uint8_t& said = inputs.size() == 1 ? answer[inputs[0]] : once;
            if (said == not_asked) said = compare.releases_less(n) ? keep : remove;
            out.again[n] = said == keep;
        }
    }
    out.encoded = needs.one_bit;
    return out;
}

} // namespace echo::detail
