// SPDX-License-Identifier: BSL-1.0
// The source that is generated for kernels is C++ too: the host's compiler makes a library of it, and what that
// computes is compared, bit for bit, with the ops' lambdas: for every registered op and for random graphs of them.
#include "support/fused_memory.hpp"
#include "support/generated_library.hpp"

#include <echo/cuda/jit.hpp>
#include <echo/cuda/kernel/fused_call.hpp>
#include <echo/cuda/kernel/philox.hpp>

#include <catch2/catch.hpp>

#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <tuple>

namespace {

using namespace support;
namespace fused = echo::cuda::fused;
namespace jit = echo::cuda::jit;
using echo::cuda::bfloat16;
using echo::cuda::half;
using fused::storage;

using elementwise_ops =
    std::tuple<echo::add_op, echo::subtract_op, echo::multiply_op, echo::divide_op, echo::negate_op,
               echo::reciprocal_op, echo::abs_op, echo::square_op, echo::sqrt_op, echo::rsqrt_op,
               echo::pow_op, echo::exp_op, echo::log_op, echo::sin_op, echo::cos_op, echo::erf_op,
               echo::maximum_op, echo::minimum_op, echo::where_op, echo::greater_op, echo::tanh_op,
               echo::sigmoid_op, echo::relu_op, echo::relu_gradient_op, echo::leaky_relu_op, echo::relu6_op,
               echo::elu_op, echo::gelu_op, echo::gelu_tanh_op, echo::silu_op, echo::softplus_op,
               echo::hard_swish_op>;
using row_ops =
    std::tuple<echo::softmax_op<>, echo::log_softmax_op<>, echo::softmax_cross_entropy_op,
               echo::layer_norm_op, echo::rms_norm_op, echo::batch_norm_op, echo::sum_op<echo::over(-1)>,
               echo::mean_op<echo::over(-1)>, echo::max_op<echo::over(-1)>>;

template <class Op>
std::string name_of_op() {
    return std::string(echo::facts_of<Op>().name);
}

/// An op's lambdas on whole maps, by name.
struct lambdas {
    std::size_t inputs = 0, outputs = 0;
    std::function<std::vector<map>(const std::vector<map>&)> forward{};
    std::function<std::vector<map>(const std::vector<map>&)> gradient{}; // of (dy…, x…, y…); empty: none
};

template <std::size_t Results, std::size_t Arguments, class Apply>
std::vector<map> applied(const std::vector<map>& in, Apply apply) {
    std::vector<map> out(Results, map(in.at(0).size()));
    std::array<std::span<float>, Results> to;
    std::array<std::span<const float>, Arguments> from;
    for (std::size_t k = 0; k < Results; ++k) to[k] = out[k];
    for (std::size_t i = 0; i < Arguments; ++i) from[i] = in.at(i);
    apply(to, from);
    return out;
}

template <class Op>
lambdas lambdas_of() {
    constexpr std::size_t inputs = echo::input_count<Op>, outputs = echo::output_count<Op>;
    lambdas l{inputs, outputs, {}, {}};
    l.forward = [](const std::vector<map>& in) {
        return applied<outputs, inputs>(
            in, [](const auto& to, const auto& from) { echo::apply_elementwise<Op, float>(to, from); });
    };
    if constexpr (echo::symbol::detail::real_gradient<Op>)
        l.gradient = [](const std::vector<map>& in) {
            return applied<inputs, echo::gradient_count<Op> + inputs + outputs>(
                in, [](const auto& to, const auto& from) { echo::apply_gradient<Op, float>(to, from); });
        };
    return l;
}

const std::map<std::string, lambdas>& all_lambdas() {
    static const auto all = []<class... Op>(std::tuple<Op...>*) {
        return std::map<std::string, lambdas>{{name_of_op<Op>(), lambdas_of<Op>()}...};
    }(static_cast<elementwise_ops*>(nullptr));
    return all;
}

// ---- memory of a call ----

/// A tensor of any type over the extents.
struct tensor {
    storage kind = storage::f32;
    strides step{};
    std::shared_ptr<void> owner{};
    jit::any_operand operand{};
    std::function<float(std::size_t)> at{};
};

template <class T>
tensor typed(placed<T> p) {
    auto kept = std::make_shared<placed<T>>(std::move(p));
    return {fused::storage_of<T>, kept->step, kept, jit::any_operand(kept->as()),
            [kept](std::size_t i) { return static_cast<float>(kept->memory[i]); }};
}

tensor random_tensor(storage kind, const extents& e, numbers& draw, bool repeats) {
    map ignored;
    switch (kind) {
    case storage::f32:
        return typed(random_operand<float>(e, draw, repeats, ignored));
    case storage::f16:
        return typed(random_operand<half>(e, draw, repeats, ignored));
    case storage::bf16:
        return typed(random_operand<bfloat16>(e, draw, repeats, ignored));
    case storage::i32: {
        const strides step = random_strides(e, draw, repeats);
        placed<std::int32_t> p{exact<std::int32_t>(reach(e, step), draw.below(4)), step};
        for (std::size_t i = 0; i < p.memory.size(); ++i)
            p.memory[i] = static_cast<std::int32_t>(draw.below(2001)) - 1000;
        return typed(std::move(p));
    }
    case storage::draws: {
        const strides step = random_strides(e, draw, repeats);
        auto key =
            std::make_shared<std::uint64_t>(std::uint64_t{draw.below(1u << 31)} << 32 | draw.below(1u << 31));
        return {storage::draws, step, key, {key.get(), storage::draws, step}, [key](std::size_t i) {
                    const auto words = echo::cuda::philox(
                        {{static_cast<std::uint32_t>(i / 4), static_cast<std::uint32_t>(i / 4 >> 32), 0, 0}},
                        *key);
                    return static_cast<float>(words.at[i % 4] >> 8) / 16777216.0f;
                }};
    }
    case storage::bit:
        break;
    }
    const strides step = random_strides(e, draw, repeats);
    auto words = std::make_shared<exact<std::uint32_t>>((reach(e, step) + 31) / 32);
    for (std::size_t i = 0; i < words->size(); ++i)
        (*words)[i] = static_cast<std::uint32_t>(draw.below(1u << 31)) * 5;
    return {storage::bit, step, words, {words->data(), storage::bit, step}, [words](std::size_t i) {
                return static_cast<float>((*words)[i / 32] >> (i % 32) & 1);
            }};
}

map values_of(const tensor& t, const extents& e) {
    map m(static_cast<std::size_t>(e.elements()));
    each_element(e, t.step, [&](std::size_t i, std::size_t at) { m[i] = t.at(at); });
    return m;
}

float stored(storage kind, float x) {
    if (kind == storage::f16) return static_cast<float>(half(x));
    if (kind == storage::bf16) return static_cast<float>(bfloat16(x));
    return x;
}

// ---- the library ----

using library = support::generated_library;

/// Runs a compiled program as `jit::kernel` would launch it.
void run(library::function* f, const fused::run_time_program& p, const std::vector<tensor>& to,
         const std::vector<tensor>& from, const extents& e, numbers& draw) {
    std::vector<fused::layout_operand> all;
    for (std::size_t k = 0; k < to.size(); ++k)
        all.push_back({to[k].operand.data, to[k].kind, to[k].step, true, true, p.result_by_row(k)});
    for (std::size_t i = 0; i < from.size(); ++i)
        all.push_back({from[i].operand.data, from[i].kind, from[i].step, p.reads(i), false, false});
    jit::detail::parameters arguments;
    if (!fused::lay_out(e, all, to.size(), p.rows.by_row, fused::group_width(p.kinds), arguments.shape,
                        arguments.operands))
        return;
    const unsigned long long warps = 1 + draw.below(5);
    for (unsigned long long w = 0; w < warps; ++w) f(&arguments, w, warps);
}

// ---- graphs to try ----

/// A graph, and how each of its results follows from its operands.
struct trial {
    jit::graph graph{};
    std::vector<storage> operands{}, results{};
    std::function<std::vector<map>(const std::vector<map>&)> expected{};
};

storage random_float(numbers& draw) {
    static constexpr storage kinds[] = {storage::f32, storage::f32, storage::f16, storage::bf16};
    return kinds[draw.below(4)];
}

/// Forward and every gradient of one op, each output and each component a result.
trial every_part_of(const std::string& name, numbers& draw) {
    const lambdas& l = all_lambdas().at(name);
    const auto& op = jit::op_registry::standard().at(name);
    trial t;
    std::vector<jit::value> x, dy;
    const auto operand = [&](storage kind) {
        t.operands.push_back(kind);
        return t.graph.operand(kind);
    };
    for (std::size_t i = 0; i < op.inputs; ++i) x.push_back(operand(random_float(draw)));
    for (std::size_t k = 0; k < op.gradients; ++k) dy.push_back(operand(storage::f32));
    const auto result = [&](jit::value v) {
        t.results.push_back(random_float(draw));
        t.graph.result(v, t.results.back());
    };
    for (std::size_t k = 0; k < op.outputs; ++k) result(t.graph.apply(name, x, k));
    std::vector<std::size_t> components;
    for (std::size_t i = 0; i < op.inputs && op.gradients > 0; ++i)
        if (op.gradient.results[i] != op.gradient.none) {
            components.push_back(i);
            result(t.graph.gradient_of(name, x, i, dy));
        }
    t.expected = [l, components](const std::vector<map>& in) {
        const std::vector<map> from(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(l.inputs));
        std::vector<map> out = l.forward(from);
        if (components.empty()) return out;
        std::vector<map> all(in.begin() + static_cast<std::ptrdiff_t>(l.inputs), in.end());
        all.insert(all.end(), from.begin(), from.end());
        all.insert(all.end(), out.begin(), out.end());
        const auto slopes = l.gradient(all);
        for (const auto i : components) out.push_back(slopes[i]);
        return out;
    };
    return t;
}

/// Random ops on random earlier values; the last three are results, and a gradient of the last op.
trial random_graph(numbers& draw) {
    trial t;
    std::vector<std::string> names;
    for (const auto& [name, l] : all_lambdas()) names.push_back(name);
    using maps = std::vector<map>;
    std::vector<std::function<void(maps&)>> steps; // each appends a map
    std::vector<jit::value> values;
    static constexpr storage kinds[] = {storage::f32, storage::f16, storage::bf16,
                                        storage::bit, storage::i32, storage::draws};
    for (std::size_t i = 0; i < 3; ++i) {
        t.operands.push_back(kinds[draw.below(6)]);
        values.push_back(t.graph.operand(t.operands.back()));
    }
    t.operands.push_back(storage::f32); // dy
    const auto dy = t.graph.operand(storage::f32);
    values.push_back(dy);
    const std::size_t ops = 1 + draw.below(12);
    for (std::size_t n = 0; n < ops; ++n) {
        const std::string& name = names[draw.below(names.size())];
        const lambdas& l = all_lambdas().at(name);
        std::vector<std::size_t> at;
        std::vector<jit::value> from;
        for (std::size_t i = 0; i < l.inputs; ++i) {
            at.push_back(draw.below(3) == 0 ? draw.below(values.size()) : values.size() - 1 - draw.below(2));
            from.push_back(values[at.back()]);
        }
        if (draw.below(8) == 0) {
            const storage kind = draw.below(2) == 0 ? storage::bf16 : storage::f16;
            values.push_back(t.graph.rounded(kind, from[0]));
            steps.push_back([a = at[0], kind](maps& m) {
                map r = m[a];
                for (float& v : r) v = stored(kind, v);
                m.push_back(std::move(r));
            });
            continue;
        }
        const auto& op = jit::op_registry::standard().at(name);
        std::vector<std::size_t> slopes;
        for (std::size_t i = 0; i < l.inputs && op.gradients == 1; ++i)
            if (op.gradient.results[i] != op.gradient.none) slopes.push_back(i);
        if (slopes.empty() || draw.below(2) == 0) {
            values.push_back(t.graph.apply(name, from));
            steps.push_back([&l, at](maps& m) {
                maps in;
                for (const auto a : at) in.push_back(m[a]);
                m.push_back(l.forward(in)[0]);
            });
        } else {
            const std::size_t component = slopes[draw.below(slopes.size())];
            values.push_back(t.graph.gradient_of(name, from, component, {dy}));
            steps.push_back([&l, at, component](maps& m) {
                maps x, all{m[3]};
                for (const auto a : at) x.push_back(m[a]);
                all.insert(all.end(), x.begin(), x.end());
                for (auto& y : l.forward(x)) all.push_back(std::move(y));
                m.push_back(l.gradient(all)[component]);
            });
        }
    }
    const std::size_t results = std::min<std::size_t>(3, values.size());
    for (std::size_t k = 0; k < results; ++k) {
        t.results.push_back(random_float(draw));
        t.graph.result(values[values.size() - 1 - k], t.results.back());
    }
    t.expected = [steps, results](const maps& in) {
        maps m = in;
        for (const auto& step : steps) step(m);
        maps out;
        for (std::size_t k = 0; k < results; ++k) out.push_back(m[m.size() - 1 - k]);
        return out;
    };
    return t;
}

/// A program of registered row ops against the same as a type, whose body tests/cuda/host/fused_rows.cpp proves.
struct row_trial {
    fused::run_time_program program{};
    std::function<void(library::function*, const fused::run_time_program&, numbers&)> check{};
};

template <class T>
void check_rows_against(library::function* f, const fused::run_time_program& p, numbers& draw, auto as_type) {
    using type = decltype(as_type);
    static constexpr std::int64_t lengths[] = {1, 5, 8, 31, 100, 257};
    const extents e = draw.below(2) == 0 ? extents{3, lengths[draw.below(6)]}
                                         : extents{3, 2, lengths[draw.below(6)]}.with_rows_of(2);
    std::vector<tensor> from, to, expected;
    for (std::size_t i = 0; i < type::inputs; ++i)
        from.push_back(random_tensor(p.kinds[type::outputs + i], e, draw, true));
    for (std::size_t k = 0; k < type::outputs; ++k) {
        const auto result = [&] {
            if (!type::result_by_row.contains(k))
                return typed(placed<T>{exact<T>(reach(e, laid_over(e, e))), laid_over(e, e)});
            return typed(placed<T>{exact<T>(3), per_row(static_cast<T*>(nullptr), e).step});
        };
        to.push_back(result());
        expected.push_back(result());
    }
    run(f, p, to, from, e, draw);
    [&]<std::size_t... K, std::size_t... I>(std::index_sequence<K...>, std::index_sequence<I...>) {
        const auto typed_operand = [](const tensor& t) {
            return fused::operand<T>{static_cast<T*>(t.operand.data), t.step};
        };
        echo::cuda::host_launch(fused::body_of<type>(fused::results(typed_operand(expected[K])...),
                                                     fused::operands(typed_operand(from[I])...), e));
    }(std::make_index_sequence<type::outputs>{}, std::make_index_sequence<type::inputs>{});
    for (std::size_t k = 0; k < type::outputs; ++k) {
        const map got = values_of(to[k], e), same = values_of(expected[k], e);
        for (std::size_t i = 0; i < got.size(); ++i) {
            CAPTURE(k, i, got[i], same[i]);
            REQUIRE(same_bits(got[i], same[i]));
        }
    }
}

template <class Op, class T, std::size_t... I, std::size_t... K>
row_trial row_forward(std::index_sequence<I...>, std::index_sequence<K...>) {
    jit::graph g;
    std::vector<jit::value> x;
    for (std::size_t i = 0; i < sizeof...(I); ++i) x.push_back(g.operand(fused::storage_of<T>));
    for (std::size_t k = 0; k < sizeof...(K); ++k)
        g.result(g.apply(name_of_op<Op>(), x, k), fused::storage_of<T>);
    return {g.program(), [](library::function* f, const fused::run_time_program& p, numbers& draw) {
                check_rows_against<T>(f, p, draw,
                                      fused::fuse<fused::output<K, fused::apply<Op, fused::arg<I>...>>...>{});
            }};
}
template <class Op, class T, std::size_t Input, std::size_t... I>
row_trial row_gradient(std::index_sequence<I...>) {
    jit::graph g;
    const auto dy = g.operand(fused::storage_of<T>);
    std::vector<jit::value> x;
    for (std::size_t i = 0; i < sizeof...(I); ++i) x.push_back(g.operand(fused::storage_of<T>));
    g.result(g.gradient_of(name_of_op<Op>(), x, Input, {dy}), fused::storage_of<T>);
    // All operands are named, so that both sides have as many, read or not.
    using anchor =
        fused::fuse<fused::gradient_of<fused::apply<Op, fused::arg<I + 1>...>, Input, fused::arg<0>>>;
    auto p = g.program();
    p.kinds.resize(1 + anchor::inputs);
    return {p, [](library::function* f, const fused::run_time_program& q, numbers& draw) {
                check_rows_against<T>(f, q, draw, anchor{});
            }};
}

} // namespace

