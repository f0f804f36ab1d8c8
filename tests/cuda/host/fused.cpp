// SPDX-License-Identifier: BSL-1.0
// Fused kernels on the host: bodies give, bit for bit, what the ops' lambdas give one after another over whole maps;
// over all heads, tails, alignments, broadcasts and grids, in buffers without a byte to spare.
#include "support/fused_memory.hpp"
#include "support/properties.hpp"

#include <echo/cuda/kernel/fused_call.hpp>
#include <echo/cuda/kernel/fused_traffic.hpp>
#include <echo/cuda/kernel/launch.hpp>
#include <echo/ops/activations.hpp>
#include <echo/ops/arithmetic.hpp>
#include <echo/ops/dropout.hpp>
#include <echo/ops/reductions.hpp>
#include <echo/ops/softmax.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

namespace {

using namespace echo::cuda::fused;
using echo::cuda::bfloat16;
using echo::cuda::half;

using namespace support;

// ---- the reference: every op a loop of its own over whole maps ----

template <class E>
struct reference;
template <std::size_t I>
struct reference<arg<I>> {
    static map of(const std::vector<map>& in) { return in[I]; }
};
template <class Op, class... E>
struct reference<apply<Op, E...>> {
    static map of(const std::vector<map>& in) { return reference<output<0, apply<Op, E...>>>::of(in); }
};
template <std::size_t K, class Op, class... E>
struct reference<output<K, apply<Op, E...>>> {
    static map of(const std::vector<map>& in) {
        const std::array<map, sizeof...(E)> from{reference<E>::of(in)...};
        std::array<map, echo::output_count<Op>> to;
        std::array<std::span<float>, echo::output_count<Op>> write;
        std::array<std::span<const float>, sizeof...(E)> read;
        for (std::size_t k = 0; k < to.size(); ++k) to[k].resize(from[0].size()), write[k] = to[k];
        for (std::size_t i = 0; i < from.size(); ++i) read[i] = from[i];
        echo::apply_elementwise<Op, float>(write, read);
        return to[K];
    }
};
template <class Op, std::size_t I, class... E>
struct reference<gradient<Op, I, E...>> {
    template <class Part>
    static map part(const std::vector<map>& in) {
        if constexpr (std::is_same_v<Part, unused>)
            return map(in[0].size(), std::numeric_limits<float>::quiet_NaN()); // whoever reads it shows
        else
            return reference<Part>::of(in);
    }
    static map of(const std::vector<map>& in) {
        const std::array<map, sizeof...(E)> from{part<E>(in)...};
        std::array<map, echo::input_count<Op>> to;
        std::array<std::span<float>, echo::input_count<Op>> write;
        std::array<std::span<const float>, sizeof...(E)> read;
        for (std::size_t k = 0; k < to.size(); ++k) to[k].resize(from[0].size()), write[k] = to[k];
        for (std::size_t i = 0; i < from.size(); ++i) read[i] = from[i];
        echo::apply_gradient<Op, float>(write, read);
        return to[I];
    }
};
template <class T, class E>
struct reference<rounded<T, E>> {
    static map of(const std::vector<map>& in) {
        map m = reference<E>::of(in);
        for (float& x : m) x = static_cast<float>(T(x));
        return m;
    }
};

/// `fuse<E…>` on operands of type T against the sequence of E's ops.
template <class T, class... E>
void check_against_sequence(numbers& draw, const extents& e) {
    using f = fuse<E...>;
    std::vector<map> values(f::inputs);
    for (auto& v : values) v.resize(static_cast<std::size_t>(e.elements()));
    const auto from = [&]<std::size_t... I>(std::index_sequence<I...>) {
        return std::tuple{random_operand<T>(e, draw, true, values[I])...};
    }(std::make_index_sequence<f::inputs>{});
    map nothing;
    const auto to = [&]<std::size_t... K>(std::index_sequence<K...>) {
        return std::array{(static_cast<void>(K), random_operand<T>(e, draw, false, nothing))...};
    }(std::make_index_sequence<f::outputs>{});

    std::vector<std::vector<T>> before;
    for (const auto& result : to)
        before.emplace_back(result.memory.data(), result.memory.data() + result.memory.size());

    const auto call = [&]<std::size_t... K, std::size_t... I>(std::index_sequence<K...>,
                                                              std::index_sequence<I...>) {
        return body_of<f>(results(to[K].as()...), operands(std::get<I>(from).as_const()...), e);
    };
    const auto body = call(std::make_index_sequence<f::outputs>{}, std::make_index_sequence<f::inputs>{});
    echo::cuda::host_launch(body, random_grid(draw));

    const std::array<map, f::outputs> expected{reference<E>::of(values)...};
    for (std::size_t k = 0; k < f::outputs; ++k) {
        std::size_t wrong = 0;
        each_element(e, to[k].step, [&](std::size_t i, std::size_t at) {
            wrong += !same_bits(as_float(to[k].memory[at]), as_float(T(expected[k][i])));
            before[k][at] = to[k].memory[at];
        });
        REQUIRE(wrong == 0);
        // Nothing but the result's elements was touched.
        REQUIRE((before[k].empty() ||
                 std::memcmp(before[k].data(), to[k].memory.data(), before[k].size() * sizeof(T)) == 0));
    }
}

// ---- expressions ----

using attention = apply<echo::tanh_op, apply<echo::add_op, arg<0>, arg<1>>>;
using attention_gradient = gradient_of<attention, 0, arg<2>>;

template <unsigned Seed>
inline constexpr unsigned next_seed = (Seed * 1664525u + 1013904223u) ^ (Seed >> 13);

template <class Op>
struct op_tag {
    using op = Op;
};
using some_ops =
    std::tuple<echo::add_op, echo::subtract_op, echo::multiply_op, echo::divide_op, echo::negate_op,
               echo::abs_op, echo::square_op, echo::maximum_op, echo::minimum_op, echo::where_op,
               echo::greater_op, echo::tanh_op, echo::sigmoid_op, echo::relu_op, echo::leaky_relu_op,
               echo::relu6_op, echo::elu_op, echo::gelu_op, echo::silu_op, echo::softplus_op,
               echo::hard_swish_op, echo::relu_gradient_op, echo::erf_op, echo::exp_op, echo::sin_op,
               echo::dropout_op<>>;

/// `Count` random ops, each on random earlier values of the list: a DAG with sharing.
template <unsigned Seed, std::size_t Count, class... Values>
struct random_dag {
    using values = std::tuple<Values...>;
    using op = std::tuple_element_t<(Seed >> 7) % std::tuple_size_v<some_ops>, some_ops>;
    static constexpr std::size_t arity = echo::input_count<op> + (echo::is_random<op> ? 1 : 0);
    template <std::size_t I>
    static constexpr std::size_t pick() {
        unsigned s = next_seed<Seed + 77 * static_cast<unsigned>(I)>;
        // Recent values are likelier, so that chains grow long.
        const std::size_t back = (s >> 9) % 3 == 0 ? (s >> 11) % sizeof...(Values) : (s >> 11) % 2;
        return sizeof...(Values) - 1 - back;
    }
    template <std::size_t... I>
    static auto make(std::index_sequence<I...>) -> apply<op, std::tuple_element_t<pick<I>(), values>...>;
    using made = decltype(make(std::make_index_sequence<arity>{}));
    using rest = random_dag<next_seed<next_seed<Seed> + 1>, Count - 1, Values..., made>;
    using type = typename rest::type;
    using before = typename rest::before;
};
template <unsigned Seed, class... Values>
struct random_dag<Seed, 0, Values...> {
    using type = std::tuple_element_t<sizeof...(Values) - 1, std::tuple<Values...>>;
    using before = std::tuple_element_t<sizeof...(Values) - 2, std::tuple<Values...>>;
};

template <class Forward>
struct first_gradient;
template <class Op, class... E>
struct first_gradient<apply<Op, E...>> {
    static constexpr bool exists =
        echo::symbol::detail::real_gradient<Op> && !std::is_same_v<Op, echo::where_op>;
    template <class DY>
    static auto make() {
        if constexpr (!exists)
            return apply<echo::negate_op, apply<Op, E...>>{};
        else
            return gradient_of<apply<Op, E...>, 0, DY>{};
    }
};

template <unsigned Seed>
void check_random_dag(numbers& draw, const extents& e) {
    using dag = random_dag<Seed, 5, arg<0>, arg<1>, arg<2>>;
    using last = typename dag::type;
    using slope = decltype(first_gradient<last>::template make<arg<3>>());
    check_against_sequence<float, last, slope, typename dag::before>(draw, e);
}

} // namespace

