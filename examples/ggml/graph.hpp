// SPDX-License-Identifier: BSL-1.0
/// @file
/// A joint graph of ggml, forward and backward pass, with what its tensors do not say themselves: who reads them, what
/// they write into, which of them ggml computes in one kernel. traits.hpp makes it a host graph of Echo.
#pragma once

#include "facts.hpp"

#include <echo/error.hpp>

#include <ggml.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace echo_ggml {

/// One input of a node: the tensor that is read, and the `src[slot]` that names it. In a fused pair `by` may be the inner
/// half. Slot -1: storage that the node writes into without naming it.
struct input {
    ggml_tensor* from;
    ggml_tensor* by;
    int slot;
};

inline ggml_tensor* root(ggml_tensor* t) { return t->view_src ? t->view_src : t; }
inline const ggml_tensor* root(const ggml_tensor* t) { return t->view_src ? t->view_src : t; }
inline bool is_leaf(const ggml_tensor* t) { return t->op == GGML_OP_NONE; }
inline bool is_view(const ggml_tensor* t) {
    const auto* const f = ops.find(ggml_op_desc(t));
    return f && f->kind == echo::op_kind::view;
}
inline bool same_layout(const ggml_tensor* a, const ggml_tensor* b) {
    return a->type == b->type && ggml_are_same_shape(a, b) && ggml_are_same_stride(a, b);
}

/// Whether ggml's CPU backend computes an RMS_NORM and the MUL behind it in one kernel if nobody else reads the norm.
inline bool can_fuse(const ggml_tensor* norm, const ggml_tensor* mul) {
    if (std::string_view(ggml_op_desc(norm)) != "RMS_NORM" || std::string_view(ggml_op_desc(mul)) != "MUL")
        return false;
    if (mul->src[0] != norm && mul->src[1] != norm) return false;
    const ggml_tensor* const by = mul->src[0] == norm ? mul->src[1] : mul->src[0];
    return !norm->view_src && !(norm->flags & GGML_TENSOR_FLAG_OUTPUT) && ggml_are_same_shape(norm, mul) &&
           norm->src[0]->type == GGML_TYPE_F32 && mul->type == GGML_TYPE_F32 && by->type == GGML_TYPE_F32 &&
           by->ne[0] == norm->ne[0] && by->nb[0] == sizeof(float);
}

/// Refers to the graph. Its nodes are ggml's tensors: the leaves first, then the nodes in their order. Where ggml's CPU
/// backend computes RMS_NORM and MUL in one kernel, the two are one node here (the MUL), so that every copy is fused alike.
class graph {
public:
    /// `forward`: how many of the nodes the forward pass has. `external`: leaves without data that get memory of their own
    /// later (gradient accumulators). Errors: `echo::error` for what Echo cannot treat.
    graph(ggml_cgraph* joint, int forward, std::unordered_set<const ggml_tensor*> external)
        : joint_(joint), external_(std::move(external)) {
        const int count = ggml_graph_n_nodes(joint);
        for (int i = 0; i < count; ++i) at_.emplace(ggml_graph_node(joint, i), at_.size());
        std::unordered_map<const ggml_tensor*, int> readers;
        for (int i = 0; i < count; ++i)
            for (ggml_tensor* const s : ggml_graph_node(joint, i)->src) {
                if (s && at_.emplace(s, at_.size()).second) order_.push_back(s);
                if (s) ++readers[s];
            }
        for (ggml_tensor* const leaf : order_)
            if (!is_leaf(leaf) || leaf->view_src)
                throw echo::error(leaf->name, "src", "is read but is no node of the graph",
                                  "the graph is left as it is");
        leaves_ = order_.size();
        for (int i = 0; i < count; ++i) {
            ggml_tensor* const n = ggml_graph_node(joint, i);
            ggml_tensor* const next = i + 1 < count ? ggml_graph_node(joint, i + 1) : nullptr;
            if (next && readers[n] == 1 && can_fuse(n, next))
                inner_.emplace(next, n);
            else
                order_.push_back(n);
            if (i + 1 == forward) first_backward_ = order_.size();
        }
        at_.clear();
        for (std::size_t i = 0; i < order_.size(); ++i) at_.emplace(order_[i], i);
        find_readers();
    }

