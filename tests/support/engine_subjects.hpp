// SPDX-License-Identifier: BSL-1.0
/// @file
/// Calls of every op that has kernels of the CUDA back end, over several shapes: what its tests run.
#pragma once

#include "engine/call.hpp"
#include "engine/cpu/backend.hpp"
#include "engine/op.hpp"
#include "engine/run_op.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace support::calls {

using namespace engine;

/// One call. `tolerance`: of the difference to the CPU's result, relative to it or to 1; 0: the same bits.
struct subject {
    op what;
    std::vector<tensor_data> in;
    double tolerance = 0;
    std::set<std::size_t> packed{}; ///< inputs that come as bits
};

// What the inputs hold.

inline tensor_data noise(echo::shape shape, unsigned seed, double low = -1, double high = 1) {
    std::mt19937 draw(seed);
    tensor_data t(f32(std::move(shape)));
    for (float& x : t.f32)
        x = static_cast<float>(low + (high - low) * static_cast<double>(draw() % 100003) / 100003);
    return t;
}
/// Few different numbers, so that many are equal.
inline tensor_data steps(echo::shape shape, unsigned seed) {
    std::mt19937 draw(seed);
    tensor_data t(f32(std::move(shape)));
    for (float& x : t.f32) x = static_cast<float>(draw() % 5) - 2;
    return t;
}
/// Numbers that are special, and pairs of them.
inline tensor_data special(echo::shape shape, std::size_t stride) {
    using limits = std::numeric_limits<float>;
    static const std::array all{0.0f,
                                -0.0f,
                                1.0f,
                                -1.0f,
                                limits::infinity(),
                                -limits::infinity(),
                                limits::quiet_NaN(),
                                limits::denorm_min(),
                                -limits::denorm_min(),
                                limits::min(),
                                limits::max(),
                                -limits::max()};
    tensor_data t(f32(std::move(shape)));
    for (std::size_t i = 0; i < t.f32.size(); ++i) t.f32[i] = all[i / stride % all.size()];
    return t;
}
inline tensor_data integers(echo::shape shape, unsigned seed, std::int32_t low, std::int32_t high) {
    std::mt19937 draw(seed);
    tensor_data t(i32(std::move(shape)));
    for (auto& x : t.i32)
        x = low + static_cast<std::int32_t>(draw() % static_cast<std::uint32_t>(high - low + 1));
    return t;
}
inline tensor_data integers(echo::shape shape, std::vector<std::int32_t> values) {
    return {i32(std::move(shape)), std::move(values)};
}

using subjects = std::vector<subject>;

// Ops with lambdas: all of the variant.

/// Whether the CPU backend computes the same bits: it may round a product and a sum once, and has other functions.
template <class Op>
inline constexpr bool forward_is_exact =
    !(std::is_same_v<Op, echo::tanh_op> || std::is_same_v<Op, echo::sigmoid_op> ||
      std::is_same_v<Op, echo::exp_op> || std::is_same_v<Op, echo::log_op>);
template <class Op>
inline constexpr bool gradient_is_exact =
    !(std::is_same_v<Op, echo::tanh_op> || std::is_same_v<Op, echo::sigmoid_op>);

inline constexpr double rounding = 1e-6;

template <class Op>
ops::numbers<Op> told() {
    ops::numbers<Op> made{};
    for (double& x : made) x = 0.3;
    return made;
}

template <class Op>
inline void add(std::type_identity<ops::elementwise<Op>>, subjects& to) {
    const ops::elementwise<Op> o{told<Op>()};
    constexpr double tolerance = forward_is_exact<Op> ? 0 : rounding;
    for (const std::int64_t n : {0, 1, 3, 5, 64, 131, 1030}) {
        subject s{o, {}, tolerance};
        for (std::size_t i = 0; i < ops::tensor_inputs<Op>; ++i)
            s.in.push_back(noise({n}, static_cast<unsigned>(i), 0.1, 2));
        to.push_back(s);
    }
    subject s{o, {}, tolerance};
    for (std::size_t i = 0; i < ops::tensor_inputs<Op>; ++i) s.in.push_back(special({12, 12, 2}, i ? 12 : 1));
    if (forward_is_exact<Op>) to.push_back(s);
    for (std::size_t i = 0; i < ops::tensor_inputs<Op>; ++i) s.in[i] = noise({7, 11, 3}, 9, -30, 30);
    to.push_back(s);
}

