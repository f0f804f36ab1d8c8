// SPDX-License-Identifier: BSL-1.0
/// @file
/// Connectionist temporal classification: forward-backward over the labels with blanks between them (Graves et al.,
/// 2006, §4), in logarithms and in double, one thread per sequence.
#include "engine/cpu/doubles.hpp"
#include "engine/cpu/heavy_kernels.hpp"
#include "engine/cpu/rows.hpp"

#include <cstdlib>

namespace engine::cpu {
namespace {

constexpr double never = -std::numeric_limits<double>::infinity();

double log_sum(double a, double b) {
    const double most = std::max(a, b);
    return most == never ? never : most + std::log1p(std::exp(-std::abs(a - b)));
}
double log_sum(double a, double b, double c) {
    const double most = std::max({a, b, c});
    return most == never ? never
                         : most + std::log(std::exp(a - most) + std::exp(b - most) + std::exp(c - most));
}

struct extents {
    std::size_t steps, batch, classes, longest;
    extents(const echo::shape& scores, const echo::shape& labels)
        : steps(static_cast<std::size_t>(scores[0])), batch(static_cast<std::size_t>(scores[1])),
          classes(static_cast<std::size_t>(scores[2])), longest(static_cast<std::size_t>(labels[1])) {}
    std::size_t rows() const { return steps * batch; }
    /// Labels with a blank in front of each and behind the last.
    std::size_t states() const { return 2 * longest + 1; }
};

/// Labels in front of the one that ends the row. Errors: a label that names no class.
std::vector<std::size_t> label_counts(const input_view& labels, const extents& e) {
    std::vector<std::size_t> counts(e.batch);
    for (std::size_t b = 0; b < e.batch; ++b)
        for (; counts[b] < e.longest; ++counts[b]) {
            const std::int32_t label = labels.i32()[b * e.longest + counts[b]];
            if (label <= 0) break;
            if (static_cast<std::size_t>(label) >= e.classes)
                throw echo::error({}, "label",
                                  "sequence " + std::to_string(b) + " has label " + std::to_string(label) +
                                      " of " + std::to_string(e.classes) + " classes",
                                  "give labels from 1; 0 is the blank");
        }
    return counts;
}

/// The logarithm of each row's sum of exponentials; the probabilities where `to` is given.
void normalise(const float* x, float* to, double* log_sums, const extents& e, context& on) {
    on.parallel(e.rows(), row_grain(e.classes), [&](std::size_t first, std::size_t last) {
        for (std::size_t r = first; r < last; ++r) {
            const float* row = x + r * e.classes;
            float* out = to ? to + r * e.classes : nullptr;
            const float max = largest(row, e.classes);
            const double sum = exp_row(row, max, out, e.classes);
            if (to) scale_row(out, 1 / sum, e.classes);
            log_sums[r] = static_cast<double>(max) + std::log(sum);
        }
    });
}

/// One sequence: its states are blank, label, blank, .., label, blank.
struct lattice {
    const extents& e;
    const float* scores;
    const double* log_sums;
    const std::int32_t* labels;
    std::size_t b, count;

    std::size_t states() const { return 2 * count + 1; }
    std::size_t class_of(std::size_t s) const {
        return s % 2 ? static_cast<std::size_t>(labels[b * e.longest + s / 2]) : 0;
    }
    /// Whether state s can follow s - 2: a label unlike the one before it.
    bool skips(std::size_t s) const { return s % 2 && s >= 3 && class_of(s) != class_of(s - 2); }
    double log_probability(std::size_t t, std::size_t s) const {
        const std::size_t row = t * e.batch + b;
        return static_cast<double>(scores[row * e.classes + class_of(s)]) - log_sums[row];
    }
    /// States at step t from which the end can be reached, and that can be reached: [first, last).
    std::size_t first(std::size_t t) const {
        const std::size_t rest = 2 * (e.steps - t);
        return states() > rest ? states() - rest : 0;
    }
    std::size_t last(std::size_t t) const { return std::min(states(), 2 * (t + 1)); }
    /// Equal neighbours need a blank between them.
    bool possible() const {
        std::size_t needed = count;
        for (std::size_t s = 3; s < states(); s += 2) needed += !skips(s);
        return needed <= e.steps;
    }