TEST_CASE("every registered op is compared with its lambdas", "[source]") {
    std::set<std::string> compared, registered;
    [&]<class... A, class... B>(std::tuple<A...>*, std::tuple<B...>*) {
        (compared.insert(name_of_op<A>()), ...);
        (compared.insert(name_of_op<B>()), ...);
    }(static_cast<elementwise_ops*>(nullptr), static_cast<row_ops*>(nullptr));
    for (const auto& [name, op] : jit::op_registry::standard()) registered.insert(name);
    CHECK(compared == registered);
}

namespace {

/// What has elements at 2^31 and up to 2^40: x · mask + bias of fp16, and the sums of rows.
struct far_programs {
    fused::run_time_program shown, sums;

    static far_programs made() {
        jit::graph g, h;
        const auto x = g.operand(storage::f16), mask = g.operand(storage::bit),
                   bias = g.operand(storage::f16);
        g.result(g.apply("add_op", {g.apply("multiply_op", {x, mask}), bias}), storage::f16);
        h.result(h.apply("sum_op", {h.operand(storage::f16)}), storage::f32);
        return {g.program(), h.program()};
    }
};

/// Runs single warps of kernels over reserved memory: lines of 1024, one line of all, elements two apart; far rows.
void check_far(const far_programs& programs, library::function* shown, library::function* sums) {
    constexpr std::int64_t n = std::int64_t{1} << 40, per_tile = 32 * 8;
    const reserved<half> x(n), y(n);
    const reserved<std::uint32_t> words(n / 32);
    static half bias[1 << 10];
    for (std::size_t i = 0; i < std::size(bias); ++i) bias[i] = half(static_cast<float>(i) / 16);
    const auto lay = [](const fused::run_time_program& p, const extents& e,
                        const std::vector<fused::layout_operand>& all) {
        jit::detail::parameters made;
        REQUIRE(
            fused::lay_out(e, all, 1, p.rows.by_row, fused::group_width(p.kinds), made.shape, made.operands));
        return made;
    };
    const auto check = [&](const extents& e, const strides& step, const strides& bias_step,
                           std::int64_t apart) {
        const auto arguments = lay(programs.shown, e,
                                   {{y.data(), storage::f16, step, true, true},
                                    {x.data(), storage::f16, step},
                                    {words.data(), storage::bit, step},
                                    {bias, storage::f16, bias_step}});
        const std::int64_t tiles = n / apart / per_tile;
        const auto tile = [&](std::int64_t t) {
            for (std::int64_t i = t * per_tile; i < (t + 1) * per_tile; ++i) {
                x[i * apart] = half(static_cast<float>(i % per_tile) + 1);
                if (i % 3 == 0) words[i * apart / 32] |= 1u << (i * apart % 32);
            }
            shown(&arguments, static_cast<unsigned long long>(t), static_cast<unsigned long long>(tiles));
            for (std::int64_t i = t * per_tile; i < (t + 1) * per_tile; ++i) {
                const std::int64_t column = e.rank == 2 ? i % 1024 : 0;
                const float expected = (bit_of(words.data(), i * apart) ? as_float(x[i * apart]) : 0) +
                                       as_float(bias[column * bias_step[e.rank - 1]]);
                CAPTURE(i, apart);
                REQUIRE(as_float(y[i * apart]) == as_float(half(expected)));
            }
        };
        for (std::int64_t t = 1; t < tiles; t *= 2) tile(t - 1), tile(t), tile(t + t / 2);
        tile(tiles - 1);
    };
    check({n / 1024, 1024}, {1024, 1}, {0, 1}, 1);
    check({n}, {1}, {0}, 1);
    check({n / 2}, {2}, {0}, 2);

    const reserved<float> totals(n / 1024);
    const auto check_row = [&](const extents& e, const strides& step, std::int64_t row, auto place) {
        const auto arguments =
            lay(programs.sums, e,
                {{totals.data(), storage::f32, per_row(totals.data(), e).step, true, true, true},
                 {x.data(), storage::f16, step}});
        for (std::int64_t i = 0; i < 1024; ++i) x[place(i)] = half(static_cast<float>(i % 4));
        sums(&arguments, static_cast<unsigned long long>(row), static_cast<unsigned long long>(e.of[0]));
        REQUIRE(totals[row] == 1.5f * 1024);
    };
    for (const std::int64_t row : {65535, 65536, 1 << 21, 1 << 22, (1 << 30) - 1})
        check_row({n / 1024, 1024}, {1024, 1}, row, [&](std::int64_t i) { return row * 1024 + i; });
    check_row({1, 1024}, {0, n / 1024}, 0, [](std::int64_t i) { return i * (n / 1024); });
    check_row(extents{1, 4, 256}.with_rows_of(2), {0, n / 4, 1}, 0,
              [](std::int64_t i) { return i / 256 * (n / 4) + i % 256; });
}

/// A loss with labels, which are compared with positions in a row of five lines.
fused::run_time_program made_loss() {
    jit::graph g;
    const auto x = g.operand(storage::f16), label = g.operand(storage::i32);
    g.result(g.apply("softmax_cross_entropy_op", {x, label}), storage::f32);
    return g.program();
}
void check_loss(const fused::run_time_program& p, library::function* f, numbers& draw) {
    using type = fused::fuse<
        fused::output<0, fused::apply<echo::softmax_cross_entropy_op, fused::arg<0>, fused::arg<1>>>>;
    const extents e = extents{3, 5, 13}.with_rows_of(2);
    const exact<half> x(3 * 80); // lines lie apart, so that they stay lines
    const strides step{80, 16, 1};
    const exact<float> got(3), expected(3);
    const exact<std::int32_t> label(3);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = half(static_cast<float>(draw.below(4000)) / 1000 - 2);
    for (std::int32_t first = 0; first < 65; ++first) {
        for (std::int32_t row = 0; row < 3; ++row)
            label[static_cast<std::size_t>(row)] = (first + 7 * row) % 65;
        const std::vector<fused::layout_operand> all{
            {got.data(), storage::f32, per_row(got.data(), e).step, true, true, true},
            {x.data(), storage::f16, step},
            {label.data(), storage::i32, per_row(label.data(), e).step}};
        jit::detail::parameters made;
        REQUIRE(fused::lay_out(e, all, 1, true, fused::group_width(p.kinds), made.shape, made.operands));
        f(&made, 0, 1);
        echo::cuda::host_launch(fused::body_of<type>(
            fused::results(per_row(expected.data(), e)),
            fused::operands(fused::operand<half>{x.data(), step}, per_row(label.data(), e)), e));
        for (std::size_t row = 0; row < 3; ++row) REQUIRE(got[row] == expected[row]);
    }
}

} // namespace

