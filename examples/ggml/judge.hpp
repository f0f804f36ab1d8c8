// SPDX-License-Identifier: BSL-1.0
/// @file
/// ggml's own allocator as the judge of a schedule.
#pragma once

#include "lay.hpp"

#include <memory>

namespace echo_ggml {

/// What a schedule takes in ggml.
struct cost {
    std::size_t bytes = 0; ///< of the compute buffer
    int nodes = 0;         ///< of the graph
};

struct free_context {
    void operator()(ggml_context* c) const { ggml_free(c); }
};
using context_ptr = std::unique_ptr<ggml_context, free_context>;

inline context_ptr new_context(std::size_t bytes) {
    context_ptr made(ggml_init({.mem_size = bytes, .mem_buffer = nullptr, .no_alloc = true}));
    if (!made) refuse("", "memory", "ggml gives no context");
    return made;
}

/// Bytes of the compute buffer that ggml's allocator would take for a schedule of this graph, which is as it was
/// afterwards.
/// Errors: what cannot be laid out in ggml. O(tensors) and ggml's allocator.
class judge {
public:
    explicit judge(const graph& g)
        : graph_(g), allocator_(ggml_gallocr_new(ggml_backend_cpu_buffer_type())) {}
    judge(const judge&) = delete;
    ~judge() { ggml_gallocr_free(allocator_); }

    cost operator()(const echo::schedule& steps) const {
        const unchanged afterwards(graph_);
        const std::size_t tensors = 2 * steps.size() + graph_.order().size() + 64;
        const auto context =
            new_context(tensors * ggml_tensor_overhead() + ggml_graph_overhead_custom(tensors, false));
        ggml_cgraph* const asked = ggml_new_graph_custom(context.get(), tensors, false);
        const auto order = layer(graph_, steps, context.get())();
        for (ggml_tensor* const t : graph_.order())
            if (graph_.has_own_memory(t) && !t->data) t->data = t; // never followed
        for (const auto& v :
             echo::graph_traits<graph>::results(graph_)) // an optimizer reads them when all else has run
            if (!v.producer->view_src) ggml_set_output(v.producer);
        for (ggml_tensor* const t : order) ggml_build_forward_expand(asked, t);
        cost of{.nodes = ggml_graph_n_nodes(asked)};
        ggml_gallocr_reserve_n_size(allocator_, asked, nullptr, nullptr, &of.bytes);
        return of;
    }

private:
    const graph& graph_;
    ggml_gallocr_t allocator_;
};

} // namespace echo_ggml
