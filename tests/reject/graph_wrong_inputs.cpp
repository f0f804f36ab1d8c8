// expect: echo::graph_traits<G>::inputs is missing or cannot be called as Echo calls it
// SPDX-License-Identifier: BSL-1.0
// A node's inputs are values, outputs of nodes, not nodes.
#include <echo/graph/read.hpp>

struct graph {};
template <>
struct echo::graph_traits<graph> {
    using node = int;
    using value = echo::value_of<node>;
    static std::vector<node> nodes(const graph&) { return {}; }
#ifndef REJECT
    static std::vector<value> inputs(const graph&, node) { return {}; }
#else
    static std::vector<node> inputs(const graph&, node) { return {}; }
#endif
    static std::vector<echo::tensor> outputs(const graph&, node) { return {}; }
    static echo::phase phase(const graph&, node) { return echo::phase::input; }
    static std::vector<value> results(const graph&) { return {}; }
    static echo::op_facts facts(const graph&, node) { return {}; }
};

echo::snapshot read_it(const graph& g) { return echo::read(g); }
