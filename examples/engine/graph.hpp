// SPDX-License-Identifier: BSL-1.0
/// @file
/// `graph`: a static training graph. Nodes have stable addresses and stand in a linked list, the order of execution:
/// forward nodes as they are built, then gradients, then updates. Shapes are inferred as nodes are added. Echo sees it
/// through graph_traits.hpp alone; build.hpp has a function for every op.
#pragma once

#include "engine/op.hpp"

#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace engine {

/// What an input node is for.
enum class role : std::uint8_t { none, data, parameter, state };

/// One op at its place. Made by `graph` only.
struct node {
    engine::op op;
    std::string name, layer;
    echo::phase phase = echo::phase::forward;
    engine::role role = engine::role::none;
    std::vector<value> inputs;
    tensors outputs;
    std::vector<node*> control;
    node* gradient_of = nullptr; ///< the forward node of a gradient node
    std::uint64_t seed = 0;      ///< of a random op; clones have the same
    std::uint64_t scratch = 0; ///< bytes that a backend needs while it runs: one more output, read by nobody
    std::optional<double> time_us; ///< measured
    bool keep = false;             ///< never recomputed
    bool may_fuse = false;         ///< a backend computes it inside what reads it, and others inside it

    node *before = nullptr, *behind = nullptr;
    mutable std::size_t position = 0;
};

/// The nodes in order of execution.
class node_list {
public:
    class iterator {
    public:
        using value_type = node*;
        using difference_type = std::ptrdiff_t;
        iterator() = default;
        explicit iterator(node* at) : at_(at) {}
        node* operator*() const { return at_; }
        iterator& operator++() {
            at_ = at_->behind;
            return *this;
        }
        iterator operator++(int) { return std::exchange(*this, iterator(at_->behind)); }
        friend bool operator==(const iterator&, const iterator&) = default;

    private:
        node* at_ = nullptr;
    };
    explicit node_list(node* first) : first_(first) {}
    iterator begin() const { return iterator(first_); }
    iterator end() const { return iterator(); }

private:
    node* first_;
};

/// Which frameworks' habits a graph follows. `paper`: activations keep their inputs for the gradient as well, and no
/// gradient takes over what an output lies on, as MXNet 0.12 has it.
enum class baseline : std::uint8_t { modern, paper };

class graph {
public:
    explicit graph(engine::baseline habits = baseline::modern);
    ~graph();
    graph(const graph&) = delete;
    graph& operator=(const graph&) = delete;

    engine::baseline habits() const noexcept { return habits_; }

    /// Appends a node and returns its first output. Errors: what the op refuses, with the node's name.
    value add(engine::op o, std::vector<value> inputs);
    /// An input node.
    value add_input(std::string name, echo::tensor what, engine::role role, ops::initial start = {});

    const echo::tensor& operator[](const value& v) const { return v.producer->outputs[v.output]; }
    node_list nodes() const { return node_list(first_); }
    std::size_t size() const noexcept { return size_; }
    /// The position of a node in the order of execution. O(1), after a change once O(nodes).
    std::size_t position(const node* n) const {
        if (moved_) {
            std::size_t at = 0;
            for (const node* each : nodes()) each->position = at++;
            moved_ = false;
        }
        return n->position;
    }
    /// What must exist at the end of a step.
    std::vector<value>& results() noexcept { return results_; }
    const std::vector<value>& results() const noexcept { return results_; }
    /// Input nodes of that role, in the order they were made.
    std::vector<value> inputs(engine::role role) const;

    /// Gives the node of a value that name, behind the names of the scopes it stands in.
    void rename(const value& v, std::string name) {
        name = prefix_ + std::move(name);
        if (v.producer->name != name) v.producer->name = unique(std::move(name));
    }

    /// The outputs that a node has, from its inputs. Errors: what its op refuses; the error names node and op.
    tensors infer(const node& n) const { return infer(n, inputs_of(n)); }
    tensors infer(const node& n, tensor_span inputs) const;
    tensors inputs_of(const node& n) const;

    /// Appends the gradient nodes of `n`.
    gradients differentiate(node* n, std::span<const std::optional<value>> dy);

    /// A second `n` that reads `inputs` and draws the same random numbers, to run before `before`.
    node* clone(const node* n, std::span<const value> inputs, node* before);
    /// Packs `v` into one bit per element, to run before `before`.
    node* encode(const value& v, node* before);
    void move(node* n, node* before) {
        unlink(n);
        link(n, before);
    }
    void erase(node* n) { unlink(n); }

    /// Nodes added while it lives stand in a phase; the phase before comes back with its end.
    class in_phase {
    public:
        in_phase(graph& g, echo::phase p) : graph_(g), outer_(std::exchange(g.phase_, p)) {}
        ~in_phase() { graph_.phase_ = outer_; }
        in_phase(const in_phase&) = delete;
        in_phase& operator=(const in_phase&) = delete;

    private:
        graph& graph_;
        echo::phase outer_;
    };
    /// Names of nodes added while it lives begin with `name.`.
    class scope {
    public:
        scope(graph& g, const std::string& name) : graph_(g), outer_(g.prefix_) { g.prefix_ += name + "."; }
        ~scope() { graph_.prefix_ = std::move(outer_); }
        scope(const scope&) = delete;
        scope& operator=(const scope&) = delete;

    private:
        graph& graph_;
        std::string outer_;
    };
    /// Nodes added while it lives, and their gradients, belong to a layer.
    class in_layer {
    public:
        in_layer(graph& g, std::string name) : graph_(g), outer_(std::exchange(g.layer_, std::move(name))) {}
        ~in_layer() { graph_.layer_ = std::move(outer_); }
        in_layer(const in_layer&) = delete;
        in_layer& operator=(const in_layer&) = delete;

    private:
        graph& graph_;
        std::string outer_;
    };

private:
    node& make(engine::op o, std::vector<value> inputs);
    std::string unique(std::string name);
    void link(node* n, node* before);
    void unlink(node* n);

    engine::baseline habits_;
    std::deque<node> nodes_; // never moves; erased ones stay
    node *first_ = nullptr, *last_ = nullptr;
    std::size_t size_ = 0;
    mutable bool moved_ = false;
    std::vector<value> results_;

    echo::phase phase_ = echo::phase::forward;
    std::string prefix_, layer_;
    node* gradient_of_ = nullptr;
    bool naming_gradients_ = false;
    std::uint64_t seeds_ = 0;
    std::unordered_map<std::string, std::size_t> names_;
};

} // namespace engine