TEST_CASE("a gradient of a chain reads the chain's operands, and only what its lambda reads", "[fused]") {
    STATIC_REQUIRE(fuse<attention_gradient>::reads == echo::positions{0, 1, 2});
    STATIC_REQUIRE(fuse<attention_gradient>::inputs == 3);
    STATIC_REQUIRE(!fuse<attention_gradient>::by_row);
    // Addition's gradient reads neither input: of the chain only dy is left.
    STATIC_REQUIRE(fuse<gradient_of<apply<echo::add_op, arg<0>, attention>, 0, arg<3>>>::reads ==
                   echo::positions{3});
    // Each input of a product is the other's gradient.
    using product = apply<echo::multiply_op, arg<0>, apply<echo::exp_op, arg<1>>>;
    STATIC_REQUIRE(fuse<gradient_of<product, 0, arg<2>>>::reads == echo::positions{1, 2});
    STATIC_REQUIRE(fuse<gradient_of<product, 1, arg<2>>>::reads == echo::positions{0, 2});
    // Two results share what they have in common.
    STATIC_REQUIRE(fuse<attention, attention_gradient>::steps == fuse<attention_gradient>::steps);
    // Equal steps of different ops are one: both square tanh(x).
    using twice = fuse<apply<echo::square_op, apply<echo::tanh_op, arg<0>>>,
                       apply<echo::multiply_op, apply<echo::tanh_op, arg<0>>, apply<echo::tanh_op, arg<0>>>>;
    STATIC_REQUIRE(twice::steps == 3);
}

