// SPDX-License-Identifier: BSL-1.0
/// @file
/// MLX's lazy graph as a host. What `value_and_grad` returns is the joint graph, not run yet: it is walked from its
/// arrays, planned, and written anew by MLX's public constructors, before `eval`. MLX chooses the order of its own
/// graph at `eval`, and would make a copy right where the original stands; so each step of the new graph takes an input
/// through `depends` on the step before, and runs when its turn comes.
#pragma once

#include <echo/echo.hpp>

#include <mlx/mlx.h>
#include <mlx/primitives.h>
#include <mlx/version.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace echo_mlx {

namespace mx = mlx::core;

/// Errors: the MLX that runs is not the one whose headers this was built with.
inline void refuse_other(std::string_view running) {
    const std::string built = std::to_string(MLX_VERSION_MAJOR) + '.' + std::to_string(MLX_VERSION_MINOR) +
                              '.' + std::to_string(MLX_VERSION_PATCH);
    const std::string_view rest = running.substr(std::min(running.size(), built.size()));
    if (!running.starts_with(built) || (!rest.empty() && rest[0] >= '0' && rest[0] <= '9'))
        throw echo::error({}, "version",
                          "MLX " + std::string(running) + " may have other structures than " + built +
                              ", for which this was built",
                          "build it with the headers of that version");
}

struct tape_node {
    std::vector<mx::array> outputs;
    std::vector<echo::value_of<std::size_t>> inputs;
    echo::phase phase;
};

/// Everything behind some arrays. It holds them: MLX frees none of their memory before it is gone.
struct tape {
    std::vector<tape_node> nodes;
    std::vector<echo::value_of<std::size_t>> results;

    /// `loss` first, then the gradients from the last to the first: those of the last layers are there first, and what
    /// they read is free then.
    tape(const mx::array& loss, const std::vector<mx::array>& gradients) {
        add(loss, echo::phase::forward);
        for (auto g = gradients.rbegin(); g != gradients.rend(); ++g) add(*g, echo::phase::backward);
        results.push_back(find(loss));
        for (const mx::array& g : gradients) results.push_back(find(g));
    }

private:
    echo::value_of<std::size_t> find(const mx::array& a) const { return places_.at(a.id()); }

    static bool is_given(const mx::array& a) {
        return !a.has_primitive() || a.status() != mx::array::unscheduled;
    }

    void add(const mx::array& top, echo::phase phase) {
        std::vector<std::pair<mx::array, std::size_t>> path{{top, 0}};
        while (!path.empty()) {
            auto& [a, next] = path.back();
            if (places_.contains(a.id())) {
                path.pop_back();
            } else if (!is_given(a) && next < a.inputs().size()) {
                const mx::array input = a.inputs()[next++];
                if (!places_.contains(input.id())) path.emplace_back(input, 0);
            } else {
                tape_node made{is_given(a) ? std::vector<mx::array>{a} : a.outputs(),
                               {},
                               is_given(a) ? echo::phase::input : phase};
                if (!is_given(a))
                    for (const mx::array& input : a.inputs()) made.inputs.push_back(find(input));
                for (std::size_t k = 0; k < made.outputs.size(); ++k)
                    places_.insert({made.outputs[k].id(), {nodes.size(), k}});
                nodes.push_back(std::move(made));
                path.pop_back();
            }
        }
    }

    std::unordered_map<std::uintptr_t, echo::value_of<std::size_t>> places_;
};

inline std::string_view name_of(const tape_node& n) {
    return n.phase == echo::phase::input ? "input" : n.outputs[0].primitive().name();
}

inline bool is_one_of(std::string_view names, std::string_view name) {
    for (std::size_t at = 0; at < names.size();) {
        const std::size_t end = std::min(names.find(' ', at), names.size());
        if (names.substr(at, end - at) == name) return true;
        at = end + 1;
    }
    return false;
}

