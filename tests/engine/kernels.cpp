// SPDX-License-Identifier: BSL-1.0
/// @file
/// The heavy CPU kernels against loops in double written here, their gradients against central differences of those
/// loops. Every run is repeated: the same bits again, at addresses that are multiples of 4 only, and with results on
/// the inputs that the op's facts name.
#include "engine/cpu/backend.hpp"
#include "engine/cpu/block.hpp"
#include "engine/run_op.hpp"

#include <echo/cuda/kernel/philox.hpp>

#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace engine;

namespace {

using numbers = std::vector<double>;
using inputs = std::vector<tensor_data>;

cpu::backend& processor() {
    static cpu::backend one(2);
    return one;
}

/// Memory at an address that is a multiple of 64, plus `offset`; never zero before it is written.
class memory {
public:
    memory(std::size_t bytes, std::size_t offset, unsigned char fill) : bytes_(bytes + offset + 64, fill) {
        const auto at = reinterpret_cast<std::uintptr_t>(bytes_.data());
        begin_ = (64 - at % 64) % 64 + offset;
    }
    std::byte* at() { return reinterpret_cast<std::byte*>(bytes_.data() + begin_); }

private:
    std::vector<unsigned char> bytes_;
    std::size_t begin_;
};

struct how {
    std::size_t offset = 0;
    unsigned char fill = 0xff;
    bool inplace = false;
    std::uint64_t iteration = 1;
};

std::vector<std::vector<std::byte>> run_once(cpu::backend& on, const op& o, const inputs& in, how h) {
    tensors from;
    for (const auto& t : in) from.push_back(t.what);
    const tensors to = infer(o, from);
    std::vector<memory> memories;
    std::vector<input_view> read;
    std::vector<output_view> written;
    memories.reserve(in.size() + to.size());
    for (std::size_t i = 0; i < in.size(); ++i) {
        memories.emplace_back(elements(from[i]) * 4, h.offset, h.fill);
        if (elements(from[i])) std::memcpy(memories.back().at(), in[i].data(), elements(from[i]) * 4);
        read.push_back({memories.back().at(), &in[i].what, false});
    }
    for (std::size_t k = 0; k < to.size(); ++k) {
        memories.emplace_back(elements(to[k]) * 4, h.offset, h.fill);
        void* at = memories.back().at();
        if (h.inplace)
            for (const auto& pair : facts(o).inplace)
                if (pair.output == k && pair.input < read.size() && from[pair.input].shape == to[k].shape)
                    at = const_cast<void*>(read[pair.input].data); // neither a number nor a smaller tensor
        written.push_back({at, &to[k]});
    }
    const std::size_t bytes = on.scratch(o, from, to);
    memory scratch(bytes, 0, h.fill);
    on.run(o,
           {.inputs = read, .outputs = written, .scratch = {scratch.at(), bytes}, .iteration = h.iteration});
    std::vector<std::vector<std::byte>> made;
    for (const auto& w : written) {
        const auto* at = static_cast<const std::byte*>(w.data);
        made.emplace_back(at, at + w.size() * 4);
    }
    return made;
}

/// Outputs of an op, which are the same bits however it is run.
std::vector<tensor_data> run(const op& o, const inputs& in, std::uint64_t iteration = 1) {
    const auto first = run_once(processor(), o, in, {.iteration = iteration});
    CHECK(run_once(processor(), o, in, {.fill = 0x3c, .iteration = iteration}) == first);
    CHECK(run_once(processor(), o, in, {.offset = 4, .iteration = iteration}) == first);
    CHECK(run_once(processor(), o, in, {.offset = 20, .fill = 0, .iteration = iteration}) == first);
    if (!facts(o).inplace.empty()) {
        CHECK(run_once(processor(), o, in, {.inplace = true, .iteration = iteration}) == first);
        CHECK(run_once(processor(), o, in, {.offset = 12, .inplace = true, .iteration = iteration}) == first);
    }
    tensors from;
    for (const auto& t : in) from.push_back(t.what);
    std::vector<tensor_data> made;
    for (const auto& t : infer(o, from)) {
        made.emplace_back(t);
        if (elements(t)) std::memcpy(made.back().data(), first[made.size() - 1].data(), elements(t) * 4);
    }
    return made;
}

std::string refusal(const op& o, const inputs& in) {
    try {
        run_once(processor(), o, in, {});
    } catch (const echo::error& e) {
        CHECK(std::string(e.what()).find('\n') == std::string::npos);
        return e.what();
    }
    return "nothing";
}

tensor_data noise(echo::shape shape, unsigned seed, double most = 1) {
    std::mt19937 draw(seed);
    tensor_data t(f32(std::move(shape)));
    for (float& x : t.f32) x = static_cast<float>((static_cast<double>(draw() % 20001) / 10000 - 1) * most);
    return t;
}
/// All elements differ by 0.01 or more, so that a maximum stays one under small changes.
tensor_data distinct(echo::shape shape, unsigned seed) {
    tensor_data t(f32(std::move(shape)));
    for (std::size_t i = 0; i < t.f32.size(); ++i) t.f32[i] = 0.01f * static_cast<float>(i) - 1;
    std::shuffle(t.f32.begin(), t.f32.end(), std::mt19937(seed));
    return t;
}
tensor_data floats(echo::shape shape, std::vector<float> values) {
    return {f32(std::move(shape)), std::move(values)};
}
tensor_data integers(echo::shape shape, std::vector<std::int32_t> values) {
    return {i32(std::move(shape)), std::move(values)};
}
numbers as_double(const tensor_data& t) { return {t.f32.begin(), t.f32.end()}; }

/// Float against double: each of `terms` roundings may cost half a unit in the last place of a number of the size of
/// the largest term, which is about 1 in all these tests; a factor of 4 on top.
void close(const tensor_data& actual, const numbers& expected, double terms) {
    REQUIRE(actual.f32.size() == expected.size());
    double worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const double error = std::abs(static_cast<double>(actual.f32[i]) - expected[i]);
        worst = std::max(worst, std::isnan(error) ? std::numeric_limits<double>::infinity()
                                                  : error / std::max(1.0, std::abs(expected[i])));
    }
    CHECK(worst <= terms * 4 * std::ldexp(1.0, -24));
}

/// y of inputs, all in double.
using formula = std::function<numbers(const std::vector<numbers>&)>;

/// The gradient of input `i` of Σ dy · f(x) by central differences. With a step of 1e-4 the truncation is some 1e-8 of
/// the third derivative, the rounding 1e-12: both far below float's.
numbers differences(const formula& f, const inputs& in, std::size_t i, const numbers& dy) {
    std::vector<numbers> x;
    for (const auto& t : in) x.push_back(as_double(t));
    const auto loss = [&] {
        const numbers y = f(x);
        double sum = 0;
        for (std::size_t k = 0; k < y.size(); ++k) sum += dy[k] * y[k];
        return sum;
    };
    numbers made(x[i].size());
    constexpr double step = 1e-4;
    for (std::size_t k = 0; k < made.size(); ++k) {
        const double at = x[i][k];
        x[i][k] = at + step;
        const double above = loss();
        x[i][k] = at - step;
        made[k] = (above - loss()) / (2 * step);
        x[i][k] = at;
    }
    return made;
}
numbers values(const formula& f, const inputs& in) {
    std::vector<numbers> x;
    for (const auto& t : in) x.push_back(as_double(t));
    return f(x);
}

