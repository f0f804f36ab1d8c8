// SPDX-License-Identifier: BSL-1.0
// Fused kernels that reduce rows, on the host: softmax, the normalisations, losses and sums, straight from the ops'
// lambdas, against a walk of the ops' programs that makes every step a whole map and adds in the order that
// kernel/fused.hpp documents.
#include "support/fused_memory.hpp"
#include "support/properties.hpp"

#include <echo/cuda/kernel/fused_call.hpp>
#include <echo/cuda/kernel/launch.hpp>
#include <echo/ops/activations.hpp>
#include <echo/ops/arithmetic.hpp>
#include <echo/ops/batch_norm.hpp>
#include <echo/ops/layer_norm.hpp>
#include <echo/ops/reductions.hpp>
#include <echo/ops/softmax.hpp>

#include <functional>
#include <optional>

namespace {

using namespace echo::cuda::fused;
using namespace support;
using echo::cuda::bfloat16;
using echo::cuda::half;
using echo::symbol::operation;

/// Rows of `lines` lines, each of `line` elements.
struct rows {
    std::size_t count = 1, lines = 1, line = 1;
    std::size_t length() const { return lines * line; }
};

/// One value for each element of all rows; a step of the program at a time.
class walk {
public:
    walk(const rows& shape, std::size_t width, std::function<map(operation, std::size_t)> leaf)
        : shape_(shape), width_(width), leaf_(std::move(leaf)) {}

    /// The map of each result; what is one per row stands in all elements of the row.
    std::vector<map> operator()(const echo::symbol::program_view& p) const {
        std::vector<map> made;
        for (const auto& s : p.steps) made.push_back(step_of(s, made));
        std::vector<map> out;
        for (const auto r : p.results) out.push_back(r == p.none ? map{} : made[r]);
        return out;
    }

private:
    using number = echo::real<float>;

    map each(const std::function<float(std::size_t)>& f) const {
        map m(shape_.count * shape_.length());
        for (std::size_t i = 0; i < m.size(); ++i) m[i] = f(i);
        return m;
    }
    /// Lane by lane, group by group, then the butterfly.
    map reduced(const map& x, float none, float (*both)(float, float)) const {
        map m(x.size());
        for (std::size_t row = 0; row < shape_.count; ++row) {
            std::array<float, 32> lanes;
            lanes.fill(none);
            for (std::size_t j = 0; j < shape_.length(); ++j) {
                float& lane = lanes[j / width_ % 32];
                lane = both(lane, x[row * shape_.length() + j]);
            }
            for (std::size_t distance = 16; distance > 0; distance /= 2) {
                const auto before = lanes;
                for (std::size_t l = 0; l < 32; ++l) lanes[l] = both(before[l], before[l ^ distance]);
            }
            for (std::size_t j = 0; j < shape_.length(); ++j) m[row * shape_.length() + j] = lanes[0];
        }
        return m;
    }
    map step_of(const echo::symbol::step& s, const std::vector<map>& made) const {
        const auto at = [&](std::size_t k) -> const map& { return made[s.operands[k]]; };
        const auto a = [&](std::size_t i) { return number(at(0)[i]); };
        const auto b = [&](std::size_t i) { return number(at(1)[i]); };
        const auto length = static_cast<float>(shape_.length());
        const auto add = [](float x, float y) { return x + y; };
        const auto most = [](float x, float y) { return x < y || y != y ? y : x; };
        switch (s.op) {
        case operation::literal:
            return each([&](std::size_t) { return static_cast<float>(s.parameter.number); });
        case operation::input:
        case operation::output:
        case operation::output_gradient:
            return leaf_(s.op, s.operands[0]);
        case operation::add:
            return each([&](std::size_t i) { return (a(i) + b(i)).value(); });
        case operation::subtract:
            return each([&](std::size_t i) { return (a(i) - b(i)).value(); });
        case operation::multiply:
            return each([&](std::size_t i) { return (a(i) * b(i)).value(); });
        case operation::divide:
            return each([&](std::size_t i) { return (a(i) / b(i)).value(); });
        case operation::negate:
            return each([&](std::size_t i) { return (-a(i)).value(); });
        case operation::exp:
            return each([&](std::size_t i) { return exp(a(i)).value(); });
        case operation::log:
            return each([&](std::size_t i) { return log(a(i)).value(); });
        case operation::rsqrt:
            return each([&](std::size_t i) { return rsqrt(a(i)).value(); });
        case operation::equal:
            return each([&](std::size_t i) { return at(0)[i] == at(1)[i] ? 1.0f : 0.0f; });
        case operation::select:
            return each([&](std::size_t i) { return at(0)[i] != 0 ? at(1)[i] : at(2)[i]; });
        case operation::shape_of:
            return {};
        case operation::broadcast:
        case operation::along_axis:
            return at(0);
        case operation::broadcast_mean:
            return each([&](std::size_t i) { return at(0)[i] / length; });
        case operation::one_hot:
            return each([&](std::size_t i) {
                return at(0)[i] == static_cast<float>(i % shape_.length()) ? 1.0f : 0.0f;
            });
        case operation::sum:
            return reduced(at(0), 0, add);
        case operation::mean: {
            map m = reduced(at(0), 0, add);
            for (float& x : m) x /= length;
            return m;
        }
        case operation::max_over:
            return reduced(at(0), -std::numeric_limits<float>::infinity(), most);
        default:
            FAIL("the walk lacks an operation");
            return {};
        }
    }

