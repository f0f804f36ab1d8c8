// SPDX-License-Identifier: BSL-1.0
/// @file
/// Connectionist temporal classification: forward-backward over the labels with blanks between them (Graves et al.,
/// 2006, §4), in logarithms and in double. A warp for each sequence, a state for each lane; what all alignments have of
/// each class is summed afterwards, a warp for each step. A row that no alignment of its steps can spell counts 0; a
/// label that names no class makes the loss no number.
#pragma once

#include "engine/cuda/kernels/loss.hpp"

namespace engine::cuda {

struct ctc_extents {
    std::int32_t steps, batch, classes, longest;
    ctc_extents(const echo::shape& scores, const echo::shape& labels)
        : steps(static_cast<std::int32_t>(scores[0])), batch(static_cast<std::int32_t>(scores[1])),
          classes(static_cast<std::int32_t>(scores[2])), longest(static_cast<std::int32_t>(labels[1])) {}
    ECHO_HOST_DEVICE constexpr std::int64_t rows() const { return std::int64_t{steps} * batch; }
    /// Labels with a blank in front of each and behind the last.
    ECHO_HOST_DEVICE constexpr std::int32_t states() const { return 2 * longest + 1; }
};

ECHO_HOST_DEVICE constexpr double never() { return -std::numeric_limits<double>::infinity(); }

ECHO_HOST_DEVICE inline double log_sum(double a, double b, double c = never()) {
    const double more = a > b ? a : b, less = a > b ? b : a;
    const double most = more > c ? more : c, middle = more > c ? c : more;
    if (most == never()) return most;
    return most + std::log(1 + (std::exp(middle - most) + std::exp(less - most)));
}

/// One sequence: its states are blank, label, blank, .., label, blank.
struct ctc_sequence {
    const ctc_extents& e;
    const float* scores;
    const double* log_sums;
    const std::int32_t* labels; ///< of this sequence
    std::int32_t b, count;

    ECHO_HOST_DEVICE std::int32_t states() const { return 2 * count + 1; }
    ECHO_HOST_DEVICE std::int32_t class_of(std::int32_t s) const {
        const std::int32_t label = s % 2 ? labels[s / 2] : 0;
        return label < e.classes ? label : 0;
    }
    /// Whether state s can follow s - 2: a label unlike the one before it.
    ECHO_HOST_DEVICE bool skips(std::int32_t s) const {
        return s % 2 && s >= 3 && class_of(s) != class_of(s - 2);
    }
    ECHO_HOST_DEVICE double log_probability(std::int32_t t, std::int32_t s) const {
        const std::int32_t row = t * e.batch + b;
        return static_cast<double>(scores[row * e.classes + class_of(s)]) - log_sums[row];
    }
    /// States at step t from which the end can be reached, and that can be reached: [first, last).
    ECHO_HOST_DEVICE std::int32_t first(std::int32_t t) const {
        const std::int32_t rest = 2 * (e.steps - t);
        return states() > rest ? states() - rest : 0;
    }
    ECHO_HOST_DEVICE std::int32_t last(std::int32_t t) const {
        const std::int32_t reached = 2 * (t + 1);
        return states() < reached ? states() : reached;
    }
    /// Element s of a row of step t.
    ECHO_HOST_DEVICE double read(const double* row, std::int32_t t, std::int32_t s) const {
        return s >= first(t) && s < last(t) ? row[s] : never();
    }

    /// The probability of all beginnings that are in state s at step t, from the row of the step before.
    ECHO_HOST_DEVICE double beginning(std::int32_t t, std::int32_t s, const double* before) const {
        if (t == 0) return log_probability(t, s);
        const double stays = read(before, t - 1, s), next = s > 0 ? read(before, t - 1, s - 1) : never();
        return log_sum(stays, next, skips(s) ? read(before, t - 1, s - 2) : never()) + log_probability(t, s);
    }
    /// That of all ends behind state s at step t, from the row of the step behind, which has its own step in it.
    ECHO_HOST_DEVICE double ending(std::int32_t t, std::int32_t s, const double* behind) const {
        if (t + 1 == e.steps) return 0;
        const std::int32_t n = states();
        const double stays = read(behind, t + 1, s), next = s + 1 < n ? read(behind, t + 1, s + 1) : never();
        return log_sum(stays, next, s + 2 < n && skips(s + 2) ? read(behind, t + 1, s + 2) : never());
    }
    ECHO_HOST_DEVICE double log_likelihood(const double* at_end) const {
        if (e.steps == 0) return 0;
        const std::int32_t t = e.steps - 1, n = states();
        return count ? log_sum(read(at_end, t, n - 1), read(at_end, t, n - 2)) : read(at_end, t, 0);
    }
};

/// What both kernels begin with.
struct ctc_input {
    ctc_extents e;
    const float* scores;
    const std::int32_t* labels;
    double* log_sums; ///< [steps, batch]