/// Floating-point operations of products and convolutions, from their shapes.
inline double flops_of(const tape_node& n) {
    const auto count = [](const mx::array& a) { return static_cast<double>(a.size()); };
    const std::string_view name = name_of(n);
    if (n.phase == echo::phase::input || n.outputs[0].inputs().size() < 2) return 0;
    const auto& x = n.outputs[0].inputs();
    if (name == "Matmul" || name == "AddMM") return 2 * count(n.outputs[0]) * x[0].shape(-1);
    if (name == "Convolution") return 2 * count(n.outputs[0]) * count(x[1]) / std::max(1, x[1].shape(0));
    return 0;
}

/// Bytes that a convolution takes on a CPU while it runs: the padded input and the matrix of all windows.
inline std::uint64_t workspace_of(const tape_node& n) {
    if (name_of(n) != "Convolution") return 0;
    const auto& x = n.outputs[0].inputs();
    const auto filters = static_cast<std::uint64_t>(std::max(1, x[1].shape(0)));
    return x[0].nbytes() + n.outputs[0].nbytes() / filters * (x[1].size() / filters);
}

/// Facts by the primitive's name. What a gradient reads is not asked: the gradients are in the graph.
inline echo::op_facts facts_of(const tape& g, const tape_node& n) {
    constexpr std::string_view heavy = "Matmul AddMM Convolution ScaledDotProductAttention";
    constexpr std::string_view views = "Transpose Broadcast BroadcastAxes ExpandDims Squeeze StopGradient "
                                       "Copy Depends CustomTransforms AsStrided";
    constexpr std::string_view shaping = "Reshape Flatten Unflatten"; // views of what lies in one piece
    constexpr std::string_view one =
        "Abs AsType Cos Erf Exp Log Log1p Negative Rsqrt Sqrt Sigmoid Sign Sin Square Tanh "
        "LogicalNot Softmax Cosh Sinh";
    constexpr std::string_view two =
        "Add Subtract Multiply Divide Maximum Minimum Power Select Greater GreaterEqual Less "
        "LessEqual Equal NotEqual LogicalAnd LogicalOr LogAddExp";
    constexpr std::string_view light =
        "Sum Prod Max Min Mean LogSumExp Arange Full Gather GatherAxis Concatenate Slice "
        "Split Pad Contiguous ArgReduce NumberOfElements RandomBits";
    const std::string_view name = name_of(n);
    echo::op_facts facts{.name = name, .rerun = echo::rerun_kind::pure};
    if (n.phase == echo::phase::input || is_one_of(heavy, name)) return facts;
    facts.kind = echo::op_kind::light;
    if (is_one_of(views, name)) {
        facts.kind = echo::op_kind::view;
        facts.views = {{0, 0}};
    } else if (is_one_of(shaping, name)) {
        const tape_node* base = &g.nodes[n.inputs[0].producer];
        bool in_one_piece = true;
        for (; base->phase != echo::phase::input && is_one_of(views, name_of(*base));
             base = &g.nodes[base->inputs[0].producer])
            in_one_piece &= !is_one_of("Transpose Broadcast BroadcastAxes AsStrided", name_of(*base));
        if (in_one_piece) {
            facts.kind = echo::op_kind::view;
            facts.views = {{0, 0}};
        }
    } else if (is_one_of(one, name)) {
        facts.inplace = {{0, 0}};
    } else if (is_one_of(two, name)) {
        facts.inplace = {{0, 0}};
        for (std::size_t i = 0; i < n.inputs.size();
             ++i) // it takes the first that is as large and not used any more
            if (n.outputs[0].inputs()[i].nbytes() == n.outputs[0].nbytes()) {
                facts.inplace = {{0, static_cast<std::uint8_t>(i)}};
                break;
            }
    } else if (!is_one_of(light, name) && !name.starts_with("Scatter")) {
        facts = {.name = name, .known = false}; // heavy, never again
    }
    return facts;
}

/// Who runs the new graph. `lazily`: MLX, at the next `eval`. `step_by_step`: we do, one primitive after the other,
/// each finished before the next begins; slower, but nothing is allocated ahead of its time. `unordered`: MLX, and
/// without `depends` in an order of its own; to see what recomputation saves then.
enum class execution { lazily, step_by_step, unordered };

