// SPDX-License-Identifier: BSL-1.0
// Vocabularies: the tables are sorted and without duplicates, names reach the right facts, unknown names
// reach none.
#include <echo/vocabulary/aten.hpp>
#include <echo/vocabulary/vocabulary.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace {

using echo::aten;
using echo::op_facts;
using echo::op_kind;
using echo::positions;
using echo::reads;
using echo::rerun_kind;
using echo::tensor;

constexpr echo::vocabulary_row rows[] = {
    {{.kind = op_kind::light, .rerun = rerun_kind::pure}, "tanh  add"},
    {{.kind = op_kind::view, .rerun = rerun_kind::pure}, " reshape "},
};
constexpr auto small = echo::make_vocabulary<rows>();

static_assert(small.size() == 3);
static_assert(small.find("add")->kind == op_kind::light);
static_assert(small.find("reshape")->kind == op_kind::view);
static_assert(small.find("ad") == nullptr);
static_assert(small.find("addd") == nullptr);
static_assert(small.find("") == nullptr);
static_assert(small["tanh"].rerun == rerun_kind::pure);
static_assert(small["tan"].rerun == rerun_kind::never);
static_assert(small["tan"].kind == op_kind::heavy);
static_assert(small["tan"].name == "tan");
static_assert(!is_known(small["tan"]) && is_known(small["tanh"]));
static_assert(small["tan"].gradient_reads == reads::everything());

// Who states nothing but a name knows nothing; a default may be stated.
static_assert(!is_known(op_facts{.name = "conv"}));
static_assert(is_known(op_facts{.name = "conv", .known = true}));
static_assert(is_known(op_facts{.name = "conv", .gradient_reads = {.inputs = {0}}}));
static_assert(!is_known(op_facts{.name = "conv", .known = false, .kind = op_kind::light}));

const op_facts& known(std::string_view name) {
    INFO(std::string(name));
    const auto* const facts = aten.find(name);
    REQUIRE(facts != nullptr);
    return *facts;
}

} // namespace

TEST_CASE("the ATen table is sorted and holds each name once") {
    const auto& table = aten.entries();
    CHECK(table.size() > 900);
    CHECK(std::is_sorted(table.begin(), table.end(),
                         [](const auto& a, const auto& b) { return a.name < b.name; }));
    CHECK(std::adjacent_find(table.begin(), table.end(),
                             [](const auto& a, const auto& b) { return a.name == b.name; }) == table.end());
    for (const auto& facts : table) {
        const std::string_view name = facts.name;
        INFO(std::string(facts.name));
        CHECK(!name.empty());
        CHECK(name.find_first_of(" \t\n") == std::string_view::npos);
        CHECK(aten.find("aten." + std::string(facts.name)) == &facts);
        CHECK((facts.kind == op_kind::view) == !facts.views.empty());
        CHECK((facts.one_bit_inputs.empty() || facts.kind == op_kind::light));
    }
}

TEST_CASE("kinds") {
    for (const char* const name :
         {"aten.mm.default", "aten.bmm.default", "aten.addmm.default", "aten.baddbmm.default",
          "aten.convolution.default", "aten.convolution_backward.default",
          "aten._scaled_dot_product_flash_attention_for_cpu.default",
          "aten._scaled_dot_product_efficient_attention_backward.default"})
        CHECK(known(name).kind == op_kind::heavy);
    for (const char* const name :
         {"aten.gelu.default", "aten.silu.default", "aten.native_layer_norm.default", "aten._softmax.default",
          "aten._log_softmax.default", "aten.native_batch_norm.default",
          "aten._native_batch_norm_legit_functional.default", "aten.add.Tensor", "aten.clone.default",
          "aten._unsafe_view.default", "aten.cat.default", "aten.embedding.default"})
        CHECK(known(name).kind == op_kind::light);
    for (const char* const name :
         {"aten.view.default", "aten.t.default", "aten.transpose.int", "aten.permute.default",
          "aten.expand.default", "aten.slice.Tensor", "aten.select.int", "aten.unsqueeze.default",
          "aten.squeeze.dim", "aten.detach.default", "aten.alias.default", "aten.as_strided.default",
          "aten.split.Tensor", "aten.unbind.int"})
        CHECK(known(name).kind == op_kind::view);
}

TEST_CASE("what may run again") {
    CHECK(known("aten.mm.default").rerun == rerun_kind::pure);
    for (const char* const name :
         {"aten.native_dropout.default", "aten.bernoulli.p", "aten.rand.default", "aten.rand_like.default",
          "aten.randn.generator", "aten.randperm.default", "aten.normal.Tensor_float",
          "aten._scaled_dot_product_flash_attention.default"})
        CHECK(known(name).rerun == rerun_kind::seeded);
    for (const char* const name : {"aten.native_batch_norm.default", "aten._native_batch_norm_legit.default",
                                   "aten.cudnn_batch_norm.default", "aten._batch_norm_with_update.default",
                                   "aten._assert_scalar.default"})
        CHECK(known(name).rerun == rerun_kind::never);
    for (const char* const name :
         {"aten._native_batch_norm_legit_functional.default", "aten._native_batch_norm_legit.no_stats",
          "aten._batch_norm_with_update_functional.default", "aten.native_batch_norm_backward.default"})
        CHECK(known(name).rerun == rerun_kind::pure);
}