    rows shape_;
    std::size_t width_;
    std::function<map(operation, std::size_t)> leaf_;
};

extents as_extents(const rows& r) {
    const auto n = [](std::size_t x) { return static_cast<std::int64_t>(x); };
    return r.lines == 1 ? extents{n(r.count), n(r.line)}
                        : extents{n(r.count), n(r.lines), n(r.line)}.with_rows_of(2);
}

/// An operand that covers everything, or has one element per row, or (`shared`) one per column.
enum class covers { all, row, column };

template <class T>
placed<T> drawn(const rows& r, covers what, numbers& draw, map& values, bool tame) {
    const extents e = as_extents(r);
    strides step{};
    if (what == covers::all) {
        // Lines may be apart, and rows too: a batch normalisation's are.
        std::int64_t next = 1;
        std::vector<std::size_t> order(e.rank);
        for (std::size_t a = 0; a < e.rank; ++a) order[a] = e.rank - 1 - a;
        if (e.rank == 3 && draw.below(2) == 0) std::swap(order[1], order[2]);
        if (draw.below(6) == 0) std::swap(order[0], order[1]);
        for (const auto a : order) {
            step[a] = next;
            next = next * std::max<std::int64_t>(e.of[a], 1) + (draw.below(4) == 0 ? 3 : 0);
        }
    } else if (what == covers::row) {
        step[0] = 1;
    } else {
        step = laid_over(extents{e.of[e.rank - 1]}, e);
    }
    extents own = e;
    if (what == covers::row)
        for (std::size_t a = 1; a < e.rank; ++a) own.of[a] = 1; // an empty row has its element too
    placed<T> p{exact<T>(reach(own, step), draw.below(9)), step};
    for (std::size_t i = 0; i < p.memory.size(); ++i) {
        const float x = draw();
        p.memory[i] = static_cast<T>(tame && !(std::abs(x) < 5) ? 0.5f : x);
    }
    values.resize(r.count * r.length());
    each_element(e, step, [&](std::size_t i, std::size_t at) { values[i] = as_float(p.memory[at]); });
    return p;
}

/// Runs `fuse<E…>` on operands that cover what `what` says and gives its results as whole maps.
template <class T, class... E>
std::vector<map> run(const rows& r, const std::vector<covers>& what, numbers& draw, std::vector<map>& values,
                     bool tame) {
    using f = fuse<E...>;
    const extents e = as_extents(r);
    values.resize(f::inputs);
    const auto from = [&]<std::size_t... I>(std::index_sequence<I...>) {
        return std::tuple{drawn<T>(r, what[I], draw, values[I], tame)...};
    }(std::make_index_sequence<f::inputs>{});
    std::vector<map> out(f::outputs);
    map nothing;
    const auto to = [&]<std::size_t... K>(std::index_sequence<K...>) {
        return std::array{
            drawn<T>(r, f::result_by_row.contains(K) ? covers::row : covers::all, draw, nothing, tame)...};
    }(std::make_index_sequence<f::outputs>{});
    const auto body = [&]<std::size_t... K, std::size_t... I>(std::index_sequence<K...>,
                                                              std::index_sequence<I...>) {
        return body_of<f>(results(to[K].as()...), operands(std::get<I>(from).as_const()...), e);
    }(std::make_index_sequence<f::outputs>{}, std::make_index_sequence<f::inputs>{});
    echo::cuda::host_launch(body, random_grid(draw));
    for (std::size_t k = 0; k < f::outputs; ++k) {
        out[k].resize(r.count * r.length());
        each_element(e, to[k].step,
                     [&](std::size_t i, std::size_t at) { out[k][i] = as_float(to[k].memory[at]); });
    }
    return out;
}

template <class T>
void expect_same(const map& got, const map& expected) {
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        CAPTURE(i, got[i], expected[i]);
        REQUIRE(same_bits(got[i], as_float(T(expected[i]))));
    }
}

