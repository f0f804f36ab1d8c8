// SPDX-License-Identifier: BSL-1.0
/// @file
/// `graph_traits` over a joint graph of ggml: all that Echo asks of it. Sizes are those of ggml's allocator, its
/// alignment included; leaves (weights, accumulators, caches) are inputs, and resident.
#pragma once

#include "graph.hpp"
#include "times.hpp"

#include <echo/graph/concepts.hpp>

#include <ggml-alloc.h>
#include <ggml-backend.h>

template <>
struct echo::graph_traits<echo_ggml::graph> {
    using graph = echo_ggml::graph;
    using node = ggml_tensor*;
    using value = echo::value_of<node>;

    static const std::vector<node>& nodes(const graph& g) { return g.order(); }
    static std::size_t index(const graph& g, node n) { return g.position(n); }
    static std::string name(const graph&, node n) { return n->name; }
    static std::vector<value> inputs(const graph& g, node n) {
        std::vector<value> all;
        if (!echo_ggml::is_leaf(n))
            for (ggml_tensor* const* const from : echo_ggml::sources(n, g.norm_of(n)))
                all.push_back({*from, 0});
        return all;
    }
    static std::vector<tensor> outputs(const graph& g, node n) {
        const auto memory = ggml_backend_cpu_buffer_type();
        const std::size_t align = ggml_backend_buft_get_alignment(memory);
        tensor t{.bytes = (ggml_backend_buft_get_alloc_size(memory, n) + align - 1) / align * align};
        t.view_of = echo_ggml::base_of(n, echo_ggml::sources(n, g.norm_of(n)));
        if (!t.view_of) t.inplace = g.overwritten(n);
        t.resident = !t.view_of && g.has_own_memory(n);
        return {t};
    }
    static echo::phase phase(const graph& g, node n) {
        return echo_ggml::is_leaf(n) ? phase::input : g.in_backward(n) ? phase::backward : phase::forward;
    }
    /// Gradients of parameters, marked outputs, and what nobody reads: ggml's allocator keeps them to the end.
    static std::vector<value> results(const graph& g) {
        std::vector<value> all;
        for (const node n : g.order()) {
            if (echo_ggml::is_leaf(n)) {
                node const grad =
                    n->flags & GGML_TENSOR_FLAG_PARAM ? ggml_graph_get_grad(g.joint(), n) : nullptr;
                if (grad && g.position(grad) < g.order().size() && g.is_read(grad)) all.push_back({grad, 0});
            } else if ((n->flags & (GGML_TENSOR_FLAG_OUTPUT | GGML_TENSOR_FLAG_LOSS)) || !g.is_read(n)) {
                all.push_back({n, 0});
            }
        }
        return all;
    }
    static op_facts facts(const graph&, node n) {
        if (echo_ggml::is_leaf(n)) return {.name = "NONE"};
        op_facts f = echo::ggml[ggml_op_desc(n)];
        f.inplace = {}; // `outputs` says which, of this node
        return f;
    }
    static std::vector<std::size_t> writes(const graph& g, node n) {
        std::vector<std::size_t> all;
        if (echo_ggml::writes(n)) all.push_back(*echo_ggml::base_of(n, echo_ggml::sources(n, g.norm_of(n))));
        return all;
    }
    static std::optional<double> time_us(const graph& g, node n) {
        node const inner = g.norm_of(n);
        return echo_ggml::time_us(n) + (inner ? echo_ggml::time_us(inner) : 0);
    }
};