// Images.

/// Position of an element of an image [n, c, h, w] stored with its channels last or not.
struct layout {
    std::int64_t n, c, h, w;
    bool last;
    layout(const echo::shape& s, bool channels_last)
        : n(s[0]), c(s[channels_last ? 3 : 1]), h(s[channels_last ? 1 : 2]), w(s[channels_last ? 2 : 3]),
          last(channels_last) {}
    std::size_t at(std::int64_t in, std::int64_t ic, std::int64_t ih, std::int64_t iw) const {
        return static_cast<std::size_t>(last ? ((in * h + ih) * w + iw) * c + ic
                                             : ((in * c + ic) * h + ih) * w + iw);
    }
    bool holds(std::int64_t ih, std::int64_t iw) const { return ih >= 0 && ih < h && iw >= 0 && iw < w; }
};
echo::shape stored(const std::array<std::int64_t, 4>& nchw, bool last) {
    if (last) return {nchw[0], nchw[2], nchw[3], nchw[1]};
    return {nchw[0], nchw[1], nchw[2], nchw[3]};
}
/// The same image in the other order.
tensor_data with_channels_last(const tensor_data& x) {
    const layout from(x.what.shape, false);
    tensor_data made(f32(stored({from.n, from.c, from.h, from.w}, true)));
    const layout to(made.what.shape, true);
    for (std::int64_t n = 0; n < from.n; ++n)
        for (std::int64_t c = 0; c < from.c; ++c)
            for (std::int64_t h = 0; h < from.h; ++h)
                for (std::int64_t w = 0; w < from.w; ++w)
                    made.f32[to.at(n, c, h, w)] = x.f32[from.at(n, c, h, w)];
    return made;
}

numbers convolve(const ops::sliding& window, const layout& x, const layout& y, const echo::shape& w,
                 const std::vector<numbers>& in) {
    numbers made(static_cast<std::size_t>(y.n * y.c * y.h * y.w));
    const layout weights(w, false);
    for (std::int64_t n = 0; n < y.n; ++n)
        for (std::int64_t o = 0; o < y.c; ++o)
            for (std::int64_t r = 0; r < y.h; ++r)
                for (std::int64_t s = 0; s < y.w; ++s) {
                    double sum = 0;
                    const std::int64_t group = o / (y.c / window.groups);
                    for (std::int64_t c = 0; c < w[1]; ++c)
                        for (std::int64_t i = 0; i < w[2]; ++i)
                            for (std::int64_t j = 0; j < w[3]; ++j) {
                                const auto h =
                                    r * window.stride[0] - window.padding[0] + i * window.dilation[0];
                                const auto v =
                                    s * window.stride[1] - window.padding[1] + j * window.dilation[1];
                                if (x.holds(h, v))
                                    sum += in[0][x.at(n, group * w[1] + c, h, v)] *
                                           in[1][weights.at(o, c, i, j)];
                            }
                    made[y.at(n, o, r, s)] = sum;
                }
    return made;
}

struct convolution_case {
    const char* name;
    std::array<std::int64_t, 4> x, w;
    ops::sliding window{};
};