template <class T>
constexpr std::size_t width_of = sizeof(T) == 2 ? 8 : 4;

/// All outputs of `Op::forward`, from the lambda.
template <class T, class Op, std::size_t... I, std::size_t... K>
void check_forward(const rows& r, const std::vector<covers>& what, numbers& draw, bool tame,
                   std::index_sequence<I...>, std::index_sequence<K...>) {
    std::vector<map> in;
    const auto out = run<T, output<K, apply<Op, arg<I>...>>...>(r, what, draw, in, tame);
    const auto expected = walk(r, width_of<T>, [&](operation, std::size_t i) { return in[i]; })(
        echo::forward_program<Op>.view());
    for (std::size_t k = 0; k < out.size(); ++k) expect_same<T>(out[k], expected[k]);
}
template <class T, class Op>
void check_forward(const rows& r, const std::vector<covers>& what, numbers& draw, bool tame) {
    check_forward<T, Op>(r, what, draw, tame, std::make_index_sequence<echo::input_count<Op>>{},
                         std::make_index_sequence<echo::output_count<Op>>{});
}

/// Gradient `Input` of `Op` on dy…, x… whose outputs are made again within.
template <class T, class Op, std::size_t Input, std::size_t... I>
void check_recomputed(const rows& r, const std::vector<covers>& what, numbers& draw, bool tame,
                      std::index_sequence<I...>) {
    constexpr std::size_t gradients = echo::gradient_count<Op>;
    static_assert(gradients == 1);
    std::vector<map> in;
    const auto out = run<T, gradient_of<apply<Op, arg<I + 1>...>, Input, arg<0>>>(r, what, draw, in, tame);
    in.resize(sizeof...(I) + 1, map(r.count * r.length())); // what is not read was not drawn
    const auto forward = walk(r, width_of<T>, [&](operation, std::size_t i) { return in[i + 1]; })(
        echo::forward_program<Op>.view());
    const auto expected = walk(r, width_of<T>, [&](operation role, std::size_t i) {
        return role == operation::output_gradient ? in[0] : role == operation::input ? in[i + 1] : forward[i];
    });
    // One component at a time: another reduces over other axes.
    const auto program = echo::gradient_program<Op>.view();
    const std::array<std::uint16_t, 1> one{program.results[Input]};
    expect_same<T>(out[0], expected({program.steps.first(one[0] + 1u), one})[0]);
}
template <class T, class Op, std::size_t Input>
void check_recomputed(const rows& r, const std::vector<covers>& what, numbers& draw, bool tame) {
    check_recomputed<T, Op, Input>(r, what, draw, tame, std::make_index_sequence<echo::input_count<Op>>{});
}