    ggml_cgraph* joint() const { return joint_; }
    const std::vector<ggml_tensor*>& order() const { return order_; }
    std::size_t leaves() const { return leaves_; }
    std::size_t position(const ggml_tensor* t) const {
        const auto found = at_.find(t);
        return found == at_.end() ? order_.size() : found->second;
    }
    bool in_backward(const ggml_tensor* t) const { return position(t) >= first_backward_; }
    /// The RMS_NORM that is computed together with this MUL, or nullptr.
    ggml_tensor* inner(const ggml_tensor* t) const {
        const auto found = inner_.find(t);
        return found == inner_.end() ? nullptr : found->second;
    }
    /// Its storage is not of the compute buffer: weights, accumulators, caches, and views of them.
    bool has_own_memory(const ggml_tensor* t) const { return root(t)->data || external_.contains(root(t)); }
    /// Writes into storage that is there already: gradient accumulators, caches of keys and values.
    bool writes(const ggml_tensor* t) const { return t->view_src && !is_leaf(t) && !is_view(t); }

    /// As they were when the graph was read.
    const std::vector<input>& inputs(const ggml_tensor* n) const { return facts_[position(n)].inputs; }
    /// The input whose storage a view or a write lies on.
    std::optional<std::size_t> base(const ggml_tensor* n) const { return facts_[position(n)].base; }

    /// The input that ggml's allocator lets the node take over: the first of its layout that nobody reads later.
    std::optional<std::size_t> overwritten(ggml_tensor* n) const {
        if (n->view_src || has_own_memory(n) || ops[ggml_op_desc(n)].inplace.empty()) return {};
        std::optional<std::size_t> first;
        const auto& all = inputs(n);
        for (std::size_t i = 0; i < all.size(); ++i) {
            const ggml_tensor* const from = root(all[i].from);
            if (is_leaf(from) || has_own_memory(from) || !same_layout(n, all[i].from) ||
                ((all[i].from->flags | from->flags) & GGML_TENSOR_FLAG_OUTPUT))
                continue;
            if (last_read_.at(from) == position(n)) return i;
            if (!first) first = i;
        }
        return first;
    }

    /// The last write before this node into storage that it reads.
    ggml_tensor* written_before(ggml_tensor* n) const { return neighbour(n, true); }
    /// May run only once: it writes into storage that is there, or what it makes or reads is written into later.
    bool runs_once(ggml_tensor* n) const {
        return writes(n) || writers_.contains(n) || neighbour(n, false) != nullptr;
    }
    bool is_read(const ggml_tensor* t) const { return read_.contains(t); }

private:
    struct node_facts {
        std::vector<input> inputs;
        std::optional<std::size_t> base;
    };

    void find_readers() {
        facts_.resize(order_.size());
        for (std::size_t i = leaves_; i < order_.size(); ++i) {
            if (is_leaf(order_[i])) continue;
            facts_[i] = read_node(order_[i]);
            for (const input& in : facts_[i].inputs) {
                read_[in.from] = i;
                last_read_[root(in.from)] = i;
            }
            if (writes(order_[i])) writers_[order_[i]->view_src].push_back(i);
        }
    }

    node_facts read_node(ggml_tensor* n) const {
        node_facts of;
        ggml_tensor* const pair = inner(n);
        if (pair) of.inputs.push_back({pair->src[0], pair, 0});
        for (int i = 0; i < GGML_MAX_SRC; ++i) // a cast names itself
            if (n->src[i] && n->src[i] != n && n->src[i] != pair) of.inputs.push_back({n->src[i], n, i});
        if (!n->view_src) return of;
        const auto is_base = [&](const input& in) { return root(in.from) == n->view_src; };
        auto found = std::find_if(of.inputs.begin(), of.inputs.end(), is_base);
        if (found == of.inputs.end() && is_view(n))
            throw echo::error(n->name, "view_src", "is a view of nothing that it reads",
                              "the graph is left as it is");
        if (found == of.inputs.end()) found = of.inputs.insert(found, {n->view_src, n, -1});
        of.base = static_cast<std::size_t>(found - of.inputs.begin());
        return of;
    }

    ggml_tensor* neighbour(ggml_tensor* n, bool before) const {
        if (is_view(n)) return nullptr;
        const std::size_t here = position(n);
        std::optional<std::size_t> found;
        for (const input& in : inputs(n))
            if (const auto w = writers_.find(root(in.from)); w != writers_.end())
                for (const std::size_t at : w->second)
                    if (before ? at < here && (!found || at > *found) : at > here) found = at;
        return found ? order_[*found] : nullptr;
    }

    ggml_cgraph* joint_;
    std::vector<node_facts> facts_; // by position
    std::unordered_set<const ggml_tensor*> external_;
    std::vector<ggml_tensor*> order_;
    std::size_t leaves_ = 0, first_backward_ = 0;
    std::unordered_map<const ggml_tensor*, std::size_t> at_, read_, last_read_;
    std::unordered_map<const ggml_tensor*, ggml_tensor*> inner_;
    std::unordered_map<const ggml_tensor*, std::vector<std::size_t>> writers_;
};

} // namespace echo_ggml
