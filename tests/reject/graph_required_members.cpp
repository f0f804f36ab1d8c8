// expect: graph_traits<G>::nodes is missing or cannot be called as Echo calls it: make it a public static function nodes(const G&) -> range of node
// expect: graph_traits<G>::inputs is missing or cannot be called as Echo calls it: make it a public static function inputs(const G&
// expect: graph_traits<G>::outputs is missing or cannot be called as Echo calls it: make it a public static function outputs(const G&
// expect: graph_traits<G>::phase is missing or cannot be called as Echo calls it: make it a public static function phase(const G&
// expect: graph_traits<G>::results is missing or cannot be called as Echo calls it: make it a public static function results(const G&
// expect: graph_traits<G>::facts is missing or cannot be called as Echo calls it: make it a public static function facts(const G&, node) -> echo::op_facts
// SPDX-License-Identifier: BSL-1.0
// Each required member with a fault: `const` or `static` is missing, or it gives another type.
// errors: 6
#include <echo/graph/read.hpp>

struct graph {};
template <>
struct echo::graph_traits<graph> {
    using node = int;
    using value = echo::value_of<node>;
#ifndef REJECT
    static std::vector<node> nodes(const graph&) { return {}; }
#else
    static std::vector<node> nodes(graph&) { return {}; }
#endif
#ifndef REJECT
    static std::vector<value> inputs(const graph&, node) { return {}; }
#else
    static std::vector<std::size_t> inputs(const graph&, node) { return {}; }
#endif
#ifndef REJECT
    static std::vector<echo::tensor> outputs(const graph&, node) { return {}; }
#else
    static echo::tensor outputs(const graph&, node) { return {}; }
#endif
#ifndef REJECT
    static echo::phase phase(const graph&, node) { return echo::phase::input; }
#else
    static bool phase(const graph&, node) { return true; }
#endif
#ifndef REJECT
    static std::vector<value> results(const graph&) { return {}; }
#else
    std::vector<value> results(const graph&) { return {}; }
#endif
#ifndef REJECT
    static echo::op_facts facts(const graph&, node) { return {}; }
#else
    static std::string facts(const graph&, node) { return {}; }
#endif
};

echo::snapshot read_it(const graph& g) { return echo::read(g); }