rows random_rows(numbers& draw, bool lines) {
    static constexpr std::size_t lengths[] = {0,   1,   3,   4,   7,   8,   31,  32,  100,
                                              127, 128, 129, 200, 255, 256, 257, 300, 1000};
    rows r{draw.below(6), 1, lengths[draw.below(std::size(lengths))]};
    if (lines) r.lines = draw.below(5), r.line = std::min<std::size_t>(r.line, 70);
    if (r.lines == 1 && lines) r.lines = 2;
    return r;
}

} // namespace

TEST_CASE("softmax, its logarithm and their gradients, with their reductions in one kernel", "[fused]") {
    STATIC_REQUIRE(fuse<apply<echo::softmax_op<>, arg<0>>>::program.rows.passes == 2);
    STATIC_REQUIRE(fuse<gradient<echo::softmax_op<>, 0, arg<0>, unused, arg<1>>>::program.rows.passes == 1);
    STATIC_REQUIRE(fuse<gradient_of<apply<echo::softmax_op<>, arg<0>>, 0, arg<1>>>::program.rows.passes == 3);
    support::check(2, [] {
        numbers draw(*rc::gen::arbitrary<std::uint32_t>());
        const rows r = random_rows(draw, draw.below(4) == 0);
        const bool tame = draw.below(4) != 0;
        const std::vector<covers> all(4, covers::all);
        check_forward<float, echo::softmax_op<>>(r, all, draw, tame);
        check_forward<half, echo::softmax_op<>>(r, all, draw, tame);
        check_forward<bfloat16, echo::log_softmax_op<>>(r, all, draw, tame);
        check_recomputed<float, echo::softmax_op<>, 0>(r, all, draw, tame);
        check_recomputed<half, echo::log_softmax_op<>, 0>(r, all, draw, tame);
    });
}

TEST_CASE("normalisations: values, statistics per row, gradients from statistics made again", "[fused]") {
    using norm = apply<echo::layer_norm_op, arg<0>, arg<1>, arg<2>>;
    STATIC_REQUIRE(fuse<norm, output<1, norm>, output<2, norm>>::result_by_row == echo::positions{1, 2});
    STATIC_REQUIRE(!fuse<output<1, norm>>::program.rows.writes_elements);
    support::check(1, [] {
        numbers draw(*rc::gen::arbitrary<std::uint32_t>());
        const rows r = random_rows(draw, false), images = random_rows(draw, true);
        const bool tame = draw.below(4) != 0;
        const std::vector<covers> x_gamma_beta{covers::all, covers::column, covers::column};
        check_forward<float, echo::layer_norm_op>(r, x_gamma_beta, draw, tame);
        check_forward<half, echo::layer_norm_op>(r, x_gamma_beta, draw, tame);
        check_forward<bfloat16, echo::rms_norm_op>(r, x_gamma_beta, draw, tame);
        const std::vector<covers> with_dy{covers::all, covers::all, covers::column, covers::column};
        check_recomputed<float, echo::layer_norm_op, 0>(r, with_dy, draw, tame);
        check_recomputed<half, echo::rms_norm_op, 0>(r, with_dy, draw, tame);
        // A batch normalisation's row is a channel: all images' pixels, line by line.
        const std::vector<covers> channels{covers::all, covers::row, covers::row};
        check_forward<float, echo::batch_norm_op>(images, channels, draw, tame);
        const std::vector<covers> channels_with_dy{covers::all, covers::all, covers::row, covers::row};
        check_recomputed<float, echo::batch_norm_op, 0>(images, channels_with_dy, draw, tame);
        check_recomputed<float, echo::batch_norm_op, 1>(images, channels_with_dy, draw, tame);
        check_recomputed<half, echo::batch_norm_op, 2>(images, channels_with_dy, draw, tame);
    });
}

