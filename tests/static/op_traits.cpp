// SPDX-License-Identifier: BSL-1.0
// What op_traits derives from the ops' mathematics, checked at compile time. Each claim stands beside a near
// one that must not hold.
#include <echo/op_traits.hpp>
#include <echo/ops/activations.hpp>
#include <echo/ops/arithmetic.hpp>
#include <echo/ops/attention.hpp>
#include <echo/ops/batch_norm.hpp>
#include <echo/ops/convolution.hpp>
#include <echo/ops/dropout.hpp>
#include <echo/ops/embedding.hpp>
#include <echo/ops/layer_norm.hpp>
#include <echo/ops/matmul.hpp>
#include <echo/ops/movement.hpp>
#include <echo/ops/pooling.hpp>
#include <echo/ops/reductions.hpp>
#include <echo/ops/softmax.hpp>

#include <boost/hana/equal.hpp>
#include <boost/hana/set.hpp>
#include <boost/hana/type.hpp>

#include <type_traits>
#include <variant>

namespace {

using echo::facts_of;
using echo::op_kind;
using echo::positions;
using echo::reads;
using echo::rerun_kind;
namespace hana = boost::hana;

template <class Op>
constexpr reads gradient_reads = facts_of<Op>().gradient_reads;
template <class Op>
constexpr reads one_bit = facts_of<Op>().gradient_one_bit;
constexpr reads nothing{};
constexpr reads inputs(positions p) { return {.inputs = p}; }
constexpr reads outputs(positions p) { return {.outputs = p}; }

// tanh's gradient reads y, and not x; gelu's reads x, and not y.
static_assert(gradient_reads<echo::tanh_op> == outputs({0}));
static_assert(gradient_reads<echo::gelu_op> == inputs({0}));
static_assert(gradient_reads<echo::sigmoid_op> == outputs({0}));
static_assert(gradient_reads<echo::silu_op> == inputs({0}));
static_assert(gradient_reads<echo::exp_op> == outputs({0}));
static_assert(gradient_reads<echo::log_op> == inputs({0}));
static_assert(gradient_reads<echo::rsqrt_op> == outputs({0}));
static_assert(gradient_reads<echo::square_op> == inputs({0}));

// Addition reads nothing, multiplication both inputs.
static_assert(gradient_reads<echo::add_op> == nothing);
static_assert(gradient_reads<echo::subtract_op> == nothing);
static_assert(gradient_reads<echo::negate_op> == nothing);
static_assert(gradient_reads<echo::multiply_op> == inputs({0, 1}));
static_assert(gradient_reads<echo::divide_op> == inputs({0, 1}));
static_assert(gradient_reads<echo::pow_op> == reads{.inputs = {0, 1}, .outputs = {0}});

// Equation 2 of the Echo paper: compute-heavy ops read their inputs, not their output.
static_assert(gradient_reads<echo::fully_connected_op> == inputs({0, 1}));
static_assert(gradient_reads<echo::biased_fully_connected_op> == inputs({0, 1})); // and not the bias
static_assert(gradient_reads<echo::batch_dot_op> == inputs({0, 1}));
static_assert(gradient_reads<echo::add_matmul_op> == inputs({1, 2}));
static_assert(gradient_reads<echo::convolution_op<>> == inputs({0, 1}));
static_assert(gradient_reads<echo::biased_convolution_op<>> == inputs({0, 1}));
static_assert(gradient_reads<echo::attention_op> == reads{.inputs = {0, 1, 2}, .outputs = {0, 1}});

// A window changes shapes, not reads.
constexpr echo::window strided{.stated = true, .stride = {2, 2, 1}};
static_assert(gradient_reads<echo::convolution_op<strided>> == inputs({0, 1}));

// ReLU needs one bit of y; tanh needs all of it; ReLU6's two comparisons are more than `x > 0`.
static_assert(one_bit<echo::relu_op> == outputs({0}));
static_assert(gradient_reads<echo::relu_op> == outputs({0}));
static_assert(one_bit<echo::tanh_op> == nothing);
static_assert(one_bit<echo::leaky_relu_op> == outputs({0}));
static_assert(one_bit<echo::elu_op> == nothing);
static_assert(one_bit<echo::relu6_op> == nothing);
static_assert(one_bit<echo::abs_op> == nothing);
static_assert(one_bit<echo::where_op> == inputs({0}));
static_assert(gradient_reads<echo::where_op> == inputs({0}));

// Dropout needs one bit of its mask, which is output 1, and not y, which is output 0.
static_assert(gradient_reads<echo::dropout_op<>> == outputs({1}));
static_assert(one_bit<echo::dropout_op<>> == outputs({1}));
static_assert(facts_of<echo::dropout_op<>>().rerun == rerun_kind::seeded);
static_assert(facts_of<echo::tanh_op>().rerun == rerun_kind::pure);
static_assert(facts_of<echo::dropout_op<>>().inplace == echo::storage_pairs{{0, 0}});

// Ops that are gradients themselves need one bit of an input.
static_assert(facts_of<echo::relu_gradient_op>().one_bit_inputs == positions{1});
static_assert(facts_of<echo::dropout_gradient_op<>>().one_bit_inputs == positions{1});
static_assert(facts_of<echo::multiply_op>().one_bit_inputs == positions{});

// Softmax reads y; the normalisations read x, the scale and their saved statistics, and no offset.
static_assert(gradient_reads<echo::softmax_op<>> == outputs({0}));
static_assert(gradient_reads<echo::softmax_op<1>> == outputs({0}));
static_assert(gradient_reads<echo::log_softmax_op<>> == outputs({0}));
static_assert(gradient_reads<echo::softmax_cross_entropy_op> == reads{.inputs = {1}, .outputs = {1}});
static_assert(gradient_reads<echo::layer_norm_op> == reads{.inputs = {0, 1}, .outputs = {1, 2}});
static_assert(gradient_reads<echo::rms_norm_op> == reads{.inputs = {0, 1}, .outputs = {1}});
static_assert(gradient_reads<echo::batch_norm_op> == reads{.inputs = {0, 1}, .outputs = {1, 2}});
static_assert(facts_of<echo::batch_norm_op>().rerun == rerun_kind::pure);
static_assert(facts_of<echo::updating_batch_norm_op>().rerun == rerun_kind::never);
static_assert(gradient_reads<echo::updating_batch_norm_op> == gradient_reads<echo::batch_norm_op>);

// A shape is no data: the table of an embedding and the input of a sum are not read, the indices are.
static_assert(gradient_reads<echo::embedding_op> == inputs({1}));
static_assert(gradient_reads<echo::sum_op<>> == nothing);
static_assert(gradient_reads<echo::mean_op<>> == nothing);
static_assert(gradient_reads<echo::max_op<>> == reads{.inputs = {0}, .outputs = {0}});
static_assert(gradient_reads<echo::mean_pool_op<>> == nothing);
static_assert(gradient_reads<echo::max_pool_op<>> == reads{.inputs = {0}, .outputs = {0}});
static_assert(gradient_reads<echo::concat_op> == nothing);

// Kinds, views, places.
static_assert(facts_of<echo::fully_connected_op>().kind == op_kind::heavy);
static_assert(facts_of<echo::softmax_op<>>().kind == op_kind::light);
static_assert(facts_of<echo::reshape_op>().kind == op_kind::view);
static_assert(facts_of<echo::reshape_op>().views == echo::storage_pairs{{0, 0}});
static_assert(facts_of<echo::transpose_copy_op>().kind == op_kind::light);
static_assert(facts_of<echo::transpose_copy_op>().views.empty());
static_assert(facts_of<echo::tanh_op>().inplace == echo::storage_pairs{{0, 0}});
static_assert(facts_of<echo::add_op>().inplace == echo::storage_pairs{{0, 0}, {0, 1}});
static_assert(facts_of<echo::fully_connected_op>().inplace.empty());
static_assert(facts_of<echo::tanh_op>().gradient_inplace);
static_assert(!facts_of<echo::layer_norm_op>().gradient_inplace);

// The dependencies of an expression are a Hana set; order does not matter, roles and indices do.
using echo::symbol::input;
using echo::symbol::output;
using echo::symbol::output_gradient;
constexpr auto tanh_reads =
    echo::symbol::dependencies<decltype(echo::gradient_expression<echo::tanh_op>())>();
static_assert(decltype(hana::equal(tanh_reads, hana::make_set(hana::type_c<output<0>>,
                                                              hana::type_c<output_gradient<0>>)))::value);
static_assert(!decltype(hana::equal(tanh_reads, hana::make_set(hana::type_c<input<0>>,
                                                               hana::type_c<output_gradient<0>>)))::value);
constexpr auto fc_reads =
    echo::symbol::dependencies<decltype(echo::gradient_expression<echo::fully_connected_op>())>();
static_assert(decltype(hana::equal(fc_reads,
                                   hana::make_set(hana::type_c<output_gradient<0>>, hana::type_c<input<1>>,
                                                  hana::type_c<input<0>>)))::value);
static_assert(decltype(hana::equal(echo::symbol::dependencies(1 - input<0>{}),
                                   hana::make_set(hana::type_c<input<0>>)))::value);
static_assert(decltype(hana::equal(echo::symbol::dependencies(shape_of(input<0>{})),
                                   hana::make_set()))::value);
static_assert(decltype(hana::equal(
    echo::symbol::dependencies<decltype(echo::forward_expression<echo::dropout_op<>>())>(),
    hana::make_set(hana::type_c<input<0>>, hana::type_c<echo::symbol::seed>)))::value);

// One bit: only `leaf > 0`, and only if the leaf's data has no other use. Conservative otherwise.
struct other_constant_op {
    static constexpr auto forward = [](auto x) { return max(x, 1); };
    static constexpr auto gradient = [](auto dy, auto, auto y) { return select(y > 1, dy, 0); };
};
struct mirrored_op {
    static constexpr auto forward = [](auto x) { return max(x, 0); };
    static constexpr auto gradient = [](auto dy, auto, auto y) { return select(0 < y, dy, 0); };
};
struct other_use_op {
    static constexpr auto forward = [](auto x) { return max(x, 0); };
    static constexpr auto gradient = [](auto dy, auto, auto y) { return select(y > 0, dy, y); };
};
struct passed_on_op {
    static constexpr auto forward = [](auto x, auto m) { return x * m; };
    static constexpr auto gradient = [](auto dy, auto, auto m, auto) {
        return std::tuple{select(m > 0, dy, 0), m};
    };
};

} // namespace

