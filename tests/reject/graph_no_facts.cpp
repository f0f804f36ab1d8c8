// expect: echo::graph_traits<G>::facts is missing or cannot be called as Echo calls it: make it a public static function facts(const G&, node) -> echo::op_facts
// SPDX-License-Identifier: BSL-1.0
#include <echo/graph/read.hpp>

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
#ifndef REJECT
    static echo::op_facts facts(const graph&, node) { return {}; }
#endif
};

echo::snapshot read_it(const graph& g) { return echo::read(g); }
