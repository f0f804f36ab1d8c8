// expect: graph_traits<G>::erase(g, n)
// SPDX-License-Identifier: BSL-1.0
#include <echo/graph/dead_nodes.hpp>

struct graph {};
template <>
struct echo::graph_traits<graph> {
    using node = int;
    using value = echo::value_of<node>;
    static std::vector<node> nodes(const graph&) { return {}; }
    static std::vector<value> inputs(const graph&, node) { return {}; }
    static std::vector<echo::tensor> outputs(const graph&, node) { return {}; }
    static echo::phase phase(const graph&, node) { return echo::phase::input; }
    static std::vector<value> results(const graph&) { return {}; }
    static echo::op_facts facts(const graph&, node) { return {}; }
#ifndef REJECT
    static void erase(graph&, node) {}
#endif
};

std::size_t clean(graph& g) { return echo::erase_dead_nodes(g); }