template <class Op, std::size_t I>
inline void add(std::type_identity<ops::elementwise_gradient<Op, I>>, subjects& to) {
    const ops::elementwise_gradient<Op, I> o{told<Op>()};
    constexpr auto list = ops::component<Op, I>::arguments();
    constexpr double tolerance = gradient_is_exact<Op> ? 0 : rounding;
    for (const std::int64_t n : {0, 1, 3, 5, 64, 131, 1030}) {
        subject s{o, {}, tolerance};
        for (std::size_t i = 0; i < list.count; ++i)
            s.in.push_back(noise({n}, 3 + static_cast<unsigned>(i), -1, 2));
        to.push_back(s);
        for (std::size_t i = 0; i < list.count; ++i)
            if (list.one_bit.contains(i)) s.packed.insert(i);
        if (!s.packed.empty()) to.push_back(s);
    }
    subject s{o, {}, tolerance};
    for (std::size_t i = 0; i < list.count; ++i) s.in.push_back(special({12, 12, 2}, i ? 12 : 1));
    if (gradient_is_exact<Op>) to.push_back(s);
    s.in.assign(list.count, noise({3, 50}, 8));
    ops::elementwise_gradient<Op, I> stashed = o;
    stashed.stash_input = true;
    s.what = stashed;
    for (std::size_t i = 0; i < ops::tensor_inputs<Op>; ++i) s.in.push_back(noise({3, 50}, 8));
    to.push_back(s);
}

/// Shapes that broadcast, the first one to the second or both to a third.
struct two_shapes {
    echo::shape a, b;
};
inline const std::vector<two_shapes> broadcasting{
    {{1}, {1}},
    {{5}, {1}},
    {{1}, {7}},
    {{3, 1}, {1, 5}},
    {{4, 8}, {8}},
    {{2, 3, 16}, {2, 1, 16}},
    {{2, 3, 16}, {2, 3, 1}},
    {{2, 3, 7}, {3, 1}},
    {{2, 1, 3, 1, 5}, {4, 1, 6, 1}},
    {{0, 4}, {4}},
    {{3, 5, 4}, {3, 5, 4}},
    {{2, 300, 4}, {1, 1, 4}},
    {{70, 8, 4}, {70, 1, 1}},
    {{3, 1, 1}, {1, 90, 12}},
};

template <class Op>
inline void add(std::type_identity<ops::broadcast<Op>>, subjects& to) {
    for (const auto& [a, b] : broadcasting) {
        to.push_back({ops::broadcast<Op>{}, {noise(a, 1), noise(b, 2, 0.5, 2)}});
        to.push_back({ops::broadcast<Op>{}, {noise(b, 3), noise(a, 4, 0.5, 2)}});
    }
}

template <class Op, std::size_t I>
inline void add(std::type_identity<ops::broadcast_gradient<Op, I>>, subjects& to) {
    constexpr auto list = ops::component<Op, I>::arguments();
    for (const auto& shapes : broadcasting)
        for (const bool turned : {false, true}) {
            const std::array of{turned ? shapes.b : shapes.a, turned ? shapes.a : shapes.b};
            // The number that a result is summed of may be large.
            subject s{ops::broadcast_gradient<Op, I>{of[I]}, {}, 4 * rounding};
            for (std::size_t k = 0; k < list.count; ++k) {
                const std::size_t at = list.of[k]; // dy, a, b, y
                const echo::shape whole = broadcast_shape(of[0], of[1]);
                s.in.push_back(
                    noise(at == 0 || at == 3 ? whole : of[at - 1], static_cast<unsigned>(at), 0.5, 1.5));
            }
            to.push_back(s);
        }
}

