// SPDX-License-Identifier: BSL-1.0
/// @file
/// `graph`: what one generated kernel computes, put together at run time from the names of registered ops.
#pragma once

#include <echo/cuda/jit/registry.hpp>
#include <echo/cuda/kernel/source_program.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echo::cuda::jit {

using fused::storage;

/// A value within a `graph`. Default-constructed: an argument that the op's lambda does not read.
class value {
public:
    value() = default;
    friend bool operator==(value, value) = default;

private:
    friend class graph;
    value(std::uint16_t at, std::uint32_t graph) : at_(at), graph_(graph) {}
    std::uint16_t at_ = 0xffff;
    std::uint32_t graph_ = 0;
};
inline constexpr value unused{}; ///< Stands for an argument that the op's lambda does not read.

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
    /// Of the standard ops. A template, as their programs are made only where it is called.
    template <class = void>
    graph() : graph(op_registry::standard()) {}
    /// `ops` must outlive the graph.
    explicit graph(const op_registry& ops) : ops_(&ops) {}
    explicit graph(const op_registry&&) = delete;
    /// A copy is a graph of its own: it takes the values that the first had until then, not those that it makes later.
    graph(const graph& from)
        : ops_(from.ops_), before_(from.before_), linker_(from.linker_), operands_(from.operands_),
          results_(from.results_) {
        before_.emplace_back(from.id_, from.linker_.steps.size());
    }
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
        const value v = linked("graph", [&] { return linker_.operand(operands_.size()); });
        operands_.push_back(kind);
        return v;
    }

    /// A number, the same for all elements.
    value number(double x) {
        return linked("graph", [&] { return linker_.number({fused::step_kind::literal, {}, 0, {}, x}); });
    }

    /// Output `output` of the op on these arguments; a random op takes its uniform draws last.
    value apply(std::string_view op, const std::vector<value>& arguments, std::size_t output = 0) {
        const registered_op& r = ops_->at(op);
        expect(op, "arguments", arguments.size(), r.inputs + (r.draws ? 1 : 0));
        expect_below(op, "output", output, r.outputs);
        check(op, arguments);
        return linked(named(op), [&] {
            return linker_.append(
                r.forward, r.forward, output, [&](symbol::operation role, std::size_t index) {
                    return arguments[role == symbol::operation::seed ? r.inputs : index].at_;
                });
        });
    }

    /// The gradient of input `input`: arguments are dy…, x…, y… as the op's gradient lambda has them.
    value gradient(std::string_view op, std::size_t input, const std::vector<value>& arguments) {
        const registered_op& r = ops_->at(op);
        expect_gradient(op, r);
        expect(op, "arguments", arguments.size(), r.gradients + r.inputs + r.outputs);
        expect_below(op, "input", input, r.inputs);
        check(op, arguments);
        return linked(named(op), [&] {
            return linker_.append(r.gradient, r.forward, input,
                                  [&](symbol::operation role, std::size_t index) {
                                      std::size_t position = index;
                                      if (role != symbol::operation::output_gradient) position += r.gradients;
                                      if (role == symbol::operation::output) position += r.inputs;
                                      return arguments[position].at_;
                                  });
        });
    }

    /// The same with the op's outputs made again from `x` where the gradient reads them.
    value gradient_of(std::string_view op, const std::vector<value>& x, std::size_t input,
                      const std::vector<value>& dy) {
        const registered_op& r = ops_->at(op);
        expect_gradient(op, r);
        expect(op, "inputs", x.size(), r.inputs + (r.draws ? 1 : 0));
        expect(op, "output gradients", dy.size(), r.gradients);
        expect_below(op, "input", input, r.inputs);
        return all_or_nothing([&] {
            std::vector<value> arguments = dy;
            arguments.insert(arguments.end(), x.begin(), x.begin() + static_cast<std::ptrdiff_t>(r.inputs));
            for (std::size_t k = 0; k < r.outputs; ++k)
                arguments.push_back(reads(r.gradient, input, k) ? apply(op, x, k) : unused);
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
            return linked("rounded", [&] { return linker_.unary(fused::step_kind::round_f16, of.at_); });
        case storage::bf16:
            return linked("rounded", [&] { return linker_.unary(fused::step_kind::round_bf16, of.at_); });
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
        results_.emplace_back(of.at_, kind);
    }

    /// All of it as one program: only what a result depends on. Errors: no result, more dependent reductions than 8.
    fused::run_time_program program() const {
        if (results_.empty())
            throw argument_error("graph", "has no result", "name one: graph.result(value, storage)");
        std::vector<std::uint16_t> wanted;
        for (const auto& [at, kind] : results_) wanted.push_back(at);
        std::vector<fused::timing_of_step> timing(linker_.steps.size());
        fused::schedule(linker_.steps, wanted, timing);

        fused::run_time_program p;
        std::vector<std::uint16_t> moved(linker_.steps.size());
        for (std::size_t i = 0; i < timing.size(); ++i) {
            if (!timing[i].live) continue;
            fused::step s = linker_.steps[i];
            for (std::size_t k = 0; k < fused::step_operands(s); ++k) s.operands[k] = moved[s.operands[k]];
            moved[i] = static_cast<std::uint16_t>(p.steps.size());
            p.steps.push_back(s);
        }
        for (const auto& [at, kind] : results_) {
            p.results.push_back(moved[at]);
            p.kinds.push_back(kind);
        }
        p.kinds.insert(p.kinds.end(), operands_.begin(), operands_.end());
        p.timing.resize(p.steps.size());
        p.rows = fused::schedule(p.steps, p.results, p.timing);
        if (p.rows.passes > fused::most_passes)
            throw argument_error("graph", "has more than 8 dependent reductions", "make two kernels of it");
        return p;
    }

private:
    static constexpr std::size_t most = fused::most_operands;
    using steps = std::vector<fused::step>;

    static std::string named(std::string_view op) { return "op '" + std::string(op) + "'"; }
    [[noreturn]] static void too_many() {
        throw argument_error("graph", "has more than 16 operands and results", "make two kernels of it");
    }
    static void expect(std::string_view op, const char* what, std::size_t given, std::size_t taken) {
        if (given != taken)
            throw argument_error(named(op), std::to_string(given) + " " + what + " given",
                                 "it takes " + std::to_string(taken));
    }
    static void expect_gradient(std::string_view op, const registered_op& r) {
        if (r.gradients == 0)
            throw argument_error(named(op), "has no gradient", "nothing flows back through it");
    }
    static void expect_below(std::string_view op, const char* what, std::size_t given, std::size_t count) {
        if (given >= count)
            throw argument_error(named(op), std::string("has no ") + what + " " + std::to_string(given),
                                 "it has " + std::to_string(count));
    }
    void check(std::string_view op, const std::vector<value>& arguments) const {
        for (const value v : arguments)
            if (v != unused && !has(v))
                throw argument_error(named(op), "is given a value of another graph",
                                     "use values of one graph");
    }
    bool has(value v) const noexcept {
        if (v.graph_ == id_) return v.at_ < linker_.steps.size();
        for (const auto& [id, size] : before_)
            if (v.graph_ == id) return v.at_ < size;
        return false;
    }
    /// Whether gradient `input` reads output k.
    static bool reads(const symbol::program_view& p, std::size_t input, std::size_t k) {
        if (p.results[input] == symbol::program_view::none) return false;
        fused::linker<steps> probe;
        bool read = false;
        probe.append(p, p, input, [&](symbol::operation role, std::size_t index) {
            read = read || (role == symbol::operation::output && index == k);
            return probe.operand(0);
        });
        return read;
    }
    /// What `make` gives; if it throws, its steps are taken back.
    template <class Make>
    value all_or_nothing(Make make) {
        const auto size = linker_.steps.size();
        const auto reduced = linker_.reduced;
        const bool reduces = linker_.reduces;
        try {
            return make();
        } catch (...) {
            linker_.steps.resize(size);
            linker_.reduced = reduced;
            linker_.reduces = reduces;
            linker_.fault = fused::link_fault::none;
            throw;
        }
    }
    template <class Append>
    value linked(std::string_view what, Append append) {
        return all_or_nothing([&] {
            const std::uint16_t at = append();
            if (at == linker_.none)
                throw argument_error(what, fused::words_of(linker_.fault), "see kernel/fused_program.hpp");
            return made(at);
        });
    }

    value made(std::uint16_t at) const { return {at, id_}; }
    static std::uint32_t next_id() noexcept {
        static std::atomic<std::uint32_t> last{0};
        return ++last;
    }

    const op_registry* ops_;
    std::uint32_t id_ = next_id();
    std::vector<std::pair<std::uint32_t, std::size_t>>
        before_; ///< graphs that this is a copy of, and their steps then
    fused::linker<steps> linker_;
    std::vector<storage> operands_;
    std::vector<std::pair<std::uint16_t, storage>> results_;
};

} // namespace echo::cuda::jit
