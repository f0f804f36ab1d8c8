// SPDX-License-Identifier: BSL-1.0
/// @file
/// A schedule as tensors of ggml: on a copy of the graph, to ask ggml's own allocator what it needs, or in the graph itself.
#pragma once

#include "traits.hpp"

#include <echo/analysis/schedule/schedule.hpp>

#include <cstring>
#include <memory>
#include <span>

namespace echo_ggml {

struct free_context {
    void operator()(ggml_context* c) const { ggml_free(c); }
};
using context_ptr = std::unique_ptr<ggml_context, free_context>;

inline context_ptr new_context(std::size_t bytes) {
    context_ptr made(ggml_init({.mem_size = bytes, .mem_buffer = nullptr, .no_alloc = true}));
    if (!made) throw echo::error({}, "memory", "ggml gives no context", "the graph is left as it is");
    return made;
}

/// A tensor like `t`, with the same inputs, and no part in what the host asks of `t` itself.
inline ggml_tensor* copy_of(ggml_context* context, const ggml_tensor* t, std::int32_t flags) {
    ggml_tensor* const made = ggml_new_tensor(context, t->type, GGML_MAX_DIMS, t->ne);
    std::copy(t->nb, t->nb + GGML_MAX_DIMS, made->nb);
    std::copy(t->src, t->src + GGML_MAX_SRC, made->src);
    std::memcpy(made->op_params, t->op_params, sizeof(t->op_params));
    made->op = t->op;
    made->flags = t->flags & flags;
    made->view_src = t->view_src;
    made->view_offs = t->view_offs;
    made->data = t->data;
    made->buffer = t->buffer;
    made->extra = t->extra;
    ggml_format_name(made, "%.*s", GGML_MAX_NAME - 8, t->name);
    for (ggml_tensor*& s : made->src)
        if (s == t) s = made;
    return made;
}

/// Walks a schedule and makes its tensors. `shadow`: of everything; else of the recomputations alone, and the graph's own
/// nodes read what their steps say.
class layer {
public:
    layer(const graph& g, const echo::schedule& steps, ggml_context* context, bool shadow)
        : graph_(g), steps_(steps), context_(context), shadow_(shadow), step_of_(steps.size()) {}

    /// In the order in which they run.
    std::vector<ggml_tensor*> operator()() {
        for (const auto t : steps_.steps()) {
            ggml_tensor* const n = graph_.order()[steps_[t].node.index()];
            step_of_[t.index()] = is_leaf(n) ? leaf(n) : node(t, n);
            first_.emplace(steps_[t].node.index(), step_of_[t.index()]);
        }
        return in_places_of_parameters();
    }
    const std::vector<ggml_tensor*>& clones() const { return clones_; }
    /// The tensor of the first run of the node at that position of the graph, or nullptr.
    ggml_tensor* first_run(std::size_t position) const {
        const auto found = first_.find(position);
        return found == first_.end() ? nullptr : found->second;
    }

private:
    ggml_tensor* leaf(ggml_tensor* n) {
        if (!shadow_) return n;
        ggml_tensor* const made = copy_of(context_, n, ~0);
        static char somewhere;
        if (graph_.has_own_memory(n)) made->data = &somewhere; // never followed
        if (n->flags & GGML_TENSOR_FLAG_PARAM) parameters_.emplace(n, made);
        return made;
    }

    ggml_tensor* node(echo::step_id t, ggml_tensor* n) {
        const bool make = shadow_ || steps_[t].kind == echo::step_kind::recompute;
        const std::int32_t keep = shadow_ && steps_[t].kind == echo::step_kind::run ? ~0 : 0;
        const auto inputs = graph_.inputs(n);
        const auto base = graph_.base(n);
        ggml_tensor* inner = graph_.inner(n);
        ggml_tensor* made = n;
        if (make) {
            if (inner) inner = copy_of(context_, inner, keep), list(inner, true), fused_.insert(inner);
            made = copy_of(context_, n, keep);
            if (inner)
                for (ggml_tensor*& s : made->src)
                    if (s == graph_.inner(n)) s = inner;
            if (shadow_ && made->data) made->data = made->view_src ? made->view_src->data : nullptr;
        } else if (inner) {
            list(inner, false), fused_.insert(inner);
        }
        const auto copies = steps_.inputs(t);
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            ggml_tensor* const from = step_of_[copies[i].step.index()];
            if (inputs[i].slot >= 0) (inputs[i].by == n ? made : inner)->src[inputs[i].slot] = from;
            if (base == i) made->view_src = root(from);
        }
        if (shadow_ && graph_.has_own_memory(n) && !n->view_src) made->data = made; // never followed
        if (shadow_ && made->view_src) made->data = made->view_src->data;
        list(made, make);
        return made;
    }

