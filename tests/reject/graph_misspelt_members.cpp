// expect: graph_traits<G>::result is no member that Echo knows: call it results
// expect: graph_traits<G>::fact is no member that Echo knows: call it facts
// expect: graph_traits<G>::times_us is no member that Echo knows and would be ignored: call it time_us
// expect: graph_traits<G>::controls is no member that Echo knows and would be ignored: call it control
// SPDX-License-Identifier: BSL-1.0
// Names that are nearly right. Beside a member of the right name one may be a helper, and so it may if it is private.
// errors: 4
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
#ifndef REJECT
    static std::vector<value> results(const graph&) { return {}; }
#else
    static std::vector<value> result(const graph&) { return {}; }
#endif
#ifndef REJECT
    static echo::op_facts facts(const graph&, node) { return {}; }
#else
    static echo::op_facts fact(const graph&, node) { return {}; }
#endif
#ifndef REJECT
    static double time_us(const graph& g, node n) { return times_us(g, n); }
#endif
    static double times_us(const graph&, node) { return 0; }
#ifndef REJECT
private:
#endif
    static std::vector<node> controls(const graph&, node) { return {}; }
};

echo::snapshot read_it(const graph& g) { return echo::read(g); }
