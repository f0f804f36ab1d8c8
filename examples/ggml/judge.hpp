// SPDX-License-Identifier: BSL-1.0
/// @file
/// ggml's own allocator as the judge of a schedule, and the rewrite of the graph to it.
#pragma once

#include "lay.hpp"
#include "layout.hpp"

namespace echo_ggml {

/// What a schedule takes in ggml.
struct cost {
    std::size_t bytes = 0; ///< of the compute buffer
    int nodes = 0;         ///< of the graph
};

/// Bytes of the compute buffer that ggml's allocator would take for a schedule of this graph; the graph itself is not
/// touched. Errors: what cannot be laid out in ggml. O(tensors) and ggml's allocator.
class judge {
public:
    explicit judge(const graph& g)
        : graph_(g), allocator_(ggml_gallocr_new(ggml_backend_cpu_buffer_type())) {}
    judge(const judge&) = delete;
    ~judge() { ggml_gallocr_free(allocator_); }

    cost operator()(const echo::schedule& steps) const {
        const std::size_t tensors = 2 * steps.size() + graph_.order().size() + 64;
        const auto context =
            new_context(tensors * ggml_tensor_overhead() + ggml_graph_overhead_custom(tensors, false));
        ggml_cgraph* const shadow = ggml_new_graph_custom(context.get(), tensors, false);
        layer lay(graph_, steps, context.get(), true);
        for (ggml_tensor* const t : lay()) ggml_build_forward_expand(shadow, t);
        keep_gradients(lay);
        cost of{.nodes = ggml_graph_n_nodes(shadow)};
        ggml_gallocr_reserve_n_size(allocator_, shadow, nullptr, nullptr, &of.bytes);
        return of;
    }

private:
    /// An optimizer step reads them when all else has run.
    void keep_gradients(const layer& lay) const {
        for (const auto& v : echo::graph_traits<graph>::results(graph_))
            if (ggml_tensor* const t = lay.first_run(graph_.position(v.producer)); t && !t->view_src)
                ggml_set_output(t);
    }

    const graph& graph_;
    ggml_gallocr_t allocator_;
};

/// Who reads whom and what lies on what, as it was before a rewrite: put back unless the changes are kept.
class links {
public:
    explicit links(const graph& g) {
        for (ggml_tensor* const t : g.order())
            for (ggml_tensor* const one : {t, is_leaf(t) ? nullptr : g.inner(t)})
                if (one) saved_.push_back({one, *one});
    }
    links(const links&) = delete;
    ~links() {
        for (const auto& [t, was] : saved_) {
            std::copy(std::begin(was.src), std::end(was.src), t->src);
            t->view_src = was.view_src;
        }
    }
    void keep_changes() noexcept { saved_.clear(); }

private:
    std::vector<std::pair<ggml_tensor*, ggml_tensor>> saved_;
};

/// Makes the graph run the schedule: copies go into `context`, readers are turned to them, and the nodes are put in order.
/// How often each tensor is read is set anew, as ggml counts it. Errors: what cannot be laid out in ggml; the graph is as it
/// was then. O(tensors).
inline std::size_t rewrite(const graph& g, const echo::schedule& steps, ggml_context* context) {
    links before(g);
    layer lay(g, steps, context, false);
    const auto order = lay();
    before.keep_changes();
    ggml_cgraph* const joint = g.joint();
    for (ggml_tensor* const t : lay.clones()) ggml_build_forward_expand(joint, t);
    std::copy(order.begin(), order.end(), ggml_graph_nodes(joint));
    std::unordered_map<const ggml_tensor*, std::int32_t> readers;
    for (const ggml_tensor* const t : order)
        for (const ggml_tensor* const s : t->src)
            if (s) ++readers[s];
    const cgraph_layout& is = layout_of(joint);
    for (std::size_t slot = 0; slot < is.hash_size; ++slot)
        if (is.used(slot)) {
            const auto found = readers.find(is.hash_keys[slot]);
            is.use_counts[slot] = found == readers.end() ? 0 : found->second;
        }
    return lay.clones().size();
}

} // namespace echo_ggml