/// The others come below.
template <class Op>
inline void add(std::type_identity<Op>, subjects&) {}

template <class... Op>
inline void add_all(std::type_identity<std::variant<Op...>>, subjects& to) {
    (add(std::type_identity<Op>{}, to), ...);
}

// The others.

inline void add_constants(subjects& to) {
    for (const std::int64_t n : {0, 1, 7, 130}) {
        to.push_back({ops::fill{f32({n}), 0.25}, {}});
        to.push_back({ops::fill{i32({n, 3}), -7}, {}});
    }
    for (const std::int64_t n : {1, 2, 9, 40}) to.push_back({ops::causal_bias{n}, {}});
}

inline void add_sums(subjects& to) {
    const auto sum = [&](echo::shape shape, std::vector<std::int64_t> axes, double tolerance = rounding) {
        for (const auto kind : {ops::reduce::sum, ops::reduce::mean}) {
            if (kind == ops::reduce::mean && echo::element_count(shape) == 0) continue;
            to.push_back({ops::reduce{kind, axes, kind == ops::reduce::mean}, {noise(shape, 5)}, tolerance});
        }
    };
    sum({1}, {0});
    sum({7}, {0});
    sum({5, 7}, {0});
    sum({5, 7}, {1});
    sum({5, 7}, {0, 1});
    sum({5, 7}, {});
    sum({3, 1, 4, 1, 5}, {1, 3});
    sum({3, 1, 4, 1, 5}, {0, 4});
    sum({2, 3, 4, 5}, {0, 2});
    sum({2, 3, 4, 5}, {1, 3});
    sum({2, 3, 4, 5}, {1});
    sum({2, 3, 200}, {0, 2});
    sum({900, 8, 3}, {0});
    sum({3000, 5}, {0}, 1e-5); // in parts
    sum({3, 5000}, {1}, 1e-5);
    sum({40, 3, 70}, {0, 2}, 1e-5);
    sum({1, 9001}, {0, 1}, 1e-5);
    sum({64, 33, 5}, {2}); // many short rows
    sum({3, 0}, {1});
    sum({0, 3}, {0});
    sum({0, 3}, {1});
    const auto tile = [&](echo::shape shape, std::vector<std::int64_t> times) {
        const subject s{ops::tile{times}, {noise(shape, 6)}};
        to.push_back(s);
        auto extents = extents_of(shape);
        for (std::size_t i = 0; i < extents.size(); ++i) extents[i] *= times[i];
        to.push_back({ops::tile_gradient{times, shape}, {noise(echo::shape(extents), 7)}, rounding});
    };
    tile({5}, {3});
    tile({1, 1}, {1, 1});
    tile({4, 8}, {2, 1});
    tile({4, 8}, {1, 3});
    tile({3, 1, 5}, {2, 6, 4});
    tile({2, 12}, {100, 1});
    tile({12, 1}, {1, 40});
    const auto repeat = [&](echo::shape whole, std::vector<std::int64_t> axes, double factor) {
        auto from = extents_of(whole);
        for (const auto a : axes) from[static_cast<std::size_t>(a)] = 1;
        to.push_back({ops::repeat{whole, axes, true, factor}, {noise(echo::shape(from), 8)}});
        std::vector<std::int64_t> squeezed;
        for (std::size_t i = 0; i < from.size(); ++i)
            if (std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) == axes.end())
                squeezed.push_back(from[i]);
        if (squeezed.empty()) squeezed.push_back(1);
        to.push_back({ops::repeat{whole, axes, false, factor}, {noise(echo::shape(squeezed), 9)}});
    };
    repeat({5, 8}, {0}, 1);
    repeat({5, 8}, {1}, 0.125);
    repeat({2, 3, 5}, {1}, 3);
    repeat({2, 3, 5}, {0, 2}, 1);
    repeat({6}, {0}, 0.5);
    for (const std::size_t n : std::initializer_list<std::size_t>{1, 2, 3, 64, 65, 130}) {
        subject s{ops::add_n{}, {}};
        for (std::size_t i = 0; i < n; ++i) s.in.push_back(noise({3, 7}, static_cast<unsigned>(i)));
        to.push_back(s);
    }
}

