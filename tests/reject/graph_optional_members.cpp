// expect: graph_traits<G>::name cannot be called as Echo calls it
// expect: graph_traits<G>::layer cannot be called as Echo calls it
// expect: graph_traits<G>::control cannot be called as Echo calls it and would be ignored: make it a public static function control(const G&, node) -> range of node (see the head of echo/graph/graph_traits.hpp)
// expect: graph_traits<G>::writes cannot be called as Echo calls it
// expect: graph_traits<G>::flops cannot be called as Echo calls it
// expect: graph_traits<G>::workspace cannot be called as Echo calls it
// expect: graph_traits<G>::time_us cannot be called as Echo calls it
// expect: graph_traits<G>::keep cannot be called as Echo calls it
// expect: graph_traits<G>::may_fuse cannot be called as Echo calls it
// expect: graph_traits<G>::index cannot be called as Echo calls it
// expect: graph_traits<G>::trainable cannot be called as Echo calls it
// expect: graph_traits<G>::complete cannot be called as Echo calls it
// expect: graph_traits<G>::gradient_of cannot be called as Echo calls it
// expect: graph_traits<G>::clone cannot be called as Echo calls it
// expect: graph_traits<G>::redirect cannot be called as Echo calls it
// expect: graph_traits<G>::redirect_result cannot be called as Echo calls it
// expect: graph_traits<G>::move cannot be called as Echo calls it
// expect: graph_traits<G>::encode cannot be called as Echo calls it
// expect: graph_traits<G>::fuse cannot be called as Echo calls it
// expect: graph_traits<G>::erase cannot be called as Echo calls it
// expect: graph_traits<G>::gradient cannot be called as Echo calls it
// expect: graph_traits<G>::seed cannot be called as Echo calls it
// expect: graph_traits<G>::sum cannot be called as Echo calls it
// expect: graph_traits<G>::accumulate cannot be called as Echo calls it
// expect: graph_traits<G>::infer cannot be called as Echo calls it
// expect: graph_traits<G>::set_outputs cannot be called as Echo calls it
// SPDX-License-Identifier: BSL-1.0
// Every optional member with a fault in how it is declared, each fault at least once: a `const` or a `static` is
// missing, a type or a count of parameters is another, the result converts to nothing, it is one of several overloads,
// or a template. Beside it the members as they should be, again as overloads and templates, and some that a
// requires-clause or `private` takes away.
#include <echo/graph/read.hpp>

template <int>
struct graph_of {};
using graph = graph_of<0>;
struct odd {};

struct required {
    using node = int;
    using value = echo::value_of<node>;
    static std::vector<node> nodes(const graph&) { return {}; }
    static std::vector<value> inputs(const graph&, node) { return {}; }
    static std::vector<echo::tensor> outputs(const graph&, node) { return {}; }
    static echo::phase phase(const graph&, node) { return echo::phase::input; }
    static std::vector<value> results(const graph&) { return {}; }
    static echo::op_facts facts(const graph&, node) { return {}; }
};

#ifdef REJECT
template <>
struct echo::graph_traits<graph> : required {
    static std::string name(graph&, node) { return {}; }
    static int layer(const graph&, node) { return 0; }
    static std::vector<node> control(graph&, node) { return {}; }
    static std::vector<node> writes(graph&, node) { return {}; }
    double flops(const graph&, node) { return 0; }
    static odd workspace(const graph&, node) { return {}; }
    static std::optional<double> time_us(const graph&) { return {}; }
    static void keep(const graph&, node) {}
    static bool may_fuse(const graph&, odd) { return true; }
    static std::size_t index(graph&, node) { return 0; }
    static std::size_t index(graph&, odd) { return 0; }
    static bool trainable(const graph*, node) { return true; }
    static bool complete() { return true; }
    static bool gradient_of(const graph&, odd) { return false; }
    static void clone(graph&, node, std::span<const value>, node) {}
    static void redirect(graph&, node, value, std::size_t) {}
    static void redirect_result(graph&, node, std::size_t, value) {}
    template <class Node>
    static void move(graph*, Node, Node) {}
    template <class Value>
    static std::size_t encode(odd, Value, node) {
        return 0;
    }
    static void erase(graph&, node, node) {}
    static odd gradient(graph&, node, std::span<const std::optional<value>>) { return {}; }
    static node seed(graph&, odd) { return 0; }
    static value sum(graph&, std::span<const value>) { return {}; }
    static value accumulate(graph&, value, value) { return {}; }
    static int infer(const graph&, node, std::span<const tensor>) { return 0; }
    bool set_outputs = false;
    static void fuse(graph&, node, odd);
};
#else
template <int N>
struct echo::graph_traits<graph_of<N>> : required {
    static const char* name(const graph&, node) { return ""; }
    static std::string layer(graph&, node) { return {}; }
    static std::string_view layer(const graph&, node) { return {}; }
    static auto control(const graph&, node) { return std::vector<node>{}; }
    template <class G>
    static double flops(const G&, node) {
        return 0;
    }
    static int workspace(const graph&, node) { return 0; }
    static double time_us(const graph&, node) { return 0; }
    template <class T>
    static bool keep(const T&, node) {
        return false;
    }
    static bool keep(graph&, odd) { return false; }
    static bool may_fuse(const graph&, node)
        requires(N > 0)
    {
        return true;
    }
    static std::size_t index(const graph&, node n) { return std::size_t(n); }
    static bool trainable(const graph&, node)
        requires(N > 0)
    {
        return true;
    }
    static bool trainable(graph&, odd)
        requires(N > 0)
    {
        return true;
    }
    static bool complete(graph) { return true; }
    static std::nullopt_t gradient_of(const graph&, node) { return std::nullopt; }
    static node clone(graph&, node n, std::span<const value>, node) { return n; }
    static constexpr auto redirect = [](graph&, node, std::size_t, value) {};
    static bool redirect_result(graph&, std::size_t, const value&) { return true; }
    static void move(graph&, node, node) {}
    static node encode(graph&, value, node before) { return before; }
    static void erase(graph&, long) {}
    static std::vector<std::optional<value>> gradient(graph&, node, std::span<const std::optional<value>>) {
        return {};
    }
    static value seed(graph&, value v) { return v; }
    static value sum(graph&, value v, std::span<const value>) { return v; }
    static value accumulate(graph&, value v, value, value) { return v; }
    static std::vector<tensor> infer(const graph&, node, std::span<const tensor>) { return {}; }
    static void set_outputs(graph&, node, std::span<const tensor>) {}

private:
    static void fuse(graph&, node, node) {}
};
static_assert(echo::has_layer<graph> && echo::has_control<graph> && echo::has_flops<graph> &&
              echo::has_keep<graph> && !echo::has_may_fuse<graph> && !echo::can_fuse<graph> &&
              !echo::has_trainable<graph> && echo::has_redirect<graph> && echo::can_move<graph>);
#endif

echo::snapshot read_it(const graph& g) { return echo::read(g); }