/// The graph of a plan: new arrays for every step, each behind the one before. Only the results are kept.
inline std::vector<mx::array> written(const tape& g, const echo::snapshot& s, const echo::plan& p,
                                      execution how) {
    const echo::schedule& steps = p.steps();
    std::vector<std::vector<mx::array>> made(steps.size());
    std::vector<std::size_t> latest(g.nodes.size(), 0), last_reader(steps.size(), steps.size());
    for (const auto t : steps.steps()) {
        latest[steps[t].node.index()] = t.index();
        for (const echo::copy_id& x : steps.inputs(t)) last_reader[x.step.index()] = t.index();
    }
    for (const auto v : s.results()) last_reader[latest[s[v].producer.index()]] = steps.size();
    std::optional<mx::array> before;
    for (const auto t : steps.steps()) {
        const tape_node& n = g.nodes[steps[t].node.index()];
        if (n.phase == echo::phase::input) {
            made[t.index()] = n.outputs;
            continue;
        }
        std::vector<mx::array> inputs;
        for (const echo::copy_id& x : steps.inputs(t)) {
            inputs.push_back(made[x.step.index()].at(x.output));
            if (how == execution::step_by_step && last_reader[x.step.index()] == t.index() &&
                g.nodes[steps[x.step].node.index()].outputs.size() == 1)
                last_reader[x.step.index()] = ~t.index(); // to be let go below, once
        }
        for (const echo::copy_id& x : steps.inputs(t))
            if (last_reader[x.step.index()] == ~t.index()) made[x.step.index()].clear();
        const bool own = std::any_of(inputs.begin(), inputs.end(),
                                     [&](const mx::array& x) { return before && x.id() == before->id(); });
        if (how != execution::unordered && before && !inputs.empty() && !own)
            inputs[0] = mx::depends({inputs[0]}, {*before})[0];
        std::vector<mx::Shape> shapes;
        std::vector<mx::Dtype> types;
        for (const mx::array& y : n.outputs) {
            shapes.push_back(y.shape());
            types.push_back(y.dtype());
        }
        auto& outputs = made[t.index()];
        outputs = mx::array::make_arrays(std::move(shapes), types, n.outputs[0].primitive_ptr(), inputs);
        if (how != execution::step_by_step) {
            if (!inputs.empty()) before = outputs[0]; // what reads nothing waits for nobody
            continue;
        }
        inputs.clear();
        mx::eval(outputs);
        mx::synchronize();
    }
    std::vector<mx::array> results;
    for (const auto v : s.results())
        results.push_back(made[latest[s[v].producer.index()]].at(s.output_index(v)));
    return results;
}

} // namespace echo_mlx

template <>
struct echo::graph_traits<echo_mlx::tape> {
    using graph = echo_mlx::tape;
    using node = std::size_t;
    using value = echo::value_of<node>;

    static std::vector<node> nodes(const graph& g) {
        std::vector<node> all(g.nodes.size());
        for (std::size_t n = 0; n < all.size(); ++n) all[n] = n;
        return all;
    }
    static std::size_t index(const graph&, node n) { return n; }
    static const auto& inputs(const graph& g, node n) { return g.nodes[n].inputs; }
    static std::vector<tensor> outputs(const graph& g, node n) {
        std::vector<tensor> all;
        for (const auto& y : g.nodes[n].outputs) all.push_back({.bytes = y.nbytes()});
        return all;
    }
    static echo::phase phase(const graph& g, node n) { return g.nodes[n].phase; }
    static const auto& results(const graph& g) { return g.results; }
    static op_facts facts(const graph& g, node n) { return echo_mlx::facts_of(g, g.nodes[n]); }
    static std::uint64_t workspace(const graph& g, node n) { return echo_mlx::workspace_of(g.nodes[n]); }
    static double flops(const graph& g, node n) { return echo_mlx::flops_of(g.nodes[n]); }
};