TEST_CASE("generated source computes what the lambdas do", "[source]") {
    numbers draw(1);
    library made;
    std::vector<trial> trials;
    for (const auto& [name, l] : all_lambdas()) trials.push_back(every_part_of(name, draw));
    for (int i = 0; i < 60; ++i) trials.push_back(random_graph(draw));
    std::vector<fused::run_time_program> programs;
    for (const auto& t : trials) {
        programs.push_back(t.graph.program());
        made.add(fused::source_of(programs.back()));
    }
    std::vector<row_trial> rows;
    const auto forward = [&]<class Op, class T>(Op, T) {
        rows.push_back(row_forward<Op, T>(std::make_index_sequence<echo::input_count<Op>>{},
                                          std::make_index_sequence<echo::output_count<Op>>{}));
    };
    const auto backward =
        [&]<class Op, class T, std::size_t Input>(Op, T, std::integral_constant<std::size_t, Input>) {
            rows.push_back(row_gradient<Op, T, Input>(std::make_index_sequence<echo::input_count<Op>>{}));
        };
    constexpr std::integral_constant<std::size_t, 0> first{};
    [&]<class... Op>(std::tuple<Op...>*) {
        (forward(Op{}, float{}), ...);
        (backward(Op{}, half{}, first), ...);
    }(static_cast<row_ops*>(nullptr));
    forward(echo::layer_norm_op{}, bfloat16{});
    backward(echo::batch_norm_op{}, float{}, std::integral_constant<std::size_t, 1>{});
    backward(echo::softmax_op<>{}, float{}, first);
    for (const auto& t : rows) made.add(fused::source_of(t.program));
    const far_programs far = far_programs::made();
    made.add(fused::source_of(far.shown));
    made.add(fused::source_of(far.sums));
    const auto loss = made_loss();
    made.add(fused::source_of(loss));

    if (!made.compile()) {
        WARN("not run: there is no C++ compiler here");
        return;
    }
    for (std::size_t n = 0; n < trials.size(); ++n) {
        const trial& t = trials[n];
        for (int times = 0; times < 12; ++times) {
            const extents e = random_extents(draw, 3, 12);
            std::vector<tensor> from, to;
            for (const auto kind : t.operands) from.push_back(random_tensor(kind, e, draw, true));
            for (const auto kind : t.results) to.push_back(random_tensor(kind, e, draw, false));
            run(made.at(n), programs[n], to, from, e, draw);
            std::vector<map> in;
            for (const auto& f : from) in.push_back(values_of(f, e));
            const auto expected = t.expected(in);
            for (std::size_t k = 0; k < to.size(); ++k) {
                const map got = values_of(to[k], e);
                for (std::size_t i = 0; i < got.size(); ++i) {
                    CAPTURE(n, k, i, got[i], expected[k][i]);
                    REQUIRE(same_bits(got[i], stored(t.results[k], expected[k][i])));
                }
            }
        }
    }
    for (std::size_t n = 0; n < rows.size(); ++n)
        for (int times = 0; times < 20; ++times) {
            CAPTURE(n);
            rows[n].check(made.at(trials.size() + n), rows[n].program, draw);
        }
    check_far(far, made.at(made.size() - 3), made.at(made.size() - 2));
    check_loss(loss, made.at(made.size() - 1), draw);
}

