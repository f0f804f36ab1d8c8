// SPDX-License-Identifier: BSL-1.0
/// @file
/// Losses: cross entropy behind a softmax, and connectionist temporal classification.
#pragma once

#include "engine/value.hpp"

namespace engine::ops {

/// How rows count in a cross entropy.
struct cross_entropy {
    std::int32_t ignore = -1; ///< rows with this label count for nothing
    double smoothing = 0;     ///< of the label: 1 − smoothing on it, the rest spread over the other classes
    bool mean = true;         ///< divided by the rows that count
    double scale = 1;         ///< of loss and gradient
    bool over_output = true;  ///< the gradient may take over the probabilities' storage
};

/// dloss [1], labels, probabilities → gradient of the scores.
struct softmax_output_gradient {
    static constexpr std::string_view name = "softmax_output_gradient";
    cross_entropy how{};
    tensors infer(tensor_span in) const {
        expect_inputs(in, 3);
        return {f32(in[2].shape)};
    }
    echo::op_facts facts() const {
        auto f = light_facts(name, echo::reads::everything());
        if (how.over_output) f.inplace = {{0, 2}};
        return f;
    }
    double flops(tensor_span, tensor_span out) const { return 2 * count(out[0]); }
};

/// Scores [.., classes], i32 labels [..] → loss [1] and probabilities [.., classes]. The gradient reads labels and
/// probabilities.
struct softmax_output {
    static constexpr std::string_view name = "softmax_output";
    cross_entropy how{};

    tensors infer(tensor_span in) const {
        expect_inputs(in, 2);
        expect_type(in[0], echo::dtype::f32);
        expect_type(in[1], echo::dtype::i32);
        auto rows = extents_of(in[0].shape);
        if (rows.empty()) refuse("shape", "scores [.., classes]", to_string(in[0].shape));
        rows.pop_back();
        expect(in[1].shape == echo::shape(rows), "labels " + to_string(echo::shape(rows)), in[1]);
        return {f32({1}), f32(in[0].shape)};
    }
    echo::op_facts facts() const {
        auto f = light_facts(name, {.inputs = {1}, .outputs = {1}});
        f.inplace = {{1, 0}};
        return f;
    }
    double flops(tensor_span in, tensor_span) const { return 5 * count(in[0]); }

    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const {
        gradients made(2);
        if (d.dy[0]) made[0] = g.add(softmax_output_gradient{how}, {*d.dy[0], d.x[1], d.y[1]});
        return made;
    }
};

/// dloss [1], scores, labels → gradient of the scores.
struct ctc_loss_gradient {
    static constexpr std::string_view name = "ctc_loss_gradient";
    double scale = 1;
    tensors infer(tensor_span in) const {
        expect_inputs(in, 3);
        return {f32(in[1].shape)};
    }
    echo::op_facts facts() const { return light_facts(name, echo::reads::everything()); }
    double flops(tensor_span, tensor_span out) const { return 10 * count(out[0]); }
};

/// Scores [steps, batch, classes] before the softmax, i32 labels [batch, longest] → loss [1], the mean over the
/// batch times `scale`. Class 0 is the blank; labels that are 0 or less end a row. The gradient reads scores and
/// labels. Graves et al., 2006.
struct ctc_loss {
    static constexpr std::string_view name = "ctc_loss";
    double scale = 1;

    tensors infer(tensor_span in) const {
        expect_inputs(in, 2);
        expect_type(in[1], echo::dtype::i32);
        expect(in[0].shape.rank() == 3, "scores [steps, batch, classes]", in[0]);
        expect(in[1].shape.rank() == 2 && in[1].shape[0] == in[0].shape[1],
               "labels [" + std::to_string(in[0].shape[1]) + ", longest]", in[1]);
        return {f32({1})};
    }
    echo::op_facts facts() const { return light_facts(name, {.inputs = {0, 1}}); }
    double flops(tensor_span in, tensor_span) const { return 10 * count(in[0]); }

    template <class Graph>
    gradients gradient(Graph& g, const differentiation& d) const {
        gradients made(2);
        if (d.dy[0]) made[0] = g.add(ctc_loss_gradient{scale}, {*d.dy[0], d.x[0], d.x[1]});
        return made;
    }
};

} // namespace engine::ops