TEST_CASE("every head, tail and alignment of a contiguous chain", "[fused]") {
    numbers draw(1);
    const auto every = [&]<class T>(T) {
        for (std::size_t n = 0; n <= 75; ++n)
            for (std::size_t early = 0; early < 8; ++early) {
                const extents e{static_cast<std::int64_t>(n)};
                std::vector<map> values(3, map(n));
                exact<T> q(n, early), k(n, (early * 3) % 8), dy(n, early), to(n, (early + n) % 8);
                for (std::size_t i = 0; i < n; ++i) q[i] = T(draw()), k[i] = T(draw()), dy[i] = T(draw());
                for (std::size_t i = 0; i < n; ++i)
                    values[0][i] = as_float(q[i]), values[1][i] = as_float(k[i]),
                    values[2][i] = as_float(dy[i]);
                const auto body = body_of<fuse<attention_gradient>>(
                    results(whole(to.data(), e)),
                    operands(whole(q.data(), e), whole(k.data(), e), whole(dy.data(), e)), e);
                echo::cuda::host_launch(body, random_grid(draw));
                const map expected = reference<attention_gradient>::of(values);
                for (std::size_t i = 0; i < n; ++i)
                    REQUIRE(same_bits(as_float(to[i]), as_float(T(expected[i]))));
            }
    };
    every(float{});
    every(half{});
    every(bfloat16{});
}

TEST_CASE("a divisor gives what division gives", "[fused]") {
    using echo::cuda::division;
    using echo::cuda::divisor;
    constexpr std::uint64_t most = std::uint64_t{1} << 31; // numbers are below it
    static_assert(divisor(7).quotient(48) == 6 && division(48, divisor(7)).rest == 6);
    static_assert(divisor(1).quotient(most - 1) == most - 1 && divisor(most).quotient(most - 1) == 0);
    const auto check = [](std::uint64_t n, std::uint64_t by) {
        const divisor d(by);
        REQUIRE(d.value() == by);
        REQUIRE(d.quotient(static_cast<std::uint32_t>(n)) == n / by);
        REQUIRE(division(n, d).rest == n % by);
    };
    for (std::uint64_t by = 1; by <= 300; ++by)
        for (std::uint64_t n = 0; n <= 1000; ++n) check(n, by);
    // A quotient is next to wrong where the number is one less than a multiple.
    numbers draw(11);
    for (int times = 0; times < 100000; ++times) {
        const std::uint64_t by = 1 + draw.below(std::size_t{1} << (1 + draw.below(31)));
        const std::uint64_t multiple = draw.below(static_cast<std::size_t>((most - 1) / by) + 1) * by;
        check(multiple, by);
        if (multiple != 0) check(multiple - 1, by);
        check(most - 1, by);
    }
}

TEST_CASE("groups are found the short way where the layout allows it", "[fused]") {
    using sum = fuse<apply<echo::add_op, apply<echo::multiply_op, arg<0>, arg<1>>, arg<2>>>;
    numbers draw(12);
    const auto every = [&]<class T>(T) {
        const auto width = static_cast<std::int64_t>(16 / sizeof(T));
        struct expected {
            extents all, first, second;
            std::size_t early;
            walking how;
        };
        const std::int64_t h = 5 * width;
        for (const auto& [e, of_q, of_k, early, how] :
             {expected{{3, 7, h}, {3, 7, h}, {3, 7, h}, 0, walking::flat},
              expected{{3, 7, h}, {3, 7, h}, {3, 7, h}, 1, walking::flat},
              expected{{h + 1}, {h + 1}, {h + 1}, 3, walking::flat}, expected{{1}, {1}, {1}, 1, walking::any},
              expected{{3, 7, h}, {3, 1, h}, {3, 7, h}, 0, walking::lines},
              expected{{3, 7, h}, {3, 1, h}, {1, 7, h}, 0, walking::lines},
              expected{{2, 3, 5, h}, {2, 1, 5, h}, {1, 3, 1, h}, 0, walking::lines},
              expected{{3, 70, h}, {h}, {3, 70, h}, 0, walking::lines},
              expected{{3, 7, h}, {3, 7, 1}, {3, 7, h}, 0, walking::repeating},
              expected{{3, 7, h}, {7, 1}, {3, 1, h}, 0, walking::repeating},
              expected{{3, 7, h}, {3, 1, h}, {3, 7, h}, 1, walking::any},
              expected{{3, 7, h + 1}, {3, 1, h + 1}, {3, 7, h + 1}, 0, walking::any},
              expected{{3, h}, {1}, {3, h}, 0, walking::any}}) {
            const auto n = static_cast<std::size_t>(e.elements());
            exact<T> q(static_cast<std::size_t>(of_q.elements()), early),
                k(static_cast<std::size_t>(of_k.elements()), early), b(n, early), to(n, early);
            for (auto* x : {&q, &k, &b})
                for (std::size_t i = 0; i < x->size(); ++i) (*x)[i] = T(draw());
            const auto at_q = spread(q.data(), of_q, e), at_k = spread(k.data(), of_k, e);
            const auto body =
                body_of<sum>(results(whole(to.data(), e)), operands(at_q, at_k, whole(b.data(), e)), e);
            CHECK(body.shape.walk == how);
            for (const echo::cuda::host_grid grid : {echo::cuda::host_grid{}, random_grid(draw)}) {
                std::memset(static_cast<void*>(to.data()), 0x55, n * sizeof(T));
                echo::cuda::host_launch(body, grid);
                for (std::size_t i = 0; i < n; ++i) {
                    std::size_t rest = i, from_q = 0, from_k = 0;
                    for (std::size_t a = e.rank; a-- > 0;) {
                        const auto extent = static_cast<std::size_t>(e.of[a]);
                        from_q += rest % extent * static_cast<std::size_t>(at_q.step[a]);
                        from_k += rest % extent * static_cast<std::size_t>(at_k.step[a]);
                        rest /= extent;
                    }
                    REQUIRE(same_bits(as_float(to[i]), as_float(T(as_float(q[from_q]) * as_float(k[from_k]) +
                                                                  as_float(b[i])))));
                }
            }
        }
    };
    every(float{});
    every(half{});
    every(bfloat16{});
    // Beyond 32 bits there is no short way: the places of the last groups would not fit. Nothing is read here.
    const std::int64_t far = std::int64_t{1} << 32;
    const extents wide{2, 8, 4};
    const auto at = [](std::uintptr_t address) { return reinterpret_cast<float*>(address << 40); };
    for (const std::int64_t step : {far, far / 8}) {
        const auto body = body_of<sum>(
            results(strided(at(1), {step, 4, 1})),
            operands(strided(at(2), {0, 0, 1}), strided(at(3), {0, 0, 1}), strided(at(4), {step, 4, 1})),
            wide);
        CHECK(body.shape.walk == (step == far ? walking::any : walking::lines));
    }
}

