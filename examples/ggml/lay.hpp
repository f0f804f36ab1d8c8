// SPDX-License-Identifier: BSL-1.0
/// @file
/// A schedule as tensors of ggml: copies of what runs again, readers turned to the copies that they read, and the order
/// in which all of it runs.
#pragma once

#include "layout.hpp"
#include "traits.hpp"

#include <echo/analysis/schedule/schedule.hpp>

namespace echo_ggml {

/// A tensor like `t`, with the same sources, and no part in what the host asks of `t` itself.
inline ggml_tensor* copy_of(ggml_context* context, const ggml_tensor* t) {
    ggml_tensor* const made = ggml_dup_tensor(context, t);
    *made = *t;
    made->flags = 0;
    ggml_format_name(made, "%.*s", GGML_MAX_NAME - 8, t->name);
    std::replace(std::begin(made->src), std::end(made->src), const_cast<ggml_tensor*>(t),
                 made); // a cast names itself
    return made;
}

/// Walks a schedule of a graph. Copies go into `context`; the graph's own nodes are changed.
class layer {
public:
    layer(const graph& g, const echo::schedule& steps, ggml_context* context)
        : graph_(g), steps_(steps), context_(context) {}

    /// All nodes in the order in which they run. Errors: what cannot be laid out in ggml. O(tensors).
    std::vector<ggml_tensor*> operator()() {
        for (const auto t : steps_.steps()) of_step_.push_back(run(t));
        return in_places_of_parameters();
    }

private:
    ggml_tensor* run(echo::step_id t) {
        ggml_tensor* n = graph_.order()[steps_[t].node.index()];
        if (is_leaf(n)) return n;
        ggml_tensor* norm = graph_.norm_of(n);
        if (steps_[t].kind == echo::step_kind::recompute) {
            ggml_tensor* const original = norm;
            n = copy_of(context_, n);
            if (norm) norm = copy_of(context_, norm);
            if (norm) std::replace(std::begin(n->src), std::end(n->src), original, norm);
        }
        const auto from = sources(n, norm);
        const auto base = base_of(n, from);
        for (std::size_t i = 0; i < from.size(); ++i) *from[i] = of_step_[steps_.inputs(t)[i].step.index()];
        if (base) n->view_src = root(*from[*base]);
        if (norm) order_.push_back(norm), in_reader_.insert(norm);
        order_.push_back(n);
        return n;
    }

    /// Parameters are nodes to ggml, and its optimizer knows them by their places: they stay there, and the rest goes
    /// around them. What would newly be fused with its reader is held apart by a view that does nothing and takes
    /// nothing.
    std::vector<ggml_tensor*> in_places_of_parameters() const {
        const auto count = static_cast<std::size_t>(ggml_graph_n_nodes(graph_.joint()));
        auto readers = count_readers(order_);
        std::vector<ggml_tensor*> all;
        for (auto next = order_.begin(); next != order_.end() || all.size() < count;) {
            ggml_tensor* const last = all.empty() ? nullptr : all.back();
            ggml_tensor* here = all.size() < count ? ggml_graph_nodes(graph_.joint())[all.size()] : nullptr;
            const bool parameter = here && is_leaf(here);
            if (!parameter) here = *next;
            const bool fuses = last && readers[last] == 1 && can_fuse(last, here);
            if (in_reader_.contains(last) && !fuses) refuse(last->name, "fusion", "would no longer be fused");
            const bool apart = fuses && !in_reader_.contains(last);
            all.push_back(apart ? ggml_view_1d(context_, separator(), 1, 0) : here);
            if (!parameter && !apart) ++next;
        }
        return all;
    }

    ggml_tensor* separator() const {
        for (ggml_tensor* const t : graph_.order())
            if (is_leaf(t) && graph_.has_own_memory(t) && t->type == GGML_TYPE_F32) return t;
        refuse("", "fusion", "there is no parameter in 32 bits");
    }

    const graph& graph_;
    const echo::schedule& steps_;
    ggml_context* context_;
    std::vector<ggml_tensor*> of_step_, order_;
    std::unordered_set<const ggml_tensor*> in_reader_; // norms that run inside their readers
};

/// The tensors of a graph as they are now: put back in the end, unless the changes are kept.
class unchanged {
public:
    explicit unchanged(const graph& g) {
        for (ggml_tensor* const t : g.order())
            for (ggml_tensor* const one : {t, g.norm_of(t)})
                if (one) saved_.push_back({one, *one});
    }
    unchanged(const unchanged&) = delete;
    ~unchanged() {
        for (const auto& [t, was] : saved_) *t = was;
    }
    void keep_changes() noexcept { saved_.clear(); }

private:
    std::vector<std::pair<ggml_tensor*, ggml_tensor>> saved_;
};

/// Makes the graph run the schedule: copies go into `context`, readers are turned to them, and the nodes are put in
/// order. How often each tensor is read is set anew, as ggml counts it. Returns how many nodes were added. Errors: what
/// cannot be laid out in ggml; the graph is as it was then. O(tensors).
inline std::size_t rewrite(const graph& g, const echo::schedule& steps, ggml_context* context) {
    unchanged otherwise(g);
    const auto order = layer(g, steps, context)();
    otherwise.keep_changes();
    ggml_cgraph* const joint = g.joint();
    const auto before = static_cast<std::size_t>(ggml_graph_n_nodes(joint));
    for (ggml_tensor* const t : order) ggml_build_forward_expand(joint, t); // those that it does not have yet
    std::copy(order.begin(), order.end(), ggml_graph_nodes(joint));
    auto readers = count_readers(order);
    const cgraph_layout& is = layout_of(joint);
    for (std::size_t slot = 0; slot < is.hash_size; ++slot)
        if (is.used(slot)) is.use_counts[slot] = readers[is.hash_keys[slot]];
    return order.size() - before;
}

} // namespace echo_ggml