inline void add_movement(subjects& to) {
    // A part of each extent along the axis, then the tensor put together again.
    const auto parts = [&](echo::shape x, std::int64_t axis, std::vector<std::int64_t> sizes, bool squeeze) {
        to.push_back({ops::split{axis, sizes, squeeze}, {noise(x, 1)}});
        subject s{ops::concat{axis, squeeze}, {}};
        for (std::size_t k = 0; k < sizes.size(); ++k) {
            auto part = extents_of(x);
            part[static_cast<std::size_t>(axis)] = sizes[k];
            if (squeeze) part.erase(part.begin() + axis);
            s.in.push_back(noise(echo::shape(part), static_cast<unsigned>(k)));
        }
        to.push_back(s);
    };
    parts({6}, 0, {1, 2, 3}, false);
    parts({4, 12}, 1, {4, 8}, false);
    parts({4, 12}, 1, {3, 4, 5}, false);
    parts({5, 8}, 0, {1, 4}, false);
    parts({2, 6, 4}, 1, {2, 1, 3}, false);
    parts({3, 5, 4}, 1, {0, 5}, false);
    parts({2, 5, 3}, 1, {1, 1, 1, 1, 1}, true);
    parts({3, 7}, 1, {1, 1, 1, 1, 1, 1, 1}, true);
    parts({120, 4}, 0, std::vector<std::int64_t>(120, 1), true); // more parts than a launch takes
    parts({2, 100}, 1, std::vector<std::int64_t>(100, 1), false);
    to.push_back({ops::split{1, {2, 3}, false}, {integers({4, 5}, 1, -9, 9)}});
    to.push_back({ops::concat{0, false}, {integers({4, 5}, 1, -9, 9), integers({1, 5}, 2, -9, 9)}});
    const auto order = [&](echo::shape x, std::vector<std::int64_t> axes) {
        to.push_back({ops::transpose{axes}, {noise(x, 2)}});
    };
    order({5}, {0});
    order({1, 1}, {1, 0});
    order({3, 5}, {1, 0});
    order({33, 70}, {1, 0});
    order({64, 40}, {1, 0});
    order({40, 3}, {1, 0});
    order({3, 40}, {1, 0});
    order({2, 3, 4}, {2, 1, 0});
    order({2, 3, 4}, {1, 0, 2});
    order({5, 40, 33}, {0, 2, 1});
    order({4, 12, 16}, {2, 0, 1});
    order({4, 12, 16}, {1, 2, 0});
    order({2, 3, 4, 8}, {0, 2, 1, 3});
    order({2, 3, 9, 8}, {3, 1, 0, 2});
    order({2, 3, 4, 5, 3}, {4, 2, 0, 3, 1});
    order({3, 0, 4}, {2, 1, 0});
    to.push_back({ops::transpose{{1, 0}}, {integers({6, 9}, 3, -9, 9)}});
    for (const std::int64_t n : {0, 1, 31, 32, 33, 1023, 1024, 2500}) {
        to.push_back({ops::encode{}, {noise({n}, 4)}});
        to.push_back({ops::encode{}, {special({n}, 1)}});
    }
}

