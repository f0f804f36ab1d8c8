// SPDX-License-Identifier: BSL-1.0
/// @file
/// `graph_traits<G>`: the customisation point by which a host plugs in its own graph type.
///
/// Required members of a specialisation
///   using node                                      a handle: copyable, equality comparable, hashable (or `index`)
///   using value = echo::value_of<node>              {producer, output}
///   nodes(const G&)           -> range of node      in execution order
///   inputs(const G&, node)    -> range of value     in the op's order
///   outputs(const G&, node)   -> range of echo::tensor
///   phase(const G&, node)     -> echo::phase
///   results(const G&)         -> range of value     what must exist at the end
///   facts(const G&, node)     -> echo::op_facts
/// Optional members, and what holds without them; one that cannot be called like this, or whose name is nearly one of
/// these, is refused, never ignored
///   name(const G&, node)      -> string              "#N", N the position in execution order
///   layer(const G&, node)     -> string              ""
///   control(const G&, node)   -> range of node       none
///   writes(const G&, node)    -> range of size_t     none; inputs whose storage, there already, the node writes into (an
///                                                   output that is a view of the input stands for what is there then):
///                                                   it never runs again, nor who read or made what was there, and who
///                                                   reads it afterwards runs behind the write
///   flops(const G&, node)     -> double              the facts' `flops` function
///   workspace(const G&, node) -> bytes               the facts' `workspace` function
///   time_us(const G&, node)   -> optional<double>    no measured time
///   keep(const G&, node)      -> bool                false; true: outputs of this node are never recomputed
///   may_fuse(const G&, node)  -> bool                true; false: never recomputed inside another node, nor another in it
///   index(const G&, node)     -> size_t              the position in nodes(); without it nodes are hashed
///   trainable(const G&, node) -> bool                true; of an input of a forward-only host: its gradient is a result
///   complete(const G&)        -> bool                whether a backward node is there; true: no skeleton is added
///   gradient_of(const G&, node) -> optional<node>    the facts are not checked against the host's gradient nodes
/// Optional mutating members; what a host lacks is never decided for it (`abilities`, concepts.hpp)
///   clone(G&, node, span<const value> inputs, node before) -> node
///                                                   absent: nothing is recomputed by `apply`
///   redirect(G&, node reader, size_t input, value)  likewise
///   redirect_result(G&, size_t result, value)       absent: nodes that make a result are not recomputed
///   move(G&, node, node before)                     absent: every first run stays where it is
///   encode(G&, value, node before) -> node          absent: nothing is encoded
///   offload(G&, value, uint64_t bytes, node before) -> node
///                                                   waits until the value's storage has left for the host's memory
///   reload(G&, node offload, node before) -> node   begins to bring it back; without both, nothing is offloaded
///   fuse(G&, node)                                  a clone leaves the order, and all that read it compute it inside
///                                                   themselves, from what it reads; absent: nothing is fused
///   erase(G&, node)                                 absent: dead nodes stay
/// Optional members of the passes that come before planning
///   gradient(G&, node, span<const optional<value>> dy) -> range of optional<value>
///                                                   appends the node's gradient nodes and gives the gradient of each
///                                                   input, empty where nothing flows; `dy` has one per output
///   seed(G&, value) -> value                        appends a node of ones: the gradient of a value by itself
///   sum(G&, value, span<const value> terms) -> value
///                                                   appends the sum of several gradients of a value; these three
///                                                   are what `gradient` (gradient.hpp) needs
///   accumulate(G&, value, value sum, value term) -> value
///                                                   absent: `sum` of two; adds one more gradient, in place if it can
///   infer(const G&, node, span<const tensor> inputs) -> range of tensor
///   set_outputs(G&, node, span<const tensor>)       both are what `infer` (infer.hpp) needs
///
/// Laws: handles stay valid while the graph is rewritten; two reads of an unchanged graph are equal; a clone
/// has the outputs, phase and facts of its original. Models: `file_graph` (examples/tools/format), `boost_graph`
/// (graph/boost.hpp). Example: examples/adapt_a_graph.cpp.
#pragma once

#include <echo/graph/phase.hpp>
#include <echo/op_facts.hpp>

#include <cstddef>

namespace echo {

/// One output of one node of a host graph.
template <class Node>
struct value_of {
    Node producer{};        ///< The node that makes it.
    std::size_t output = 0; ///< Which of its outputs, from 0.
    friend bool operator==(const value_of&, const value_of&) = default;
};

/// Specialise this for the graph type of an engine; the head of graph_traits.hpp lists the members.
template <class G>
struct graph_traits {
    using is_not_specialised = void; ///< As no specialisation has it.
};

} // namespace echo
