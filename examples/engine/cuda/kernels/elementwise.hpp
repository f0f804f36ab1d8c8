// SPDX-License-Identifier: BSL-1.0
/// @file
/// Element-wise ops, the components of their gradients, and what else takes its elements one by one where they lie.
#pragma once

#include "engine/cuda/kernels/axes.hpp"
#include "engine/cuda/kernels/groups.hpp"
#include "engine/cuda/kernels/lambdas.hpp"
#include "engine/op.hpp"

#include <echo/cuda/kernel/bitmask.hpp>
#include <echo/cuda/kernel/philox.hpp>

#include <algorithm>

namespace engine::cuda {

/// The seed of a node, and the step: read where the kernels run, or as they were when the call was issued.
struct step_source {
    const std::uint64_t* seed_at = nullptr;
    const step_numbers* numbers = nullptr;
    std::uint64_t seed = 0, iteration = 1;

    step_source() = default;
    explicit step_source(const call& c)
        : seed_at(c.seed_at), numbers(c.numbers), seed(c.seed), iteration(c.iteration) {}

    ECHO_HOST_DEVICE constexpr std::uint64_t key() const { return seed_at ? *seed_at : seed; }
    ECHO_HOST_DEVICE constexpr std::uint64_t step() const { return numbers ? numbers->iteration : iteration; }
};

/// Uniform numbers in [0, 1) of the group that begins at `first`: element i has word i % 4 of counter i / 4, its upper
/// 24 bits.
ECHO_HOST_DEVICE constexpr group uniform(std::uint64_t key, std::int64_t first) {
    const auto counter = static_cast<std::uint64_t>(first) / group_size;
    const auto words = echo::cuda::philox(
        {{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0}}, key);
    constexpr float scale = 1.0f / 16777216.0f;
    group u{};
    for (int k = 0; k < group_size; ++k) u.at[k] = static_cast<float>(words.at[k] >> 8) * scale;
    return u;
}

/// `Op::forward` on groups.
template <class Op>
struct forward_groups {
    static constexpr std::size_t tensors = ops::tensor_inputs<Op>, results = echo::output_count<Op>;
    static constexpr std::size_t reads = tensors + (echo::is_random<Op> ? 1 : 0);
    source x[tensors];
    sink y[results];
    told<Op> scalars;
    step_source from;

    explicit forward_groups(const ops::elementwise<Op>& op, const call& c) : scalars(op.scalars), from(c) {
        for (std::size_t i = 0; i < tensors; ++i) x[i] = source(c.inputs[i]);
        for (std::size_t k = 0; k < results; ++k) y[k] = sink(c.outputs[k]);
    }

    ECHO_HOST_DEVICE constexpr std::uint64_t prepare() const {
        if constexpr (echo::is_random<Op>)
            return from.key();
        else
            return 0;
    }
    template <class Warp>
    ECHO_HOST_DEVICE void run(std::int64_t first, int n, std::uint64_t key) const {
        group in[reads], out[results];
        for (std::size_t i = 0; i < tensors; ++i) in[i] = x[i].template load<Warp>(first, n);
        if constexpr (echo::is_random<Op>) in[tensors] = uniform(key, first);
        for (int e = 0; e < group_size; ++e) {
            float read[reads], made[results];
            for (std::size_t i = 0; i < reads; ++i) read[i] = in[i].at[e];
            forward<Op>(read, scalars, made);
            for (std::size_t k = 0; k < results; ++k) out[k].at[e] = made[k];
        }
        for (std::size_t k = 0; k < results; ++k) y[k].template store<Warp>(first, n, out[k]);
    }
};

/// Component `I` of `Op::gradient` on groups.
template <class Op, std::size_t I>
struct gradient_groups {
    static constexpr std::size_t reads = gradient_reads<Op, I>;
    using source_type = std::conditional_t<reads_bits<Op, I>, bit_source, source>;
    source_type x[reads];
    sink dx;
    told<Op> scalars;

    explicit gradient_groups(const ops::elementwise_gradient<Op, I>& op, const call& c)
        : dx(c.outputs[0]), scalars(op.scalars) {
        for (std::size_t i = 0; i < reads; ++i) x[i] = source_type(c.inputs[i]);
    }

