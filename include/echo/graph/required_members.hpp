// SPDX-License-Identifier: BSL-1.0
/// @file
/// The required members of `graph_traits`, one concept for each, and the check that all are there: a sentence for each
/// that is missing, private or cannot be called as Echo calls it.
#pragma once

#include <echo/graph/near_names.hpp>
#include <echo/graph/optional_members.hpp>

#include <concepts>
#include <cstddef>
#include <string_view> // std::hash

namespace echo::detail {

template <class G>
concept names_node_type = requires { typename graph_traits<G>::node; };

template <class G>
concept has_nodes = requires(const G& g) {
    { graph_traits<G>::nodes(g) } -> range_of<node_of<G>>;
};

template <class G>
concept has_inputs = requires(const G& g, const node_of<G>& n) {
    { graph_traits<G>::inputs(g, n) } -> range_of<value_of<node_of<G>>>;
};

template <class G>
concept has_outputs = requires(const G& g, const node_of<G>& n) {
    { graph_traits<G>::outputs(g, n) } -> range_of<tensor>;
};

template <class G>
concept has_phase = requires(const G& g, const node_of<G>& n) {
    { graph_traits<G>::phase(g, n) } -> std::convertible_to<phase>;
};

template <class G>
concept has_results = requires(const G& g) {
    { graph_traits<G>::results(g) } -> range_of<value_of<node_of<G>>>;
};

template <class G>
concept has_facts = requires(const G& g, const node_of<G>& n) {
    { graph_traits<G>::facts(g, n) } -> std::convertible_to<op_facts>;
};

template <class Node>
concept hashable = requires(const Node& n) {
    { std::hash<Node>{}(n) } -> std::convertible_to<std::size_t>;
};

/// What reading a host needs. Where a part is missing, `checked_host_graph` has said so.
template <class G>
concept can_be_read =
    names_node_type<G> && std::copyable<node_of<G>> && std::equality_comparable<node_of<G>> && has_nodes<G> &&
    has_inputs<G> && has_outputs<G> && has_phase<G> && has_results<G> && has_facts<G> &&
    (has_index<G> || hashable<node_of<G>>);

// Of each required member: its name, the concept that it offers, what it is misspelt as, and how Echo calls it.
// clang-format off
/// Calls `member(NAME, CONCEPT, NEAR, SIGNATURE)` for each required member function. Is not left defined.
#define ECHO_REQUIRED_MEMBERS(member) \
    member(nodes, has_nodes, get_nodes, "nodes(const G&) -> range of node") \
    member(inputs, has_inputs, input, "inputs(const G&, node) -> range of echo::value_of<node>") \
    member(outputs, has_outputs, output, "outputs(const G&, node) -> range of echo::tensor") \
    member(phase, has_phase, phases, "phase(const G&, node) -> echo::phase") \
    member(results, has_results, result, "results(const G&) -> range of echo::value_of<node>") \
    member(facts, has_facts, fact, "facts(const G&, node) -> echo::op_facts")
// clang-format on

// The constants keep compilers from explaining at length why a concept does not hold.
/// True; it does not compile where the member functions that Echo must have are not there.
template <class G>
consteval bool required_functions_are_there() {
/// @cond
// Refuses traits that lack the member. One that is misspelt is refused by its name. Is not left defined.
#define ECHO_MEMBER_REQUIRED(NAME, CONCEPT, NEAR, SIGNATURE)                                                 \
    constexpr bool NAME##_found = CONCEPT<G>;                                                                \
    static_assert(                                                                                           \
        NAME##_found || has_member_##NEAR<graph_traits<G>>,                                                  \
        "echo::graph_traits<G>::" #NAME                                                                      \
        " is missing or cannot be called as Echo calls it: make it a public static function " SIGNATURE      \
        " (see the head of echo/graph/graph_traits.hpp)");                                                   \
    static_assert(NAME##_found || !has_member_##NEAR<graph_traits<G>>,                                       \
                  "echo::graph_traits<G>::" #NEAR " is no member that Echo knows: call it " #NAME            \
                  ", as the public static function " SIGNATURE                                               \
                  " (see the head of echo/graph/graph_traits.hpp)");
    ECHO_REQUIRED_MEMBERS(ECHO_MEMBER_REQUIRED)
#undef ECHO_MEMBER_REQUIRED
    /// @endcond
    return true;
}
#undef ECHO_REQUIRED_MEMBERS

/// True; it does not compile where the handles of nodes cannot be what Echo needs them to be.
template <class G>
consteval bool handles_are_sound() {
    constexpr bool copied = std::copyable<node_of<G>>;
    static_assert(copied,
                  "echo::graph_traits<G>::node cannot be copied and assigned: let it be a handle, such as "
                  "a pointer or a number");
    constexpr bool compared = std::equality_comparable<node_of<G>>;
    static_assert(compared,
                  "echo::graph_traits<G>::node has no operator==: give it one that is true for handles "
                  "of the same node");
    constexpr bool found = has_index<G> || hashable<node_of<G>>;
    static_assert(
        found || !compared,
        "echo::graph_traits<G>::node has no std::hash, so Echo cannot find a node's position: specialise "
        "std::hash for it, or give graph_traits index(const G&, node) -> size_t");
    return true;
}

/// True; it does not compile where a required member of `graph_traits<G>` is missing or not as Echo calls it.
template <class G>
consteval bool required_members_are_there() {
    constexpr bool specialised = !requires { typename graph_traits<G>::is_not_specialised; };
    static_assert(
        specialised,
        "echo::graph_traits is not specialised for this graph type: specialise echo::graph_traits<G> as "
        "described at the head of echo/graph/graph_traits.hpp");
    static_assert(names_node_type<G> || !specialised,
                  "echo::graph_traits<G>::node is missing or private: write `using node = ...;`, the type of "
                  "a node's handle (see the head of echo/graph/graph_traits.hpp)");
    if constexpr (names_node_type<G>) return handles_are_sound<G>() && required_functions_are_there<G>();
    return true;
}

} // namespace echo::detail
