// expect: graph_traits<G>::inputs is missing or cannot be called as Echo calls it: make it a public static function
// expect: graph_traits<G>::outputs is missing or cannot be called as Echo calls it: make it a public static function
// expect: graph_traits<G>::phase is missing or cannot be called as Echo calls it: make it a public static function
// expect: graph_traits<G>::results is missing or cannot be called as Echo calls it: make it a public static function
// expect: graph_traits<G>::facts is missing or cannot be called as Echo calls it: make it a public static function
// SPDX-License-Identifier: BSL-1.0
// errors: 5
#include <echo/graph/read.hpp>

struct graph {};
template <>
struct echo::graph_traits<graph> {
    using node = int;
    using value = echo::value_of<node>;
    static std::vector<node> nodes(const graph&) { return {}; }
#ifdef REJECT
private:
#endif
    static std::vector<value> inputs(const graph&, node) { return {}; }
    static std::vector<echo::tensor> outputs(const graph&, node) { return {}; }
    static echo::phase phase(const graph&, node) { return echo::phase::input; }
    static std::vector<value> results(const graph&) { return {}; }
    static echo::op_facts facts(const graph&, node) { return {}; }
};

echo::snapshot read_it(const graph& g) { return echo::read(g); }
