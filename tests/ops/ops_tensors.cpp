// SPDX-License-Identifier: BSL-1.0
// The mathematics of the ops on whole tensors: an interpreter of symbolic programs evaluates forward and
// gradient, and the gradient is compared with finite differences of the forward.
#include <echo/ops/attention.hpp>
#include <echo/ops/batch_norm.hpp>
#include <echo/ops/convolution.hpp>
#include <echo/ops/embedding.hpp>
#include <echo/ops/layer_norm.hpp>
#include <echo/ops/matmul.hpp>
#include <echo/ops/pooling.hpp>
#include <echo/ops/reductions.hpp>
#include <echo/ops/softmax.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using echo::shape;
using echo::symbol::operation;
using echo::symbol::program_view;
using echo::symbol::step;

struct dense {
    shape extents;
    std::vector<double> data;
};
using index = std::vector<std::int64_t>;

std::size_t count(const shape& s) { return static_cast<std::size_t>(echo::element_count(s)); }
dense zeros(const shape& s) { return {s, std::vector<double>(count(s))}; }

index unravel(std::size_t position, const shape& s) {
    index at(s.rank());
    for (std::size_t axis = s.rank(); axis-- > 0;) {
        const auto extent = static_cast<std::size_t>(s[axis]);
        at[axis] = static_cast<std::int64_t>(position % extent);
        position /= extent;
    }
    return at;
}
/// The element at `at`, axes aligned at the last one and extents of 1 repeated.
template <class Dense>
auto& at(Dense& t, const index& where) {
    std::size_t position = 0;
    const std::size_t skip = where.size() - t.extents.rank();
    for (std::size_t axis = 0; axis < t.extents.rank(); ++axis) {
        const auto extent = t.extents[axis];
        position = position * static_cast<std::size_t>(extent) +
                   static_cast<std::size_t>(extent == 1 ? 0 : where[skip + axis]);
    }
    return t.data[position];
}

dense each(const shape& s, const std::function<double(const index&)>& f) {
    dense result = zeros(s);
    for (std::size_t i = 0; i < result.data.size(); ++i) result.data[i] = f(unravel(i, s));
    return result;
}

double elementwise(operation op, double a, double b, double c) {
    switch (op) {
    case operation::add:
        return a + b;
    case operation::subtract:
        return a - b;
    case operation::multiply:
        return a * b;
    case operation::divide:
        return a / b;
    case operation::negate:
        return -a;
    case operation::exp:
        return std::exp(a);
    case operation::log:
        return std::log(a);
    case operation::rsqrt:
        return 1 / std::sqrt(a);
    case operation::equal:
        return a == b;
    case operation::select:
        return a != 0 ? b : c;
    default:
        FAIL("an operation that this interpreter does not know");
        return 0;
    }
}

/// Visits each pair (output position, input position) that a two-dimensional window connects, and the kernel
/// position between them.
template <class F>
void slide(const shape& y, const shape& x, std::int64_t kh, std::int64_t kw, const echo::window& g, F f) {
    for (std::int64_t i = 0; i < y[2]; ++i)
        for (std::int64_t j = 0; j < y[3]; ++j)
            for (std::int64_t p = 0; p < kh; ++p)
                for (std::int64_t q = 0; q < kw; ++q) {
                    const auto r = i * g.stride[0] - g.padding[0] + p * g.dilation[0];
                    const auto s = j * g.stride[1] - g.padding[1] + q * g.dilation[1];
                    if (r >= 0 && r < x[2] && s >= 0 && s < x[3]) f(i, j, r, s, p, q);
                }
}

/// y, x or w of a convolution, whichever is missing, is summed into.
template <class Y, class X, class W>
void convolve(Y& y, X& x, W& w, const echo::window& g, const std::function<void(index, index, index)>& f) {
    for (std::int64_t n = 0; n < x.extents[0]; ++n)
        for (std::int64_t o = 0; o < w.extents[0]; ++o)
            for (std::int64_t c = 0; c < x.extents[1]; ++c)
                slide(y.extents, x.extents, w.extents[2], w.extents[3], g,
                      [&](auto i, auto j, auto r, auto s, auto p, auto q) {
                          f({n, o, i, j}, {n, c, r, s}, {o, c, p, q});
                      });
}