TEST_CASE("sums, means and maxima of rows, and what flows back", "[fused]") {
    support::check(2, [] {
        numbers draw(*rc::gen::arbitrary<std::uint32_t>());
        const rows r = random_rows(draw, draw.below(3) == 0);
        const bool tame = draw.below(4) != 0;
        const std::vector<covers> x{covers::all}, back{covers::row, covers::all};
        check_forward<float, echo::sum_op<echo::over(-1)>>(r, x, draw, tame);
        check_forward<half, echo::mean_op<echo::over(-1)>>(r, x, draw, tame);
        check_forward<float, echo::max_op<echo::over(-1)>>(r, x, draw, tame);
        check_recomputed<float, echo::mean_op<echo::over(-1)>, 0>(r, back, draw, tame);
        check_recomputed<float, echo::max_op<echo::over(-1)>, 0>(r, back, draw, tame);
    });
}

TEST_CASE("a bias' gradient: the columns of dy as rows, after an activation's gradient", "[fused]") {
    // db[h] = Σ over n of relu'(y) · dy: n is the row, and lies a whole line apart in memory.
    using back = gradient<echo::relu_op, 0, arg<0>, unused, arg<1>>;
    using f = fuse<apply<echo::sum_op<echo::over(-1)>, back>>;
    numbers draw(2);
    for (const std::int64_t n : {1, 5, 128, 300}) {
        const std::int64_t h = 37;
        const extents e{h, n};
        exact<float> dy(static_cast<std::size_t>(n * h)), y(static_cast<std::size_t>(n * h)), db(37);
        for (std::size_t i = 0; i < dy.size(); ++i) {
            dy[i] = static_cast<float>(draw.below(1000)) / 1024 - 0.5f; // sums of these are exact
            y[i] = draw();
        }
        echo::cuda::host_launch(body_of<f>(results(per_row(db.data(), e)),
                                           operands(strided(dy.data(), {1, h}), strided(y.data(), {1, h})),
                                           e),
                                random_grid(draw));
        for (std::size_t column = 0; column < 37; ++column) {
            float expected = 0;
            for (std::size_t row = 0; row < static_cast<std::size_t>(n); ++row)
                if (y[row * 37 + column] > 0) expected += dy[row * 37 + column];
            REQUIRE(db[column] == expected);
        }
    }
}

TEST_CASE("cross entropy with labels of 32 bits", "[fused]") {
    using loss = apply<echo::softmax_cross_entropy_op, arg<0>, arg<1>>;
    using f = fuse<loss, output<1, loss>>;
    using back = fuse<gradient<echo::softmax_cross_entropy_op, 0, arg<0>, unused, arg<1>, unused, arg<2>>>;
    STATIC_REQUIRE(f::result_by_row == echo::positions{0});
    STATIC_REQUIRE(back::reads == echo::positions{0, 1, 2});
    numbers draw(6);
    for (const std::size_t classes : {1u, 2u, 10u, 33u, 1000u}) {
        const std::size_t n = 5;
        const extents e{5, static_cast<std::int64_t>(classes)};
        exact<float> x(n * classes), loss_of(n), p(n * classes), dy(n), dx(n * classes);
        exact<std::int32_t> labels(n);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(draw.below(4000)) / 1000 - 2;
        for (std::size_t i = 0; i < n; ++i) {
            labels[i] = static_cast<std::int32_t>(draw.below(classes));
            dy[i] = static_cast<float>(i) + 1;
        }
        echo::cuda::host_launch(body_of<f>(results(per_row(loss_of.data(), e), whole(p.data(), e)),
                                           operands(whole(x.data(), e), per_row(labels.data(), e)), e));
        echo::cuda::host_launch(
            body_of<back>(results(whole(dx.data(), e)),
                          operands(per_row(dy.data(), e), per_row(labels.data(), e), whole(p.data(), e)), e));
        for (std::size_t row = 0; row < n; ++row) {
            double total = 0;
            for (std::size_t c = 0; c < classes; ++c)
                total += std::exp(static_cast<double>(x[row * classes + c]));
            const auto label = static_cast<std::size_t>(labels[row]);
            CHECK(loss_of[row] == Approx(std::log(total) - x[row * classes + label]).margin(1e-5));
            for (std::size_t c = 0; c < classes; ++c) {
                const double share = std::exp(static_cast<double>(x[row * classes + c])) / total;
                CHECK(p[row * classes + c] == Approx(share).epsilon(1e-5));
                CHECK(dx[row * classes + c] ==
                      Approx(dy[row] * (share - (c == label ? 1 : 0))).epsilon(1e-4).margin(1e-6));
            }
        }
    }
}