const convolution_case convolutions[] = {
    {"3×3", {2, 5, 6, 7}, {4, 5, 3, 3}, {.padding = {1, 1}}},
    {"3×3, whole vectors of channels", {1, 16, 3, 3}, {16, 16, 3, 3}, {.padding = {1, 1}}},
    {"stride 2 that leaves a rest", {2, 3, 8, 7}, {4, 3, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
    {"1×1", {2, 6, 3, 5}, {7, 6, 1, 1}},
    {"1×1, stride 2", {2, 16, 5, 5}, {16, 16, 1, 1}, {.stride = {2, 2}}},
    {"the first of ResNet", {1, 3, 9, 9}, {4, 3, 7, 7}, {.stride = {2, 2}, .padding = {3, 3}}},
    {"the first of DeepSpeech2", {1, 1, 14, 44}, {2, 1, 11, 41}, {.stride = {2, 2}}},
    {"dilation", {2, 3, 9, 8}, {4, 3, 3, 2}, {.padding = {2, 1}, .dilation = {2, 3}}},
    {"unequal strides and paddings", {2, 3, 6, 9}, {5, 3, 2, 4}, {.stride = {1, 3}, .padding = {0, 2}}},
    {"groups", {2, 6, 5, 5}, {4, 3, 3, 3}, {.padding = {1, 1}, .groups = 2}},
    {"one channel per group", {2, 8, 5, 6}, {8, 1, 3, 3}, {.padding = {1, 1}, .groups = 8}},
    {"a window of the whole image", {3, 4, 4, 5}, {3, 4, 4, 5}},
    {"one pixel", {1, 1, 1, 1}, {1, 1, 1, 1}},
};

} // namespace

TEST_CASE("convolution and its gradients") {
    for (const auto& c : convolutions)
        for (const bool last : {false, true}) {
            INFO(c.name << (last ? ", channels last" : ""));
            ops::sliding window = c.window;
            window.channels_last = last;
            const echo::shape shape = stored(c.x, last), weights{c.w[0], c.w[1], c.w[2], c.w[3]};
            const inputs in{noise(shape, 1), noise(weights, 2)};
            const auto y = run(ops::convolution{window}, in);
            const layout from(shape, last), to(y[0].what.shape, last);
            const formula f = [&](const auto& x) { return convolve(window, from, to, weights, x); };
            const double terms = static_cast<double>(c.w[1] * c.w[2] * c.w[3]);
            close(y[0], values(f, in), terms);

            const tensor_data dy = noise(y[0].what.shape, 3);
            const auto dx = run(ops::convolution_data_gradient{window, shape}, {dy, in[1]});
            close(dx[0], differences(f, in, 0, as_double(dy)), static_cast<double>(c.w[0] * c.w[2] * c.w[3]));
            const auto dw = run(ops::convolution_weight_gradient{window, weights}, {dy, in[0]});
            close(dw[0], differences(f, in, 1, as_double(dy)), static_cast<double>(to.n * to.h * to.w));
        }
}

TEST_CASE("convolution refuses what it cannot take") {
    const inputs in{noise({1, 3, 4, 4}, 1), noise({2, 3, 5, 5}, 2)};
    CHECK(refusal(ops::convolution{}, in).find("room for a window of 5") != std::string::npos);
    const inputs other{noise({1, 3, 4, 4}, 1), noise({2, 4, 3, 3}, 2)};
    CHECK(refusal(ops::convolution{}, other).find("weights [o, 3, kh, kw]") != std::string::npos);
}

namespace {

numbers pool(const ops::pooling& op, const layout& x, const layout& y, const numbers& in) {
    numbers made(static_cast<std::size_t>(y.n * y.c * y.h * y.w));
    for (std::int64_t n = 0; n < y.n; ++n)
        for (std::int64_t c = 0; c < y.c; ++c)
            for (std::int64_t r = 0; r < y.h; ++r)
                for (std::int64_t s = 0; s < y.w; ++s) {
                    double sum = 0, most = -std::numeric_limits<double>::infinity();
                    for (std::int64_t i = 0; i < op.kernel[0]; ++i)
                        for (std::int64_t j = 0; j < op.kernel[1]; ++j) {
                            const auto h =
                                r * op.window.stride[0] - op.window.padding[0] + i * op.window.dilation[0];
                            const auto w =
                                s * op.window.stride[1] - op.window.padding[1] + j * op.window.dilation[1];
                            if (!x.holds(h, w)) continue;
                            sum += in[x.at(n, c, h, w)];
                            most = std::max(most, in[x.at(n, c, h, w)]);
                        }
                    made[y.at(n, c, r, s)] = op.how == ops::pooling::max
                                                 ? most
                                                 : sum / static_cast<double>(op.kernel[0] * op.kernel[1]);
                }
    return made;
}

struct pooling_case {
    const char* name;
    std::array<std::int64_t, 4> x;
    ops::pair kernel;
    ops::sliding window{};
};

const pooling_case poolings[] = {
    {"2×2", {2, 3, 4, 6}, {2, 2}, {.stride = {2, 2}}},
    {"ResNet's 3×3 with stride 2", {2, 5, 8, 8}, {3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
    {"windows that overlap", {1, 2, 5, 6}, {3, 2}},
    {"windows with gaps", {1, 2, 7, 8}, {2, 2}, {.stride = {3, 4}}},
    {"dilation", {1, 3, 7, 7}, {2, 3}, {.dilation = {3, 2}}},
    {"1×1", {2, 3, 3, 3}, {1, 1}},
    {"the whole image", {2, 20, 7, 7}, {7, 7}},
    {"more channels than a task takes", {1, 70, 3, 4}, {2, 2}},
};

} // namespace

TEST_CASE("pooling and its gradient") {
    for (const auto& c : poolings)
        for (const auto kind : {ops::pooling::max, ops::pooling::mean}) {
            INFO(c.name << (kind == ops::pooling::max ? ", max" : ", mean"));
            ops::pooling op{kind, c.kernel, c.window};
            const tensor_data plain = distinct(stored(c.x, false), 1);
            std::vector<tensor_data> made[2];
            for (const bool last : {false, true}) {
                op.window.channels_last = last;
                const tensor_data x = last ? with_channels_last(plain) : plain;
                const auto y = run(op, {x});
                const layout from(x.what.shape, last), to(y[0].what.shape, last);
                const formula f = [&](const auto& in) { return pool(op, from, to, in[0]); };
                const double terms = static_cast<double>(c.kernel[0] * c.kernel[1]);
                close(y[0], values(f, {x}), terms);
                const tensor_data plain_dy = noise(stored({to.n, to.c, to.h, to.w}, false), 2);
                const tensor_data dy = last ? with_channels_last(plain_dy) : plain_dy;
                inputs read{dy};
                if (kind == ops::pooling::max) read.insert(read.end(), {x, y[0]});
                const auto dx = run(ops::pooling_gradient{op, x.what.shape}, read);
                close(dx[0], differences(f, {x}, 0, as_double(dy)), terms);
                made[last] = {y[0], dx[0]};
            }
            // One order of the same numbers is as good as the other: the gradient adds in the order of the windows.
            CHECK(with_channels_last(made[0][1]).f32 == made[1][1].f32);
            if (kind == ops::pooling::max) CHECK(with_channels_last(made[0][0]).f32 == made[1][0].f32);
        }
}

TEST_CASE("of equal maxima the first takes the gradient") {
    const tensor_data x = floats({1, 2, 2, 4}, {5, 5, 1, 2, 5, 5, 2, 2, 0, 1, 3, 3, 1, 1, 3, 4});
    const tensor_data dy = floats({1, 2, 1, 2}, {3, 7, 11, 13});
    const tensor_data expected = floats({1, 2, 2, 4}, {3, 0, 0, 7, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 13});
    for (const bool last : {false, true}) {
        const ops::pooling op{ops::pooling::max, {2, 2}, {.stride = {2, 2}, .channels_last = last}};
        const auto order = [&](const tensor_data& t) { return last ? with_channels_last(t) : t; };
        const auto y = run(op, {order(x)});
        CHECK(y[0].f32 == order(floats({1, 2, 1, 2}, {5, 2, 1, 4})).f32);
        const auto dx = run(ops::pooling_gradient{op, order(x).what.shape}, {order(dy), order(x), y[0]});
        CHECK(dx[0].f32 == order(expected).f32);
    }
}

namespace {

/// y, mean, variance one behind the other.
numbers normalise(const ops::batch_norm& op, const echo::shape& shape, const std::vector<numbers>& in) {
    const along a(shape, op.axis);
    numbers y(in[0].size()), mean(a.extent), variance(a.extent);
    const auto at = [&](std::size_t o, std::size_t c, std::size_t i) {
        return (o * a.extent + c) * a.inner + i;
    };
    const double n = static_cast<double>(a.outer * a.inner);
    for (std::size_t c = 0; c < a.extent; ++c) {
        for (std::size_t o = 0; o < a.outer; ++o)
            for (std::size_t i = 0; i < a.inner; ++i) mean[c] += in[0][at(o, c, i)] / n;
        for (std::size_t o = 0; o < a.outer; ++o)
            for (std::size_t i = 0; i < a.inner; ++i)
                variance[c] += std::pow(in[0][at(o, c, i)] - mean[c], 2) / n;
        for (std::size_t o = 0; o < a.outer; ++o)
            for (std::size_t i = 0; i < a.inner; ++i)
                y[at(o, c, i)] = (in[0][at(o, c, i)] - mean[c]) / std::sqrt(variance[c] + op.epsilon) *
                                     (op.fixed_gamma ? 1 : in[1][c]) +
                                 in[2][c];
    }
    y.insert(y.end(), mean.begin(), mean.end());
    y.insert(y.end(), variance.begin(), variance.end());
    return y;
}

/// y, mean, variance of x, gamma, beta.
std::vector<tensor_data> normalised(const ops::batch_norm& op, const inputs& in) {
    const auto s = run(ops::batch_statistics{op.axis}, {in[0]});
    auto y = run(op, {in[0], in[1], in[2], s[0], s[1]});
    y.insert(y.end(), s.begin(), s.end());
    return y;
}

} // namespace

TEST_CASE("batch normalisation and its gradient") {
    struct one {
        echo::shape shape;
        std::int64_t axis;
    };
    const one cases[] = {{{4, 3, 5, 6}, 1}, {{4, 5, 6, 3}, 3}, {{2, 16, 4, 4}, 1},  {{2, 4, 4, 32}, -1},
                         {{6, 7}, 1},       {{24, 40}, 1},     {{3, 4, 5}, 1},      {{3, 4, 5}, 2},
                         {{5, 6}, 0},       {{1, 2, 3, 3}, 1}, {{2, 3, 2, 2, 3}, 1}};
    for (const auto& [shape, axis] : cases)
        for (const bool fixed : {false, true}) {
            INFO(to_string(shape) << ", axis " << axis << (fixed ? ", gamma fixed" : ""));
            const ops::batch_norm op{axis, 1e-3, fixed};
            const std::int64_t c = shape[axis_of(shape, axis)];
            const inputs in{noise(shape, 1), noise({c}, 2), noise({c}, 3)};
            const formula f = [&](const auto& x) { return normalise(op, shape, x); };
            numbers expected = values(f, in);
            const auto n = in[0].f32.size(), channels = static_cast<std::size_t>(c);
            const double terms = static_cast<double>(n / channels);
            const auto y = normalised(op, in);
            const auto part = [&](std::size_t first, std::size_t count) {
                const auto at = expected.begin() + static_cast<std::ptrdiff_t>(first);
                return numbers(at, at + static_cast<std::ptrdiff_t>(count));
            };
            close(y[0], part(0, n), 4 * terms);
            close(y[1], part(n, channels), terms);
            close(y[2], part(n + channels, channels), terms);

            const tensor_data dy = noise(shape, 4);
            numbers flowing = as_double(dy);
            flowing.resize(expected.size()); // nothing flows into mean and variance
            const auto d = run(ops::batch_norm_gradient{axis, 1e-3, fixed}, {dy, in[0], in[1], y[1], y[2]});
            for (std::size_t i = 0; i < 3; ++i) close(d[i], differences(f, in, i, flowing), 10 * terms);
        }
}

TEST_CASE("batch normalisation does not mind where the channels are") {
    const tensor_data x = noise({3, 5, 4, 4}, 1), dy = noise({3, 5, 4, 4}, 2);
    const inputs in{x, noise({5}, 3), noise({5}, 4)};
    inputs last{with_channels_last(x), in[1], in[2]};
    const auto y = normalised(ops::batch_norm{}, in), z = normalised(ops::batch_norm{.axis = 3}, last);
    close(z[0], as_double(with_channels_last(y[0])), 10);
    close(z[2], as_double(y[2]), 10);
    const auto d = run(ops::batch_norm_gradient{}, {dy, x, in[1], y[1], y[2]});
    const auto e =
        run(ops::batch_norm_gradient{.axis = 3}, {with_channels_last(dy), last[0], in[1], y[1], y[2]});
    close(e[0], as_double(with_channels_last(d[0])), 50);
    close(e[1], as_double(d[1]), 50);
    close(e[2], as_double(d[2]), 50);
}

namespace {

numbers softmax(const echo::shape& shape, std::int64_t axis, const numbers& x) {
    const along a(shape, axis);
    numbers y(x.size());
    for (std::size_t o = 0; o < a.outer; ++o)
        for (std::size_t i = 0; i < a.inner; ++i) {
            const auto at = [&](std::size_t e) { return (o * a.extent + e) * a.inner + i; };
            double most = x[at(0)], sum = 0;
            for (std::size_t e = 0; e < a.extent; ++e) most = std::max(most, x[at(e)]);
            for (std::size_t e = 0; e < a.extent; ++e) sum += std::exp(x[at(e)] - most);
            for (std::size_t e = 0; e < a.extent; ++e) y[at(e)] = std::exp(x[at(e)] - most) / sum;
        }
    return y;
}

} // namespace

TEST_CASE("softmax and its gradient") {
    struct one {
        echo::shape shape;
        std::int64_t axis;
    };
    const one cases[] = {{{3, 7}, -1},     {{2, 300}, 1}, {{5, 1}, 1},       {{4, 6, 1}, 1}, {{3, 5, 4}, 1},
                         {{2, 3, 270}, 1}, {{7, 3}, 0},   {{2, 16, 32}, -1}, {{9}, 0},       {{40, 513}, -1}};
    for (const auto& [shape, axis] : cases) {
        INFO(to_string(shape) << ", axis " << axis);
        const formula f = [&, shape = shape, axis = axis](const auto& x) {
            return softmax(shape, axis, x[0]);
        };
        const inputs in{noise(shape, 1, 8)};
        const auto y = run(ops::softmax{axis}, in);
        close(y[0], values(f, in), 8);
        const tensor_data dy = noise(shape, 2);
        const auto dx = run(ops::softmax_gradient{axis}, {dy, y[0]});
        close(dx[0],
              values(
                  [&](const auto& x) {
                      const along a(shape, axis);
                      numbers made(x[0].size());
                      for (std::size_t o = 0; o < a.outer; ++o)
                          for (std::size_t i = 0; i < a.inner; ++i) {
                              double sum = 0;
                              const auto at = [&](std::size_t e) { return (o * a.extent + e) * a.inner + i; };
                              for (std::size_t e = 0; e < a.extent; ++e) sum += x[0][at(e)] * x[1][at(e)];
                              for (std::size_t e = 0; e < a.extent; ++e)
                                  made[at(e)] = x[1][at(e)] * (x[0][at(e)] - sum);
                          }
                      return made;
                  },
                  {dy, y[0]}),
              8);
        if (in[0].f32.size() < 1000) close(dx[0], differences(f, in, 0, as_double(dy)), 40);
    }
}

TEST_CASE("softmax of scores far apart") {
    const float inf = std::numeric_limits<float>::infinity();
    const tensor_data x =
        floats({4, 3}, {-1e9f, 0, -1e9f, 1e30f, -1e30f, 1e30f, -inf, 1, 1, -1e9f, -1e9f, -1e9f});
    const float third = 1.0f / 3;
    for (const bool columns : {false, true}) {
        tensor_data in = x;
        if (columns) in = floats({4, 3, 1}, x.f32);
        const auto y = run(ops::softmax{1}, {in});
        CHECK(y[0].f32 == std::vector<float>{0, 1, 0, 0.5f, 0, 0.5f, 0, 0.5f, 0.5f, third, third, third});
    }
    // The same through the loop over columns.
    tensor_data turned(f32({3, 4}));
    for (std::size_t r = 0; r < 4; ++r)
        for (std::size_t c = 0; c < 3; ++c) turned.f32[c * 4 + r] = x.f32[r * 3 + c];
    const auto y = run(ops::softmax{0}, {turned});
    CHECK(y[0].f32 == std::vector<float>{0, 0.5f, 0, third, 1, 0, 0.5f, third, 0, 0.5f, 0.5f, third});
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const auto bad = run_op(processor(), op(ops::softmax{}), {floats({1, 3}, {0, nan, 1})});
    CHECK(std::isnan(bad[0].f32[0])); // it is not hidden
}

namespace {

numbers entropy(const ops::cross_entropy& how, std::size_t classes, const std::vector<std::int32_t>& labels,
                const numbers& scores) {
    const numbers p =
        softmax({static_cast<std::int64_t>(labels.size()), static_cast<std::int64_t>(classes)}, -1, scores);
    double loss = 0, rows = 0;
    for (std::size_t r = 0; r < labels.size(); ++r) {
        if (labels[r] == how.ignore) continue;
        ++rows;
        for (std::size_t k = 0; k < classes; ++k) {
            const bool is = k == static_cast<std::size_t>(labels[r]);
            const double target = classes == 1 ? 1
                                  : is         ? 1 - how.smoothing
                                               : how.smoothing / static_cast<double>(classes - 1);
            if (target > 0) loss -= target * std::log(p[r * classes + k]);
        }
    }
    if (how.mean && rows > 0) loss /= rows;
    numbers made{loss * how.scale};
    made.insert(made.end(), p.begin(), p.end());
    return made;
}

} // namespace

TEST_CASE("cross entropy and its gradient") {
    struct one {
        const char* name;
        ops::cross_entropy how;
        std::size_t classes;
        std::vector<std::int32_t> labels;
    };
    const one cases[] = {
        {"plain", {}, 5, {0, 4, 2, 2}},
        {"ignored rows", {.ignore = 0}, 5, {0, 4, 2, 0}},
        {"all ignored", {.ignore = 0}, 4, {0, 0, 0}},
        {"smoothed", {.smoothing = 0.1}, 7, {6, 0, 3}},
        {"smoothed, ignored, a sum, scaled",
         {.ignore = 2, .smoothing = 0.2, .mean = false, .scale = 0.25},
         6,
         {2, 1, 5}},
        {"smoothed wholly", {.smoothing = 1}, 3, {0, 1}},
        {"one class", {.smoothing = 0.1}, 1, {0, 0}},
        {"one row of many classes", {.smoothing = 0.1, .over_output = false}, 600, {599}},
    };
    for (const auto& c : cases) {
        INFO(c.name);
        const auto rows = static_cast<std::int64_t>(c.labels.size());
        const auto classes = static_cast<std::int64_t>(c.classes);
        const inputs in{noise({rows, classes}, 1, 4), integers({rows}, c.labels)};
        const formula f = [&](const auto& x) { return entropy(c.how, c.classes, c.labels, x[0]); };
        const numbers expected = values(f, in);
        const auto y = run(ops::softmax_output{c.how}, in);
        close(y[0], {expected[0]}, 10);
        close(y[1], numbers(expected.begin() + 1, expected.end()), 8);
        const tensor_data dloss = floats({1}, {1.5f});
        numbers flowing(expected.size());
        flowing[0] = 1.5;
        const auto dx = run(ops::softmax_output_gradient{c.how}, {dloss, in[1], y[1]});
        close(dx[0], differences(f, in, 0, flowing), 20);
        if (c.how.ignore == 0 && c.labels == std::vector<std::int32_t>(3, 0)) {
            CHECK(y[0].f32[0] == 0);
            CHECK(dx[0].f32 == std::vector<float>(dx[0].f32.size(), 0));
        }
    }
}

TEST_CASE("the loss of wrong scores is large and finite") {
    const inputs in{floats({1, 3}, {-1e4f, 1e4f, 0}), integers({1}, {0})};
    const auto y = run(ops::softmax_output{}, in);
    CHECK(y[0].f32[0] == 2e4f);
    CHECK(y[1].f32 == std::vector<float>{0, 1, 0});
}

TEST_CASE("labels out of range are refused") {
    const tensor_data scores = noise({2, 3}, 1);
    for (const std::int32_t label : {3, -2}) {
        const inputs in{scores, integers({2}, {1, label})};
        const std::string said = refusal(ops::softmax_output{}, in);
        CHECK(said == "label: row 1 has label " + std::to_string(label) +
                          " of 3 classes; give labels from 0, or the one to ignore");
        CHECK(refusal(ops::softmax_output_gradient{}, {noise({1}, 1), in[1], scores}) == said);
    }
    const inputs sequences{noise({2, 1, 3}, 1), integers({1, 2}, {1, 3})};
    CHECK(refusal(ops::ctc_loss{}, sequences) ==
          "label: sequence 0 has label 3 of 3 classes; give labels from 1; 0 is the blank");
    CHECK(refusal(ops::ctc_loss_gradient{}, {noise({1}, 1), sequences[0], sequences[1]}) ==
          refusal(ops::ctc_loss{}, sequences));
}

namespace {

/// What a path of classes spells: repetitions once, blanks not at all.
std::vector<std::int32_t> spelled(const std::vector<std::int32_t>& path) {
    std::vector<std::int32_t> made;
    for (std::size_t t = 0; t < path.size(); ++t)
        if (path[t] && (t == 0 || path[t] != path[t - 1])) made.push_back(path[t]);
    return made;
}
std::vector<std::int32_t> label_row(const tensor_data& labels, std::size_t b) {
    const auto longest = static_cast<std::size_t>(labels.what.shape[1]);
    std::vector<std::int32_t> made;
    for (std::size_t i = 0; i < longest && labels.i32[b * longest + i] > 0; ++i)
        made.push_back(labels.i32[b * longest + i]);
    return made;
}

/// The mean of −log p(labels), p summed over every path of classes there is; 0 where none spells the labels.
numbers every_path(const echo::shape& shape, const tensor_data& labels, const numbers& scores) {
    const auto steps = static_cast<std::size_t>(shape[0]), batch = static_cast<std::size_t>(shape[1]);
    const auto classes = static_cast<std::size_t>(shape[2]);
    const numbers p = softmax(shape, -1, scores);
    double loss = 0;
    for (std::size_t b = 0; b < batch; ++b) {
        const auto wanted = label_row(labels, b);
        double sum = 0;
        std::vector<std::int32_t> path(steps);
        for (bool more = true; more;) {
            if (spelled(path) == wanted) {
                double product = 1;
                for (std::size_t t = 0; t < steps; ++t)
                    product *= p[(t * batch + b) * classes + static_cast<std::size_t>(path[t])];
                sum += product;
            }
            more = false;
            for (std::size_t t = 0; t < steps && !more; ++t) {
                more = static_cast<std::size_t>(++path[t]) < classes;
                if (!more) path[t] = 0;
            }
        }
        if (sum > 0) loss -= std::log(sum);
    }
    return {loss / static_cast<double>(batch)};
}

/// The same for long sequences: the sum over paths step by step, in numbers that do not underflow.
double step_by_step(const echo::shape& shape, const std::vector<std::int32_t>& labels, const numbers& p) {
    std::vector<std::int32_t> states{0};
    for (const auto label : labels) states.insert(states.end(), {label, 0});
    std::vector<long double> now(states.size(), 0), next;
    for (std::int64_t t = 0; t < shape[0]; ++t) {
        next.assign(states.size(), 0);
        for (std::size_t s = 0; s < states.size(); ++s) {
            long double sum = t == 0 ? (s < 2 ? 1 : 0) : now[s];
            if (t && s) sum += now[s - 1];
            if (t && s > 1 && states[s] && states[s] != states[s - 2]) sum += now[s - 2];
            next[s] = sum * static_cast<long double>(p[static_cast<std::size_t>(t * shape[2] + states[s])]);
        }
        now = next;
    }
    const std::size_t n = now.size();
    return static_cast<double>(-std::log(now[n - 1] + (n > 1 ? now[n - 2] : 0)));
}

} // namespace

TEST_CASE("temporal classification against all paths") {
    struct one {
        const char* name;
        echo::shape scores;
        tensor_data labels;
    };
    const one cases[] = {
        {"two labels", {4, 1, 3}, integers({1, 2}, {1, 2})},
        {"equal labels need a blank", {4, 1, 3}, integers({1, 2}, {2, 2})},
        {"just enough steps", {3, 1, 3}, integers({1, 2}, {1, 1})},
        {"too few steps for equal labels", {2, 1, 3}, integers({1, 2}, {1, 1})},
        {"too few steps", {2, 1, 4}, integers({1, 3}, {1, 2, 3})},
        {"no label", {4, 1, 3}, integers({1, 2}, {0, 0})},
        {"labels without room", {3, 2, 3}, integers({2, 0}, std::vector<std::int32_t>{})},
        {"one step, one label", {1, 1, 4}, integers({1, 1}, {3})},
        {"one step, no label", {1, 1, 4}, integers({1, 1}, {0})},
        {"what is negative ends a row too", {4, 1, 3}, integers({1, 3}, {2, -1, 1})},
        {"all kinds in one batch", {5, 5, 3}, integers({5, 4}, {1, 2, 1, 0, 2, 2, 0, 0, 0, 0, 0, 0, //
                                                                1, 1, 1, 1, 1, 2, 2, 1})},
        {"blanks alone", {3, 2, 1}, integers({2, 1}, {0, 0})},
        {"repeated thrice", {6, 1, 3}, integers({1, 3}, {1, 1, 1})},
    };
    for (const auto& c : cases) {
        INFO(c.name);
        const inputs in{noise(c.scores, 1, 3), c.labels};
        const formula f = [&](const auto& x) { return every_path(c.scores, c.labels, x[0]); };
        const auto loss = run(ops::ctc_loss{}, in);
        close(loss[0], values(f, in), 4);
        const auto d = run(ops::ctc_loss_gradient{0.5}, {floats({1}, {3.0f}), in[0], in[1]});
        close(d[0], differences(f, in, 0, {1.5}), 8);
        CHECK(run(ops::ctc_loss{0.5}, in)[0].f32[0] ==
              Approx(0.5 * static_cast<double>(loss[0].f32[0])).margin(1e-6));
    }
}

TEST_CASE("a sequence too short for its labels counts 0") {
    const inputs in{noise({2, 1, 3}, 1), integers({1, 2}, {1, 1})};
    CHECK(run(ops::ctc_loss{}, in)[0].f32[0] == 0);
    const auto d = run(ops::ctc_loss_gradient{}, {floats({1}, {1.0f}), in[0], in[1]});
    CHECK(d[0].f32 == std::vector<float>(6, 0));
}

TEST_CASE("temporal classification of long sequences") {
    constexpr std::int64_t steps = 400, batch = 3, classes = 29, longest = 120;
    std::mt19937 draw(5);
    std::vector<std::int32_t> labels(batch * longest, 0);
    for (std::size_t b = 0; b < batch; ++b)
        for (std::size_t i = 0; i < static_cast<std::size_t>(longest) - 40 * b; ++i)
            labels[b * longest + i] = 1 + static_cast<std::int32_t>(draw() % (classes - 1));
    const inputs in{noise({steps, batch, classes}, 1, 6), integers({batch, longest}, labels)};
    const auto reference = [&](const tensor_data& scores) {
        double loss = 0;
        for (std::int64_t b = 0; b < batch; ++b) {
            numbers own(static_cast<std::size_t>(steps * classes));
            for (std::int64_t t = 0; t < steps; ++t)
                for (std::int64_t k = 0; k < classes; ++k)
                    own[static_cast<std::size_t>(t * classes + k)] = static_cast<double>(
                        scores.f32[static_cast<std::size_t>((t * batch + b) * classes + k)]);
            const numbers p = softmax({steps, classes}, -1, own);
            loss +=
                step_by_step({steps, 1, classes}, label_row(in[1], static_cast<std::size_t>(b)), p) / batch;
        }
        return loss;
    };
    const double expected = reference(in[0]);
    CHECK(expected > 500); // e^-500 is no double
    close(run(ops::ctc_loss{}, in)[0], {expected}, 4);
    const auto d = run(ops::ctc_loss_gradient{}, {floats({1}, {1.0f}), in[0], in[1]});
    // Some elements by differences. Scores are floats: 2^-6 is exact in them.
    for (int k = 0; k < 30; ++k) {
        const std::size_t at = draw() % d[0].f32.size();
        tensor_data scores = in[0];
        const float x = scores.f32[at];
        scores.f32[at] = x + 0.015625f;
        const double above = reference(scores), high = static_cast<double>(scores.f32[at]);
        scores.f32[at] = x - 0.015625f;
        const double slope = (above - reference(scores)) / (high - static_cast<double>(scores.f32[at]));
        CHECK(static_cast<double>(d[0].f32[at]) ==
              Approx(slope).margin(3e-5)); // truncation: 2^-12 · f''' / 6
    }
    // Adding one number to the scores of a step changes nothing.
    for (std::size_t row = 0; row < static_cast<std::size_t>(steps * batch); ++row) {
        double sum = 0;
        for (std::size_t k = 0; k < classes; ++k) sum += static_cast<double>(d[0].f32[row * classes + k]);
        REQUIRE(std::abs(sum) < 1e-6);
    }
}

TEST_CASE("rows of a table and the sum of their gradients") {
    for (const std::int64_t width : {1, 5, 40, 300}) {
        INFO("width " << width);
        const tensor_data table = noise({6, width}, 1);
        const tensor_data indices = integers({3, 4}, {0, 5, 5, 2, 5, 0, 1, 5, 2, 2, 5, 5});
        const auto y = run(ops::embedding{}, {table, indices});
        REQUIRE(y[0].what.shape == echo::shape{3, 4, width});
        const formula f = [&](const auto& x) {
            numbers made;
            for (const auto row : indices.i32)
                made.insert(made.end(), x[0].begin() + row * width, x[0].begin() + (row + 1) * width);
            return made;
        };
        CHECK(as_double(y[0]) == values(f, {table}));
        const tensor_data dy = noise({3, 4, width}, 2);
        const auto d = run(ops::embedding_gradient{{6, width}}, {dy, indices});
        close(d[0], differences(f, {table}, 0, as_double(dy)), 6);
        CHECK(d[0].f32[static_cast<std::size_t>(3 * width)] == 0); // no index names row 3
    }
    for (const std::int32_t index : {-1, 6}) {
        const tensor_data indices = integers({2}, {0, index});
        const std::string said = "index: element 1 is " + std::to_string(index) +
                                 ", of a table of 6 rows; give indices from 0, below the rows";
        CHECK(refusal(ops::embedding{}, {noise({6, 2}, 1), indices}) == said);
        CHECK(refusal(ops::embedding_gradient{{6, 2}}, {noise({2, 2}, 1), indices}) == said);
    }
}

TEST_CASE("padded sequences") {
    for (const std::int64_t width : {1, 3, 5000}) {
        INFO("width " << width);
        const echo::shape shape = width == 1 ? echo::shape{4, 3} : echo::shape{4, 3, width};
        const tensor_data x = noise(shape, 1), lengths = integers({3}, {4, 1, 3}),
                          none = integers({3}, {0, 2, 4});
        const auto w = static_cast<std::size_t>(width);
        const auto picked = [&](const numbers& in, std::size_t t, std::size_t b, std::size_t k) {
            return in[(t * 3 + b) * w + k];
        };
        const auto each = [&](const tensor_data& ends, const auto& element) {
            return formula([&, ends, element](const std::vector<numbers>& in) {
                numbers made;
                for (std::size_t t = 0; t < 4; ++t)
                    for (std::size_t b = 0; b < 3; ++b)
                        for (std::size_t k = 0; k < w; ++k)
                            made.push_back(element(in[0], t, static_cast<std::size_t>(ends.i32[b]), b, k));
                return made;
            });
        };
        for (const tensor_data& ends : {lengths, none}) {
            const formula mask = each(ends, [&](const numbers& in, auto t, auto length, auto b, auto k) {
                return t < length ? picked(in, t, b, k) : -7.0;
            });
            CHECK(as_double(run(ops::sequence_mask{-7}, {x, ends})[0]) == values(mask, {x}));
            const formula reverse = each(ends, [&](const numbers& in, auto t, auto length, auto b, auto k) {
                return picked(in, t < length ? length - 1 - t : t, b, k);
            });
            CHECK(as_double(run(ops::sequence_reverse{}, {x, ends})[0]) == values(reverse, {x}));
            // Both are their own gradient, the mask with 0.
            if (width < 100) {
                const tensor_data dy = noise(shape, 2);
                close(run(ops::sequence_mask{0}, {dy, ends})[0], differences(mask, {x}, 0, as_double(dy)), 1);
                close(run(ops::sequence_reverse{}, {dy, ends})[0],
                      differences(reverse, {x}, 0, as_double(dy)), 1);
            }
        }
        const auto y = run(ops::sequence_last{}, {x, lengths});
        const formula last = [&](const auto& in) {
            numbers made;
            for (std::size_t b = 0; b < 3; ++b)
                for (std::size_t k = 0; k < w; ++k)
                    made.push_back(picked(in[0], static_cast<std::size_t>(lengths.i32[b]) - 1, b, k));
            return made;
        };
        CHECK(as_double(y[0]) == values(last, {x}));
        if (width < 100) {
            const tensor_data dy = noise(y[0].what.shape, 3);
            close(run(ops::sequence_last_gradient{shape}, {dy, lengths})[0],
                  differences(last, {x}, 0, as_double(dy)), 1);
        }
    }
}

TEST_CASE("lengths that do not fit are refused") {
    const tensor_data x = noise({4, 2, 3}, 1);
    const auto refused = [&](const op& o, std::int32_t length, const tensor_data& in) {
        return refusal(o, {in, integers({2}, {1, length})});
    };
    const std::string advice = " can be; cut the sequence, or take a longer bucket";
    CHECK(refused(ops::sequence_mask{}, 5, x) == "length: sequence 1 has length 5, where 0 to 4" + advice);
    CHECK(refused(ops::sequence_reverse{}, -1, x) ==
          "length: sequence 1 has length -1, where 0 to 4" + advice);
    CHECK(refused(ops::sequence_last{}, 0, x) == "length: sequence 1 has length 0, where 1 to 4" + advice);
    CHECK(refused(ops::sequence_last_gradient{{4, 2, 3}}, 5, noise({2, 3}, 1)) ==
          "length: sequence 1 has length 5, where 1 to 4" + advice);
    CHECK(refused(ops::sequence_mask{}, 4, x) == "nothing");
    CHECK(refused(ops::sequence_last{}, 1, x) == "nothing");
}

TEST_CASE("lengths of padded sequences") {
    const auto y = run(ops::count_nonzero{}, {integers({3, 4}, {1, 2, 0, 0, 0, 0, 0, 0, 3, -1, 2, 9})});
    CHECK(y[0].i32 == std::vector<std::int32_t>{2, 0, 4});
    const auto z = run(ops::count_nonzero{}, {integers({2, 1, 2}, {1, 0, 1, 1})});
    CHECK(z[0].what.shape == echo::shape{2, 1});
    CHECK(z[0].i32 == std::vector<std::int32_t>{1, 2});
}

TEST_CASE("the factor that clips gradients") {
    const inputs in{noise({300, 111}, 1), noise({7}, 2), noise({3, 5}, 3)};
    double sum = 0;
    for (const auto& t : in)
        for (const float x : t.f32) sum += static_cast<double>(x) * static_cast<double>(x);
    const double norm = std::sqrt(sum);
    close(run(ops::clip_factor{1}, in)[0], {1 / norm}, 1);
    CHECK(run(ops::clip_factor{norm * 1.001}, in)[0].f32[0] == 1);
    CHECK(run(ops::clip_factor{1}, {tensor_data(f32({4}))})[0].f32[0] == 1); // no gradient, no division by 0
    // The same bits on any number of threads.
    const auto two = run_once(processor(), ops::clip_factor{1}, in, {});
    for (const int threads : {1, 3}) {
        cpu::backend other(threads);
        CHECK(run_once(other, ops::clip_factor{1}, in, {}) == two);
    }
    inputs bad = in;
    for (const float x : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
        bad[1].f32[3] = x;
        CHECK(refusal(ops::clip_factor{1}, bad) ==
              "gradient: the norm of the gradients is not finite; lower the learning rate");
    }
}

TEST_CASE("optimizers") {
    for (const std::int64_t n : {1, 300, 20000}) {
        INFO(n << " elements");
        const tensor_data w = noise({n}, 1), g = noise({n}, 2), m = noise({n}, 3);
        tensor_data v = noise({n}, 4);
        for (float& x : v.f32) x *= x;
        const tensor_data clip = floats({1}, {0.25f});
        for (const double scale : {1.0, 0.25}) {
            const auto with_factor = [&](inputs in) {
                if (scale != 1) in.push_back(clip);
                return in;
            };
            const ops::sgd sgd{.rate = 0.1, .momentum = 0.9, .decay = 0.01};
            const auto a = run(sgd, with_factor({w, g, m}));
            const ops::adam adam{.rate = 0.01, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-6};
            const auto b = run(adam, with_factor({w, g, m, v}), 3);
            numbers expected[5];
            for (std::size_t i = 0; i < w.f32.size(); ++i) {
                const auto at = [&](const tensor_data& t) { return static_cast<double>(t.f32[i]); };
                const double gradient = scale * at(g);
                expected[1].push_back(0.9 * at(m) + gradient + 0.01 * at(w));
                expected[0].push_back(at(w) - 0.1 * expected[1].back());
                expected[3].push_back(0.9 * at(m) + 0.1 * gradient);
                expected[4].push_back(0.99 * at(v) + 0.01 * gradient * gradient);
                const double mean = expected[3].back() / (1 - std::pow(0.9, 3));
                const double square = expected[4].back() / (1 - std::pow(0.99, 3));
                expected[2].push_back(at(w) - 0.01 * mean / (std::sqrt(square) + 1e-6));
            }
            for (std::size_t k = 0; k < 2; ++k) close(a[k], expected[k], 3);
            for (std::size_t k = 0; k < 3; ++k) close(b[k], expected[2 + k], 4);
        }
    }
}

TEST_CASE("running statistics") {
    const inputs in{noise({333}, 1), noise({333}, 2)};
    numbers expected;
    for (std::size_t i = 0; i < 333; ++i)
        expected.push_back(0.75 * static_cast<double>(in[0].f32[i]) +
                           0.25 * static_cast<double>(in[1].f32[i]));
    close(run(ops::update_statistics{0.75}, in)[0], expected, 2);
}

TEST_CASE("large tensors on all threads: the same bits again") {
    // Sizes at which threads share the work; run() repeats each.
    const ops::sliding window{.stride = {2, 2}, .padding = {1, 1}, .channels_last = true};
    const inputs image{noise({4, 28, 28, 64}, 1), noise({64, 64, 3, 3}, 2)};
    const auto y = run(ops::convolution{window}, image);
    run(ops::convolution_data_gradient{window, image[0].what.shape}, {y[0], image[1]});
    run(ops::convolution_weight_gradient{window, image[1].what.shape}, {y[0], image[0]});
    for (const bool last : {false, true}) {
        const tensor_data x = last ? image[0] : noise({4, 64, 28, 28}, 3);
        const inputs in{x, noise({64}, 4), noise({64}, 5)};
        const std::int64_t axis = last ? 3 : 1;
        const auto s = run(ops::batch_statistics{axis}, {x});
        run(ops::batch_norm{.axis = axis}, {x, in[1], in[2], s[0], s[1]});
        run(ops::batch_norm_gradient{.axis = axis}, {x, in[0], in[1], s[0], s[1]});
        const ops::pooling op{ops::pooling::max, {3, 3}, {.stride = {2, 2}, .channels_last = last}};
        const auto p = run(op, {x});
        run(ops::pooling_gradient{op, x.what.shape}, {p[0], x, p[0]});
    }
    const inputs scores{noise({200, 3001}, 1), integers({200}, std::vector<std::int32_t>(200, 7))};
    const auto z = run(ops::softmax_output{}, scores);
    run(ops::softmax_output_gradient{}, {z[0], scores[1], z[1]});
    // Own kernels do not depend on the number of threads at all.
    const auto two = run_once(processor(), ops::softmax_output{}, scores, {});
    cpu::backend one(1);
    CHECK(run_once(one, ops::softmax_output{}, scores, {}) == two);
    run(ops::convolution{window}, image); // and the number of threads is the backend's own again
    CHECK(run(ops::convolution{window}, image)[0].f32 == y[0].f32);
}

TEST_CASE("an element's bits do not hang on where its tensor lies and which of its elements it is") {
    constexpr std::size_t count =
        3 * cpu::block_size + 37; // whole blocks, which are computed in place, and a copied one
    const auto extent = static_cast<std::int64_t>(count);
    const inputs in{noise({extent}, 1), noise({extent}, 2)};
    const std::pair<op, std::size_t> all[] = {{ops::elementwise<echo::tanh_op>{}, 1},
                                              {ops::elementwise<echo::sigmoid_op>{}, 1},
                                              {ops::elementwise<echo::multiply_op>{}, 2},
                                              {ops::elementwise_gradient<echo::tanh_op, 0>{}, 2}};
    for (const auto& [o, reads] : all) {
        const inputs read(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(reads));
        const auto y = run(o, read)[0].f32; // at several addresses, and over its input
        for (std::size_t i = 0; i < count; i += 101) {
            inputs alone;
            for (const auto& x : read) {
                alone.push_back(noise({1}, 1));
                alone.back().f32 = {x.f32[i]};
            }
            CHECK(run(o, alone)[0].f32[0] == y[i]);
        }
    }
    run(ops::elementwise<ops::dropout_op>{{0.25}}, {in[0]});
    run(ops::broadcast<echo::multiply_op>{}, {noise({5, 3, 300}, 3), noise({5, 1, 300}, 4)});
    run(ops::add_n{}, {in[0], in[1], in[0]});
}

TEST_CASE("dropout keeps what Philox says, number by number") {
    const double rate = GENERATE(0.25, 0.5, 0.9375);
    const std::uint64_t seed = GENERATE(std::uint64_t{0}, 0x299f31d0'a4093822u, ~std::uint64_t{0});
    const op o = ops::elementwise<ops::dropout_op>{{rate}};
    const tensor_data x = noise({3 * cpu::block_size + 37}, 1);
    std::vector<float> y(x.f32.size()), kept(x.f32.size());
    const tensors from{x.what}, to = infer(o, from);
    const input_view in[] = {{x.data(), &x.what, false}};
    const output_view out[] = {{y.data(), &to[0]}, {kept.data(), &to[1]}};
    processor().run(o, {.inputs = in, .outputs = out, .seed = seed});
    for (std::size_t i = 0; i < kept.size(); ++i) {
        const auto words = echo::cuda::philox({{static_cast<std::uint32_t>(i / 4), 0, 0, 0}}, seed);
        const float u = static_cast<float>(words.at[i % 4] >> 8) / 16777216.0f;
        REQUIRE((kept[i] > 0) == (u >= static_cast<float>(rate)));
    }
}

TEST_CASE("an op that makes nothing reads nothing, whatever is repeated") {
    const tensor_data none = noise({0, 4}, 1), row = noise({4}, 2);
    CHECK(run(ops::broadcast<echo::add_op>{}, {none, row})[0].f32.empty());
    CHECK(run(ops::broadcast<echo::add_op>{}, {row, none})[0].f32.empty());
    CHECK(run(ops::add_n{}, {none, none})[0].f32.empty());
    CHECK(run(ops::encode{}, {none})[0].i32.empty());
    // Of no terms, the sum is 0.
    const op gradient = ops::broadcast_gradient<echo::add_op, 1>{row.what.shape};
    CHECK(run(gradient, {none})[0].f32 == std::vector<float>(4, 0.0f));
}