dense tensor_step(const step& s, const shape& made, const std::vector<const dense*>& in) {
    const auto& a = *in[0];
    const auto& g = s.parameter.window;
    switch (s.op) {
    case operation::matmul: {
        const auto [ta, tb] = s.parameter.transposed;
        const auto inner = a.extents[a.extents.rank() - (ta ? 2 : 1)];
        return each(made, [&, ta = ta, tb = tb](index where) {
            const auto m = where[where.size() - 2], n = where.back();
            double sum = 0;
            for (std::int64_t k = 0; k < inner; ++k) {
                index x = where, y = where;
                x[x.size() - 2] = ta ? k : m, x.back() = ta ? m : k;
                y[y.size() - 2] = tb ? n : k, y.back() = tb ? k : n;
                sum += at(a, x) * at(*in[1], y);
            }
            return sum;
        });
    }
    case operation::rows:
        return {made, a.data};
    case operation::shape_of:
        return a;
    case operation::along_axis:
        return each(made, [&](const index& where) {
            return a.data[static_cast<std::size_t>(where[static_cast<std::size_t>(s.parameter.number)])];
        });
    case operation::broadcast:
    case operation::broadcast_mean: {
        // Every broadcast here undoes a reduction over all axes, the first, or the last.
        const double share = s.op == operation::broadcast
                                 ? 1
                                 : static_cast<double>(count(a.extents)) / static_cast<double>(count(made));
        const bool last_dropped = a.extents.rank() + 1 == made.rank() && a.extents[0] == made[0];
        return each(made, [&](index where) {
            if (last_dropped) where.pop_back();
            return share * at(a, where);
        });
    }
    case operation::sum:
    case operation::mean:
    case operation::max_over: {
        const bool highest = s.op == operation::max_over;
        dense result = zeros(made);
        if (highest)
            std::fill(result.data.begin(), result.data.end(), -std::numeric_limits<double>::infinity());
        for (std::size_t i = 0; i < a.data.size(); ++i) {
            const index from = unravel(i, a.extents);
            index to;
            for (std::size_t axis = 0; axis < from.size(); ++axis)
                if (!s.parameter.axes.contains(axis, from.size()))
                    to.push_back(from[axis]);
                else if (s.parameter.axes.kept)
                    to.push_back(0);
            auto& value = at(result, to);
            value = highest ? std::max(value, a.data[i]) : value + a.data[i];
        }
        if (s.op == operation::mean)
            for (auto& value : result.data)
                value *= static_cast<double>(result.data.size()) / static_cast<double>(a.data.size());
        return result;
    }
    case operation::gather_rows:
        return each(made, [&](const index& where) {
            const index which(where.begin(), where.end() - 1);
            return at(a, {static_cast<std::int64_t>(at(*in[1], which)), where.back()});
        });
    case operation::scatter_rows: {
        dense result = zeros(made);
        for (std::size_t i = 0; i < a.data.size(); ++i) {
            const index where = unravel(i, a.extents), which(where.begin(), where.end() - 1);
            at(result, {static_cast<std::int64_t>(at(*in[1], which)), where.back()}) += a.data[i];
        }
        return result;
    }
    case operation::one_hot:
        return each(made, [&](index where) {
            const auto label = where.back();
            where.pop_back();
            return at(a, where) == static_cast<double>(label) ? 1.0 : 0.0;
        });
    case operation::convolution: {
        dense y = zeros(made);
        convolve(y, a, *in[1], g, [&](const index& i, const index& j, const index& k) {
            at(y, i) += at(a, j) * at(*in[1], k);
        });
        return y;
    }
    case operation::convolution_data_gradient: {
        dense dx = zeros(made);
        convolve(a, dx, *in[1], g, [&](const index& i, const index& j, const index& k) {
            at(dx, j) += at(a, i) * at(*in[1], k);
        });
        return dx;
    }
    case operation::convolution_weight_gradient: {
        dense dw = zeros(made);
        convolve(a, *in[1], dw, g, [&](const index& i, const index& j, const index& k) {
            at(dw, k) += at(a, i) * at(*in[1], j);
        });
        return dw;
    }
    case operation::max_pool:
    case operation::mean_pool:
    case operation::max_pool_gradient:
    case operation::mean_pool_gradient: {
        const bool highest = s.op == operation::max_pool || s.op == operation::max_pool_gradient;
        const bool back = s.op == operation::max_pool_gradient || s.op == operation::mean_pool_gradient;
        dense result = zeros(made);
        if (highest && !back)
            std::fill(result.data.begin(), result.data.end(), -std::numeric_limits<double>::infinity());
        const shape &y = back ? a.extents : made, &x = back ? made : a.extents;
        for (std::int64_t n = 0; n < x[0]; ++n)
            for (std::int64_t c = 0; c < x[1]; ++c)
                slide(y, x, g.kernel[0], g.kernel[1], g, [&](auto i, auto j, auto r, auto q, auto, auto) {
                    const index to{n, c, i, j}, from{n, c, r, q};
                    if (!back && highest)
                        at(result, to) = std::max(at(result, to), at(a, from));
                    else if (!back)
                        at(result, to) += at(a, from) / (g.kernel[0] * g.kernel[1]);
                    else if (!highest)
                        at(result, from) += at(a, to) / (g.kernel[0] * g.kernel[1]);
                    else if (at(*in[1], from) == at(*in[2], to))
                        at(result, from) += at(a, to);
                });
        return result;
    }
    default:
        return each(made, [&](const index& where) {
            return elementwise(s.op, at(a, where), in.size() > 1 ? at(*in[1], where) : 0,
                               in.size() > 2 ? at(*in[2], where) : 0);
        });
    }
}