TEST_CASE("the order of a sum depends on the row alone: not on addresses, strides or the grid", "[fused]") {
    using f = fuse<apply<echo::sum_op<echo::over(-1)>, arg<0>>>;
    numbers draw(11);
    for (const std::int64_t length : {3, 31, 130, 1001, 70001}) {
        std::optional<float> first;
        std::vector<float> x(static_cast<std::size_t>(length));
        for (auto& v : x) v = static_cast<float>(draw.below(1u << 30)) * 1e-3f;
        for (std::size_t early = 0; early < 5; ++early)
            for (const std::int64_t step : {1, 2, 5}) {
                exact<float> memory(static_cast<std::size_t>((length - 1) * step + 1), early), to(1);
                for (std::size_t i = 0; i < x.size(); ++i) memory[i * static_cast<std::size_t>(step)] = x[i];
                const extents e{1, length};
                echo::cuda::host_launch(body_of<f>(results(per_row(to.data(), e)),
                                                   operands(strided(memory.data(), {0, step})), e),
                                        random_grid(draw));
                if (!first) first = to[0];
                REQUIRE(to[0] == *first);
            }
        // The same row as several lines, next to each other or apart.
        for (const std::int64_t line : {7, 13, 1}) {
            if (length % line != 0) continue;
            for (const std::int64_t gap : {0, 3, 4})
                for (const std::size_t early : {0u, 1u}) {
                    // 13 + 3 is a whole number of vectors, yet groups begin anywhere in a line.
                    const extents e = extents{1, length / line, line}.with_rows_of(2);
                    exact<float> memory(static_cast<std::size_t>((length / line - 1) * (line + gap) + line),
                                        early),
                        to(1);
                    for (std::size_t i = 0; i < x.size(); ++i)
                        memory[i + i / static_cast<std::size_t>(line) * static_cast<std::size_t>(gap)] = x[i];
                    echo::cuda::host_launch(body_of<f>(results(per_row(to.data(), e)),
                                                       operands(strided(memory.data(), {0, line + gap, 1})),
                                                       e));
                    REQUIRE(to[0] == *first);
                }
        }
    }
}

TEST_CASE("rows near 2^31 and up to 2^40 elements", "[fused]") {
    constexpr std::int64_t n = std::int64_t{1} << 40, length = 1 << 10;
    const reserved<half> x(n), y(n);
    const reserved<float> sums(n / length);
    using shifted = apply<echo::subtract_op, arg<0>, apply<echo::mean_op<echo::over(-1).keep()>, arg<0>>>;
    using f = fuse<shifted, apply<echo::sum_op<echo::over(-1)>, arg<0>>>;
    const auto check = [&](const extents& e, const strides& step, std::int64_t row, auto place) {
        const auto body = body_of<f>(results(operand<half>{y.data(), step}, per_row(sums.data(), e)),
                                     operands(operand<half>{x.data(), step}), e);
        for (std::int64_t i = 0; i < length; ++i) x[place(i)] = half(static_cast<float>(i % 4) + 1);
        echo::cuda::host_warp warp(row, body.tiles());
        body(warp);
        REQUIRE(sums[row] == 2.5f * length);
        for (std::int64_t i = 0; i < length; ++i)
            REQUIRE(as_float(y[place(i)]) == static_cast<float>(i % 4) - 1.5f);
    };
    const extents all{n / length, length};
    for (const int power : {16, 21, 22, 26, 30})
        for (const std::int64_t row :
             {(std::int64_t{1} << power) - 1, (std::int64_t{1} << power) % (n / length)})
            check(all, {length, 1}, row, [&](std::int64_t i) { return row * length + i; });
    // One row: of elements that lie far apart, of lines that do, of two axes that do.
    check({1, length}, {0, n / length}, 0, [](std::int64_t i) { return i * (n / length); });
    check(extents{1, 4, length / 4}.with_rows_of(2), {0, n / 4, 1}, 0,
          [](std::int64_t i) { return i / (length / 4) * (n / 4) + i % (length / 4); });
    check(extents{1, 2, 4, length / 8}.with_rows_of(3), {0, n / 2, n / 16, 1}, 0, [](std::int64_t i) {
        return i / (length / 2) * (n / 2) + i / (length / 8) % 4 * (n / 16) + i % (length / 8);
    });
}