template <>
struct echo::op_traits<other_constant_op> : echo::elementwise<other_constant_op> {};
template <>
struct echo::op_traits<mirrored_op> : echo::elementwise<mirrored_op> {};
template <>
struct echo::op_traits<other_use_op> : echo::elementwise<other_use_op> {};
template <>
struct echo::op_traits<passed_on_op> : echo::elementwise<passed_on_op> {};

namespace {

static_assert(one_bit<other_constant_op> == nothing);
static_assert(one_bit<mirrored_op> == outputs({0}));
static_assert(one_bit<other_use_op> == nothing);
static_assert(one_bit<passed_on_op> == nothing);

// Ops without lambdas claim nothing; one redeclared member changes one fact.
struct bare_op {};
struct printed_op {
    static constexpr std::string_view name = "my engine's op";
};

} // namespace

template <>
struct echo::op_traits<bare_op> : echo::compute_heavy<bare_op> {};
template <>
struct echo::op_traits<printed_op> : echo::stateful {};

namespace {

static_assert(gradient_reads<bare_op> == reads::everything());
static_assert(facts_of<bare_op>().rerun == rerun_kind::pure);
static_assert(facts_of<bare_op>().flops == nullptr);
static_assert(facts_of<bare_op>().name == "bare_op");
static_assert(facts_of<printed_op>().name == "my engine's op");
static_assert(facts_of<printed_op>().rerun == rerun_kind::never);
static_assert(facts_of<printed_op>().gradient_reads == reads::everything());
static_assert(facts_of<echo::softmax_op<>>().name == "softmax_op");

// Variants, and types derived from one.
using some_op = std::variant<echo::tanh_op, echo::fully_connected_op>;
struct node_op : some_op {
    using some_op::some_op;
};
static_assert(facts_of(some_op{echo::tanh_op{}}).name == "tanh_op");
static_assert(facts_of(some_op{echo::fully_connected_op{}}).kind == op_kind::heavy);
static_assert(facts_of(node_op{echo::tanh_op{}}).gradient_reads == outputs({0}));

// Lambdas on numbers are constant expressions.
static_assert(echo::tanh_op::forward(echo::real<float>(0)).value() == 0);
static_assert(echo::relu_op::forward(echo::real<double>(-1)).value() == 0);
static_assert(echo::relu_op::forward(echo::real<double>(2)).value() == 2);

// A comparison is no bool, on symbols and on numbers.
static_assert(!std::is_constructible_v<bool, echo::truth<float>>);
static_assert(!std::is_constructible_v<bool, decltype(input<0>{} > 0)>);
static_assert(std::is_constructible_v<bool, bool>);

} // namespace