TEST_CASE("what writes into an argument never runs again") {
    for (const char* const name :
         {"aten.add_.Tensor", "aten.relu_.default", "aten.copy_.default", "aten.zero_.default",
          "aten.fill_.Scalar", "aten.add.out", "aten.mm.out", "aten.bernoulli_.float",
          "aten.bernoulli.Tensor_out", "aten.tanh_backward.grad_input", "aten.max.dim_max",
          "aten._native_batch_norm_legit.no_stats_out", "aten._foreach_add_.List",
          "aten._fused_adam_.default", "aten.addmm_.default", "aten.squeeze_.dim", "aten.set_.source_Tensor",
          "aten.embedding_renorm_.default"})
        CHECK(known(name).rerun == rerun_kind::never);
    CHECK(known("aten.addmm_.default").kind == op_kind::heavy);
    CHECK(known("aten.add_.Tensor").kind == op_kind::light);
    CHECK(known("aten.squeeze_.dim").views.empty());
    // Near names that write nothing.
    CHECK(known("aten.add.Tensor").rerun == rerun_kind::pure);
    CHECK(known("aten.max.dim").rerun == rerun_kind::pure);
    CHECK(known("aten.__and__.Tensor").rerun == rerun_kind::pure);
    CHECK(known("aten.to.dtype_layout").rerun == rerun_kind::pure);
    CHECK(known("aten._foreach_add.List").rerun == rerun_kind::pure);
}

TEST_CASE("gradient reads") {
    CHECK(known("aten.tanh.default").gradient_reads == reads{.outputs = {0}});
    CHECK(known("aten.gelu.default").gradient_reads == reads{.inputs = {0}});
    CHECK(known("aten.add.Tensor").gradient_reads == reads{});
    CHECK(known("aten.mul.Tensor").gradient_reads == reads{.inputs = {0, 1}});
    CHECK(known("aten.convolution.default").gradient_reads == reads{.inputs = {0, 1}});
    CHECK(known("aten.addmm.default").gradient_reads == reads{.inputs = {1, 2}});
    CHECK(known("aten._softmax.default").gradient_reads == reads{.outputs = {0}});
    CHECK(known("aten.max.dim").gradient_reads == reads{.outputs = {1}});
    CHECK(known("aten.max.default").gradient_reads == reads{.inputs = {0}, .outputs = {0}});
    CHECK(known("aten.max.other").gradient_reads == reads{.inputs = {0, 1}});
    CHECK(known("aten.native_dropout.default").gradient_reads == reads{.outputs = {1}});
    CHECK(known("aten.relu.default").gradient_one_bit == reads{.outputs = {0}});
    CHECK(known("aten.native_dropout_backward.default").one_bit_inputs == positions{1});
    CHECK(known("aten.masked_fill.Scalar").one_bit_inputs == positions{1});
    CHECK(known("aten.where.self").one_bit_inputs == positions{0});
    // Whether one bit is enough depends on the threshold, which a name does not tell.
    CHECK(known("aten.threshold_backward.default").one_bit_inputs.empty());
    CHECK(known("aten.tanh.default").inplace == echo::storage_pairs{{0, 0}});
    CHECK(known("aten.gt.Scalar").inplace.empty());
}

TEST_CASE("FLOPs") {
    const auto flops = [](const char* name, const std::vector<echo::shape>& inputs,
                          const std::vector<echo::shape>& outputs) {
        std::vector<tensor> in, out;
        for (const auto& s : inputs) in.push_back({.shape = s});
        for (const auto& s : outputs) out.push_back({.shape = s});
        const auto function = known(name).flops;
        REQUIRE(function != nullptr);
        return function(in, out);
    };
    CHECK(flops("aten.mm.default", {{5, 7}, {7, 3}}, {{5, 3}}) == 2 * 5 * 7 * 3);
    CHECK(flops("aten.bmm.default", {{4, 5, 7}, {4, 7, 3}}, {{4, 5, 3}}) == 4 * 2 * 5 * 7 * 3);
    CHECK(flops("aten.addmm.default", {{3}, {5, 7}, {7, 3}}, {{5, 3}}) == 2 * 5 * 7 * 3 + 15);
    CHECK(flops("aten.mv.default", {{5, 7}, {7}}, {{5}}) == 0); // not counted
    const double conv = 2.0 * 2 * 64 * 112 * 112 * 3 * 49;
    CHECK(flops("aten.convolution.default", {{2, 3, 224, 224}, {64, 3, 7, 7}}, {{2, 64, 112, 112}}) == conv);
    CHECK(flops("aten.convolution.default", {{2, 3, 224, 224}, {64, 3, 7, 7}, {64}}, {{2, 64, 112, 112}}) ==
          conv);
    CHECK(flops("aten.convolution.default", {{2, 64, 8, 8}, {64, 3, 2, 2}}, {{2, 3, 16, 16}}) ==
          0); // transposed
    CHECK(flops("aten.convolution_backward.default", {{2, 64, 112, 112}, {2, 3, 224, 224}, {64, 3, 7, 7}},
                {{2, 3, 224, 224}, {64, 3, 7, 7}, {64}}) == 2 * conv);
    const double scores = 2.0 * 8 * 100 * 100;
    const auto attention =
        flops("aten._scaled_dot_product_flash_attention_for_cpu.default",
              {{2, 8, 100, 64}, {2, 8, 100, 64}, {2, 8, 100, 64}}, {{2, 8, 100, 64}, {2, 8, 100}});
    CHECK(attention == Approx(4 * scores * 64).epsilon(0.05));
    // Grouped heads do not fit the plain form: nothing is counted, and nothing is thrown.
    CHECK(flops("aten._scaled_dot_product_flash_attention_for_cpu.default",
                {{2, 8, 100, 64}, {2, 2, 100, 64}, {2, 2, 100, 64}}, {{2, 8, 100, 64}, {2, 8, 100}}) == 0);
}