TEST_CASE("few long rows are no work for a card, and are refused with a sentence", "[fused]") {
    const auto said = [](std::uint64_t rows, std::int64_t length) -> std::string {
        launch_shape shape;
        shape.rows = rows;
        shape.row_length = length;
        try {
            check_row_count(shape);
        } catch (const echo::cuda::argument_error& refused) {
            return refused.what();
        }
        return "none";
    };
    CHECK(said(64, 401408) == "fused, extents: 64 rows of 401408 elements would keep only 64 warps of the "
                              "card busy; reduce parts of "
                              "each row, as rows of their own, and their results in a second call");
    CHECK(said(64, 100352) != "none");
    CHECK(said(1, (1 << 14) + 1) != "none");
    CHECK(said(1, 1 << 14) == "none");
    CHECK(said(512, 32000) == "none"); // a batch of words
    CHECK(said(512, 512 * 256) == "none");
    CHECK(said(512, 512 * 256 + 1) != "none");
    CHECK(said(1023, 1 << 20) != "none");
    CHECK(said(1024, 1 << 20) == "none");
}

TEST_CASE("labels are compared with positions in rows of several lines, up to where a float counts them",
          "[fused]") {
    using loss = apply<echo::softmax_cross_entropy_op, arg<0>, arg<1>>;
    using f = fuse<loss>;
    STATIC_REQUIRE(f::reads_row_index);
    STATIC_REQUIRE(!fuse<apply<echo::softmax_op<>, arg<0>>>::reads_row_index);
    const extents e = extents{1, 5, 13}.with_rows_of(2);
    for (std::int32_t label = 0; label < 65; ++label) {
        exact<float> x(4 * 16 + 13), to(1); // lines lie apart, so that they stay lines
        for (std::size_t i = 0; i < 65; ++i) x[i / 13 * 16 + i % 13] = static_cast<float>(i) / 8;
        echo::cuda::host_launch(body_of<f>(results(per_row(to.data(), e)),
                                           operands(strided(x.data(), {0, 16, 1}), per_row(&label, e)), e));
        double total = 0;
        for (std::size_t i = 0; i < 65; ++i) total += std::exp(static_cast<double>(i) / 8);
        CHECK(to[0] == Approx(std::log(total) - static_cast<double>(label) / 8).epsilon(1e-5));
    }
    float x = 0, to = 0;
    const std::int32_t label = 0;
    const auto refuse = [&](std::int64_t length) {
        const extents one{1, length};
        return body_of<f>(results(per_row(&to, one)), operands(strided(&x, {0, 0}), per_row(&label, one)),
                          one);
    };
    CHECK_NOTHROW(refuse(1 << 24));
    CHECK_THROWS_WITH(
        refuse((1 << 24) + 1),
        "fused, extents: a row has 16777217 elements; labels are exact up to 2^24; give shorter "
        "rows to an op that compares labels");
}

TEST_CASE("the maximum of a row with a NaN is NaN, wherever it stands", "[fused]") {
    using f = fuse<apply<echo::max_op<echo::over(-1)>, arg<0>>>;
    const extents e{1, 300};
    exact<float> x(300), to(1);
    for (std::size_t at = 0; at < 300; ++at) {
        for (std::size_t i = 0; i < 300; ++i) x[i] = i == at ? std::nanf("") : static_cast<float>(i % 7);
        echo::cuda::host_launch(body_of<f>(results(per_row(to.data(), e)), operands(whole(x.data(), e)), e));
        REQUIRE(std::isnan(to[0]));
    }
}

