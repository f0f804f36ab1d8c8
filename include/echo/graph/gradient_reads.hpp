// SPDX-License-Identifier: BSL-1.0
/// @file
/// `record_gradient_reads`, the third door of op_facts.hpp: it tells what a gradient reads from what the host's
/// gradient function builds. Needs the optional members `gradient`, `seed`, `sum` and `erase` of graph_traits.hpp.
#pragma once

#include <echo/graph/concepts.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace echo {

/// What a gradient function was seen to read.
struct recorded_reads {
    reads gradient_reads{};   ///< What the gradient was found to read.
    reads gradient_one_bit{}; ///< the part that every reader reads as one bit per element
    friend bool operator==(const recorded_reads&, const recorded_reads&) = default;
};

namespace detail {

template <checked_host_graph G>
std::vector<node_of<G>> nodes_in_order(const G& g) {
    std::vector<node_of<G>> nodes;
    for (auto&& each : graph_traits<G>::nodes(g)) nodes.push_back(each);
    return nodes;
}

/// Appends a gradient for each output of `n` that has one; what it is made of does not matter.
template <differentiable_graph G>
std::vector<std::optional<value_of<node_of<G>>>> dummy_gradients(G& g, const node_of<G>& n) {
    using value = value_of<node_of<G>>;
    std::vector<std::optional<value>> dy;
    for (auto&& t : graph_traits<G>::outputs(std::as_const(g), n)) {
        const value y{n, dy.size()};
        dy.push_back(is_floating(tensor(t).type) ? std::optional<value>(graph_traits<G>::seed(g, y))
                                                 : std::nullopt);
    }
    return dy;
}

/// Notes which inputs and outputs of one node others read, and whether all of these read one bit per element.
template <checked_host_graph G>
class read_notes {
    using traits = graph_traits<G>;
    using node = node_of<G>;
    using value = value_of<node>;

public:
    /// Of reading `n`; both must outlive it.
    read_notes(const G& g, const node& n) : graph_(g), node_(n) {
        for (auto&& v : traits::inputs(g, n)) inputs_.push_back(v);
    }

    /// Somebody reads `v`; if that is no value of the node, nothing is noted.
    void add(const value& v, bool one_bit) {
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            if (!(inputs_[i] == v)) continue;
            all_.inputs.insert(i);
            (one_bit ? one_bit_ : whole_).inputs.insert(i);
        }
        if (!(v.producer == node_)) return;
        all_.outputs.insert(v.output);
        (one_bit ? one_bit_ : whole_).outputs.insert(v.output);
    }
    /// Node `by` reads its inputs, in the way that its facts say.
    void add_inputs_of(const node& by) {
        const op_facts facts = traits::facts(graph_, by);
        std::size_t i = 0;
        for (auto&& v : traits::inputs(graph_, by)) {
            add(v, i < 63 && facts.one_bit_inputs.contains(i));
            ++i;
        }
    }

    /// What was noted. One bit is enough only where nobody reads more.
    [[nodiscard]] recorded_reads found() const {
        recorded_reads result{all_, {}};
        for (std::size_t i = 0; i < 63; ++i) {
            if (one_bit_.inputs.contains(i) && !whole_.inputs.contains(i))
                result.gradient_one_bit.inputs.insert(i);
            if (one_bit_.outputs.contains(i) && !whole_.outputs.contains(i))
                result.gradient_one_bit.outputs.insert(i);
        }
        return result;
    }

private:
    const G& graph_;
    const node& node_;
    std::vector<value> inputs_;
    reads all_;
    reads one_bit_; ///< read by somebody as one bit per element
    reads whole_;   ///< read by somebody with all its bits
};

} // namespace detail

/// Runs the host's gradient function for `n` on dummy gradients, notes which inputs and outputs of `n` the new nodes
/// consume, and erases them again: the paper's dummy gradient node. Only a node of `phase::forward` makes sense.
/// O(nodes + edges) and the host's functions. Errors: those of the host's functions.
template <detail::checked_host_graph G>
    requires differentiable_graph<G> && can_erase<G>
recorded_reads record_gradient_reads(G& g, const node_of<G>& n) {
    using traits = graph_traits<G>;
    using value = value_of<node_of<G>>;
    const std::size_t before = detail::nodes_in_order(g).size();
    const std::vector<std::optional<value>> dy = detail::dummy_gradients(g, n);
    const std::size_t first = detail::nodes_in_order(g).size(); // behind the dummies, which read nothing
    std::vector<value> passed;
    for (auto&& made : traits::gradient(g, n, std::span<const std::optional<value>>(dy)))
        if (const std::optional<value> dx(made); dx) passed.push_back(*dx);

    detail::read_notes<G> notes(g, n);
    for (const value& v : passed) notes.add(v, false);
    const auto after = detail::nodes_in_order(g);
    for (std::size_t k = first; k < after.size(); ++k) notes.add_inputs_of(after[k]);
    const recorded_reads found = notes.found();
    for (std::size_t k = after.size(); k-- > before;) traits::erase(g, after[k]);
    return found;
}

} // namespace echo
