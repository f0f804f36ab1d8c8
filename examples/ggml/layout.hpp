// SPDX-License-Identifier: BSL-1.0
/// @file
/// The one thing that ggml keeps private and a rewrite must set: how often each tensor of a graph is read (its backends
/// fuse ops by that count). `fits` proves on a small graph that the running ggml is laid out as this file says.
#pragma once

#include <ggml.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace echo_ggml {

/// The head of `struct ggml_cgraph`.
struct cgraph_layout {
    int size, n_nodes, n_leafs;
    ggml_tensor **nodes, **grads, **grad_accs, **leafs;
    std::int32_t* use_counts; // by slot of the hash table
    std::size_t hash_size;
    std::uint32_t* hash_used;
    ggml_tensor** hash_keys;

    bool used(std::size_t slot) const { return (hash_used[slot / 32] >> (slot % 32) & 1) != 0; }
};

inline cgraph_layout& layout_of(ggml_cgraph* g) { return *reinterpret_cast<cgraph_layout*>(g); }

namespace detail {

inline bool looks_right(ggml_context* context) {
    ggml_tensor* const a = ggml_new_tensor_1d(context, GGML_TYPE_F32, 3);
    ggml_tensor* const b = ggml_add(context, a, a);
    ggml_tensor* const c = ggml_view_1d(context, ggml_sqr(context, b), 2, 4);
    if (std::strcmp(ggml_op_name(b->op), "ADD") != 0 || b->src[1] != a || b->src[2] || a->ne[0] != 3 ||
        a->nb[1] != 12)
        return false;
    ggml_set_name(c, "c");
    if (c->view_src != c->src[0] || c->view_offs != 4 || c->data || ggml_get_name(c) != c->name ||
        c->name[0] != 'c')
        return false;
    ggml_set_output(b);
    if ((b->flags & GGML_TENSOR_FLAG_OUTPUT) == 0) return false;
    ggml_cgraph* const g = ggml_new_graph_custom(context, 16, true);
    ggml_build_forward_expand(g, c);
    const cgraph_layout& is = layout_of(g);
    const char* const memory = static_cast<char*>(ggml_get_mem_buffer(context));
    const auto inside = [&](const void* p) { // so that a wrong layout is never followed out of the graph
        return p >= memory && p < memory + ggml_get_mem_size(context);
    };
    if (is.size != ggml_graph_size(g) || is.n_nodes != 3 || is.n_leafs != 1 ||
        is.nodes != ggml_graph_nodes(g))
        return false;
    if (!inside(is.leafs) || is.leafs[0] != a || !inside(is.use_counts) || !inside(is.hash_used) ||
        !inside(is.hash_keys))
        return false;
    if (is.hash_size < 32 || is.hash_size > 1024) return false;
    int found = 0;
    for (std::size_t slot = 0; slot < is.hash_size; ++slot) {
        if (!is.used(slot)) continue;
        const ggml_tensor* const key = is.hash_keys[slot];
        if (is.use_counts[slot] != (key == a ? 2 : key == c ? 0 : 1)) return false;
        ++found;
    }
    return found == 4;
}

} // namespace detail

/// Whether the running ggml has the structures of the headers that this was compiled with. No errors.
inline bool fits() {
    constexpr std::size_t object = 32; // what ggml keeps before each tensor of a context
    if (ggml_tensor_overhead() != object + sizeof(ggml_tensor)) return false;
    ggml_context* const context = ggml_init({.mem_size = 64 * 1024, .mem_buffer = nullptr, .no_alloc = true});
    if (!context) return false;
    const bool right = detail::looks_right(context);
    ggml_free(context);
    return right;
}

} // namespace echo_ggml
