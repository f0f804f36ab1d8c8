// SPDX-License-Identifier: BSL-1.0
/// @file
/// What the hook calls: plans a joint graph once, remembers the plan by what the graph is, and rewrites the graph.
#pragma once

#include "choose.hpp"
#include "report.hpp"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace echo_ggml {

/// All that a plan hangs on: ops, sizes, layouts, flags, who reads whom, what lies on what, and the graph's capacity.
/// Engines that build their graph anew for each step give the same key for the same graph. O(tensors).
inline std::string key_of(const graph& g) {
    std::string key;
    const auto add = [&](const auto& number) {
        key.append(reinterpret_cast<const char*>(&number), sizeof(number));
    };
    add(ggml_graph_size(g.joint()));
    for (ggml_tensor* const t : g.order()) {
        add(static_cast<std::int32_t>(t->op));
        add(static_cast<std::int32_t>(t->type));
        add(t->op_params[0]); // which unary op
        add(t->flags);
        add(g.has_own_memory(t) | g.in_backward(t) << 1 | writes(t) << 2);
        add(t->ne);
        add(t->nb);
        const auto from = sources(t, g.norm_of(t));
        add(static_cast<std::int32_t>(base_of(t, from).value_or(from.size())));
        const auto refer = [&](const ggml_tensor* s) {
            add(s ? static_cast<std::int32_t>(g.position(s)) : -1);
        };
        for (const ggml_tensor* const s : t->src) refer(s);
        if (const ggml_tensor* const norm = g.norm_of(t)) refer(norm->src[0]);
        refer(t->view_src);
    }
    return key;
}

class engine {
public:
    explicit engine(settings asked) : asked_(std::move(asked)), report_(asked_.report) {}

    /// Rewrites the joint graph that ggml has just made, or leaves it as it is. `accumulators`: one for each of the
    /// forward nodes, or nullptr. Errors: `echo::error`; the graph is unchanged then.
    const decision& operator()(ggml_context* context, ggml_cgraph* joint, int forward,
                               ggml_tensor* const* accumulators) {
        const auto start = std::chrono::steady_clock::now();
        const graph g(joint, forward, external_tensors(context, joint, forward, accumulators));
        if (!ggml_get_no_alloc(context))
            throw echo::error({}, "context", "gives tensors their memory at once",
                              "use no_alloc and ggml's graph allocator");
        const auto [found, is_new] = plans_.try_emplace(key_of(g));
        entry& e = found->second;
        if (is_new) {
            e.number = plans_.size() - 1;
            try {
                e.made = choose(g, asked_);
            } catch (const std::exception& caught) {
                e.made.problem = caught.what();
            }
            if (!e.made.problem.empty()) say(e.made.problem, e.made.steps.has_value());
            for (const std::string& op : e.made.unknown_ops)
                std::fprintf(stderr, "echo: unknown op %s is left alone\n", op.c_str());
        }
        const bool carried_out = e.made.steps && has_room(g, context, e.made);
        if (e.made.steps && !carried_out && e.made.problem.empty())
            say(e.made.problem = "the context has no room for the plan's copies");
        if (is_new) {
            draw(g, e, carried_out);
            give_back_memory();
        }
        if (carried_out) {
            e.clones = rewrite(g, *e.made.steps, context);
            ++e.applied;
        }
        const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
        ++e.uses;
        (is_new ? e.first_ms : e.later_ms) += took.count();
        if (is_new) report_.write(plans_);
        return e.made;
    }

    ~engine() { report_.write(plans_); }

    static void say(const std::string& line, bool changed = false) {
        std::fprintf(stderr, "echo: %s; training goes on %s\n", line.c_str(),
                     changed ? "with that" : "unchanged");
    }

private:
    /// Tensors that have no memory yet but will get some of their own: the accumulators, and with them, where graphs
    /// are static, the loss and its labels. Those lie outside of the context then, and the rest of the forward pass
    /// inside.
    static std::unordered_set<const ggml_tensor*> external_tensors(ggml_context* context, ggml_cgraph* joint,
                                                                   int forward,
                                                                   ggml_tensor* const* accumulators) {
        std::unordered_set<const ggml_tensor*> all;
        for (int i = 0; accumulators && i < forward; ++i)
            if (accumulators[i]) all.insert(accumulators[i]);
        const auto* const memory = static_cast<const char*>(ggml_get_mem_buffer(context));
        const auto inside = [&](const ggml_tensor* t) {
            const auto* const at = reinterpret_cast<const char*>(t);
            return at >= memory && at < memory + ggml_get_mem_size(context);
        };
        bool forward_inside = false, loss_outside = false;
        for (int i = 0; i < forward; ++i) {
            const ggml_tensor* const n = ggml_graph_node(joint, i);
            forward_inside |= !is_leaf(n) && inside(n);
            loss_outside |= (n->flags & GGML_TENSOR_FLAG_LOSS) && !inside(n);
        }
        if (!forward_inside || !loss_outside) return all;
        for (int i = 0; i < forward; ++i) {
            const ggml_tensor* const n = ggml_graph_node(joint, i);
            if (!inside(n) && !n->view_src) all.insert(n);
            for (const ggml_tensor* const s : n->src)
                if (s && is_leaf(s) && !inside(s)) all.insert(s);
        }
        return all;
    }

    void draw(const graph& g, const entry& e, bool carried_out) {
        try {
            report_.draw(g, e, carried_out);
        } catch (const std::exception& caught) {
            say(std::string("the graph cannot be drawn: ") + caught.what(), carried_out);
        }
    }

    /// What planning took and freed stays with the C library otherwise, and counts as the process's memory.
    static void give_back_memory() {
#if defined(__GLIBC__)
        malloc_trim(0);
#endif
    }

    /// The host goes on to take from the same context: a copy of the graph, and a step for each parameter.
    static bool has_room(const graph& g, ggml_context* context, const decision& d) {
        const auto nodes = static_cast<std::size_t>(ggml_graph_n_nodes(g.joint()));
        const auto copies =
            static_cast<std::size_t>(d.after.nodes) - std::min<std::size_t>(nodes, d.after.nodes);
        const std::size_t needed = (copies + g.leaves() + 8) * ggml_tensor_overhead() +
                                   ggml_graph_overhead_custom(ggml_graph_size(g.joint()), true);
        return ggml_used_mem(context) + needed <= ggml_get_mem_size(context);
    }

    settings asked_;
    reporter report_;
    std::unordered_map<std::string, entry> plans_;
};

} // namespace echo_ggml
