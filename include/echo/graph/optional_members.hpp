// SPDX-License-Identifier: BSL-1.0
/// @file
/// The optional members of `graph_traits`, one concept for each, and the check that none is lost: a member that is
/// there by its name but cannot be called as Echo calls it (a `const` is missing, say) would be taken for absent, and
/// nobody would hear of it.
#pragma once

#include <echo/graph/graph_traits.hpp>

#include <concepts>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace echo {

template <class G>
using node_of = typename graph_traits<G>::node; ///< The node handle of a host graph.

namespace detail {

/// Something to loop over whose elements convert to T. (`std::ranges` would say the same at twice the compile
/// time.)
template <class R, class T>
concept range_of = requires(R& r) {
    { *std::begin(r) } -> std::convertible_to<T>;
    std::end(r);
};

} // namespace detail

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
concept has_writes = requires(const G& g, const node_of<G>& n) {
    { graph_traits<G>::writes(g, n) } -> detail::range_of<std::size_t>;
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
concept has_may_fuse = requires(const G& g, const node_of<G>& n) {
    { graph_traits<G>::may_fuse(g, n) } -> std::convertible_to<bool>;
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
concept has_clone = requires(G& g, const node_of<G>& n, std::span<const value_of<node_of<G>>> inputs) {
    { graph_traits<G>::clone(g, n, inputs, n) } -> std::convertible_to<node_of<G>>;
};

template <class G>
concept has_redirect = requires(G& g, const node_of<G>& n, value_of<node_of<G>> v) {
    graph_traits<G>::redirect(g, n, std::size_t{}, v);
};

template <class G>
concept can_clone = has_clone<G> && has_redirect<G>;

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
concept has_offload = requires(G& g, const node_of<G>& n, value_of<node_of<G>> v) {
    { graph_traits<G>::offload(g, v, std::uint64_t{}, n) } -> std::convertible_to<node_of<G>>;
};

template <class G>
concept has_reload = requires(G& g, const node_of<G>& n) {
    { graph_traits<G>::reload(g, n, n) } -> std::convertible_to<node_of<G>>;
};

template <class G>
concept can_offload = has_offload<G> && has_reload<G> && has_redirect<G>;

template <class G>
concept can_fuse = requires(G& g, const node_of<G>& n) { graph_traits<G>::fuse(g, n); };

template <class G>
concept can_erase = requires(G& g, const node_of<G>& n) { graph_traits<G>::erase(g, n); };

template <class G>
concept can_differentiate =
    requires(G& g, const node_of<G>& n, std::span<const std::optional<value_of<node_of<G>>>> dy) {
        { graph_traits<G>::gradient(g, n, dy) } -> detail::range_of<std::optional<value_of<node_of<G>>>>;
    };

template <class G>
concept can_seed = requires(G& g, value_of<node_of<G>> v) {
    { graph_traits<G>::seed(g, v) } -> std::convertible_to<value_of<node_of<G>>>;
};

template <class G>
concept can_sum = requires(G& g, value_of<node_of<G>> v, std::span<const value_of<node_of<G>>> terms) {
    { graph_traits<G>::sum(g, v, terms) } -> std::convertible_to<value_of<node_of<G>>>;
};

template <class G>
concept can_accumulate = requires(G& g, value_of<node_of<G>> v) {
    { graph_traits<G>::accumulate(g, v, v, v) } -> std::convertible_to<value_of<node_of<G>>>;
};

template <class G>
concept can_infer = requires(const G& fixed, const node_of<G>& n, std::span<const tensor> tensors) {
    { graph_traits<G>::infer(fixed, n, tensors) } -> detail::range_of<tensor>;
};

template <class G>
concept can_set_outputs = requires(G& g, const node_of<G>& n, std::span<const tensor> tensors) {
    graph_traits<G>::set_outputs(g, n, tensors);
};

// Of each optional member: its name, the concept that it offers, and how Echo calls it.
// clang-format off
/// Calls `member(NAME, CONCEPT, SIGNATURE)` for each optional member of `graph_traits`. Is not left defined.
#define ECHO_OPTIONAL_MEMBERS(member) \
    member(name, has_name, "name(const G&, node) -> string") \
    member(layer, has_layer, "layer(const G&, node) -> string") \
    member(control, has_control, "control(const G&, node) -> range of node") \
    member(writes, has_writes, "writes(const G&, node) -> range of size_t") \
    member(flops, has_flops, "flops(const G&, node) -> double") \
    member(workspace, has_workspace, "workspace(const G&, node) -> bytes") \
    member(time_us, has_time, "time_us(const G&, node) -> optional<double>") \
    member(keep, has_keep, "keep(const G&, node) -> bool") \
    member(may_fuse, has_may_fuse, "may_fuse(const G&, node) -> bool") \
    member(index, has_index, "index(const G&, node) -> size_t") \
    member(trainable, has_trainable, "trainable(const G&, node) -> bool") \
    member(complete, states_completeness, "complete(const G&) -> bool") \
    member(gradient_of, has_gradient_of, "gradient_of(const G&, node) -> optional<node>") \
    member(clone, has_clone, "clone(G&, node, span<const value> inputs, node before) -> node") \
    member(redirect, has_redirect, "redirect(G&, node reader, size_t input, value)") \
    member(redirect_result, can_redirect_result, "redirect_result(G&, size_t result, value)") \
    member(move, can_move, "move(G&, node, node before)") \
    member(encode, can_encode, "encode(G&, value, node before) -> node") \
    member(offload, has_offload, "offload(G&, value, uint64_t bytes, node before) -> node") \
    member(reload, has_reload, "reload(G&, node offload, node before) -> node") \
    member(fuse, can_fuse, "fuse(G&, node)") \
    member(erase, can_erase, "erase(G&, node)") \
    member(gradient, can_differentiate, "gradient(G&, node, span<const optional<value>> dy) -> range of optional<value>") \
    member(seed, can_seed, "seed(G&, value) -> value") \
    member(sum, can_sum, "sum(G&, value, span<const value> terms) -> value") \
    member(accumulate, can_accumulate, "accumulate(G&, value, value sum, value term) -> value") \
    member(infer, can_infer, "infer(const G&, node, span<const tensor> inputs) -> range of tensor") \
    member(set_outputs, can_set_outputs, "set_outputs(G&, node, span<const tensor>)")
// clang-format on

namespace detail {

/// Converts to whatever a function takes.
struct anything {
    template <class T>
    operator T&() const;
    template <class T>
    operator T&&() const;
};

// A member is there if it can be called with anything at all: up to five arguments, the graph and nodes among them so
// that one of several overloads is chosen and a template can deduce what it wants. What a requires-clause takes away,
// or a base that is private, is out of reach for Echo as well: that is how a host says that it has no such member.
/// Whether the traits have the member as it must be called. Is not left defined.
#define ECHO_MEMBER_FOUND(NAME, CONCEPT, SIGNATURE)                                                          \
    template <class T>                                                                                       \
    concept NAME##_is_no_function =                                                                          \
        requires { requires std::is_object_v<std::remove_pointer_t<decltype(&T::NAME)>>; };                  \
    template <class T, class G>                                                                              \
    concept NAME##_is_called_by_anything = requires { T::NAME(); } || requires(G& g, const anything& a) {    \
        requires requires { T::NAME(a); } || requires { T::NAME(g); } || requires { T::NAME(a, a); } ||      \
                     requires { T::NAME(g, a); } || requires { T::NAME(a, a, a); } ||                        \
                     requires { T::NAME(g, a, a); } || requires { T::NAME(a, a, a, a); } ||                  \
                     requires { T::NAME(g, a, a, a); } || requires { T::NAME(a, a, a, a, a); } ||            \
                     requires { T::NAME(g, a, a, a, a); };                                                   \
    };                                                                                                       \
    template <class T, class G>                                                                              \
    concept NAME##_is_called_with_nodes = requires(G& g, const anything& a, typename T::node n) {            \
        requires requires { T::NAME(a, n); } || requires { T::NAME(g, n); } || requires {                    \
            T::NAME(a, n, n);                                                                                \
        } || requires { T::NAME(a, n, a, a); } || requires { T::NAME(a, n, a, n); };                         \
    };                                                                                                       \
    template <class G>                                                                                       \
    concept NAME##_is_sound = CONCEPT<G> || !(NAME##_is_no_function<graph_traits<G>> ||                      \
                                              NAME##_is_called_by_anything<graph_traits<G>, G> ||            \
                                              NAME##_is_called_with_nodes<graph_traits<G>, G>);
ECHO_OPTIONAL_MEMBERS(ECHO_MEMBER_FOUND)
#undef ECHO_MEMBER_FOUND

/// Whether every optional member that is there can be called as Echo calls it.
template <class G>
concept has_sound_members =
/// @cond
#define ECHO_MEMBER_SOUND(NAME, CONCEPT, SIGNATURE) NAME##_is_sound<G>&&
    ECHO_OPTIONAL_MEMBERS(ECHO_MEMBER_SOUND) true;
#undef ECHO_MEMBER_SOUND
/// @endcond

/// True; it does not compile where an optional member of `graph_traits<G>` is there but not as it is called.
template <class G>
consteval bool optional_members_are_sound() {
/// @cond
// Refuses a member that has the name and cannot be called like this. Is not left defined.
#define ECHO_MEMBER_CHECKED(NAME, CONCEPT, SIGNATURE)                                                        \
    static_assert(NAME##_is_sound<G>,                                                                        \
                  "echo::graph_traits<G>::" #NAME                                                            \
                  " cannot be called as Echo calls it and would be ignored: make it a "                      \
                  "public static function " SIGNATURE " (see the head of echo/graph/graph_traits.hpp)");
    ECHO_OPTIONAL_MEMBERS(ECHO_MEMBER_CHECKED)
#undef ECHO_MEMBER_CHECKED
    /// @endcond
    return true;
}

} // namespace detail

#undef ECHO_OPTIONAL_MEMBERS

} // namespace echo