TEST_CASE("random extents, strides, broadcasts, gaps, alignments and grids", "[fused]") {
    using mixed = fuse<attention_gradient, attention>;
    STATIC_REQUIRE(mixed::outputs == 2);
    support::check(3, [] {
        numbers draw(*rc::gen::arbitrary<std::uint32_t>());
        // Without repeats up to four axes never need merging; more could fail to merge.
        const extents e = random_extents(draw, 4, 9);
        switch (draw.below(3)) {
        case 0:
            check_against_sequence<float, attention_gradient, attention>(draw, e);
            break;
        case 1:
            check_against_sequence<half, attention_gradient, attention>(draw, e);
            break;
        default:
            check_against_sequence<bfloat16, attention_gradient, attention>(draw, e);
            break;
        }
    });
}

TEST_CASE("random DAGs of ops, and the gradients of their last", "[fused]") {
    numbers draw(5);
    const auto all = [&]<unsigned... Seed>(std::integer_sequence<unsigned, Seed...>) {
        for (int times = 0; times < 30; ++times)
            (check_random_dag<next_seed<next_seed<Seed * 2654435761u + 5>>>(draw,
                                                                            random_extents(draw, 3, 11)),
             ...);
    };
    all(std::make_integer_sequence<unsigned, 12>{});
}

