// expect: graph_traits<G>::sum(g, v, terms)
// SPDX-License-Identifier: BSL-1.0
#include <echo/graph/gradient.hpp>

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
    static std::vector<std::optional<value>> gradient(graph&, node, std::span<const std::optional<value>>) {
        return {};
    }
    static value seed(graph&, value v) { return v; }
#ifndef REJECT
    static value sum(graph&, value v, std::span<const value>) { return v; }
#endif
};

void differentiate(graph& g) { echo::gradient<graph>(g, {}, {}); }
