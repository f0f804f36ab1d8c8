// SPDX-License-Identifier: BSL-1.0
/// @file
/// `graph`: what one generated kernel computes, put together at run time from the names of registered ops.
#pragma once

#include <echo/cuda/jit/graph_checks.hpp>
#include <echo/cuda/jit/graph_program.hpp>
#include <echo/cuda/jit/graph_steps.hpp>
#include <echo/cuda/jit/registry.hpp>
#include <echo/cuda/kernel/source_program.hpp>

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace echo::cuda::jit {

using fused::storage;

/// A DAG of ops over operands. Each call links the op's program behind what is there, so that common parts stand once.
///
/// ```cpp
/// echo::cuda::jit::graph g;
/// const auto q = g.operand(storage::f32), k = g.operand(storage::f32), dy = g.operand(storage::f32);
/// const auto sum = g.apply("add_op", {q, k});
/// g.result(g.gradient_of("tanh_op", {sum}, 0, {dy}), storage::f32);   // dy · (1 − tanh(q + k)²)
/// ```
/// Errors, of every call: `unknown_op`, and `argument_error` for a wrong number of arguments, for an op that no fused
/// kernel can hold, for an argument that is unused and read. After an error the graph is what it was before the call.
class graph {
public:
    /// Of the standard ops.
    graph() : graph(op_registry::standard()) {}
    /// `ops` must outlive the graph.
    explicit graph(const op_registry& ops) : ops_(&ops) {}
    explicit graph(const op_registry&&) = delete;
    /// A copy is a graph of its own: it takes the values that the first had until then, not those that it makes later.
    graph(const graph& from) = default;
    graph(graph&&) = default;
    graph& operator=(const graph& from) {
        graph copy(from);
        return *this = std::move(copy);
    }
    graph& operator=(graph&&) = default;
    ~graph() = default;

    /// The next operand of the kernel. One of `storage::draws` is what random ops take: data of its own for each.
    value operand(storage kind) {
        if (operands_.size() + results_.size() == most) too_many();
        const value v = steps_.add("graph", [&](auto& linker) { return linker.operand(operands_.size()); });
        operands_.push_back(kind);
        return v;
    }

    /// A number, the same for all elements.
    value number(double x) {
        return steps_.add("graph", [&](auto& linker) {
            return linker.number({fused::step_kind::literal, {}, 0, {}, x});
        });
    }

    /// Output `output` of the op on these arguments; a random op takes its uniform draws last.
    value apply(std::string_view op, const std::vector<value>& arguments, std::size_t output = 0) {
        const registered_op& r = ops_->at(op);
        detail::expect_count(op, "arguments", arguments.size(), r.inputs + (r.draws ? 1 : 0));
        detail::expect_below(op, "output", output, r.outputs);
        check(op, arguments);
        return steps_.add(detail::op_named(op), [&](auto& linker) {
            return linker.append(
                r.forward, r.forward, output, [&](symbol::operation role, std::size_t index) {
                    return steps_.step_of(arguments[role == symbol::operation::seed ? r.inputs : index]);
                });
        });
    }

    /// The gradient of input `input`: arguments are dy…, x…, y… as the op's gradient lambda has them.
    value gradient(std::string_view op, std::size_t input, const std::vector<value>& arguments) {
        const registered_op& r = ops_->at(op);
        detail::expect_gradient(op, r);
        detail::expect_count(op, "arguments", arguments.size(), r.gradients + r.inputs + r.outputs);
        detail::expect_below(op, "input", input, r.inputs);
        check(op, arguments);
        return steps_.add(detail::op_named(op), [&](auto& linker) {
            return linker.append(r.gradient, r.forward, input,
                                 [&](symbol::operation role, std::size_t index) {
                                     std::size_t position = index;
                                     if (role != symbol::operation::output_gradient) position += r.gradients;
                                     if (role == symbol::operation::output) position += r.inputs;
                                     return steps_.step_of(arguments[position]);
                                 });
        });
    }

    /// The same with the op's outputs made again from `x` where the gradient reads them.
    value gradient_of(std::string_view op, const std::vector<value>& x, std::size_t input,
                      const std::vector<value>& dy) {
        const registered_op& r = ops_->at(op);
        detail::expect_gradient(op, r);
        detail::expect_count(op, "inputs", x.size(), r.inputs + (r.draws ? 1 : 0));
        detail::expect_count(op, "output gradients", dy.size(), r.gradients);
        detail::expect_below(op, "input", input, r.inputs);
        return steps_.all_or_nothing([&] {
            std::vector<value> arguments = dy;
            arguments.insert(arguments.end(), x.begin(), x.begin() + static_cast<std::ptrdiff_t>(r.inputs));
            for (std::size_t k = 0; k < r.outputs; ++k)
                arguments.push_back(detail::gradient_reads_output(r.gradient, input, k) ? apply(op, x, k)
                                                                                        : unused);
            return gradient(op, input, arguments);
        });
    }

    /// The value as a tensor of 16 bits would have stored it.
    value rounded(storage kind, value of) {
        check("rounded", {of});
        if (of == unused) throw argument_error("rounded", "is given an unused value", "give it a value");
        switch (kind) {
        case storage::f32:
            return of;
        case storage::f16:
            return rounded_by(fused::step_kind::round_f16, of);
        case storage::bf16:
            return rounded_by(fused::step_kind::round_bf16, of);
        default:
            throw argument_error("rounded", "rounds to fp16 or bf16", "give one of them");
        }
    }

    /// The next result of the kernel.
    void result(value of, storage kind) {
        if (operands_.size() + results_.size() == most) too_many();
        check("result", {of});
        if (of == unused) throw argument_error("result", "is an unused value", "give it a value");
        if (kind != storage::f32 && kind != storage::f16 && kind != storage::bf16)
            throw argument_error("result", "a generated kernel writes float, fp16 or bf16",
                                 "give one of them");
        results_.emplace_back(steps_.step_of(of), kind);
    }

    /// All of it as one program: only what a result depends on. Errors: no result, more dependent reductions than 8.
    fused::run_time_program program() const {
        if (results_.empty())
            throw argument_error("graph", "has no result", "name one: graph.result(value, storage)");
        return detail::live_program(steps_.steps(), results_, operands_);
    }

private:
    static constexpr std::size_t most = fused::most_operands;

    [[noreturn]] static void too_many() {
        throw argument_error("graph", "has more than 16 operands and results", "make two kernels of it");
    }
    /// Errors: `argument_error` for a value of another graph.
    void check(std::string_view op, const std::vector<value>& arguments) const {
        for (const value v : arguments)
            if (v != unused && !steps_.has(v))
                throw argument_error(detail::op_named(op), "is given a value of another graph",
                                     "use values of one graph");
    }
    value rounded_by(fused::step_kind rounding, value of) {
        return steps_.add("rounded",
                          [&](auto& linker) { return linker.unary(rounding, steps_.step_of(of)); });
    }

    const op_registry* ops_;
    detail::graph_steps steps_;
    std::vector<storage> operands_;
    std::vector<detail::stored_result> results_;
};

} // namespace echo::cuda::jit