    /// The probability of all beginnings that are in state s at step t, from that of the step before.
    void forward(std::size_t t, const double* before, double* now) const {
        for (std::size_t s = last(t); s-- > first(t);) { // downwards: `now` may be `before`
            double sum;
            if (t == 0)
                sum = 0;
            else if (s == 0)
                sum = before[0];
            else
                sum = skips(s) ? log_sum(before[s], before[s - 1], before[s - 2])
                               : log_sum(before[s], before[s - 1]);
            now[s] = sum + log_probability(t, s);
        }
    }
    double log_likelihood(const double* at_end) const {
        if (e.steps == 0) return 0;
        return count ? log_sum(at_end[states() - 1], at_end[states() - 2]) : at_end[0];
    }
    /// The probability of all ends behind state s at step t, from that of the step behind.
    void backward(std::size_t t, double* ends) const {
        const std::size_t n = states();
        if (t + 1 == e.steps) {
            for (std::size_t s = first(t); s < n; ++s) ends[s] = 0;
            return;
        }
        for (std::size_t s = first(t + 1); s < last(t + 1); ++s) ends[s] += log_probability(t + 1, s);
        for (std::size_t s = first(t); s < last(t); ++s) {
            const double next = s + 1 < n ? ends[s + 1] : never;
            ends[s] =
                s + 2 < n && skips(s + 2) ? log_sum(ends[s], next, ends[s + 2]) : log_sum(ends[s], next);
        }
    }
};

// Scratch, in doubles: log_sums [steps, batch]; then per sequence
//   loss:      states, the loss
//   gradient:  states × steps, states, classes
std::size_t loss_part(const extents& e) { return e.states() + 1; }
std::size_t gradient_part(const extents& e) { return e.states() * (e.steps + 1) + e.classes; }

} // namespace

std::uint64_t scratch(const ops::ctc_loss&, tensor_span in, tensor_span, context&) {
    const extents e(in[0].shape, in[1].shape);
    return bytes_of_doubles(e.rows() + e.batch * loss_part(e));
}
std::uint64_t scratch(const ops::ctc_loss_gradient&, tensor_span in, tensor_span, context&) {
    const extents e(in[1].shape, in[2].shape);
    return bytes_of_doubles(e.rows() + e.batch * gradient_part(e));
}

void run(const ops::ctc_loss& op, const call& c, context& on) {
    const extents e(c.inputs[0].shape(), c.inputs[1].shape());
    const auto counts = label_counts(c.inputs[1], e);
    auto* log_sums = doubles(c);
    double* losses = log_sums + e.rows();
    double* beginnings = losses + e.batch;
    normalise(c.inputs[0].f32(), nullptr, log_sums, e, on);
    on.parallel(e.batch, 1, [&](std::size_t from, std::size_t to) {
        for (std::size_t b = from; b < to; ++b) {
            const lattice l{e, c.inputs[0].f32(), log_sums, c.inputs[1].i32(), b, counts[b]};
            losses[b] = 0;
            if (!l.possible()) continue;
            double* now = beginnings + b * e.states();
            std::fill_n(now, e.states(), never);
            for (std::size_t t = 0; t < e.steps; ++t) l.forward(t, now, now);
            losses[b] = -l.log_likelihood(now);
        }
    });
    double loss = 0;
    for (std::size_t b = 0; b < e.batch; ++b) loss += losses[b];
    c.outputs[0].f32()[0] = static_cast<float>(loss * op.scale / static_cast<double>(e.batch));
}

void run(const ops::ctc_loss_gradient& op, const call& c, context& on) {
    const extents e(c.inputs[1].shape(), c.inputs[2].shape());
    const auto counts = label_counts(c.inputs[2], e);
    auto* log_sums = doubles(c);
    float* dx = c.outputs[0].f32();
    const double f = static_cast<double>(c.inputs[0].f32()[0]) * op.scale / static_cast<double>(e.batch);
    normalise(c.inputs[1].f32(), dx, log_sums, e, on);
    on.parallel(e.batch, 1, [&](std::size_t from, std::size_t to) {
        for (std::size_t b = from; b < to; ++b) {
            const lattice l{e, c.inputs[1].f32(), log_sums, c.inputs[2].i32(), b, counts[b]};
            if (!l.possible()) {
                for (std::size_t t = 0; t < e.steps; ++t)
                    std::fill_n(dx + (t * e.batch + b) * e.classes, e.classes, 0.0f);
                continue;
            }
            double* beginnings = log_sums + e.rows() + b * gradient_part(e);
            double* ends = beginnings + e.states() * e.steps;
            double* share = ends + e.states(); // of each class, in all alignments
            std::fill_n(beginnings, e.states() * (e.steps + 1), never);
            std::fill_n(share, e.classes, 0.0);
            for (std::size_t t = 0; t < e.steps; ++t)
                l.forward(t, t ? beginnings + (t - 1) * e.states() : nullptr, beginnings + t * e.states());
            const double all = l.log_likelihood(beginnings + (e.steps - 1) * e.states());
            for (std::size_t t = e.steps; t-- > 0;) {
                l.backward(t, ends);
                for (std::size_t s = l.first(t); s < l.last(t); ++s)
                    share[l.class_of(s)] += std::exp(beginnings[t * e.states() + s] + ends[s] - all);
                float* row = dx + (t * e.batch + b) * e.classes;
                for (std::size_t k = 0; k < e.classes; ++k) {
                    row[k] = static_cast<float>(f * (static_cast<double>(row[k]) - share[k]));
                    share[k] = 0;
                }
            }
        }
    });
}

} // namespace engine::cpu
