// expect: echo::graph_traits<G>::node has no operator==: give it one
// SPDX-License-Identifier: BSL-1.0
// errors: 1
#include <echo/graph/read.hpp>

struct graph {};
struct handle {
    int at;
#ifndef REJECT
    friend bool operator==(handle, handle) = default;
#endif
};
template <>
struct echo::graph_traits<graph> {
    using node = handle;
    using value = echo::value_of<node>;
    static std::vector<node> nodes(const graph&) { return {}; }
    static std::vector<value> inputs(const graph&, node) { return {}; }
    static std::vector<echo::tensor> outputs(const graph&, node) { return {}; }
    static echo::phase phase(const graph&, node) { return echo::phase::input; }
    static std::vector<value> results(const graph&) { return {}; }
    static echo::op_facts facts(const graph&, node) { return {}; }
    static std::size_t index(const graph&, node n) { return std::size_t(n.at); }
};

echo::snapshot read_it(const graph& g) { return echo::read(g); }