    void list(ggml_tensor* t, bool made) {
        order_.push_back(t);
        if (made && !shadow_) clones_.push_back(t);
    }

    /// Parameters are nodes to ggml, and its optimizer knows them by their places: they stay there, and the rest goes around
    /// them. What would newly be fused with its reader is held apart.
    std::vector<ggml_tensor*> in_places_of_parameters() {
        for (int round = 0; round < 64; ++round) {
            std::vector<ggml_tensor*> all;
            auto next = order_.begin();
            for (int i = 0; next != order_.end(); ++i) {
                ggml_tensor* const here =
                    i < ggml_graph_n_nodes(graph_.joint()) ? ggml_graph_node(graph_.joint(), i) : nullptr;
                if (here && is_leaf(here))
                    all.push_back(shadow_ ? parameters_.at(here) : here);
                else
                    all.push_back(*next++);
            }
            for (int i = static_cast<int>(all.size()); i < ggml_graph_n_nodes(graph_.joint()); ++i)
                if (ggml_tensor* const here = ggml_graph_node(graph_.joint(), i); is_leaf(here))
                    all.push_back(shadow_ ? parameters_.at(here) : here);
            if (!hold_apart(all)) return all;
        }
        throw echo::error({}, "fusion", "the order cannot be kept", "the graph is left as it is");
    }

    /// Whether something had to be put between a norm and its reader. Errors: a pair that was fused stands apart.
    bool hold_apart(const std::vector<ggml_tensor*>& all) {
        std::unordered_map<const ggml_tensor*, int> readers;
        for (const ggml_tensor* const t : all)
            for (const ggml_tensor* const s : t->src)
                if (s) ++readers[s];
        std::unordered_set<const ggml_tensor*> apart;
        for (std::size_t i = 0; i + 1 < all.size(); ++i) {
            const bool is = readers[all[i]] == 1 && can_fuse(all[i], all[i + 1]);
            if (!is && fused_.contains(all[i]))
                throw echo::error(all[i]->name, "fusion", "would no longer be fused",
                                  "the graph is left as it is");
            if (is && !fused_.contains(all[i])) apart.insert(all[i]);
        }
        if (apart.empty()) return false;
        std::vector<ggml_tensor*> order;
        for (ggml_tensor* const t : order_) {
            order.push_back(t);
            if (!apart.contains(t)) continue;
            order.push_back(ggml_view_1d(context_, separator(), 1, 0)); // does nothing and takes nothing
            if (!shadow_) clones_.push_back(order.back());
        }
        order_ = std::move(order);
        return true;
    }

    ggml_tensor* separator() const {
        for (const auto t : steps_.steps()) {
            ggml_tensor* const n = graph_.order()[steps_[t].node.index()];
            if (is_leaf(n) && graph_.has_own_memory(n) && n->type == GGML_TYPE_F32)
                return step_of_[t.index()];
        }
        throw echo::error({}, "fusion", "there is no parameter in 32 bits", "the graph is left as it is");
    }

    const graph& graph_;
    const echo::schedule& steps_;
    ggml_context* context_;
    bool shadow_;
    std::vector<ggml_tensor*> step_of_, order_, clones_;
    std::unordered_map<const ggml_tensor*, ggml_tensor*> parameters_;
    std::unordered_map<std::size_t, ggml_tensor*> first_;
    std::unordered_set<const ggml_tensor*> fused_; // norms that run inside their readers
};

} // namespace echo_ggml
