// SPDX-License-Identifier: BSL-1.0
/// @file
/// `gradient`: reverse mode over a host graph, by the host's own gradient functions (the paper's Gradient pass, NNVM's
/// of the same name). Needs the optional members `gradient`, `seed` and `sum` of graph_traits.hpp. With a mirror hook
/// the gradients of chosen nodes read copies of them, made again in the backward pass (Chen et al., "Training Deep
/// Nets with Sublinear Memory Cost"). `record_gradient_reads` is the third door of op_facts.hpp: it tells what a
/// gradient reads from what the host's function builds.
#pragma once

#include <echo/graph/concepts.hpp>
#include <echo/graph/read.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace echo {

/// Several gradients of one value are summed at once below this number, else one by one as they come.
inline constexpr std::size_t gradient_chain_length = 8;

/// What `gradient` is asked for.
template <class G>
struct gradient_options {
    /// Whether the gradients of a node read a copy of it (NNVM's `mirror_fun`). Needs `clone`, `move` and `erase`.
    std::function<bool(const node_of<G>&)> mirror{};
};

namespace detail {

template <differentiable_graph G>
class differentiator {
    using traits = graph_traits<G>;
    using node = node_of<G>;
    using value = value_of<node>;

public:
    explicit differentiator(G& g) : graph_(g), index_(g) {
        for (auto&& n : traits::nodes(std::as_const(g))) {
            const std::size_t position = nodes_.size();
            index_.insert(n, position);
            nodes_.push_back(n);
            first_.push_back(terms_.size());
            for (auto&& t : traits::outputs(std::as_const(g), n)) {
                terms_.emplace_back();
                floating_.push_back(is_floating(tensor(t).type));
            }
            inputs_.emplace_back();
            for (auto&& v : traits::inputs(std::as_const(g), n)) {
                inputs_.back().push_back(v);
                number(v, position, "inputs");
            }
        }
        first_.push_back(terms_.size());
    }

    std::vector<std::optional<value>> run(std::span<const value> ys, std::span<const value> xs,
                                          const gradient_options<G>& options) {
        const std::size_t all = nodes_.size();
        find_paths(ys, xs);
        if (options.mirror) mirror(options.mirror);
        for (const value& y : ys)
            if (const std::size_t v = number(y, all, "ys"); needed_[v])
                add_term(v, y, traits::seed(graph_, y));
        for (std::size_t n = all; n-- > 0;)
            if (reached_[n] && !inputs_[n].empty()) differentiate(n);
        std::vector<std::optional<value>> made;
        for (const value& x : xs) made.push_back(total(number(x, all, "xs"), x));
        if (options.mirror) place_copies();
        return made;
    }

private:
    struct sum_of {
        std::vector<value> terms;
        std::size_t expected = 0; ///< readers that may send one
    };

    std::string name(std::size_t n) const {
        if constexpr (has_name<G>)
            return std::string(std::string_view(traits::name(std::as_const(graph_), nodes_[n])));
        else
            return "#" + std::to_string(n);
    }

    /// Errors: no value that stands before node `reader`.
    std::size_t number(const value& v, std::size_t reader, const char* key) const {
        const std::size_t n = index_.find(v.producer, nodes_.size());
        if (n >= reader || v.output >= (n + 1 < first_.size() ? first_[n + 1] : terms_.size()) - first_[n])
            throw error(reader < nodes_.size() ? name(reader) : std::string(), key,
                        "names no value that is made earlier", "name an output of an earlier node");
        return first_[n] + v.output;
    }

    /// Values on a way from an x to a y, and how many gradients each may get.
    void find_paths(std::span<const value> ys, std::span<const value> xs) {
        const std::size_t all = nodes_.size();
        needed_.assign(terms_.size(), 0);
        reached_.assign(all, 0);
        std::vector<std::uint8_t> wanted(terms_.size(), 0);
        for (const value& x : xs) needed_[number(x, all, "xs")] = 1;
        for (std::size_t n = 0; n < all; ++n) {
            bool depends = false;
            for (const value& v : inputs_[n]) depends |= needed_[number(v, n, "inputs")] != 0;
            if (depends)
                for (std::size_t v = first_[n]; v < first_[n + 1]; ++v) needed_[v] |= floating_[v];
        }
        for (const value& y : ys) {
            const std::size_t v = number(y, all, "ys");
            wanted[v] = 1, ++terms_[v].expected;
        }
        for (std::size_t n = all; n-- > 0;) {
            for (std::size_t v = first_[n]; v < first_[n + 1]; ++v)
                if (wanted[v] && needed_[v]) reached_[n] = 1;
            if (!reached_[n]) continue;
            for (const value& x : inputs_[n])
                if (const std::size_t v = number(x, n, "inputs"); needed_[v])
                    wanted[v] = 1, ++terms_[v].expected;
        }
    }

