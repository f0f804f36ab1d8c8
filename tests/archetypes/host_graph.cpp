// SPDX-License-Identifier: BSL-1.0
// Reading and planning need nothing of a host beyond `host_graph`, and `apply` nothing beyond `rewritable_graph`, nor
// `gradient` and `infer` beyond `differentiable_graph` and `inferable_graph`: these types offer exactly that, and
// delete the rest. Passing is compiling.
#include <echo/analysis/apply.hpp>
#include <echo/analysis/make_plan.hpp>
#include <echo/graph/dead_nodes.hpp>
#include <echo/graph/gradient.hpp>
#include <echo/graph/infer.hpp>
#include <echo/graph/read.hpp>

#include <iterator>

namespace archetypes {

/// A handle that can be copied, compared for equality and hashed; nothing else.
class handle {
public:
    handle() = delete;
    explicit handle(int id) : id_(id) {}
    handle(const handle&) = default;
    handle& operator=(const handle&) = default;
    friend bool operator==(const handle& a, const handle& b) { return a.id_ == b.id_; }
    auto operator<=>(const handle&) const = delete;
    template <class T>
    void operator,(T&&) const = delete;
    const handle* operator&() const = delete;

    friend std::hash<handle>;

private:
    int id_;
};

/// A handle that may be absent, which is all a gradient asks beyond it.
class optional_handle : public handle {
public:
    optional_handle() : handle(0) {}
};

/// The least of ranges: one pass, no size, iterators that are only moved, sentinels of another type.
template <class T>
struct stream {
    struct end {};
    class iterator {
    public:
        using value_type = T;
        using difference_type = std::ptrdiff_t;
        using iterator_concept = std::input_iterator_tag;
        iterator() = delete;
        iterator(iterator&&) = default;
        iterator& operator=(iterator&&) = default;
        T operator*() const;
        iterator& operator++();
        void operator++(int);
        friend bool operator==(const iterator&, end) { return true; }

    private:
        friend stream;
        explicit iterator(int) {}
    };
    stream(const stream&) = delete;
    iterator begin() const { return iterator(0); }
    end end() const { return {}; }
};

/// Graphs are neither copied nor made by default.
struct fixed {
    explicit fixed(int) {}
    fixed(const fixed&) = delete;
};
struct hashed : fixed {
    using fixed::fixed;
};
struct indexed : fixed {
    using fixed::fixed;
};
struct rewritable : fixed {
    using fixed::fixed;
};
struct fusing : fixed {
    using fixed::fixed;
};

struct differentiable : fixed {
    using fixed::fixed;
};
struct inferable : fixed {
    using fixed::fixed;
};

/// Like `handle`, but not even hashed: the host offers `index`.
class unhashed {
public:
    unhashed() = delete;
    unhashed(const unhashed&) = default;
    unhashed& operator=(const unhashed&) = default;
    friend bool operator==(const unhashed&, const unhashed&) { return true; }
    auto operator<=>(const unhashed&) const = delete;
};

template <class Node>
struct required {
    using node = Node;
    using value = echo::value_of<node>;
    static stream<node> nodes(const fixed&);
    static stream<value> inputs(const fixed&, node);
    static stream<echo::tensor> outputs(const fixed&, node);
    static echo::phase phase(const fixed&, node);
    static stream<value> results(const fixed&);
    static echo::op_facts facts(const fixed&, node);
};

} // namespace archetypes

template <>
struct std::hash<archetypes::handle> {
    std::size_t operator()(const archetypes::handle& h) const noexcept {
        return static_cast<std::size_t>(h.id_);
    }
};

template <>
struct std::hash<archetypes::optional_handle> : std::hash<archetypes::handle> {};

template <>
struct echo::graph_traits<archetypes::hashed> : archetypes::required<archetypes::handle> {};

template <>
struct echo::graph_traits<archetypes::indexed> : archetypes::required<archetypes::unhashed> {
    static std::size_t index(const archetypes::indexed&, node);
};

template <>
struct echo::graph_traits<archetypes::rewritable> : archetypes::required<archetypes::handle> {
    static node clone(archetypes::rewritable&, node, std::span<const value>, node);
    static void redirect(archetypes::rewritable&, node, std::size_t, value);
};

template <>
struct echo::graph_traits<archetypes::fusing> : archetypes::required<archetypes::handle> {
    static node clone(archetypes::fusing&, node, std::span<const value>, node);
    static void redirect(archetypes::fusing&, node, std::size_t, value);
    static void fuse(archetypes::fusing&, node);
};

template <>
struct echo::graph_traits<archetypes::differentiable> : archetypes::required<archetypes::optional_handle> {
    static archetypes::stream<std::optional<value>> gradient(archetypes::differentiable&, node,
                                                             std::span<const std::optional<value>>);
    static value seed(archetypes::differentiable&, value);
    static value sum(archetypes::differentiable&, value, std::span<const value>);
    static void erase(archetypes::differentiable&, node);
};

template <>
struct echo::graph_traits<archetypes::inferable> : archetypes::required<archetypes::handle> {
    static archetypes::stream<echo::tensor> infer(const archetypes::inferable&, node,
                                                  std::span<const echo::tensor>);
    static void set_outputs(archetypes::inferable&, node, std::span<const echo::tensor>);
};

static_assert(echo::differentiable_graph<archetypes::differentiable>);
static_assert(!echo::differentiable_graph<archetypes::rewritable>);
static_assert(echo::inferable_graph<archetypes::inferable> && !echo::inferable_graph<archetypes::hashed>);
static_assert(echo::host_graph<archetypes::hashed> && echo::host_graph<archetypes::indexed>);
static_assert(!echo::rewritable_graph<archetypes::hashed> && !echo::rewritable_graph<archetypes::indexed>);
static_assert(echo::rewritable_graph<archetypes::rewritable>);
static_assert(echo::abilities<archetypes::hashed>() ==
              echo::host_abilities{false, false, false, false, false});
static_assert(echo::abilities<archetypes::rewritable>() ==
              echo::host_abilities{true, false, false, false, false});
static_assert(echo::abilities<archetypes::fusing>() ==
              echo::host_abilities{true, false, false, false, false, true});
static_assert(!echo::can_fuse<archetypes::rewritable> && !echo::host_abilities{}.fuse);

// Instantiated, never run: the traits above are only declared.
[[maybe_unused]] echo::plan read_and_plan(const archetypes::hashed& g) {
    return echo::make_plan(echo::read(g), {.host = echo::abilities<archetypes::hashed>()});
}
[[maybe_unused]] echo::plan read_and_plan(const archetypes::indexed& g) {
    return echo::make_plan(echo::read(g));
}
[[maybe_unused]] std::size_t apply_to(archetypes::rewritable& g, const echo::plan& p) {
    return echo::apply(p, g).clones.size();
}
[[maybe_unused]] std::size_t apply_to(archetypes::fusing& g, const echo::plan& p) {
    return echo::apply(p, g).fused;
}
[[maybe_unused]] std::size_t
differentiate(archetypes::differentiable& g,
              std::span<const echo::value_of<archetypes::optional_handle>> values) {
    const auto read = echo::record_gradient_reads(g, values[0].producer);
    return echo::gradient<archetypes::differentiable>(g, values, values).size() +
           read.gradient_reads.inputs.empty();
}
[[maybe_unused]] std::size_t infer_all(archetypes::inferable& g) { return echo::infer(g); }
