// SPDX-License-Identifier: BSL-1.0
/// @file
/// Cross entropy behind a softmax. A label that names no class makes the loss no number.
#pragma once

#include "engine/cuda/kernels/softmax.hpp"
#include "engine/cuda/kernels/sums.hpp"

namespace engine::cuda {

/// How rows count, as kernels take it: the target distribution is `in_class` at the label, `elsewhere` at the others.
struct entropy {
    std::int32_t ignore;
    bool mean;
    double scale, in_class, elsewhere;

    entropy(const ops::cross_entropy& how, std::size_t classes)
        : ignore(how.ignore), mean(how.mean), scale(how.scale), in_class(classes > 1 ? 1 - how.smoothing : 1),
          elsewhere(classes > 1 ? how.smoothing / static_cast<double>(classes - 1) : 0) {}

    /// What a row's loss is multiplied by.
    ECHO_HOST_DEVICE constexpr double weight(double rows) const {
        return mean ? scale / (rows > 1 ? rows : 1) : scale;
    }
};

/// The probabilities of a row, and its loss.
struct entropy_row {
    const float* x;
    const std::int32_t* labels;
    float* p; ///< may be x
    double* losses;
    std::int64_t classes;
    entropy how;

    template <class Warp>
    ECHO_HOST_DEVICE void row(Warp& w, std::int64_t r) const {
        const float* const from = x + r * classes;
        float* const to = p + r * classes;
        const std::int32_t label = labels[r];
        const bool counts = label != how.ignore, known = label >= 0 && label < classes;
        const float most = largest_of_row(w, classes, from);
        // The score of the label is shuffled, so every lane has it before one of them writes there.
        typename Warp::template value<float> read;
        w.lanes([&](int lane) { read[lane] = lane == 0 && known ? from[label] : 0.0f; });
        const float score = w.shuffle(read, [](int) { return 0; })[0];
        double aimed = (how.in_class - how.elsewhere) * static_cast<double>(score);
        if (how.elsewhere > 0)
            aimed += how.elsewhere *
                     sum_of_row(w, classes, [&](std::int64_t i) { return static_cast<double>(from[i]); });
        const double sum = sum_of_row(
            w, classes, [&](std::int64_t i) { return static_cast<double>(exp_below_zero(from[i] - most)); });
        const float factor = static_cast<float>(1 / sum);
        w.lanes([&](int lane) {
            for (std::int64_t i = lane; i < classes; i += warp_lanes)
                to[i] = exp_below_zero(from[i] - most) * factor;
            if (lane != 0) return;
            const double loss = static_cast<double>(most) + std::log(sum) - aimed;
            losses[r] = !counts ? 0 : known ? loss : std::numeric_limits<double>::quiet_NaN();
        });
    }
};

/// Losses of rows, where there are some, and how many rows count.
struct entropy_terms {
    static constexpr int operands = 1, sums = 2;
    const double* losses;
    const std::int32_t* labels;
    std::int32_t ignore;
    ECHO_HOST_DEVICE some_sums<2> terms(std::int64_t, const std::int32_t (&at)[1]) const {
        return {{losses ? losses[at[0]] : 0, labels[at[0]] == ignore ? 0.0 : 1.0}};
    }
};
struct write_loss {
    float* loss;
    entropy how;
    ECHO_HOST_DEVICE void finish(std::int64_t, const some_sums<2>& all) const {
        *loss = static_cast<float>(all.at[0] * how.weight(all.at[1]));
    }
};
struct write_weight {
    double* weight;
    entropy how;
    ECHO_HOST_DEVICE void finish(std::int64_t, const some_sums<2>& all) const {
        *weight = how.weight(all.at[1]);
    }
};

/// All elements of a vector in one sum.
inline sum_layout<1> layout_of_all(std::size_t count) {
    sum_axes<1> axes;
    axes.push(static_cast<std::int64_t>(count), true, {1});
    return axes.made();
}

inline std::uint64_t scratch(const ops::softmax_output&, tensor_span in, tensor_span) {
    const std::size_t rows = elements(in[1]);
    return scratch_bytes<double>(rows) + sum_scratch(layout_of_all(rows), 2);
}

template <class Launcher>
void run(const ops::softmax_output& op, const call& c, Launcher& launcher) {
    const along a(c.inputs[0].shape(), -1);
    const entropy how(op.how, a.extent);
    auto* const losses = scratch_of<double>(c);
    const std::int32_t* const labels = c.inputs[1].i32();
    run_rows(op.name, static_cast<std::int64_t>(a.outer),
             entropy_row{c.inputs[0].f32(), labels, c.outputs[1].f32(), losses,
                         static_cast<std::int64_t>(a.extent), how},
             launcher);
    run_sums(op.name, layout_of_all(a.outer), entropy_terms{losses, labels, how.ignore},
             write_loss{c.outputs[0].f32(), how}, losses + a.outer, launcher);
}

struct entropy_gradient_groups {
    const float* dloss;
    const std::int32_t* labels;
    const double* weight;
    source p;
    sink dx; ///< may be p
    divisor classes;
    entropy how;

    ECHO_HOST_DEVICE float prepare() const {
        return static_cast<float>(static_cast<double>(*dloss) * *weight);
    }

    template <class Warp>
    ECHO_HOST_DEVICE void run(std::int64_t first, int n, float factor) const {
        const auto in_class = static_cast<float>(how.in_class), elsewhere = static_cast<float>(how.elsewhere);
        group v = p.load<Warp>(first, n);
        for (int e = 0; e < group_size; ++e) {
            if (e >= n) break;
            const division at(first + e, classes);
            const std::int32_t label = labels[at.quotient];
            const bool aimed = label == static_cast<std::int64_t>(at.rest);
            v.at[e] = label == how.ignore ? 0.0f : (v.at[e] - (aimed ? in_class : elsewhere)) * factor;
        }
        dx.store<Warp>(first, n, v);
    }
};

inline std::uint64_t scratch(const ops::softmax_output_gradient&, tensor_span in, tensor_span) {
    return scratch_bytes<double>(1) + sum_scratch(layout_of_all(elements(in[1])), 2);
}

template <class Launcher>
void run(const ops::softmax_output_gradient& op, const call& c, Launcher& launcher) {
    const along a(c.inputs[2].shape(), -1);
    const entropy how(op.how, a.extent);
    auto* const weight = scratch_of<double>(c);
    const std::int32_t* const labels = c.inputs[1].i32();
    run_sums(op.name, layout_of_all(a.outer), entropy_terms{nullptr, labels, how.ignore},
             write_weight{weight, how}, weight + 1, launcher);
    run_groups(op.name, c.outputs[0].size(),
               entropy_gradient_groups{c.inputs[0].f32(), labels, weight, source(c.inputs[2]),
                                       sink(c.outputs[0]), divisor(a.extent), how},
               launcher);
}

} // namespace engine::cuda
