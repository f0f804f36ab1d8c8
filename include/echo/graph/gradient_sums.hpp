// SPDX-License-Identifier: BSL-1.0
/// @file
/// `gradient_sums`: the gradients that come together for each value, one from every reader, and how they are added up.
#pragma once

#include <echo/graph/concepts.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace echo::detail {

/// Several gradients of one value are summed at once below this number, else one by one as they come.
inline constexpr std::size_t gradient_chain_length = 8;

/// By the numbers of values (numbered_values.hpp). Sums are nodes that the host appends.
template <differentiable_graph G>
class gradient_sums {
    using traits = graph_traits<G>;
    using value = value_of<node_of<G>>;

public:
    /// For so many values. The graph must outlive it.
    gradient_sums(G& g, std::size_t values) : graph_(g), sums_(values) {}

    /// One more reader may send a gradient of value `v`. To be told of all readers before the first term comes.
    void expect_one(std::size_t v) { ++sums_[v].expected; }

    /// A gradient of value `v`, which the host knows as `of`.
    void add(std::size_t v, const value& of, const value& term) {
        sum_of& sum = sums_[v];
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

    /// The whole gradient of value `v`, from what was added so far; nothing if that is nothing.
    [[nodiscard]] std::optional<value> total(std::size_t v, const value& of) {
        auto& terms = sums_[v].terms;
        if (terms.empty()) return std::nullopt;
        if (terms.size() > 1) {
            const value sum = traits::sum(graph_, of, std::span<const value>(terms));
            terms.assign(1, sum);
        }
        return terms[0];
    }

private:
    struct sum_of {
        std::vector<value> terms;
        std::size_t expected = 0; ///< readers that may send one
    };

    G& graph_;
    std::vector<sum_of> sums_; ///< per value
};
} // namespace echo::detail
