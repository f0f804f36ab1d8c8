// expect: echo::graph_traits<G>::node is missing or private: write `using node
// SPDX-License-Identifier: BSL-1.0
// errors: 1
#include <echo/graph/read.hpp>

struct graph {};
template <>
struct echo::graph_traits<graph> {
#ifdef REJECT
private:
#endif
    using node = int;
    using value = echo::value_of<node>;
    static std::vector<node> nodes(const graph&) { return {}; }
    static std::vector<value> inputs(const graph&, node) { return {}; }
    static std::vector<echo::tensor> outputs(const graph&, node) { return {}; }
    static echo::phase phase(const graph&, node) { return echo::phase::input; }
    static std::vector<value> results(const graph&) { return {}; }
    static echo::op_facts facts(const graph&, node) { return {}; }
};

echo::snapshot read_it(const graph& g) { return echo::read(g); }