inline void add_sequences(subjects& to) {
    const auto run = [&](echo::shape x, std::vector<std::int32_t> lengths) {
        const auto batch = x[1];
        const tensor_data n = integers({batch}, lengths);
        to.push_back({ops::sequence_mask{-2.5}, {noise(x, 1), n}});
        to.push_back({ops::sequence_reverse{}, {noise(x, 2), n}});
        for (auto& length : lengths) length = std::max(length, 1);
        const tensor_data whole = integers({batch}, lengths);
        to.push_back({ops::sequence_last{}, {noise(x, 3), whole}});
        auto rest = extents_of(x);
        rest.erase(rest.begin());
        to.push_back({ops::sequence_last_gradient{x}, {noise(echo::shape(rest), 4), whole}});
    };
    run({1, 1}, {1});
    run({5, 3}, {0, 5, 2});
    run({5, 3, 7}, {4, 1, 5});
    run({6, 4, 8}, {6, 3, 0, 1});
    run({3, 2, 2, 10}, {1, 3});
    for (const std::int64_t n : {1, 5, 32, 100})
        to.push_back({ops::count_nonzero{}, {integers({3, 2, n}, 5, -1, 1)}});
    const auto table = [&](std::int64_t rows, std::int64_t width, const tensor_data& at) {
        to.push_back({ops::embedding{}, {noise({rows, width}, 7), at}});
        auto whole = extents_of(at.what.shape);
        whole.push_back(width);
        // Up to 31 are added one after the other, as the CPU does.
        const double tolerance = at.i32.size() < 32 ? 0 : 1e-5;
        to.push_back({ops::embedding_gradient{{rows, width}}, {noise(echo::shape(whole), 8), at}, tolerance});
    };
    const auto draw = [](echo::shape shape, std::int32_t most) {
        return integers(std::move(shape), 6, 0, most);
    };
    table(1, 1, draw({1}, 0));
    table(5, 3, draw({7}, 4));
    table(5, 8, draw({2, 9}, 4));
    table(40, 4, draw({64}, 2)); // rows that more than 32 ask for
    table(3, 12, draw({7, 30}, 1));
    table(2, 5, draw({100}, 0));
    table(100, 8, draw({10}, 99));
    table(4, 4, draw({0}, 3));
    for (const std::size_t first :
         std::initializer_list<std::size_t>{31, 32, 33}) { // one more, and one less, than are added together
        std::vector<std::int32_t> at(96, 1);
        std::fill_n(at.begin(), first, 0);
        table(2, 4, integers({96}, at));
    }
}