/// Evaluates every step of a program; shapes come from the values.
std::vector<dense> evaluate(const program_view& p, const std::vector<dense>& x,
                            const std::vector<dense>& y = {}, const std::vector<dense>& dy = {}) {
    std::vector<dense> values;
    for (const auto& s : p.steps) {
        if (s.op == operation::literal) {
            values.push_back({shape::scalar(), {s.parameter.number}});
        } else if (s.op == operation::input) {
            values.push_back(x.at(s.operands[0]));
        } else if (s.op == operation::output) {
            values.push_back(y.at(s.operands[0]));
        } else if (s.op == operation::output_gradient) {
            values.push_back(dy.at(s.operands[0]));
        } else {
            std::vector<const dense*> in;
            std::vector<echo::tensor> shapes;
            step alone = s;
            for (std::uint16_t k = 0; k < s.arity; ++k) {
                in.push_back(&values[s.operands[k]]);
                shapes.push_back({.shape = in.back()->extents});
                alone.operands[k] = k;
            }
            // The shape reading of this one step, on leaves.
            std::vector<step> steps;
            for (std::uint16_t k = 0; k < s.arity; ++k) steps.push_back({operation::input, {k}, 0, {}});
            steps.push_back(alone);
            const std::uint16_t last = s.arity;
            const auto made = echo::symbol::infer({steps, {&last, 1}}, shapes).results[0];
            REQUIRE(made.known());
            values.push_back(tensor_step(s, made, in));
        }
    }
    std::vector<dense> results;
    for (const auto number : p.results)
        results.push_back(number == program_view::none ? dense{} : values[number]);
    return results;
}