    /// Labels in front of the first that is 0 or less.
    template <class Warp>
    ECHO_HOST_DEVICE std::int32_t labels_of(Warp& w, std::int32_t b) const {
        const std::int32_t* const own = labels + b * e.longest;
        std::int32_t count = 0;
        for (std::int32_t i = 0; i < e.longest; i += warp_lanes) {
            const std::uint32_t there =
                w.ballot([&](int lane) { return i + lane < e.longest && own[i + lane] > 0; });
            for (std::uint32_t rest = there; rest & 1u; rest >>= 1) ++count;
            if (there != ~0u) break;
        }
        return count;
    }
    template <class Warp>
    ECHO_HOST_DEVICE ctc_sequence sequence(Warp& w, std::int32_t b) const {
        return {e, scores, log_sums, labels + b * e.longest, b, labels_of(w, b)};
    }
    /// Equal neighbours need a blank between them.
    template <class Warp>
    ECHO_HOST_DEVICE static bool possible(Warp& w, const ctc_sequence& q) {
        const double equal = sum_of_row(
            w, q.count - 1, [&](std::int64_t i) { return q.labels[i] == q.labels[i + 1] ? 1.0 : 0.0; });
        return q.count + static_cast<std::int32_t>(equal) <= q.e.steps;
    }
};

/// The logarithm of each row's sum of exponentials; the probabilities where `p` is given.
struct ctc_normalise {
    const float* x;
    float* p;
    double* log_sums;
    std::int64_t classes;

    template <class Warp>
    ECHO_HOST_DEVICE void row(Warp& w, std::int64_t r) const {
        const float* const from = x + r * classes;
        const float most = largest_of_row(w, classes, from);
        const double sum = sum_of_row(
            w, classes, [&](std::int64_t i) { return static_cast<double>(exp_below_zero(from[i] - most)); });
        const float factor = static_cast<float>(1 / sum);
        w.lanes([&](int lane) {
            if (p)
                for (std::int64_t i = lane; i < classes; i += warp_lanes)
                    p[r * classes + i] = exp_below_zero(from[i] - most) * factor;
            if (lane == 0) log_sums[r] = static_cast<double>(most) + std::log(sum);
        });
    }
};

struct ctc_loss_row {
    ctc_input in;
    double* losses; ///< [batch]
    double* lines;  ///< [batch, 2, states]

    template <class Warp>
    ECHO_HOST_DEVICE void row(Warp& w, std::int64_t r) const {
        const auto b = static_cast<std::int32_t>(r);
        const ctc_sequence q = in.sequence(w, b);
        const bool can = in.possible(w, q);
        bool bad = false;
        for (std::int32_t i = 0; i < q.count; i += warp_lanes)
            bad = bad || w.ballot([&](int lane) {
                return i + lane < q.count && q.labels[i + lane] >= in.e.classes;
            });
        double* const own = lines + r * 2 * in.e.states();
        const auto line = [&](std::int32_t t) { return own + (t & 1) * in.e.states(); };
        for (std::int32_t t = 0; can && t < in.e.steps; ++t) {
            w.lanes([&](int lane) {
                for (std::int32_t s = q.first(t) + lane; s < q.last(t); s += warp_lanes)
                    line(t)[s] = q.beginning(t, s, line(t + 1));
            });
            meet(w);
        }
        w.lanes([&](int lane) {
            if (lane != 0) return;
            const double loss = can ? -q.log_likelihood(line(in.e.steps + 1)) : 0;
            losses[b] = bad ? std::numeric_limits<double>::quiet_NaN() : loss;
        });
    }
};

struct plain_doubles {
    static constexpr int operands = 1, sums = 1;
    const double* x;
    ECHO_HOST_DEVICE some_sums<1> terms(std::int64_t, const std::int32_t (&at)[1]) const {
        return {{x[at[0]]}};
    }
};

inline std::uint64_t scratch(const ops::ctc_loss&, tensor_span in, tensor_span) {
    const ctc_extents e(in[0].shape, in[1].shape);
    return scratch_bytes<double>(
               static_cast<std::uint64_t>(e.rows() + e.batch * (std::int64_t{2} * e.states() + 1))) +
           sum_scratch(layout_of_all(static_cast<std::size_t>(e.batch)), 1);
}

template <class Launcher>
void run(const ops::ctc_loss& op, const call& c, Launcher& launcher) {
    const ctc_extents e(c.inputs[0].shape(), c.inputs[1].shape());
    auto* const log_sums = scratch_of<double>(c);
    double *const losses = log_sums + e.rows(), *const lines = losses + e.batch;
    const ctc_input in{e, c.inputs[0].f32(), c.inputs[1].i32(), log_sums};
    run_rows(op.name, e.rows(), ctc_normalise{in.scores, nullptr, log_sums, e.classes}, launcher);
    run_rows(op.name, e.batch, ctc_loss_row{in, losses, lines}, launcher);
    run_sums(op.name, layout_of_all(static_cast<std::size_t>(e.batch)), plain_doubles{losses},
             write_sum{c.outputs[0].f32(), op.scale / static_cast<double>(e.batch)},
             lines + std::int64_t{2} * e.batch * e.states(), launcher);
}

/// Fills `shares` with what all alignments of a sequence have of each state at each step.
struct ctc_share_row {
    ctc_input in;
    double* possible; ///< [batch]
    double* lines;    ///< [batch, 2, states]
    double* shares;   ///< [batch, steps, states]

