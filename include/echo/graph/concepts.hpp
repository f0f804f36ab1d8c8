// SPDX-License-Identifier: BSL-1.0
/// @file
/// What `graph_traits` must and may offer, as concepts, and what follows from it for planning
/// (`host_abilities`).
#pragma once

#include <echo/graph/graph_traits.hpp>

#include <concepts>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

namespace echo {

template <class G>
using node_of = typename graph_traits<G>::node;

namespace detail {

/// Something to loop over whose elements convert to T. (`std::ranges` would say the same at twice the compile
/// time.)
template <class R, class T>
concept range_of = requires(R& r) {
    { *std::begin(r) } -> std::convertible_to<T>;
    std::end(r);
};

template <class G>
concept names_node_type = requires { typename graph_traits<G>::node; };

} // namespace detail

/// A training graph that Echo can read.
/// Minimal definition: the required members listed in graph_traits.hpp. Laws: as there. Models: every host
/// graph.
template <class G>
concept host_graph = detail::names_node_type<G> && std::copyable<node_of<G>> &&
                     std::equality_comparable<node_of<G>> && requires(const G& g, const node_of<G>& n) {
                         { graph_traits<G>::nodes(g) } -> detail::range_of<node_of<G>>;
                         { graph_traits<G>::inputs(g, n) } -> detail::range_of<value_of<node_of<G>>>;
                         { graph_traits<G>::outputs(g, n) } -> detail::range_of<tensor>;
                         { graph_traits<G>::phase(g, n) } -> std::convertible_to<phase>;
                         { graph_traits<G>::results(g) } -> detail::range_of<value_of<node_of<G>>>;
                         { graph_traits<G>::facts(g, n) } -> std::convertible_to<op_facts>;
                     };

template <class G>
concept has_name = requires(const G& g, const node_of<G>& n) {
    { graph_traits<G>::name(g, n) } -> std::convertible_to<std::string_view>;
};

template <class G>
concept has_layer = requires(const G& g, const node_of<G>& n) {
    { graph_traits<G>::layer(g, n) } -> std::convertible_to<std::string_view>;
};

template <class G>
concept has_control = requires(const G& g, const node_of<G>& n) {
    { graph_traits<G>::control(g, n) } -> detail::range_of<node_of<G>>;
};

template <class G>
concept has_flops = requires(const G& g, const node_of<G>& n) {
    { graph_traits<G>::flops(g, n) } -> std::convertible_to<double>;
};

template <class G>
concept has_workspace = requires(const G& g, const node_of<G>& n) {
    { graph_traits<G>::workspace(g, n) } -> std::convertible_to<std::uint64_t>;
};

template <class G>
concept has_time = requires(const G& g, const node_of<G>& n) {
    { graph_traits<G>::time_us(g, n) } -> std::convertible_to<std::optional<double>>;
};

template <class G>
concept has_keep = requires(const G& g, const node_of<G>& n) {
    { graph_traits<G>::keep(g, n) } -> std::convertible_to<bool>;
};

template <class G>
concept has_fuses = requires(const G& g, const node_of<G>& n) {
    { graph_traits<G>::fuses(g, n) } -> std::convertible_to<bool>;
};

template <class G>
concept has_index = requires(const G& g, const node_of<G>& n) {
    { graph_traits<G>::index(g, n) } -> std::convertible_to<std::size_t>;
};

template <class G>
concept has_trainable = requires(const G& g, const node_of<G>& n) {
    { graph_traits<G>::trainable(g, n) } -> std::convertible_to<bool>;
};

template <class G>
concept states_completeness = requires(const G& g) {
    { graph_traits<G>::complete(g) } -> std::convertible_to<bool>;
};

template <class G>
concept has_gradient_of = requires(const G& g, const node_of<G>& n) {
    { graph_traits<G>::gradient_of(g, n) } -> std::convertible_to<std::optional<node_of<G>>>;
};

template <class G>
concept can_clone = requires(G& g, const node_of<G>& n, std::span<const value_of<node_of<G>>> inputs,
                             value_of<node_of<G>> v) {
    { graph_traits<G>::clone(g, n, inputs, n) } -> std::convertible_to<node_of<G>>;
    graph_traits<G>::redirect(g, n, std::size_t{}, v);
};

template <class G>
concept can_redirect_result =
    requires(G& g, value_of<node_of<G>> v) { graph_traits<G>::redirect_result(g, std::size_t{}, v); };

template <class G>
concept can_move = requires(G& g, const node_of<G>& n) { graph_traits<G>::move(g, n, n); };

template <class G>
concept can_encode = requires(G& g, const node_of<G>& n, value_of<node_of<G>> v) {
    { graph_traits<G>::encode(g, v, n) } -> std::convertible_to<node_of<G>>;
};

template <class G>
concept can_fuse = requires(G& g, const node_of<G>& n) { graph_traits<G>::fuse(g, n); };

template <class G>
concept can_erase = requires(G& g, const node_of<G>& n) { graph_traits<G>::erase(g, n); };

/// A host graph that `apply` can rewrite.
/// Minimal definition: `clone` and `redirect`. Laws: a clone has its original's outputs, phase and facts.
template <class G>
concept rewritable_graph = host_graph<G> && can_clone<G>;

/// A host graph whose gradients `gradient` (gradient.hpp) can build.
/// Minimal definition: `gradient`, `seed` and `sum`, and handles that can be made by default, since a value may be
/// absent. Laws: they append nodes behind all others and leave the ones there
/// are as they are; a gradient has the shape of what it is the gradient of.
template <class G>
concept differentiable_graph =
    host_graph<G> && std::default_initializable<node_of<G>> &&
    requires(G& g, const node_of<G>& n, std::span<const std::optional<value_of<node_of<G>>>> dy,
             value_of<node_of<G>> v, std::span<const value_of<node_of<G>>> terms) {
        { graph_traits<G>::gradient(g, n, dy) } -> detail::range_of<std::optional<value_of<node_of<G>>>>;
        { graph_traits<G>::seed(g, v) } -> std::convertible_to<value_of<node_of<G>>>;
        { graph_traits<G>::sum(g, v, terms) } -> std::convertible_to<value_of<node_of<G>>>;
    };

template <class G>
concept can_accumulate = requires(G& g, value_of<node_of<G>> v) {
    { graph_traits<G>::accumulate(g, v, v, v) } -> std::convertible_to<value_of<node_of<G>>>;
};

/// A host graph whose shapes and types `infer` (infer.hpp) can fill in.
/// Minimal definition: `infer` and `set_outputs`. Laws: `infer` depends on the node's op and on `inputs` alone.
template <class G>
concept inferable_graph =
    host_graph<G> && requires(G& g, const G& fixed, const node_of<G>& n, std::span<const tensor> tensors) {
        { graph_traits<G>::infer(fixed, n, tensors) } -> detail::range_of<tensor>;
        graph_traits<G>::set_outputs(g, n, tensors);
    };

/// What the executor of a plan can do; nothing else is decided for it. The default is a host that runs the
/// steps itself.
struct host_abilities {
    bool recompute = true;         ///< a node may run twice
    bool recompute_results = true; ///< also one that makes a graph result (the latest copy is the result)
    bool move = true;              ///< a node may run later than in the host's order
    bool encode = true;            ///< a value may be packed to one bit per element
    bool erase = true;             ///< a dead node may be left out
    /// A pure light op may be recomputed inside the light ops that read it, without storage of its own. Not inside a
    /// heavy one: a host's matrix product or convolution is a finished kernel with no room for another op.
    bool fuse = false;
    friend bool operator==(const host_abilities&, const host_abilities&) = default;
};

/// The abilities that follow from the optional functions of `graph_traits<G>`, for plans that go through
/// `apply`.
template <host_graph G>
constexpr host_abilities abilities() noexcept {
    return {.recompute = can_clone<G>,
            .recompute_results = can_redirect_result<G>,
            .move = can_move<G>,
            .encode = can_clone<G> && can_encode<G>,
            .erase = can_erase<G>,
            .fuse = can_clone<G> && can_fuse<G>};
}

} // namespace echo