TEST_CASE("axes that every operand steps through alike are merged; more than four that are not are refused",
          "[fused]") {
    numbers draw(9);
    const extents e{2, 1, 3, 2, 1, 2, 2, 1};
    std::vector<map> values(2);
    const auto n = static_cast<std::size_t>(e.elements());
    exact<float> x(n), bias(2 * 3), to(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = draw();
    for (std::size_t i = 0; i < 6; ++i) bias[i] = draw();
    const auto over = spread(bias.data(), {2, 1, 3, 1, 1, 1, 1, 1}, e);
    values[0].assign(x.data(), x.data() + n);
    values[1].resize(n);
    each_element(e, over.step, [&](std::size_t i, std::size_t at) { values[1][i] = bias[at]; });
    using f = fuse<apply<echo::add_op, arg<0>, arg<1>>>;
    const auto body = body_of<f>(results(whole(to.data(), e)), operands(whole(x.data(), e), over), e);
    CHECK(body.shape.line == 8); // the last five axes are one
    CHECK(body.shape.within[2] == 6);
    echo::cuda::host_launch(body);
    const map expected = reference<apply<echo::add_op, arg<0>, arg<1>>>::of(values);
    for (std::size_t i = 0; i < n; ++i) CHECK(same_bits(to[i], expected[i]));

    const extents five{2, 2, 2, 2, 2};
    const auto alternating = spread(bias.data(), {2, 1, 2, 1, 1}, five);
    CHECK_NOTHROW(
        body_of<f>(results(whole(to.data(), five)), operands(whole(x.data(), five), alternating), five));
    const auto finer = spread(bias.data(), {2, 1, 2, 1, 2}, five);
    CHECK_THROWS_WITH(
        body_of<f>(results(whole(to.data(), five)), operands(whole(x.data(), five), finer), five),
        Catch::Contains("5 axes remain when neighbours are merged"));
}

TEST_CASE("operands are taken by 16 bytes where they can be", "[fused]") {
    const extents e{3, 64};
    alignas(16) static float x[3 * 64 + 4], bias[64], to[3 * 64 + 4];
    using f = fuse<apply<echo::add_op, arg<0>, arg<1>>>;
    const auto aligned = body_of<f>(results(whole(to, e)), operands(whole(x, e), spread(bias, {64}, e)), e);
    for (const auto& o : aligned.operands) CHECK(o.how == access::vector);
    CHECK(aligned.shape.shift == 0);
    // All of them one element late: a head of three, then vectors again.
    const auto late =
        body_of<fuse<apply<echo::tanh_op, arg<0>>>>(results(whole(to + 1, e)), operands(whole(x + 1, e)), e);
    CHECK(late.shape.shift == 1);
    for (const auto& o : late.operands) CHECK(o.how == access::vector);
    // One of them late: the others keep their vectors.
    const auto one = body_of<f>(results(whole(to, e)), operands(whole(x + 1, e), spread(bias, {64}, e)), e);
    CHECK(one.operands[0].how == access::vector);
    CHECK(one.operands[1].how == access::scalar);
    const auto column = body_of<f>(results(whole(to, e)), operands(whole(x, e), spread(bias, {3, 1}, e)), e);
    CHECK(column.operands[2].how == access::repeated);
    // Lines whose length is no multiple of a vector cannot be.
    const extents odd{3, 63};
    CHECK(body_of<f>(results(whole(to, odd)), operands(whole(x, odd), spread(bias, {63}, odd)), odd)
              .operands[0]
              .how == access::scalar);
}

TEST_CASE("what a layout is filled into may have been used before", "[fused]") {
    alignas(16) static float x[80], y[80];
    const auto lay = [&](launch_shape& shape, std::span<launch_operand> out, const extents& e,
                         std::size_t early, const strides& step) {
        const layout_operand all[] = {{y + early, storage::f32, step, true, true, false},
                                      {x + early, storage::f32, step, true, false, false}};
        return lay_out(e, all, 1, false, 4, shape, out);
    };
    launch_shape used, fresh;
    launch_operand used_out[2], fresh_out[2];
    CHECK(lay(used, used_out, {2, 3, 5}, 0, {25, 6, 1})); // more axes
    CHECK(lay(used, used_out, {8}, 1, {1}));              // a head
    CHECK(lay(used, used_out, {8}, 0, {2}));
    CHECK(lay(fresh, fresh_out, {8}, 0, {2}));
    CHECK(used.shift == fresh.shift);
    CHECK(std::equal(used.within, used.within + 3, fresh.within));
    for (std::size_t i = 0; i < 2; ++i)
        CHECK(std::equal(used_out[i].step, used_out[i].step + merged_axes, fresh_out[i].step));
}

TEST_CASE("a packed mask as an operand: bit i of the words is element i", "[fused]") {
    using f = fuse<gradient<echo::relu_op, 0, arg<0>, unused, arg<1>>>;
    numbers draw(3);
    for (std::size_t n = 0; n <= 140; ++n)
        for (std::size_t early = 0; early < 8; ++early) {
            const extents e{static_cast<std::int64_t>(n)};
            exact<half> dy(n, early), to(n, early);
            exact<std::uint32_t> words((n + 31) / 32);
            for (std::size_t i = 0; i < n; ++i) dy[i] = half(draw());
            for (std::size_t i = 0; i < words.size(); ++i)
                words[i] = static_cast<std::uint32_t>(draw.below(1u << 31)) * 3;
            const auto* mask = reinterpret_cast<const mask_word*>(words.data());
            echo::cuda::host_launch(
                body_of<f>(results(whole(to.data(), e)), operands(whole(dy.data(), e), whole(mask, e)), e),
                random_grid(draw));
            for (std::size_t i = 0; i < n; ++i)
                REQUIRE(to[i].bits ==
                        ((words[i / 32] >> (i % 32) & 1) != 0 ? half(as_float(dy[i])).bits : 0));
        }
    // A mask over the rows of a matrix, repeated along its columns.
    const extents e{40, 7};
    exact<float> dy(280), to(280);
    exact<std::uint32_t> words(2);
    words[0] = 0xdeadbeef;
    words[1] = 0x5a;
    for (std::size_t i = 0; i < 280; ++i) dy[i] = draw();
    const auto* mask = reinterpret_cast<const mask_word*>(words.data());
    echo::cuda::host_launch(
        body_of<f>(results(whole(to.data(), e)), operands(whole(dy.data(), e), spread(mask, {40, 1}, e)), e));
    for (std::size_t i = 0; i < 280; ++i)
        REQUIRE(same_bits(to[i], (words[i / 7 / 32] >> (i / 7 % 32) & 1) != 0 ? dy[i] : 0.0f));
}

TEST_CASE("a result may lie on an operand", "[fused]") {
    numbers draw(4);
    const extents e{5, 37};
    exact<float> x(185, 1), bias(37);
    std::vector<map> values(2, map(185));
    for (std::size_t i = 0; i < 37; ++i) bias[i] = draw();
    for (std::size_t i = 0; i < 185; ++i) values[0][i] = x[i] = draw(), values[1][i] = bias[i % 37];
    using sum = apply<echo::silu_op, apply<echo::add_op, arg<0>, arg<1>>>;
    echo::cuda::host_launch(body_of<fuse<sum>>(
        results(whole(x.data(), e)), operands(whole(x.data(), e), spread(bias.data(), {37}, e)), e));
    const map expected = reference<sum>::of(values);
    for (std::size_t i = 0; i < 185; ++i) REQUIRE(same_bits(x[i], expected[i]));
}

TEST_CASE("rounded<…> gives the bits of a sequence that stores 16 bits between its ops", "[fused]") {
    using sum = rounded<half, apply<echo::add_op, arg<0>, arg<1>>>;
    using stored = rounded<half, apply<echo::tanh_op, sum>>;
    using slope = gradient<echo::tanh_op, 0, arg<2>, unused, stored>;
    numbers draw(8);
    const extents e{4, 50};
    for (int times = 0; times < 20; ++times) check_against_sequence<half, slope>(draw, e);
    // Without it the recompute is exact where the stash was rounded: other bits, now and then.
    STATIC_REQUIRE(fuse<slope>::steps == fuse<attention_gradient>::steps + 2);
}

TEST_CASE("what cannot be run is refused with a typed error", "[fused]") {
    using f = fuse<apply<echo::add_op, arg<0>, arg<1>>>;
    static float x[64], y[64], z[64];
    const extents e{4, 8};
    const auto error_of = [](auto&& call) -> std::string {
        try {
            call();
        } catch (const echo::cuda::argument_error& refused) {
            return refused.what();
        }
        return "none";
    };
    const auto run = [&](auto to, auto from, const extents& over) {
        return error_of([&] { body_of<f>(to, from, over); });
    };
    CHECK(run(results(whole(z, e)), operands(whole(x, e), whole(y, e)), e) == "none");
    CHECK(run(results(operand<float>{z, {8, 1}}), operands(whole(x, e), whole(y, e)), {4, -8}) ==
          "fused, extents: an extent is negative: -8; give extents of 0 or more");
    const extents huge{std::int64_t{1} << 30, std::int64_t{1} << 11};
    CHECK(run(results(whole(z, huge)), operands(whole(x, huge), whole(y, huge)), huge) ==
          "fused, extents: are more than 2^40 elements; call once for each part");
    CHECK(run(results(whole(z, e)), operands(whole(x, e), strided(y, {-8, 1})), e) ==
          "fused, operand 1: a stride is negative; give strides of 0 or more");
    CHECK(run(results(strided(z, {0, 1})), operands(whole(x, e), whole(y, e)), e) ==
          "fused, result 0: repeats along an axis that the kernel writes; give every element of a result its "
          "own place");
    CHECK(run(results(strided(z, {4, 1})), operands(whole(x, e), whole(y, e)), e) ==
          "fused, result 0: two of its elements share a place; check the strides");
    CHECK(run(results(whole(static_cast<float*>(nullptr), e)), operands(whole(x, e), whole(y, e)), e) ==
          "fused, result 0: is null; give 128 bytes");
    auto* odd = reinterpret_cast<float*>(reinterpret_cast<char*>(x) + 2);
    CHECK(run(results(whole(z, e)), operands(whole(odd, e), whole(y, e)), e) ==
          "fused, operand 0: is not aligned to its 4-byte elements; give a pointer to whole elements");
    CHECK(run(results(whole(x + 1, e)), operands(whole(x, e), whole(y, e)), e) ==
          "fused, result 0: overlaps operand 0; give separate memory, or for an operand the very same "
          "elements");
    CHECK(run(results(whole(x, e)), operands(whole(x, e), strided(x, {1, 4})), e) ==
          "fused, result 0: overlaps operand 1; give separate memory, or for an operand the very same "
          "elements");
    using two = fuse<apply<echo::tanh_op, arg<0>>, apply<echo::exp_op, arg<0>>>;
    CHECK(
        error_of([&] { body_of<two>(results(whole(z, e), whole(z, e)), operands(whole(x, e)), e); }) ==
        "fused, result 0: overlaps result 1; give separate memory, or for an operand the very same elements");
    // One element too many, one that just fits; bytes of another kind; places beyond counting.
    static float both[64];
    CHECK(run(results(whole(both + 31, e)), operands(whole(both, e), whole(y, e)), e)
              .find("overlaps operand 0") != std::string::npos);
    CHECK(run(results(whole(both + 32, e)), operands(whole(both, e), whole(y, e)), e) == "none");
    CHECK(run(results(whole(both, e)), operands(whole(both + 32, e), whole(y, e)), e) == "none");
    CHECK(run(results(whole(x, e)), operands(whole(reinterpret_cast<half*>(x), e), whole(y, e)), e)
              .find("overlaps operand 0") != std::string::npos);
    CHECK(run(results(whole(reinterpret_cast<half*>(x), e)),
              operands(whole(reinterpret_cast<bfloat16*>(x), e), whole(y, e)), e)
              .find("overlaps operand 0") != std::string::npos);
    CHECK(run(results(whole(z, e)), operands(strided(x, {std::int64_t{1} << 55, 1}), whole(y, e)), e) ==
          "fused, operand 0: its strides reach beyond 2^56 elements; check the strides");
    // A stride along an axis of one element leads nowhere: these are the very same elements.
    const extents row{1, 8};
    CHECK(run(results(strided(x, {8, 1})), operands(strided(x, {100, 1}), whole(y, row)), row) == "none");
    CHECK(run(results(strided(x, {-8, 1})), operands(strided(x, {0, 1}), whole(y, row)), row) == "none");
    // Extents whose product does not fit in 64 bits, and ranks that there are not.
    constexpr std::int64_t most = std::int64_t{1} << 40;
    for (const extents& wide : {extents{most, 1 << 24}, extents{1 << 24, most}, extents{2, most},
                                extents{0, most, most}, extents{most + 1}}) {
        const operand<float> nowhere{z, {}}, somewhere{x, {}};
        CHECK(run(results(nowhere), operands(somewhere, somewhere), wide) ==
              "fused, extents: are more than 2^40 elements; call once for each part");
    }
    CHECK(error_of([&] {
              return whole(x, {2, most, most});
          }) == "operand: its strides do not fit in 63 bits; check the extents");
    CHECK(error_of([&] {
              return whole(x, {2, -3});
          }) == "operand: an extent is negative: -3; give extents of 0 or more");
    extents nine{1, 1, 1, 1, 1, 1, 1, 1};
    nine.rank = 9;
    CHECK(error_of([&] { return whole(x, nine); }) == "extents: 9 axes are more than 8; merge axes");
    CHECK(run(results(operand<float>{z, {}}), operands(operand<float>{x, {}}, operand<float>{y, {}}), nine) ==
          "extents: 9 axes are more than 8; merge axes");
    CHECK(error_of([&] { return spread(x, {3}, e); }) ==
          "operand: an extent of 3 cannot be repeated to 8; give it 1, or that of the kernel");
    // Nothing to do needs no memory, and has no tiles: not even the head of an empty line.
    const extents empty_lines{3, 0};
    CHECK(body_of<f>(results(whole(z + 1, empty_lines)),
                     operands(whole(x + 1, empty_lines), spread(y, {1}, empty_lines)), empty_lines)
              .tiles() == 0);
    const extents none{0, 8};
    CHECK(run(results(whole(static_cast<float*>(nullptr), none)),
              operands(whole(static_cast<float*>(nullptr), none), whole(static_cast<float*>(nullptr), none)),
              none) == "none");
    // An operand that the lambda does not read needs none either.
    using unread = fuse<gradient<echo::tanh_op, 0, arg<0>, arg<2>, arg<1>>>;
    CHECK(unread::reads == echo::positions{0, 1});
    CHECK(error_of([&] {
              body_of<unread>(results(whole(z, e)), operands(whole(x, e), whole(y, e), operand<float>{}), e);
          }) == "none");
}

TEST_CASE("indices are right at 2^31 and up to 2^40 elements", "[fused]") {
    constexpr std::int64_t n = std::int64_t{1} << 40, per_tile = 32 * 8;
    const reserved<half> x(n), y(n);
    const reserved<std::uint32_t> words(n / 32);
    static half bias[1 << 10];
    for (std::size_t i = 0; i < std::size(bias); ++i) bias[i] = half(static_cast<float>(i) / 16);
    const auto* mask = reinterpret_cast<const mask_word*>(words.data());
    /// The tile with element `at`, where element i of x and y lies at i · step and so does the mask's bit.
    const auto tile = [&](const auto& body, std::int64_t at, std::int64_t step, bool with_bias) {
        const std::int64_t first = at / per_tile * per_tile;
        for (std::int64_t i = first; i < first + per_tile; ++i) {
            x[i * step] = half(static_cast<float>(i - first) + 1);
            if (i % 3 == 0) words[i * step / 32] |= 1u << (i * step % 32);
        }
        echo::cuda::host_warp warp(at / per_tile, body.tiles());
        body(warp);
        for (std::int64_t i = first; i < first + per_tile; ++i) {
            const float shown = bit_of(words.data(), i * step) ? as_float(x[i * step]) : 0.0f;
            const float expected = with_bias ? shown + as_float(bias[i & 1023]) : shown;
            if (as_float(y[i * step]) != as_float(half(expected))) return false;
        }
        return true;
    };
    const auto everywhere = [&](const auto& body, std::int64_t step, bool with_bias) {
        CHECK(body.tiles() == n / step / per_tile);
        for (int power = 8; power < 40; ++power)
            for (const std::int64_t at :
                 {(std::int64_t{1} << power) - 1, std::int64_t{1} << power, std::int64_t{3} << (power - 1)})
                if (at < n / step) {
                    CAPTURE(power, at, step);
                    REQUIRE(tile(body, at, step, with_bias));
                }
        REQUIRE(tile(body, n / step - 1, step, with_bias));
    };
    using shown = gradient<echo::relu_op, 0, arg<0>, unused, arg<1>>;
    using biased = fuse<apply<echo::add_op, shown, arg<2>>>;
    // Lines of 1024, one line of all, and elements two apart, which are taken one by one.
    const extents lines{n >> 10, 1 << 10}, one{n}, half_of{n / 2};
    everywhere(body_of<biased>(
                   results(whole(y.data(), lines)),
                   operands(whole(x.data(), lines), whole(mask, lines), spread(bias, {1024}, lines)), lines),
               1, true);
    everywhere(body_of<fuse<shown>>(results(whole(y.data(), one)),
                                    operands(whole(x.data(), one), whole(mask, one)), one),
               1, false);
    everywhere(body_of<fuse<shown>>(results(strided(y.data(), {2})),
                                    operands(strided(x.data(), {2}), strided(mask, {2})), half_of),
               2, false);
}

TEST_CASE("bytes of the fused kernel against the sequence", "[fused]") {
    constexpr std::int64_t b = 128, t = 50, h = 512;
    constexpr std::uint64_t map_bytes = b * t * h * 4, query = b * h * 4;
    using f = fuse<attention_gradient>;
    constexpr auto counts = compare_traffic<f>(
        {sized{storage::f32, {b, 1, h}}, sized{storage::f32, {b, t, h}}, sized{storage::f32, {b, t, h}}},
        {storage::f32});
    STATIC_REQUIRE(counts.fused == traffic{query + 2 * map_bytes, map_bytes});
    // add reads q and k, tanh reads its sum, the gradient reads dy and z; each writes a map.
    STATIC_REQUIRE(counts.unfused == traffic{query + 4 * map_bytes, 3 * map_bytes});
    STATIC_REQUIRE(counts.between == 2 * map_bytes);
    STATIC_REQUIRE(counts.kernels == 3);

    // Both gradients of a product come from one kernel that reads dy once.
    using product = apply<echo::multiply_op, arg<0>, arg<1>>;
    using both = fuse<gradient_of<product, 0, arg<2>>, gradient_of<product, 1, arg<2>>>;
    constexpr sized one{storage::f16, {1000}};
    constexpr auto shared = compare_traffic<both>({one, one, one}, {storage::f16, storage::f16});
    STATIC_REQUIRE(shared.kernels == 1);
    STATIC_REQUIRE(shared.unfused == traffic{3 * 2000, 2 * 2000});
    STATIC_REQUIRE(shared.fused == shared.unfused);
    STATIC_REQUIRE(shared.between == 0);

    // A softmax behind a scaled score: rows are reduced within, the result covers all.
    using soft = fuse<apply<echo::softmax_op<>, apply<echo::multiply_op, arg<0>, arg<1>>>>;
    constexpr auto softmax =
        compare_traffic<soft>({sized{storage::f32, {8, 100}}, sized{storage::f32, {1}}}, {storage::bf16});
    STATIC_REQUIRE(softmax.fused == traffic{3200 + 4, 1600});
    STATIC_REQUIRE(softmax.unfused == traffic{3200 + 4 + 3200, 3200 + 1600});
    // A sum of rows is one element for each; a mask counts bits.
    using sums =
        fuse<apply<echo::sum_op<echo::over(-1)>, gradient<echo::relu_op, 0, arg<0>, unused, arg<1>>>>;
    constexpr auto rows =
        compare_traffic<sums>({sized{storage::f32, {8, 100}}, sized{storage::bit, {8, 100}}}, {storage::f32});
    STATIC_REQUIRE(rows.fused == traffic{3200 + 100, 32});
    STATIC_REQUIRE(rows.unfused == traffic{3200 + 100 + 3200, 3200 + 32});
}

// Kernels of few tensors and light steps are to run with as many threads as a multiprocessor holds; erf would spill.
namespace {

namespace fused = echo::cuda::fused;
template <class F, class... T>
constexpr int threads_of = fused::elementwise_body<F, T...>::resident_threads;
using attention_map = fused::apply<echo::tanh_op, fused::apply<echo::add_op, fused::arg<0>, fused::arg<1>>>;
using light_gradient = fused::fuse<fused::gradient_of<attention_map, 0, fused::arg<2>>>;
using gelu_gradient = fused::fuse<fused::gradient_of<
    fused::apply<echo::gelu_op, fused::apply<echo::add_op, fused::arg<0>, fused::arg<1>>>, 0, fused::arg<2>>>;
using sum_of_four = fused::fuse<
    fused::apply<echo::add_op, attention_map, fused::apply<echo::add_op, fused::arg<2>, fused::arg<3>>>>;
static_assert(threads_of<light_gradient, float, float, float, float> == 2048);
static_assert(threads_of<gelu_gradient, float, float, float, float> == 0);
static_assert(threads_of<sum_of_four, float, float, float, float, float> == 0);

} // namespace
