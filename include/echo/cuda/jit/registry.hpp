// SPDX-License-Identifier: BSL-1.0
/// @file
/// `op_registry`: ops by name, for hosts that know their ops at run time only. An entry is what the op's lambdas say; a
/// name only finds it, and no text of a host ever becomes source.
#pragma once

#include <echo/cuda/kernel/arguments.hpp>
#include <echo/ops/activations.hpp>
#include <echo/ops/arithmetic.hpp>
#include <echo/ops/batch_norm.hpp>
#include <echo/ops/layer_norm.hpp>
#include <echo/ops/reductions.hpp>
#include <echo/ops/softmax.hpp>
#include <echo/symbol.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echo::cuda::jit {

/// A name that no op is registered under.
class unknown_op : public argument_error {
public:
    /// `near` are names that look like it.
    unknown_op(std::string_view name, std::vector<std::string> near)
        : argument_error("op '" + std::string(name) + "'", "is not registered", advice(near)), name_(name),
          near_(std::move(near)) {}

    /// The name that was asked for.
    const std::string& name() const noexcept { return name_; }
    /// Registered names that look like it, the nearest first.
    const std::vector<std::string>& near() const noexcept { return near_; }

private:
    static std::string advice(const std::vector<std::string>& near) {
        if (near.empty()) return "add it: registry.add<Op>()";
        std::string text = "did you mean ";
        for (std::size_t i = 0; i < near.size(); ++i)
            text += (i == 0 ? "" : i + 1 == near.size() ? " or " : ", ") + near[i];
        return text + "?";
    }
    std::string name_;
    std::vector<std::string> near_;
};

/// What an op's lambdas say, as programs. `gradients` is how many dy its gradient takes; 0 if it has none.
struct registered_op {
    std::size_t inputs = 0;          ///< How many inputs the op has.
    std::size_t outputs = 0;         ///< How many outputs it has.
    std::size_t gradients = 0;       ///< How many gradients its gradient takes.
    bool draws = false;              ///< takes a uniform draw behind its inputs
    symbol::program_view forward{};  ///< From inputs to outputs.
    symbol::program_view gradient{}; ///< From gradients, inputs and outputs to the inputs' gradients.
};

/// Ops by name. An op with parameters in its type (a dropout's rate) is added under a name of its own, which says them.
class op_registry {
public:
    /// Adds an op that has a forward lambda, under its facts' name or another. Errors: `argument_error` if the name is
    /// taken.
    template <class Op>
    op_registry& add(std::string name = std::string(facts_of<Op>().name)) {
        registered_op op{input_count<Op>, output_count<Op>, 0, is_random<Op>, forward_program<Op>.view(), {}};
        if constexpr (symbol::detail::real_gradient<Op>) {
            op.gradients = gradient_count<Op>;
            op.gradient = gradient_program<Op>.view();
        }
        const auto [at, added] = ops_.emplace(std::move(name), op);
        if (!added)
            throw argument_error("op '" + at->first + "'", "is registered already",
                                 "give it a name of its own");
        return *this;
    }

    /// The op of that name. Errors: `unknown_op`. O(log ops).
    const registered_op& at(std::string_view name) const {
        const auto found = ops_.find(name);
        if (found == ops_.end()) throw unknown_op(name, near(name));
        return found->second;
    }
    /// Whether an op has that name. O(log n).
    bool contains(std::string_view name) const { return ops_.find(name) != ops_.end(); }
    /// The first op by name.
    auto begin() const noexcept { return ops_.begin(); }
    /// Behind the last op.
    auto end() const noexcept { return ops_.end(); }

    /// The ops of echo/ops that a fused kernel can hold and that have no parameters in their types, under their facts'
    /// names; `sum_op`, `mean_op`, `max_op`, `softmax_op` and `log_softmax_op` reduce the last axis.
    static const op_registry& standard() {
        static const op_registry ops = [] {
            op_registry r;
            r.add_all<add_op, subtract_op, multiply_op, divide_op, negate_op, reciprocal_op, abs_op,
                      square_op, sqrt_op, rsqrt_op, pow_op, exp_op, log_op, sin_op, cos_op, erf_op,
                      maximum_op, minimum_op, where_op, greater_op>();
            r.add_all<tanh_op, sigmoid_op, relu_op, relu_gradient_op, leaky_relu_op, relu6_op, elu_op,
                      gelu_op, gelu_tanh_op, silu_op, softplus_op, hard_swish_op>();
            r.add_all<softmax_op<>, log_softmax_op<>, softmax_cross_entropy_op, layer_norm_op, rms_norm_op,
                      batch_norm_op, sum_op<over(-1)>, mean_op<over(-1)>, max_op<over(-1)>>();
            return r;
        }();
        return ops;
    }

private:
    template <class... Op>
    void add_all() {
        (add<Op>(), ...);
    }

    /// Insertions, deletions, replacements and swaps of neighbours between two names.
    static std::size_t distance(std::string_view a, std::string_view b) {
        std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);
        std::iota(last.begin(), last.end(), std::size_t{0});
        for (std::size_t i = 1; i <= a.size(); ++i) {
            row[0] = i;
            for (std::size_t j = 1; j <= b.size(); ++j) {
                row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
                if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                    row[j] = std::min(row[j], before[j - 2] + 1);
            }
            before = last;
            last = row;
        }
        return last[b.size()];
    }
    std::vector<std::string> near(std::string_view name) const {
        if (name.size() > 64) return {};
        std::vector<std::pair<std::size_t, std::string>> found;
        for (const auto& [known, op] : ops_) {
            const bool part = name.size() >= 3 && known.find(name) != known.npos;
            const std::size_t d = part ? 1 : distance(name, known);
            if (d <= std::max<std::size_t>(2, name.size() / 4)) found.emplace_back(d, known);
        }
        std::sort(found.begin(), found.end());
        std::vector<std::string> names;
        for (std::size_t i = 0; i < found.size() && i < 3; ++i) names.push_back(found[i].second);
        return names;
    }

    std::map<std::string, registered_op, std::less<>> ops_;
};

} // namespace echo::cuda::jit
