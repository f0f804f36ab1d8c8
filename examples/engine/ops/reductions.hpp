// SPDX-License-Identifier: BSL-1.0
/// @file
/// Sums and means over axes, and the repetition that is their gradient.
#pragma once

#include "engine/value.hpp"

#include <algorithm>

namespace engine::ops {

/// Repeats x along axes and multiplies by `factor`. `x` has an extent of 1 there, or (`kept` false) no such axis.
struct repeat {
    static constexpr std::string_view name = "repeat";
    echo::shape shape{};
    std::vector<std::int64_t> axes{}; ///< of `shape`, ascending, counted from 0
    bool kept = false;
    double factor = 1;

    tensors infer(tensor_span in) const {
        expect_inputs(in, 1);
        std::vector<std::int64_t> from;
        for (std::size_t i = 0; i < shape.rank(); ++i)
            if (std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) == axes.end())
                from.push_back(shape[i]);
            else if (kept)
                from.push_back(1);
        expect(elements(in[0]) == echo::element_count(echo::shape(from)), to_string(echo::shape(from)),
               in[0]);
        return {f32(shape)};
    }
    echo::op_facts facts() const { return light_facts(name, echo::reads::everything()); }
    double flops(tensor_span, tensor_span out) const { return factor == 1 ? 0 : count(out[0]); }
};

/// Sum or mean over axes, ascending and counted from 0. The gradient reads nothing.
struct reduce {
    static constexpr std::string_view name = "reduce";
    enum kind { sum, mean };
    kind how = sum;
    std::vector<std::int64_t> axes{};
    bool keep = false; ///< reduced axes stay with an extent of 1

    tensors infer(tensor_span in) const {
        expect_inputs(in, 1);
        expect_type(in[0], echo::dtype::f32);
        std::vector<std::int64_t> made;
        for (const auto axis : axes) axis_of(in[0].shape, axis);
        for (std::size_t i = 0; i < in[0].shape.rank(); ++i)
            if (std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) == axes.end())
                made.push_back(in[0].shape[i]);
            else if (keep)
                made.push_back(1);
        if (made.empty()) made.push_back(1);
        return {f32(echo::shape(std::move(made)))};
    }
    echo::op_facts facts() const { return light_facts(name); }
    double flops(tensor_span in, tensor_span) const { return count(in[0]); }

    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const {
        gradients made(1);
        if (!d.dy[0]) return made;
        const auto& x = g[d.x[0]];
        const double factor = how == mean ? count(g[d.y[0]]) / count(x) : 1;
        made[0] = g.add(repeat{x.shape, axes, keep, factor}, {*d.dy[0]});
        return made;
    }
};

/// Non-zero elements of an i32 tensor along the last axis: [.., n] → i32 [..]. Lengths of padded sequences.
struct count_nonzero {
    static constexpr std::string_view name = "count_nonzero";
    tensors infer(tensor_span in) const {
        expect_inputs(in, 1);
        expect_type(in[0], echo::dtype::i32);
        expect(in[0].shape.rank() >= 2, "at least two axes", in[0]);
        auto made = extents_of(in[0].shape);
        made.pop_back();
        return {i32(echo::shape(std::move(made)))};
    }
    echo::op_facts facts() const { return light_facts(name); }
};

/// The sum of two or more tensors of one shape: several gradients of one value.
struct add_n {
    static constexpr std::string_view name = "add_n";
    tensors infer(tensor_span in) const {
        if (in.empty()) refuse("inputs", "at least one input", "0");
        for (const auto& t : in) expect(t.shape == in[0].shape, to_string(in[0].shape), t);
        return {f32(in[0].shape)};
    }
    echo::op_facts facts() const {
        auto f = light_facts(name, echo::reads::everything());
        f.inplace = {{0, 0}};
        return f;
    }
    double flops(tensor_span in, tensor_span) const {
        return count(in[0]) * static_cast<double>(in.size() - 1);
    }
};

} // namespace engine::ops