    template <class Warp>
    ECHO_HOST_DEVICE void row(Warp& w, std::int64_t r) const {
        const auto b = static_cast<std::int32_t>(r);
        const ctc_sequence q = in.sequence(w, b);
        const bool can = in.possible(w, q);
        w.lanes([&](int lane) {
            if (lane == 0) possible[b] = can ? 1 : 0;
        });
        if (!can) return;
        const std::int32_t states = in.e.states();
        double *const own = lines + r * 2 * states, *const all = shares + r * in.e.steps * states;
        const auto line = [&](std::int32_t t) { return own + (t & 1) * states; };
        for (std::int32_t t = 0; t < in.e.steps; ++t) {
            w.lanes([&](int lane) {
                for (std::int32_t s = q.first(t) + lane; s < q.last(t); s += warp_lanes)
                    all[std::int64_t{t} * states + s] =
                        q.beginning(t, s, t ? all + std::int64_t{t - 1} * states : all);
            });
            meet(w);
        }
        const double likelihood =
            q.log_likelihood(in.e.steps ? all + std::int64_t{in.e.steps - 1} * states : all);
        for (std::int32_t t = in.e.steps; t-- > 0;) {
            meet(w); // all have read what is overwritten now
            w.lanes([&](int lane) {
                for (std::int32_t s = q.first(t) + lane; s < q.last(t); s += warp_lanes) {
                    const double end = q.ending(t, s, line(t + 1));
                    line(t)[s] = end + q.log_probability(t, s);
                    all[std::int64_t{t} * states + s] =
                        std::exp(all[std::int64_t{t} * states + s] + end - likelihood);
                }
            });
        }
    }
};

struct ctc_gradient_row {
    ctc_input in;
    const double *possible, *shares;
    const float* dloss;
    double scale;
    float* dx; ///< holds the probabilities

    template <class Warp>
    ECHO_HOST_DEVICE void row(Warp& w, std::int64_t r) const {
        const auto t = static_cast<std::int32_t>(r) / in.e.batch,
                   b = static_cast<std::int32_t>(r) - t * in.e.batch;
        const ctc_sequence q = in.sequence(w, b);
        const bool can = possible[b] > 0;
        const double f = static_cast<double>(*dloss) * scale;
        const double* const all = shares + (std::int64_t{b} * in.e.steps + t) * in.e.states();
        w.lanes([&](int lane) {
            for (std::int32_t k = lane; k < in.e.classes; k += warp_lanes) {
                double share = 0;
                if (can)
                    for (std::int32_t s = q.first(t); s < q.last(t); ++s)
                        if (q.class_of(s) == k) share += all[s];
                float& to = dx[r * in.e.classes + k];
                to = can ? static_cast<float>(f * (static_cast<double>(to) - share)) : 0.0f;
            }
        });
    }
};

inline std::uint64_t scratch(const ops::ctc_loss_gradient&, tensor_span in, tensor_span) {
    const ctc_extents e(in[1].shape, in[2].shape);
    return scratch_bytes<double>(
        static_cast<std::uint64_t>(e.rows() + e.batch * (1 + (std::int64_t{2} + e.steps) * e.states())));
}

template <class Launcher>
void run(const ops::ctc_loss_gradient& op, const call& c, Launcher& launcher) {
    const ctc_extents e(c.inputs[1].shape(), c.inputs[2].shape());
    auto* const log_sums = scratch_of<double>(c);
    double *const possible = log_sums + e.rows(), *const lines = possible + e.batch;
    double* const shares = lines + std::int64_t{2} * e.batch * e.states();
    const ctc_input in{e, c.inputs[1].f32(), c.inputs[2].i32(), log_sums};
    float* const dx = c.outputs[0].f32();
    run_rows(op.name, e.rows(), ctc_normalise{in.scores, dx, log_sums, e.classes}, launcher);
    run_rows(op.name, e.batch, ctc_share_row{in, possible, lines, shares}, launcher);
    run_rows(op.name, e.rows(),
             ctc_gradient_row{in, possible, shares, c.inputs[0].f32(),
                              op.scale / static_cast<double>(e.batch), dx},
             launcher);
}

} // namespace engine::cuda
