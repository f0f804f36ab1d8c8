// SPDX-License-Identifier: BSL-1.0
/// @file
/// `check_gradient_reads`: whether the table of what gradients read is right, asked of the engine itself. For engines
/// whose gradients are closures: no node shows what they read, and Echo knows `op_facts::gradient_reads` alone.
#pragma once

#include <echo/graph/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace echo {

/// How an engine lets its values be spoilt, behind a forward pass whose values are all still there.
template <class G>
struct gradient_probe {
    using node = node_of<G>;      ///< A node of the engine.
    using value = value_of<node>; ///< A value of the engine.
    /// Runs the gradient of a forward node on the values that are there and gives all bytes that it makes. Gradients of
    /// the outputs must be the same in each call, and not zero.
    std::function<std::vector<std::byte>(const node&)> gradient;
    /// The bytes of a value; none where it has no memory.
    std::function<std::vector<std::byte>(const value&)> load;
    /// Writes the bytes of a value, as many as `load` gave.
    std::function<void(const value&, std::span<const std::byte>)> store;
};

/// A node whose gradient reads other values than its facts say.
template <class G>
struct wrong_gradient_reads {
    node_of<G> node{}; ///< The forward node.
    std::string name;  ///< What its facts call the op.
    reads missing{};   ///< Read, and not in the facts: a plan would free or overwrite it too early.
    reads unneeded{};  ///< In the facts, and never seen to matter: it may be kept for nothing.
};

namespace detail {

/// Other bytes of the same type: not a number where it is floating point, so that whoever reads it shows. Integers may
/// be indices, and stay among those that are there: their order is reversed, else all are 0. Empty: nothing differs.
inline std::vector<std::byte> spoilt(std::span<const std::byte> bytes, dtype type) {
    std::vector<std::byte> other(bytes.size(), std::byte{0xff});
    const auto differs = [&] { return !std::equal(bytes.begin(), bytes.end(), other.begin()); };
    if (is_floating(type)) return differs() ? other : std::vector<std::byte>{};
    const std::size_t size = size_of(type), last = bytes.size() / size * size;
    std::copy(bytes.begin(), bytes.end(), other.begin());
    for (std::size_t at = 0; at < last; at += size)
        std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), size,
                    other.begin() + static_cast<std::ptrdiff_t>(last - at - size));
    if (!differs()) std::fill(other.begin(), other.end(), std::byte{0});
    return differs() ? other : std::vector<std::byte>{};
}

/// Spoils what the gradient of one node may read, value by value.
template <checked_host_graph G>
class gradient_reads_check {
    using traits = graph_traits<G>;
    using value = value_of<node_of<G>>;
    struct operand {
        value what;
        dtype type = dtype::other;
        bool is_output = false;
        std::size_t position = 0;
        bool stated = false;
    };

public:
    gradient_reads_check(const G& g, const gradient_probe<G>& probe) : graph_(g), probe_(probe) {}

    [[nodiscard]] wrong_gradient_reads<G> operator()(const node_of<G>& n) const {
        const op_facts facts = traits::facts(graph_, n);
        wrong_gradient_reads<G> wrong{n, std::string(std::string_view(facts.name)), {}, {}};
        const std::vector<operand> all = operands(n, facts.gradient_reads);
        const std::vector<std::byte> right = probe_.gradient(n);
        if (right.empty()) return wrong; // no gradient flows through it
        if (probe_.gradient(n) != right)
            throw error(wrong.name, "gradient", "makes other bytes when it runs again on the same values",
                        "give it the same gradients and seeds, and let it overwrite what it makes");
        for (const operand& each : all) {
            const std::vector<std::byte> bytes = probe_.load(each.what);
            const std::vector<std::byte> other = spoilt(bytes, each.type);
            if (other.empty()) continue;
            const std::vector<std::vector<std::byte>> stated = values_stated(all, each);
            probe_.store(each.what, other);
            // A stated value on the same memory changes with it; then this one counts as stated.
            const bool shares = stated != values_stated(all, each);
            const bool matters = probe_.gradient(n) != right;
            probe_.store(each.what, bytes);
            if (matters == each.stated || shares) continue;
            reads& where = matters ? wrong.missing : wrong.unneeded;
            (each.is_output ? where.outputs : where.inputs).insert(each.position);
        }
        return wrong;
    }

private:
    std::vector<operand> operands(const node_of<G>& n, const reads& stated) const {
        std::vector<operand> all;
        for (auto&& v : traits::inputs(graph_, n)) {
            std::size_t k = 0;
            operand one{v, dtype::other, false, all.size(), stated.inputs.contains(all.size())};
            for (auto&& t : traits::outputs(graph_, one.what.producer))
                if (k++ == one.what.output) one.type = tensor(t).type;
            all.push_back(one);
        }
        std::size_t k = 0;
        for (auto&& t : traits::outputs(graph_, n)) {
            all.push_back({value{n, k}, tensor(t).type, true, k, stated.outputs.contains(k)});
            ++k;
        }
        return all;
    }
    /// The bytes of what the facts name, but for `each`.
    std::vector<std::vector<std::byte>> values_stated(const std::vector<operand>& all,
                                                      const operand& each) const {
        std::vector<std::vector<std::byte>> bytes;
        for (const operand& one : all)
            if (one.stated && &one != &each) bytes.push_back(probe_.load(one.what));
        return bytes;
    }

    const G& graph_;
    const gradient_probe<G>& probe_;
};

} // namespace detail

/// Runs the gradient of each forward node again with one input or output of the node spoilt at a time, and gives the
/// nodes whose facts differ from what was seen. Every value is put back. A value whose elements are all zero integers
/// is not asked about. Ask on random data: a gradient may ignore a value by chance, as that of ReLU does where nothing
/// is positive. Errors: a gradient that makes other bytes each time; those of the engine's functions. One gradient per
/// input and output of each forward node: O(inputs + outputs) runs of the engine.
template <detail::checked_host_graph G>
[[nodiscard]] std::vector<wrong_gradient_reads<G>> check_gradient_reads(const G& g,
                                                                        const gradient_probe<G>& probe) {
    const detail::gradient_reads_check<G> check(g, probe);
    std::vector<wrong_gradient_reads<G>> wrong;
    for (auto&& n : graph_traits<G>::nodes(g)) {
        if (graph_traits<G>::phase(g, n) != phase::forward) continue;
        wrong_gradient_reads<G> found = check(n);
        if (found.missing != reads{} || found.unneeded != reads{}) wrong.push_back(std::move(found));
    }
    return wrong;
}

} // namespace echo