TEST_CASE("unknown names") {
    CHECK_FALSE(is_known(aten["aten.no_such_op.default"])); // so that the report lists it
    CHECK(aten["aten.mm.default"].known);
    for (const char* const name :
         {"", "aten", "aten.", "aten..default", "aten.no_such_op.default", "mm", "mm.default",
          "prims.add.default", "aten.mm2.default", "aten.m.default", "aten._.default", "aten.__iadd__.Tensor",
          "aten.no_such_op_.default", "Aten.mm.default", " aten.mm.default"})
        CHECK(aten.find(name) == nullptr);
    CHECK(aten.find("aten::mm") == aten.find("aten.mm.default"));
    CHECK(aten["aten.no_such_op.default"].kind == op_kind::heavy);
    CHECK(aten["aten.no_such_op.default"].rerun == rerun_kind::never);
    CHECK(aten["aten.no_such_op.default"].name == "aten.no_such_op.default");
    CHECK(aten["aten.mm.default"].rerun == rerun_kind::pure);
}

TEST_CASE("every op of the exported training graphs is known, as PyTorch's schemas describe it") {
    const struct {
        op_kind kind;
        rerun_kind rerun;
        std::string_view names;
    } groups[] = {
        {op_kind::heavy, rerun_kind::pure,
         "_scaled_dot_product_flash_attention_for_cpu.default "
         "_scaled_dot_product_flash_attention_for_cpu_backward.default addmm.default bmm.default "
         "convolution.default convolution_backward.default mm.default"},
        {op_kind::light, rerun_kind::pure,
         "_log_softmax.default _log_softmax_backward_data.default "
         "_native_batch_norm_legit_functional.default _softmax.default _softmax_backward_data.default "
         "_to_copy.default _unsafe_view.default add.Tensor arange.default arange.start avg_pool2d.default "
         "avg_pool2d_backward.default bitwise_and.Tensor cat.default clone.default copy.default "
         "cos.default div.Scalar div.Tensor embedding.default embedding_dense_backward.default "
         "empty.memory_format empty_like.default gather.default ge.Tensor gelu.default "
         "gelu_backward.default hardsigmoid.default hardsigmoid_backward.default hardswish.default "
         "hardswish_backward.default index.Tensor le.Tensor lt.Tensor masked_fill.Scalar "
         "max_pool2d_with_indices.default max_pool2d_with_indices_backward.default mean.dim mul.Scalar "
         "mul.Tensor native_batch_norm_backward.default native_dropout_backward.default "
         "native_layer_norm.default native_layer_norm_backward.default ne.Scalar neg.default "
         "new_empty_strided.default new_ones.default new_zeros.default nll_loss_backward.default "
         "nll_loss_forward.default ones.default pow.Tensor_Scalar relu.default rsqrt.default "
         "scalar_tensor.default scatter_add.default select_backward.default sigmoid.default "
         "sigmoid_backward.default silu.default silu_backward.default sin.default slice_backward.default "
         "stack.default sub.Tensor sum.dim_IntList tanh.default tanh_backward.default "
         "threshold_backward.default where.self zeros.default zeros_like.default"},
        {op_kind::light, rerun_kind::seeded, "bernoulli.p native_dropout.default"},
        {op_kind::view, rerun_kind::pure,
         "alias.default detach.default expand.default permute.default select.int slice.Tensor "
         "split.Tensor squeeze.dim t.default transpose.int unbind.int unsqueeze.default view.default"},
    };
    for (const auto& group : groups)
        echo::detail::each_word(group.names, [&](std::string_view name) {
            const auto& facts = known("aten." + std::string(name));
            INFO(std::string(name));
            CHECK(facts.kind == group.kind);
            CHECK(facts.rerun == group.rerun);
        });
}
