// expect: echo::graph_traits is not specialised for this graph type: specialise echo::graph_traits<G>
// SPDX-License-Identifier: BSL-1.0
// Whether a type is a host graph may be asked of any type; the sentence comes where one is used as a graph.
#include <echo/graph/read.hpp>

struct nothing {};
struct half {};
template <>
struct echo::graph_traits<half> {
    using node = int;
    static std::vector<node> nodes(const half&) { return {}; }
};

/// Whole, but for what is misspelt or takes other arguments.
template <class Wrong>
struct graph {};
struct right {};
struct misspelt {
    static std::string_view get_name(int) { return {}; }
};
struct mistyped {
    static std::string_view name(int, int, int) { return {}; }
};
template <class Wrong>
struct echo::graph_traits<graph<Wrong>> : Wrong {
    using node = int;
    using value = echo::value_of<node>;
    static std::vector<node> nodes(const graph<Wrong>&) { return {}; }
    static std::vector<value> inputs(const graph<Wrong>&, node) { return {}; }
    static std::vector<echo::tensor> outputs(const graph<Wrong>&, node) { return {}; }
    static echo::phase phase(const graph<Wrong>&, node) { return echo::phase::input; }
    static std::vector<value> results(const graph<Wrong>&) { return {}; }
    static echo::op_facts facts(const graph<Wrong>&, node) { return {}; }
};

static_assert(!echo::host_graph<int>);
static_assert(!echo::host_graph<nothing>);
static_assert(!echo::host_graph<half>);
static_assert(!echo::host_graph<graph<misspelt>>);
static_assert(!echo::host_graph<graph<mistyped>>);
static_assert(echo::host_graph<graph<right>>);
static_assert(!echo::rewritable_graph<nothing> && !echo::rewritable_graph<graph<right>>);
static_assert(!echo::differentiable_graph<nothing> && !echo::inferable_graph<half>);

#ifdef REJECT
echo::snapshot read_it(const nothing& g) { return echo::read(g); }
#else
echo::snapshot read_it(const graph<right>& g) { return echo::read(g); }
#endif