inline void add_windows(subjects& to) {
    struct shape_of {
        std::array<std::int64_t, 4> x; ///< n, c, h, w
        ops::pair kernel;
        ops::sliding window{};
    };
    const std::vector<shape_of> all{
        {{1, 1, 1, 1}, {1, 1}},
        {{2, 3, 7, 9}, {3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
        {{2, 3, 8, 8}, {2, 2}, {.stride = {2, 2}}},
        {{1, 5, 6, 7}, {3, 2}, {.stride = {1, 2}, .padding = {1, 0}}},
        {{2, 4, 9, 8}, {3, 3}, {.stride = {3, 2}, .padding = {0, 1}, .dilation = {2, 2}}},
        {{3, 2, 5, 6}, {5, 6}},
        {{1, 70, 4, 4}, {2, 3}, {.stride = {1, 1}, .padding = {0, 1}}}};
    for (const auto& one : all)
        for (const bool last : {false, true})
            for (const auto kind : {ops::pooling::max, ops::pooling::mean})
                for (const bool equal : {false, true}) {
                    ops::pooling o{kind, one.kernel, one.window};
                    o.window.channels_last = last;
                    const auto& [n, c, h, w] = one.x;
                    const echo::shape shape = last ? echo::shape{n, h, w, c} : echo::shape{n, c, h, w};
                    const tensor_data x = equal ? steps(shape, 1) : noise(shape, 2);
                    const subject forward{o, {x}, kind == ops::pooling::max ? 0 : rounding};
                    to.push_back(forward);
                    cpu::backend processor(1);
                    const auto y = run_op(processor, o, {x})[0];
                    subject s{ops::pooling_gradient{o, shape}, {noise(y.what.shape, 3)}, rounding};
                    if (kind == ops::pooling::max) s.in.insert(s.in.end(), {x, y});
                    to.push_back(s);
                }
    // A few are enough: they are the CPU backend's own.
    for (const bool last : {false, true}) {
        const ops::sliding window{.stride = {2, 1}, .padding = {1, 1}, .channels_last = last};
        const echo::shape x = last ? echo::shape{2, 7, 6, 4} : echo::shape{2, 4, 7, 6}, w{3, 4, 3, 3};
        const echo::shape y = last ? echo::shape{2, 4, 6, 3} : echo::shape{2, 3, 4, 6};
        to.push_back({ops::convolution{window}, {noise(x, 1), noise(w, 2)}});
        to.push_back({ops::convolution_data_gradient{window, x}, {noise(y, 3), noise(w, 4)}});
        to.push_back({ops::convolution_weight_gradient{window, w}, {noise(y, 5), noise(x, 6)}});
    }
    to.push_back({ops::fully_connected{true}, {noise({3, 5}, 1), noise({7, 5}, 2), noise({7}, 3)}});
    to.push_back({ops::fully_connected_data_gradient{{3, 5}}, {noise({3, 7}, 1), noise({7, 5}, 2)}});
    to.push_back({ops::fully_connected_weight_gradient{{7, 5}}, {noise({3, 7}, 1), noise({3, 5}, 2)}});
    to.push_back({ops::batch_dot{false, true}, {noise({2, 3, 5}, 1), noise({2, 4, 5}, 2)}});
}

inline void add_normalisation(subjects& to) {
    const auto norm = [&](echo::shape x, std::int64_t axis, double shift = 0) {
        const std::int64_t c = x[axis_of(x, axis)];
        const tensor_data from = noise(x, 1, shift - 1, shift + 1);
        to.push_back({ops::batch_statistics{axis}, {from}, rounding});
        cpu::backend processor(1);
        const auto statistics = run_op(processor, ops::batch_statistics{axis}, {from});
        for (const bool fixed : {false, true}) {
            const tensor_data gamma = noise({c}, 2, 0.5, 1.5), beta = noise({c}, 3);
            to.push_back({ops::batch_norm{axis, 1e-3, fixed},
                          {from, gamma, beta, statistics[0], statistics[1]},
                          4 * rounding});
            // What oneDNN sums in float: the error grows with the number of terms.
            to.push_back({ops::batch_norm_gradient{axis, 1e-3, fixed},
                          {noise(x, 4), from, gamma, statistics[0], statistics[1]},
                          2e-5});
        }
    };
    norm({2, 3, 5, 7}, 1);
    norm({2, 4, 4, 8}, 1);
    norm({2, 5, 7, 4}, 3);
    norm({6, 7, 5, 3}, -1);
    norm({9, 5}, 1);
    norm({40, 3, 30, 2}, 1, 3);
    norm({300, 4, 8, 2}, 3);
    norm({7, 11}, 0);
    const auto soft = [&](echo::shape x, std::int64_t axis, double most) {
        to.push_back({ops::softmax{axis}, {noise(x, 1, -most, most)}, rounding});
        to.push_back({ops::softmax_gradient{axis}, {noise(x, 2), noise(x, 3, 0, 1)}, rounding});
    };
    soft({1}, 0, 1);
    soft({3, 5}, -1, 1);
    soft({3, 5}, 0, 5);
    soft({4, 33, 6}, 1, 100);
    soft({2, 100}, -1, 50);
    soft({70, 2}, 0, 1);
    soft({5, 1}, 1, 1);
    soft({2, 0}, 1, 1);
    soft({0, 4}, 1, 1);
}

inline void add_losses(subjects& to) {
    const auto entropy = [&](echo::shape scores, ops::cross_entropy how, std::int32_t least = 0) {
        auto rows = extents_of(scores);
        rows.pop_back();
        const auto classes = static_cast<std::int32_t>(scores[scores.rank() - 1]);
        const tensor_data labels = integers(echo::shape(rows), 2, least, classes - 1);
        const tensor_data x = noise(scores, 1, -4, 4);
        to.push_back({ops::softmax_output{how}, {x, labels}, 4 * rounding});
        const tensor_data p = noise(scores, 3, 0, 1);
        to.push_back({ops::softmax_output_gradient{how}, {noise({1}, 4, 0.5, 2), labels, p}, rounding});
    };
    entropy({1, 1}, {});
    entropy({3, 5}, {});
    entropy({4, 3, 7}, {.smoothing = 0.1}, -1);
    entropy({9, 40}, {.mean = false, .scale = 0.5}, -1);
    entropy({300, 8}, {.ignore = 0, .smoothing = 0.2});
    entropy({5, 1}, {.smoothing = 0.1});
    entropy({3000, 4}, {}, -1);
    entropy({6, 5}, {.scale = 2, .over_output = false});
    const auto ctc = [&](std::int64_t steps, std::int64_t batch, std::int64_t classes,
                         std::vector<std::int32_t> labels, double most = 2) {
        const auto longest = static_cast<std::int64_t>(labels.size()) / batch;
        const tensor_data x = noise({steps, batch, classes}, 1, -most, most),
                          l = integers({batch, longest}, labels);
        to.push_back({ops::ctc_loss{0.5}, {x, l}, 4 * rounding});
        to.push_back({ops::ctc_loss_gradient{0.5}, {noise({1}, 2, 0.5, 2), x, l}, rounding});
    };
    ctc(1, 1, 2, {1});
    ctc(1, 1, 2, {0});
    ctc(5, 1, 4, {1, 2, 3});
    ctc(7, 3, 5, {1, 1, 0, 2, 3, 4, 0, 0, 0});
    ctc(4, 2, 3, {1, 1, 1, 1, 2, 1, 2, 0}); // the first cannot be spelt
    ctc(6, 2, 40, {39, 1, 39, 7, 7, -1});
    ctc(60, 2, 6, std::vector<std::int32_t>(80, 1)); // nor can these
    std::vector<std::int32_t> many;
    for (int i = 0; i < 2 * 40; ++i) many.push_back(1 + i % 5);
    ctc(90, 2, 6, many, 8); // more states than lanes
}

inline void add_updates(subjects& to) {
    for (const std::int64_t n : {0, 1, 6, 133})
        for (const bool scaled : {false, true}) {
            const tensor_data w = noise({n}, 1), g = noise({n}, 2), m = noise({n}, 3),
                              v = noise({n}, 4, 0, 1);
            subject s{ops::sgd{0.1, 0.9, 0.01}, {w, g, m}, rounding}, a{ops::adam{}, {w, g, m, v}, rounding};
            if (scaled) s.in.push_back(noise({1}, 5, 0.1, 0.9)), a.in.push_back(noise({1}, 6, 0.1, 0.9));
            to.push_back(s);
            to.push_back(a);
        }
    to.push_back({ops::update_statistics{0.9}, {noise({1}, 1), noise({1}, 2)}, rounding});
    to.push_back({ops::update_statistics{0.9}, {noise({70}, 1), noise({70}, 2)}, rounding});
    to.push_back({ops::clip_factor{1}, {noise({3}, 1, -0.1, 0.1)}, rounding});
    to.push_back({ops::clip_factor{1}, {noise({40000}, 1), noise({0}, 2), noise({7, 3}, 3)}, rounding});
    subject s{ops::clip_factor{0.5}, {}, rounding};
    for (unsigned i = 0; i < 200; ++i) s.in.push_back(noise({1 + i % 7}, i));
    to.push_back(s);
}

/// All of them.
inline subjects every_subject() {
    subjects all;
    add_all(std::type_identity<op>{}, all);
    add_constants(all);
    add_sums(all);
    add_movement(all);
    add_sequences(all);
    add_windows(all);
    add_normalisation(all);
    add_losses(all);
    add_updates(all);
    return all;
}

} // namespace support::calls