    void add_term(std::size_t v, const value& of, const value& term) {
        sum_of& sum = terms_[v];
        if (sum.expected >= gradient_chain_length && !sum.terms.empty()) {
            if constexpr (can_accumulate<G>) {
                sum.terms[0] = traits::accumulate(graph_, of, sum.terms[0], term);
            } else {
                const value two[] = {sum.terms[0], term};
                sum.terms[0] = traits::sum(graph_, of, std::span<const value>(two));
            }
        } else {
            sum.terms.push_back(term);
        }
    }

    std::optional<value> total(std::size_t v, const value& of) {
        auto& terms = terms_[v].terms;
        if (terms.empty()) return std::nullopt;
        if (terms.size() > 1) {
            const value sum = traits::sum(graph_, of, std::span<const value>(terms));
            terms.assign(1, sum);
        }
        return terms[0];
    }

    void differentiate(std::size_t n) {
        std::vector<std::optional<value>> dy;
        bool any = false;
        for (std::size_t v = first_[n]; v < first_[n + 1]; ++v) {
            dy.push_back(total(v, value{nodes_[n], v - first_[n]}));
            any |= dy.back().has_value();
        }
        if (!any) return;
        const node& at = copies_.empty() ? nodes_[n] : copies_[n];
        std::size_t i = 0;
        for (auto&& made : traits::gradient(graph_, at, std::span<const std::optional<value>>(dy))) {
            const std::optional<value> dx(made);
            if (i < inputs_[n].size() && dx)
                if (const std::size_t v = number(inputs_[n][i], n, "inputs"); needed_[v])
                    add_term(v, inputs_[n][i], *dx);
            ++i;
        }
        if (i != inputs_[n].size())
            throw error(name(n), "gradient",
                        "gives " + std::to_string(i) + " gradients for " + std::to_string(inputs_[n].size()) +
                            " inputs",
                        "give one per input, empty where nothing flows");
    }

    /// A copy of each chosen node behind the forward pass, reading copies where there are some.
    void mirror(const std::function<bool(const node&)>& chosen) {
        if constexpr (can_clone<G> && can_move<G> && can_erase<G>) {
            copies_ = nodes_;
            std::vector<std::vector<std::size_t>> makers(
                nodes_.size()); // a host may number anew at each change
            for (std::size_t n = 0; n < nodes_.size(); ++n)
                for (const value& v : inputs_[n]) makers[n].push_back(index_.find(v.producer, 0));
            node end = nodes_.back();
            for (std::size_t n = 0; n < nodes_.size(); ++n) {
                if (inputs_[n].empty() || !chosen(nodes_[n])) continue;
                std::vector<value> from;
                for (std::size_t i = 0; i < inputs_[n].size(); ++i)
                    from.push_back({copies_[makers[n][i]], inputs_[n][i].output});
                copies_[n] = traits::clone(graph_, nodes_[n], std::span<const value>(from), end);
                traits::move(graph_, end, copies_[n]);
                end = copies_[n];
                mirrored_.push_back(copies_[n]);
            }
        } else {
            throw error({}, "mirror", "the host graph cannot make copies of nodes",
                        "give graph_traits `clone`, `redirect`, `move` and `erase`");
        }
    }

    /// Copies run just before their first reader; those without one go.
    void place_copies() {
        if constexpr (can_clone<G> && can_move<G> && can_erase<G>) {
            std::vector<node> order;
            node_index<G> at(graph_);
            for (auto&& n : traits::nodes(std::as_const(graph_))) {
                at.insert(n, order.size());
                order.push_back(n);
            }
            const std::size_t first = nodes_.size(), behind = first + mirrored_.size(), none = order.size();
            // Per node: the position of the first node that is no copy and reads it, directly or through copies.
            std::vector<std::size_t> reader(order.size(), none);
            const auto note = [&](std::size_t n, std::size_t by) {
                for (auto&& v : traits::inputs(std::as_const(graph_), order[n]))
                    if (const std::size_t p = at.find(value(v).producer, none); p >= first && p < behind)
                        reader[p] = std::min(reader[p], by);
            };
            for (std::size_t n = behind; n < order.size(); ++n) note(n, n);
            for (std::size_t n = behind; n-- > first;)
                if (reader[n] != none) note(n, reader[n]);
            std::vector<std::size_t> head(order.size()); // what stands first of the group before a reader
            for (std::size_t n = 0; n < order.size(); ++n) head[n] = n;
            for (std::size_t n = behind; n-- > first;) {
                if (reader[n] == none) {
                    traits::erase(graph_, order[n]);
                } else {
                    traits::move(graph_, order[n], order[head[reader[n]]]);
                    head[reader[n]] = n;
                }
            }
        }
    }

