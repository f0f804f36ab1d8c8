// expect: graph_traits<G>::clone(g, n, inputs, n)
// SPDX-License-Identifier: BSL-1.0
#include <echo/analysis/apply.hpp>

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
    static node clone(graph&, node n, std::span<const value>, node) { return n; }
#endif
    static void redirect(graph&, node, std::size_t, value) {}
};

void apply_it(const echo::plan& p, graph& g) { echo::apply(p, g); }
