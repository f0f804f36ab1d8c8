// SPDX-License-Identifier: BSL-1.0
/// @file
/// Ops that place elements elsewhere (copies), and the one that only looks at them differently (a view). No gradient
/// of theirs reads a feature map.
#pragma once

#include "engine/ops/constants.hpp"
#include "engine/value.hpp"

namespace engine::ops {

struct concat;

/// Cuts along an axis into parts of these sizes; with `squeeze` each has size 1 and the axis goes.
struct split {
    static constexpr std::string_view name = "split";
    std::int64_t axis = 0; ///< counted from 0
    std::vector<std::int64_t> sizes{};
    bool squeeze = false;

    tensors infer(tensor_span in) const {
        expect_inputs(in, 1);
        const std::size_t at = axis_of(in[0].shape, axis);
        std::int64_t total = 0;
        tensors made;
        for (const auto size : sizes) {
            total += size;
            auto part = extents_of(in[0].shape);
            part[at] = size;
            if (squeeze) part.erase(part.begin() + static_cast<std::ptrdiff_t>(at));
            made.push_back({.shape = echo::shape(std::move(part)), .type = in[0].type});
        }
        expect(total == in[0].shape[at], "an extent of " + std::to_string(total) + " along the axis", in[0]);
        return made;
    }
    echo::op_facts facts() const { return light_facts(name); }

    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const;
};

/// Joins along an axis; with `stack` the axis is new.
struct concat {
    static constexpr std::string_view name = "concat";
    std::int64_t axis = 0; ///< counted from 0
    bool stack = false;

    tensors infer(tensor_span in) const {
        if (in.empty()) refuse("inputs", "at least one input", "0");
        auto made = extents_of(in[0].shape);
        const auto at = static_cast<std::size_t>(axis);
        if (at >= made.size() + (stack ? 1 : 0))
            refuse("axis", "an axis of " + to_string(in[0].shape), std::to_string(axis));
        std::int64_t total = 0;
        for (const auto& t : in) {
            expect(t.shape.rank() == in[0].shape.rank() && t.type == in[0].type, to_string(in[0].shape), t);
            for (std::size_t i = 0; i < made.size(); ++i)
                expect((i == at && !stack) || t.shape[i] == made[i],
                       to_string(in[0].shape) + " but along axis " + std::to_string(axis), t);
            total += stack ? 1 : t.shape[at];
        }
        if (stack)
            made.insert(made.begin() + axis, total);
        else
            made[at] = total;
        return {{.shape = echo::shape(std::move(made)), .type = in[0].type}};
    }
    echo::op_facts facts() const { return light_facts(name); }

    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const {
        gradients made(d.x.size());
        if (!d.dy[0]) return made;
        split parts{axis, {}, stack};
        for (const value& v : d.x)
            parts.sizes.push_back(stack ? 1 : g[v].shape[static_cast<std::size_t>(axis)]);
        const value first = g.add(parts, {*d.dy[0]});
        for (std::size_t i = 0; i < made.size(); ++i) made[i] = value{first.producer, i};
        return made;
    }
};

template <class Graph>
gradients split::gradient(Graph& g, const differentiation& d) const {
    std::vector<value> parts;
    for (std::size_t k = 0; k < d.y.size(); ++k)
        parts.push_back(d.dy[k] ? *d.dy[k] : g.add(fill{g[d.y[k]], 0}, {}));
    return {g.add(concat{axis, squeeze}, std::move(parts))};
}

/// Axis i of the result is axis `order[i]` of x.
struct transpose {
    static constexpr std::string_view name = "transpose";
    std::vector<std::int64_t> order{};

    tensors infer(tensor_span in) const {
        expect_inputs(in, 1);
        expect(in[0].shape.rank() == order.size(), std::to_string(order.size()) + " axes", in[0]);
        std::vector<std::int64_t> made;
        for (const auto axis : order) made.push_back(in[0].shape[axis_of(in[0].shape, axis)]);
        return {{.shape = echo::shape(std::move(made)), .type = in[0].type}};
    }
    echo::op_facts facts() const { return light_facts(name); }

    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const {
        if (!d.dy[0]) return gradients(1);
        transpose back{std::vector<std::int64_t>(order.size())};
        for (std::size_t i = 0; i < order.size(); ++i)
            back.order[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
        return {g.add(back, {*d.dy[0]})};
    }
};

/// The same elements in another shape: reshape, flatten, expand_dims. A view.
struct reshape {
    static constexpr std::string_view name = "reshape";
    echo::shape shape{};

    tensors infer(tensor_span in) const {
        expect_inputs(in, 1);
        expect(elements(in[0]) == echo::element_count(shape), "as many elements as " + to_string(shape),
               in[0]);
        return {{.shape = shape, .type = in[0].type}};
    }
    echo::op_facts facts() const { return view_facts(name); }

    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const {
        if (!d.dy[0]) return gradients(1);
        return {g.add(reshape{g[d.x[0]].shape}, {*d.dy[0]})};
    }
};

/// Sums over the repetitions of `tile`.
struct tile_gradient {
    static constexpr std::string_view name = "tile_gradient";
    std::vector<std::int64_t> times{};
    echo::shape shape{}; ///< of x
    tensors infer(tensor_span in) const {
        expect_inputs(in, 1);
        return {f32(shape)};
    }
    echo::op_facts facts() const { return light_facts(name, echo::reads::everything()); }
    double flops(tensor_span in, tensor_span) const { return count(in[0]); }
};

/// x repeated as a whole, `times[i]` times along axis i.
struct tile {
    static constexpr std::string_view name = "tile";
    std::vector<std::int64_t> times{};

    tensors infer(tensor_span in) const {
        expect_inputs(in, 1);
        expect(in[0].shape.rank() == times.size(), std::to_string(times.size()) + " axes", in[0]);
        auto made = extents_of(in[0].shape);
        for (std::size_t i = 0; i < made.size(); ++i) made[i] *= times[i];
        return {f32(echo::shape(std::move(made)))};
    }
    echo::op_facts facts() const { return light_facts(name); }

    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const {
        if (!d.dy[0]) return gradients(1);
        return {g.add(tile_gradient{times, g[d.x[0]].shape}, {*d.dy[0]})};
    }
};

/// One bit per element, whether it is above 0, in whole i32 words: bit i % 32 of word i / 32.
struct encode {
    static constexpr std::string_view name = "echo.encode";
    tensors infer(tensor_span in) const {
        expect_inputs(in, 1);
        return {i32({static_cast<std::int64_t>(echo::encoded_bytes(elements(in[0])) / 4)})};
    }
    echo::op_facts facts() const { return light_facts(name); }
};

} // namespace engine::ops
