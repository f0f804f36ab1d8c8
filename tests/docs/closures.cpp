// SPDX-License-Identifier: BSL-1.0
// A tape of closures, as "A tape whose gradients are closures" of docs/guide/plug-in-your-engine.md takes it as given.
#include <iostream>
#include <vector>

struct node {
    virtual std::vector<std::byte> run_gradient() = 0;
    virtual std::vector<std::byte> bytes_of(std::size_t output) = 0;
    virtual void overwrite(std::size_t output, std::span<const std::byte> to) = 0;
    virtual std::vector<echo::value_of<node*>> inputs() = 0;
    virtual std::vector<echo::tensor> outputs() = 0;
    virtual echo::op_facts facts() = 0;

protected:
    ~node() = default;
};

struct tape {
    std::vector<node*> order;
};

template <>
struct echo::graph_traits<tape> {
    using node = ::node*;
    using value = echo::value_of<node>;
    static auto nodes(const tape& g) { return g.order; }
    static auto inputs(const tape&, node n) { return n->inputs(); }
    static auto outputs(const tape&, node n) { return n->outputs(); }
    static echo::phase phase(const tape&, node) { return echo::phase::forward; }
    static std::vector<value> results(const tape& g) { return {{g.order.back(), 0}}; }
    static echo::op_facts facts(const tape&, node n) { return n->facts(); }
};

// block