    G& graph_;
    node_index<G> index_;
    std::vector<node> nodes_, copies_, mirrored_;
    std::vector<std::vector<value>> inputs_;
    std::vector<std::size_t> first_;
    std::vector<sum_of> terms_; ///< per value
    std::vector<std::uint8_t> floating_, needed_, reached_;
};

} // namespace detail

/// Appends gradient nodes and returns, for each of `xs`, the gradient of the sum of all `ys` with respect to it;
/// nothing where none depends on it. Forward nodes are taken in reverse order; several gradients of a value are summed
/// by `sum`, or one by one by `accumulate` where 8 or more may come (as NNVM does). Nodes that turn out to be read by
/// nobody stay for `erase_dead_nodes`. Requires the forward nodes in order, the last node no gradient node.
/// Errors: a y or an x that is no value of the graph; a gradient function that gives another number of gradients than
/// the node has inputs; a mirror hook for a host that cannot copy; what the host throws. O(nodes + edges) and the
/// host's functions.
template <differentiable_graph G>
std::vector<std::optional<value_of<node_of<G>>>> gradient(G& g, std::span<const value_of<node_of<G>>> ys,
                                                          std::span<const value_of<node_of<G>>> xs,
                                                          const gradient_options<G>& options = {}) {
    return detail::differentiator<G>(g).run(ys, xs, options);
}

/// What a gradient function was seen to read.
struct recorded_reads {
    reads gradient_reads{};   ///< What the gradient was found to read.
    reads gradient_one_bit{}; ///< the part that every reader reads as one bit per element
    friend bool operator==(const recorded_reads&, const recorded_reads&) = default;
};

/// Runs the host's gradient function for `n` on dummy gradients, notes which inputs and outputs of `n` the new nodes
/// consume, and erases them again: the paper's dummy gradient node. Only a node of `phase::forward` makes sense.
/// O(nodes + edges) and the host's functions. Errors: those of the host's functions.
template <differentiable_graph G>
    requires can_erase<G>
recorded_reads record_gradient_reads(G& g, const node_of<G>& n) {
    using traits = graph_traits<G>;
    using value = value_of<node_of<G>>;
    const auto all = [&] {
        std::vector<node_of<G>> nodes;
        for (auto&& each : traits::nodes(std::as_const(g))) nodes.push_back(each);
        return nodes;
    };
    const auto before = all();
    std::vector<std::optional<value>> dy;
    for (auto&& t : traits::outputs(std::as_const(g), n)) {
        const value y{n, dy.size()};
        dy.push_back(is_floating(tensor(t).type) ? std::optional<value>(traits::seed(g, y)) : std::nullopt);
    }
    const std::size_t first = all().size(); // behind the dummies, which read nothing
    std::vector<value> passed;
    for (auto&& made : traits::gradient(g, n, std::span<const std::optional<value>>(dy)))
        if (const std::optional<value> dx(made); dx) passed.push_back(*dx);

    std::vector<value> x;
    for (auto&& v : traits::inputs(std::as_const(g), n)) x.push_back(v);
    recorded_reads found;
    reads whole; // read with all its bits
    const auto note = [&](const value& v, bool one_bit) {
        for (std::size_t i = 0; i < x.size(); ++i) {
            if (!(x[i] == v)) continue;
            found.gradient_reads.inputs.insert(i);
            (one_bit ? found.gradient_one_bit : whole).inputs.insert(i);
        }
        if (!(v.producer == n)) return;
        found.gradient_reads.outputs.insert(v.output);
        (one_bit ? found.gradient_one_bit : whole).outputs.insert(v.output);
    };
    for (const value& v : passed) note(v, false);
    const auto after = all();
    for (std::size_t k = first; k < after.size(); ++k) {
        const op_facts facts = traits::facts(std::as_const(g), after[k]);
        std::size_t i = 0;
        for (auto&& v : traits::inputs(std::as_const(g), after[k])) {
            note(v, i < 63 && facts.one_bit_inputs.contains(i));
            ++i;
        }
    }
    recorded_reads result{found.gradient_reads, {}};
    for (std::size_t i = 0; i < 63; ++i) {
        if (found.gradient_one_bit.inputs.contains(i) && !whole.inputs.contains(i))
            result.gradient_one_bit.inputs.insert(i);
        if (found.gradient_one_bit.outputs.contains(i) && !whole.outputs.contains(i))
            result.gradient_one_bit.outputs.insert(i);
    }
    for (std::size_t k = after.size(); k-- > before.size();) traits::erase(g, after[k]);
    return result;
}

} // namespace echo