TEST_CASE("a kernel for one layout computes what the one for any does, however groups are found",
          "[source]") {
    using fused::walking;
    struct layout_trial {
        fused::run_time_program program{};
        std::vector<tensor> to{}, from{};
        extents e{};
        std::size_t any = 0, own = 0;
    };
    numbers draw(6);
    library made;
    std::vector<layout_trial> trials;
    std::map<walking, std::size_t> walks;
    for (const storage kind : {storage::f32, storage::f16, storage::bf16}) {
        jit::graph g;
        const auto q = g.operand(kind), k = g.operand(kind), kept = g.operand(storage::bit);
        g.result(g.apply("where_op", {kept, g.apply("add_op", {q, k}), k}), kind);
        const auto program = g.program();
        const std::size_t any = made.size();
        made.add(fused::source_of(program));
        const std::int64_t h = 40;
        for (const auto& [e, of_q] : {std::pair<extents, extents>{{3, 7, h}, {3, 7, h}},
                                      {{3, 7, h}, {3, 1, h}},
                                      {{2, 3, 5, h}, {2, 1, 5, h}},
                                      {{3, 7, h}, {7, 1}},
                                      {{3, 7, h + 3}, {3, 1, h + 3}},
                                      {{101}, {101}}}) {
            layout_trial t{program, {}, {}, e, any, made.size()};
            const auto tensor_of = [&]<class T>(T, const extents& own) {
                auto memory = exact<T>(static_cast<std::size_t>(own.elements()));
                for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = T(draw());
                return typed(placed<T>{std::move(memory), fused::laid_over(own, e)});
            };
            const auto of_kind = [&](const extents& own) {
                return kind == storage::f32   ? tensor_of(float{}, own)
                       : kind == storage::f16 ? tensor_of(half{}, own)
                                              : tensor_of(bfloat16{}, own);
            };
            auto words =
                std::make_shared<exact<std::uint32_t>>(static_cast<std::size_t>(e.elements() + 31) / 32);
            for (std::size_t i = 0; i < words->size(); ++i)
                (*words)[i] = static_cast<std::uint32_t>(draw.below(1u << 31)) * 5;
            const auto step = fused::laid_over(e, e);
            t.from = {
                of_kind(of_q), of_kind(e),
                tensor{
                    storage::bit, step, words, {words->data(), storage::bit, step}, [words](std::size_t i) {
                        return static_cast<float>((*words)[i / 32] >> (i % 32) & 1);
                    }}};
            t.to = {of_kind(e)};
            std::vector<jit::any_operand> to, from;
            for (const auto& one : t.to) to.push_back(one.operand);
            for (const auto& one : t.from) from.push_back(one.operand);
            jit::detail::parameters layout;
            REQUIRE(jit::detail::prepare(program, to, from, e, layout));
            ++walks[layout.shape.walk];
            made.add(fused::source_of(program, layout.shape,
                                      std::span<const fused::launch_operand>(layout.operands).first(4)));
            trials.push_back(std::move(t));
        }
    }
    CHECK(walks.size() == 4); // each way is among them
    if (!made.compile()) {
        WARN("not run: there is no C++ compiler here");
        return;
    }
    for (const auto& t : trials) {
        std::vector<map> in;
        for (const auto& f : t.from) in.push_back(values_of(f, t.e));
        for (const std::size_t which : {t.any, t.own}) {
            run(made.at(which), t.program, t.to, t.from, t.e, draw);
            const map got = values_of(t.to[0], t.e);
            for (std::size_t i = 0; i < got.size(); ++i) {
                CAPTURE(which, i);
                const float expected = in[2][i] != 0 ? in[0][i] + in[1][i] : in[1][i];
                REQUIRE(same_bits(got[i], stored(t.to[0].kind, expected)));
            }
        }
    }
}

TEST_CASE("literals read back as they were", "[source]") {
    for (const float x : {0.0f, 1.0f, 0.1f, -2.5f, 1e-40f, 3.4e38f, 0.7978845608f})
        CHECK(std::strtof(fused::detail::literal_text(x < 0 ? -x : x).c_str(), nullptr) == std::abs(x));
    CHECK(fused::detail::literal_text(-0.0f) == "(-0x0p+0f)");
    CHECK(fused::detail::literal_text(std::numeric_limits<float>::infinity()) == "echo_number(0x7f800000u)");
    CHECK(fused::detail::literal_text(-2.5f) == "(-0x1.4p+1f)");
}
