// SPDX-License-Identifier: BSL-1.0
/// @file
/// `value`, a name for what a step of a `graph` (graph.hpp) makes, and `graph_steps`: the steps themselves, and which
/// values are theirs.
#pragma once

#include <echo/cuda/kernel/arguments.hpp>
#include <echo/cuda/kernel/fused_program.hpp>
#include <echo/symbol.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace echo::cuda::jit {

namespace detail {
class graph_steps;
}

/// A value within a `graph`. Default-constructed: an argument that the op's lambda does not read.
class value {
public:
    value() = default;
    friend bool operator==(value, value) = default;

private:
    friend class detail::graph_steps;
    value(std::uint16_t at, std::uint32_t graph) : at_(at), graph_(graph) {}
    std::uint16_t at_ = 0xffff;
    std::uint32_t graph_ = 0;
};
inline constexpr value unused{}; ///< Stands for an argument that the op's lambda does not read.

namespace detail {

/// The steps of one graph, each distinct one once. A copy has an identity of its own: it takes the values that the
/// first had until then, not those that it makes later.
class graph_steps {
public:
    using list = std::vector<fused::step>; ///< Steps, of which each reads earlier ones.

    graph_steps() = default;
    /// The same steps, which also have the values that `from` has now.
    graph_steps(const graph_steps& from) : before_(from.before_), linker_(from.linker_) {
        before_.emplace_back(from.id_, from.linker_.steps.size());
    }
    graph_steps(graph_steps&&) = default;
    /// As a copy that is moved here.
    graph_steps& operator=(const graph_steps& from) {
        graph_steps copy(from);
        return *this = std::move(copy);
    }
    graph_steps& operator=(graph_steps&&) = default;
    ~graph_steps() = default;

    /// All steps so far.
    const list& steps() const noexcept { return linker_.steps; }
    /// Whether the value is one of this graph. O(copies that led to it).
    bool has(value v) const noexcept {
        if (v.graph_ == id_) return v.at_ < linker_.steps.size();
        for (const auto& [id, size] : before_)
            if (v.graph_ == id) return v.at_ < size;
        return false;
    }
    /// The number of the step that makes the value; of `unused`, the linker's `none`.
    static std::uint16_t step_of(value v) noexcept { return v.at_; }

    /// The value of the step whose number `append(linker)` gives; if it cannot be linked, its steps are taken back.
    /// Errors: `argument_error`, which says `what` could not be linked and why.
    template <class Append>
    value add(std::string_view what, Append append) {
        return all_or_nothing([&] {
            const std::uint16_t at = append(linker_);
            if (at == linker_.none)
                throw argument_error(what, fused::words_of(linker_.fault), "see kernel/fused_program.hpp");
            return value(at, id_);
        });
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

private:
    static std::uint32_t next_id() noexcept {
        static std::atomic<std::uint32_t> last{0};
        return ++last;
    }

    std::uint32_t id_ = next_id();
    std::vector<std::pair<std::uint32_t, std::size_t>>
        before_; ///< graphs that this is a copy of, and their steps then
    fused::linker<list> linker_;
};

/// Whether the gradient of input `input`, as the program `p` of an op states it, reads the op's output `k`.
inline bool gradient_reads_output(const symbol::program_view& p, std::size_t input, std::size_t k) {
    if (p.results[input] == symbol::program_view::none) return false;
    fused::linker<graph_steps::list> probe;
    bool read = false;
    probe.append(p, p, input, [&](symbol::operation role, std::size_t index) {
        read = read || (role == symbol::operation::output && index == k);
        return probe.operand(0);
    });
    return read;
}

} // namespace detail
} // namespace echo::cuda::jit