/// Compares `Op`'s gradient with central differences of `Op`'s forward, in every element. `given` replaces
/// the random input of that number (indices, labels).
template <class Op>
void check(std::initializer_list<shape> shapes,
           const std::vector<std::pair<std::size_t, dense>>& given = {}) {
    INFO(std::string(echo::facts_of<Op>().name));
    constexpr std::size_t gradients = echo::symbol::detail::gradient_call<Op>::gradients;
    std::mt19937_64 engine(11);
    std::uniform_real_distribution<double> number(-1, 1);
    std::vector<dense> x;
    for (const auto& s : shapes) x.push_back(each(s, [&](const index&) { return number(engine); }));
    for (const auto& [position, value] : given) x[position] = value;

    const auto y = evaluate(echo::forward_program<Op>.view(), x);
    std::vector<dense> dy;
    for (std::size_t k = 0; k < gradients; ++k)
        dy.push_back(each(y[k].extents, [&](const index&) { return number(engine); }));
    const auto loss = [&](const std::vector<dense>& at_x) {
        const auto at_y = evaluate(echo::forward_program<Op>.view(), at_x);
        double sum = 0;
        for (std::size_t k = 0; k < gradients; ++k)
            for (std::size_t e = 0; e < dy[k].data.size(); ++e) sum += dy[k].data[e] * at_y[k].data[e];
        return sum;
    };
    const auto dx = evaluate(echo::gradient_program<Op>.view(), x, y, dy);
    REQUIRE(dx.size() == x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (!dx[i].extents.known()) continue;
        CHECK(dx[i].extents == x[i].extents);
        for (std::size_t e = 0; e < x[i].data.size(); ++e) {
            const double h = 1e-5;
            auto above = x, below = x;
            above[i].data[e] += h;
            below[i].data[e] -= h;
            CAPTURE(i, e);
            CHECK(dx[i].data[e] == Approx((loss(above) - loss(below)) / (2 * h)).epsilon(1e-5).margin(1e-7));
        }
    }
}

constexpr echo::window strided{
    .stated = true, .kernel = {3, 2, 1}, .stride = {2, 1, 1}, .padding = {1, 0, 0}, .dilation = {1, 2, 1}};

} // namespace

TEST_CASE("matrix products have the gradients they state") {
    check<echo::batch_dot_op>({{2, 3, 4}, {2, 4, 5}});
    check<echo::fully_connected_op>({{2, 3, 4}, {5, 4}});
    check<echo::biased_fully_connected_op>({{3, 4}, {5, 4}, {5}});
    check<echo::add_matmul_op>({{3, 5}, {3, 4}, {4, 5}});
}

TEST_CASE("convolutions and pooling have the gradients they state") {
    check<echo::convolution_op<strided>>({{2, 2, 5, 6}, {3, 2, 3, 2}});
    check<echo::biased_convolution_op<strided>>({{1, 2, 5, 4}, {3, 2, 3, 2}, {3}});
    check<echo::max_pool_op<strided>>({{1, 2, 5, 6}});
    check<echo::mean_pool_op<strided>>({{1, 2, 5, 6}});
}

TEST_CASE("softmax and normalisations have the gradients they state") {
    check<echo::softmax_op<>>({{3, 5}});
    check<echo::softmax_op<0>>({{3, 5}});
    check<echo::log_softmax_op<>>({{3, 5}});
    check<echo::softmax_cross_entropy_op>({{3, 5}, {3}}, {{1, {{3}, {4, 0, 2}}}});
    check<echo::layer_norm_op>({{2, 3, 6}, {6}, {6}});
    check<echo::rms_norm_op>({{4, 6}, {6}});
    check<echo::batch_norm_op>({{4, 3, 2, 2}, {3}, {3}});
}

TEST_CASE("attention, embedding and reductions have the gradients they state") {
    check<echo::attention_op>({{2, 3, 4}, {2, 5, 4}, {2, 5, 6}});
    check<echo::embedding_op>({{5, 3}, {2, 2}}, {{1, {{2, 2}, {4, 1, 1, 0}}}});
    check<echo::sum_op<>>({{3, 4}});
    check<echo::sum_op<echo::over(0)>>({{3, 4}});
    check<echo::mean_op<echo::over(-1)>>({{3, 4}});
    check<echo::max_op<echo::over(-1)>>({{3, 4}});
}