TEST_CASE("empty rows and no rows", "[fused]") {
    float sum = 7, most = 7, mean = 7;
    const extents e{1, 0};
    using f = fuse<apply<echo::sum_op<echo::over(-1)>, arg<0>>, apply<echo::max_op<echo::over(-1)>, arg<0>>,
                   apply<echo::mean_op<echo::over(-1)>, arg<0>>>;
    echo::cuda::host_launch(body_of<f>(results(per_row(&sum, e), per_row(&most, e), per_row(&mean, e)),
                                       operands(operand<float>{}), e));
    CHECK(sum == 0);
    CHECK(most == -std::numeric_limits<float>::infinity());
    CHECK(std::isnan(mean));
    CHECK_THROWS_WITH(
        body_of<f>(results(per_row(&sum, e), per_row(static_cast<float*>(nullptr), e), per_row(&mean, e)),
                   operands(operand<float>{}), e),
        "fused, result 1: is null; give 4 bytes");
    CHECK_THROWS_WITH(body_of<f>(results(per_row(&sum, e), per_row(&most, e), per_row(&mean, e)),
                                 operands(operand<float>{}), e.with_rows_of(0)),
                      "fused, extents: a row has no axes; give row_axes of 1 or more");
    // A row of one element is an axis still.
    const extents four{2, 2, 2, 2, 1};
    static float x[256], to[256];
    const auto strided_x = strided(x, {100, 40, 15, 6}), strided_to = strided(to, {100, 40, 15, 6});
    using just_sum = fuse<apply<echo::sum_op<echo::over(-1)>, arg<0>>>;
    CHECK_THROWS_WITH(body_of<just_sum>(results(strided_to), operands(strided_x), four),
                      Catch::Contains("5 axes remain when neighbours are merged"));
    const extents none{0, 5};
    CHECK(body_of<f>(results(operand<float>{}, operand<float>{}, operand<float>{}),
                     operands(operand<float>{}), none)
              .tiles() == 0);
}

TEST_CASE("a row in place", "[fused]") {
    numbers draw(12);
    for (const std::size_t n : {5u, 64u, 300u}) {
        const extents e{3, static_cast<std::int64_t>(n)};
        exact<float> x(3 * n), y(3 * n);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(draw.below(100)) / 20;
        using f = fuse<apply<echo::softmax_op<>, arg<0>>>;
        echo::cuda::host_launch(body_of<f>(results(whole(y.data(), e)), operands(whole(x.data(), e)), e));
        echo::cuda::host_launch(body_of<f>(results(whole(x.data(), e)), operands(whole(x.data(), e)), e));
        for (std::size_t i = 0; i < x.size(); ++i) REQUIRE(same_bits(x[i], y[i]));
    }
    // A statistic may not lie on an operand: other lanes still read it.
    using norm = apply<echo::layer_norm_op, arg<0>, arg<1>, arg<2>>;
    static float x[32], gamma[8], beta[8], mean[4];
    const extents e{4, 8};
    using statistic = fuse<output<1, norm>>;
    CHECK_NOTHROW(body_of<statistic>(results(per_row(mean, e)),
                                     operands(whole(x, e), operand<float>{}, operand<float>{}), e));
    using both = fuse<apply<echo::add_op, norm, arg<3>>, output<1, norm>>;
    CHECK_THROWS_AS(
        body_of<both>(results(whole(x, e), per_row(mean, e)),
                      operands(whole(x, e), spread(gamma, {8}, e), spread(beta, {8}, e), per_row(mean, e)),
                      e),
        echo::cuda::argument_error);
    CHECK_THROWS_WITH(body_of<statistic>(results(whole(x, e)),
                                         operands(whole(x, e), operand<float>{}, operand<float>{}), e),
                      Catch::Contains("has one element per row, but a stride along the row"));
}
