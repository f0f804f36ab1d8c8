// SPDX-License-Identifier: BSL-1.0
/// @file
/// A joint graph of ggml, forward and backward pass, with what its tensors do not say themselves: what they read, who
/// reads them last, which of them ggml computes in one kernel. traits.hpp makes it a host graph of Echo.
#pragma once

#include <echo/error.hpp>
#include <echo/vocabulary/ggml.hpp>

#include <ggml.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace echo_ggml {

[[noreturn]] inline void refuse(const char* name, const char* key, const char* problem) {
    throw echo::error(name, key, problem, "the graph is left as it is");
}

inline ggml_tensor* root(const ggml_tensor* t) {
    return t->view_src ? t->view_src : const_cast<ggml_tensor*>(t);
}
inline bool is_leaf(const ggml_tensor* t) { return t->op == GGML_OP_NONE; }
inline bool is_view(const ggml_tensor* t) {
    const auto* const f = echo::ggml.find(ggml_op_desc(t));
    return f && f->kind == echo::op_kind::view;
}
/// Writes into storage that is there already: gradient accumulators, caches of keys and values.
inline bool writes(const ggml_tensor* t) { return t->view_src && !is_leaf(t) && !is_view(t); }

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

/// The fields that name what a node reads; of a pair that runs in one kernel, what the `norm` reads comes first.
/// Storage that the node writes into without naming it as a source comes last.
inline std::vector<ggml_tensor**> sources(ggml_tensor* n, ggml_tensor* norm) {
    std::vector<ggml_tensor**> all;
    if (norm) all.push_back(&norm->src[0]);
    for (ggml_tensor*& s : n->src)
        if (s && s != n && s != norm) all.push_back(&s); // a cast names itself
    if (n->view_src &&
        std::none_of(all.begin(), all.end(), [&](ggml_tensor** s) { return root(*s) == n->view_src; }))
        all.push_back(&n->view_src);
    return all;
}
/// Which of the sources a view or a write lies on.
inline std::optional<std::size_t> base_of(const ggml_tensor* n, const std::vector<ggml_tensor**>& from) {
    for (std::size_t i = 0; n->view_src && i < from.size(); ++i)
        if (root(*from[i]) == n->view_src) return i;
    return {};
}
/// How often each tensor is read.
inline std::unordered_map<const ggml_tensor*, int> count_readers(const std::vector<ggml_tensor*>& nodes) {
    std::unordered_map<const ggml_tensor*, int> readers;
    for (const ggml_tensor* const t : nodes)
        for (const ggml_tensor* const s : t->src)
            if (s) ++readers[s];
    return readers;
}

/// Refers to the graph. Its nodes are ggml's tensors: the leaves first, then the nodes in their order. Where ggml's CPU
/// backend computes RMS_NORM and MUL in one kernel, the two are one node here (the MUL), so that every copy is fused
/// alike.
class graph {
public:
    /// `forward`: how many of the nodes the forward pass has. `external`: leaves without data that get memory of their
    /// own later (gradient accumulators). Errors: `echo::error` for what Echo cannot treat.
    graph(ggml_cgraph* joint, int forward, std::unordered_set<const ggml_tensor*> external)
        : joint_(joint), external_(std::move(external)) {
        const std::vector<ggml_tensor*> nodes(ggml_graph_nodes(joint),
                                              ggml_graph_nodes(joint) + ggml_graph_n_nodes(joint));
        std::unordered_set<const ggml_tensor*> seen(nodes.begin(), nodes.end());
        for (const ggml_tensor* const n : nodes)
            for (ggml_tensor* const s : n->src)
                if (s && seen.insert(s).second) add_leaf(s);
        leaves_ = order_.size();
        for (ggml_tensor* const n : nodes)
            if (is_leaf(n)) add_leaf(n); // parameters are nodes to ggml
        auto readers = count_readers(nodes);
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            if (i == static_cast<std::size_t>(forward)) first_backward_ = order_.size();
            if (is_leaf(nodes[i])) continue;
            if (i + 1 < nodes.size() && readers[nodes[i]] == 1 && can_fuse(nodes[i], nodes[i + 1]))
                norm_.emplace(nodes[i + 1], nodes[i]);
            else
                add(nodes[i]);
        }
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
    ggml_tensor* norm_of(const ggml_tensor* t) const {
        const auto found = norm_.find(t);
        return found == norm_.end() ? nullptr : found->second;
    }
    /// Its storage is not of the compute buffer: weights, accumulators, caches, and views of them.
    bool has_own_memory(const ggml_tensor* t) const { return root(t)->data || external_.contains(root(t)); }
    bool is_read(const ggml_tensor* t) const { return read_.contains(t); }

    /// The input that ggml's allocator lets the node take over: the first of its layout that nobody reads later.
    std::optional<std::size_t> overwritten(ggml_tensor* n) const {
        if (n->view_src || has_own_memory(n) || echo::ggml[ggml_op_desc(n)].inplace.empty()) return {};
        std::optional<std::size_t> first;
        const auto from = sources(n, norm_of(n));
        for (std::size_t i = 0; i < from.size(); ++i) {
            const ggml_tensor *const s = *from[i], *const on = root(s);
            const bool same_layout =
                n->type == s->type && ggml_are_same_shape(n, s) && ggml_are_same_stride(n, s);
            if (is_leaf(on) || has_own_memory(on) || !same_layout ||
                ((s->flags | on->flags) & GGML_TENSOR_FLAG_OUTPUT))
                continue;
            if (last_read_.at(on) == position(n)) return i;
            if (!first) first = i;
        }
        return first;
    }

private:
    void add_leaf(ggml_tensor* t) {
        if (!is_leaf(t) || t->view_src) refuse(t->name, "src", "is read but is no node of the graph");
        at_.emplace(t, order_.size());
        order_.push_back(t);
    }

    void add(ggml_tensor* n) {
        const auto from = sources(n, norm_of(n));
        if (n->view_src && is_view(n) && from.back() == &n->view_src)
            refuse(n->name, "view_src", "is a view of nothing that it reads");
        at_.emplace(n, order_.size());
        for (ggml_tensor* const* const s : from) {
            read_.insert(*s);
            last_read_[root(*s)] = order_.size();
        }
        order_.push_back(n);
    }

    ggml_cgraph* joint_;
    std::unordered_set<const ggml_tensor*> external_, read_;
    std::vector<ggml_tensor*> order_;
    std::size_t leaves_ = 0, first_backward_ = ~std::size_t{0};
    std::unordered_map<const ggml_tensor*, std::size_t> at_, last_read_;
    std::unordered_map<const ggml_tensor*, ggml_tensor*> norm_; // by the MUL that it runs in
};

} // namespace echo_ggml