    template <class Warp>
    ECHO_HOST_DEVICE void run(std::int64_t first, int n, std::nullptr_t) const {
        group in[reads], out;
        for (std::size_t i = 0; i < reads; ++i) in[i] = x[i].template load<Warp>(first, n);
        for (int e = 0; e < group_size; ++e) {
            float read[reads];
            for (std::size_t i = 0; i < reads; ++i) read[i] = in[i].at[e];
            out.at[e] = gradient<Op, I>(read, scalars);
        }
        dx.template store<Warp>(first, n, out);
    }
};

template <class Op, class Launcher>
void run(const ops::elementwise<Op>& op, const call& c, Launcher& launcher) {
    run_groups(op.name, c.outputs[0].size(), forward_groups<Op>(op, c), launcher);
}

template <class Op, std::size_t I, class Launcher>
void run(const ops::elementwise_gradient<Op, I>& op, const call& c, Launcher& launcher) {
    run_groups(op.name, c.outputs[0].size(), gradient_groups<Op, I>(op, c), launcher);
}

/// Terms that one launch adds: as many as fit into its arguments.
inline constexpr std::size_t most_terms = 64;

struct add_groups {
    source x[most_terms];
    int terms = 0;
    sink y;

    template <class Warp>
    ECHO_HOST_DEVICE void run(std::int64_t first, int n, std::nullptr_t) const {
        group sum = x[0].load<Warp>(first, n);
        for (int i = 1; i < terms; ++i) {
            const group more = x[i].load<Warp>(first, n);
            for (int e = 0; e < group_size; ++e) sum.at[e] += more.at[e];
        }
        y.store<Warp>(first, n, sum);
    }
};

template <class Launcher>
void run(const ops::add_n& op, const call& c, Launcher& launcher) {
    const output_view& y = c.outputs[0];
    for (std::size_t i = 0; i < c.inputs.size();) {
        add_groups f;
        f.y = sink(y);
        if (i) f.x[f.terms++] = source(y.f32()); // the sum so far
        while (i < c.inputs.size() && f.terms < static_cast<int>(most_terms))
            f.x[f.terms++] = source(c.inputs[i++]);
        run_groups(op.name, y.size(), f, launcher);
    }
}

template <class Launcher>
void run(const ops::encode& op, const call& c, Launcher& launcher) {
    launcher(op.name,
             echo::cuda::kernel::encode(c.inputs[0].f32(), static_cast<std::uint32_t*>(c.outputs[0].data),
                                        static_cast<std::int64_t>(c.inputs[0].size())));
}

/// One value everywhere; an integer comes as its bits.
struct fill_groups {
    sink y;
    float value;

    template <class Warp>
    ECHO_HOST_DEVICE void run(std::int64_t first, int n, std::nullptr_t) const {
        y.store<Warp>(first, n, {{value, value, value, value}});
    }
};

template <class Launcher>
void run(const ops::fill& op, const call& c, Launcher& launcher) {
    const output_view& y = c.outputs[0];
    const float value = y.what->type == echo::dtype::i32
                            ? std::bit_cast<float>(static_cast<std::int32_t>(op.number))
                            : static_cast<float>(op.number);
    run_groups(op.name, y.size(), fill_groups{sink(y), value}, launcher);
}

struct causal_groups {
    sink y;
    divisor length;

    template <class Warp>
    ECHO_HOST_DEVICE void run(std::int64_t first, int n, std::nullptr_t) const {
        group v;
        for (int e = 0; e < group_size; ++e) {
            const division at(first + e, length);
            v.at[e] = at.rest > at.quotient ? -1e9f : 0.0f;
        }
        y.store<Warp>(first, n, v);
    }
};

template <class Launcher>
void run(const ops::causal_bias& op, const call& c, Launcher& launcher) {
    run_groups(op.name, c.outputs[0].size(),
               causal_groups{sink(c.outputs[0]), divisor(static_cast<std::uint64_t>(op.length))}, launcher);
}

} // namespace engine::cuda
