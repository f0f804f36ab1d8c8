// SPDX-License-Identifier: BSL-1.0
// The facts of ggml's ops, held against ggml: what its gradients read, what its allocator writes over, what is a view.
#include <catch2/catch.hpp>
#include <engine.hpp>
#include <ggml-cpu.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <set>

extern "C" bool ggml_op_can_inplace(enum ggml_op op); // exported by ggml, declared in a private header

namespace {

using echo_ggml::context_ptr;

struct op_case {
    const char* name;
    std::function<ggml_tensor*(ggml_context*, ggml_tensor*, ggml_tensor*)>
        make; ///< of two parameters of 8 × 4
};

ggml_tensor* rows_of(ggml_context* c) {
    ggml_tensor* const ids = ggml_new_tensor_1d(c, GGML_TYPE_I32, 4);
    ggml_set_input(ids);
    return ids;
}

/// Every op that ggml's backward pass knows.
const std::vector<op_case>& cases() {
    using c = ggml_context*;
    using t = ggml_tensor*;
    static const std::vector<op_case> all{
        {"DUP", [](c x, t a, t) { return ggml_dup(x, a); }},
        {"ADD", [](c x, t a, t b) { return ggml_add(x, a, b); }},
        {"ADD1", [](c x, t a, t) { return ggml_add1(x, a, ggml_new_tensor_1d(x, GGML_TYPE_F32, 1)); }},
        {"ACC", [](c x, t a, t b) { return ggml_acc(x, a, b, a->nb[1], a->nb[2], a->nb[3], 0); }},
        {"SUB", [](c x, t a, t b) { return ggml_sub(x, a, b); }},
        {"MUL", [](c x, t a, t b) { return ggml_mul(x, a, b); }},
        {"DIV", [](c x, t a, t b) { return ggml_div(x, a, b); }},
        {"SQR", [](c x, t a, t) { return ggml_sqr(x, a); }},
        {"SQRT", [](c x, t a, t) { return ggml_sqrt(x, a); }},
        {"LOG", [](c x, t a, t) { return ggml_log(x, a); }},
        {"SIN", [](c x, t a, t) { return ggml_sin(x, a); }},
        {"COS", [](c x, t a, t) { return ggml_cos(x, a); }},
        {"SUM", [](c x, t a, t) { return ggml_sum(x, a); }},
        {"SUM_ROWS", [](c x, t a, t) { return ggml_sum_rows(x, a); }},
        {"MEAN", [](c x, t a, t) { return ggml_mean(x, a); }},
        {"REPEAT", [](c x, t a, t) { return ggml_repeat_4d(x, a, 16, 4, 1, 1); }},
        {"REPEAT_BACK",
         [](c x, t a, t) { return ggml_repeat_back(x, a, ggml_new_tensor_2d(x, GGML_TYPE_F32, 8, 1)); }},
        {"RMS_NORM", [](c x, t a, t) { return ggml_rms_norm(x, a, 1e-5F); }},
        {"MUL_MAT", [](c x, t a, t b) { return ggml_mul_mat(x, a, b); }},
        {"SCALE", [](c x, t a, t) { return ggml_scale(x, a, 3); }},
        {"CPY", [](c x, t a, t) { return ggml_cast(x, a, GGML_TYPE_F32); }},
        {"CONT", [](c x, t a, t) { return ggml_cont(x, a); }},
        {"RESHAPE", [](c x, t a, t) { return ggml_reshape_2d(x, a, 4, 8); }},
        {"VIEW", [](c x, t a, t) { return ggml_view_2d(x, a, 4, 4, a->nb[1], 0); }},
        {"PERMUTE", [](c x, t a, t) { return ggml_permute(x, a, 1, 0, 2, 3); }},
        {"TRANSPOSE", [](c x, t a, t) { return ggml_transpose(x, a); }},
        {"GET_ROWS", [](c x, t a, t) { return ggml_get_rows(x, a, rows_of(x)); }},
        {"DIAG_MASK_INF", [](c x, t a, t) { return ggml_diag_mask_inf(x, a, 0); }},
        {"DIAG_MASK_ZERO", [](c x, t a, t) { return ggml_diag_mask_zero(x, a, 0); }},
        {"SOFT_MAX", [](c x, t a, t) { return ggml_soft_max(x, a); }},
        {"ROPE", [](c x, t a, t) { return ggml_rope(x, ggml_reshape_3d(x, a, 8, 1, 4), rows_of(x), 8, 0); }},
        {"IM2COL",
         [](c x, t, t b) { // of the kernel it is the shape that counts
             return ggml_im2col(x, ggml_new_tensor_4d(x, GGML_TYPE_F32, 2, 2, 1, 8),
                                ggml_reshape_4d(x, b, 8, 4, 1, 1), 1, 1, 0, 0, 1, 1, true, GGML_TYPE_F32);
         }},
        {"POOL_2D", [](c x, t a, t) { return ggml_pool_2d(x, a, GGML_OP_POOL_MAX, 2, 2, 2, 2, 0, 0); }},
        {"ABS", [](c x, t a, t) { return ggml_abs(x, a); }},
        {"SGN", [](c x, t a, t) { return ggml_sgn(x, a); }},
        {"NEG", [](c x, t a, t) { return ggml_neg(x, a); }},
        {"STEP", [](c x, t a, t) { return ggml_step(x, a); }},
        {"RELU", [](c x, t a, t) { return ggml_relu(x, a); }},
        {"SILU", [](c x, t a, t) { return ggml_silu(x, a); }},
        {"EXP", [](c x, t a, t) { return ggml_exp(x, a); }},
        {"EXPM1", [](c x, t a, t) { return ggml_expm1(x, a); }},
        {"SOFTPLUS", [](c x, t a, t) { return ggml_softplus(x, a); }},
        {"CROSS_ENTROPY_LOSS",
         [](c x, t a, t) {
             ggml_tensor* const labels = ggml_dup_tensor(x, a);
             ggml_set_input(labels);
             return ggml_cross_entropy_loss(x, a, labels);
         }},
        {"SWIGLU", [](c x, t a, t b) { return ggml_swiglu_split(x, a, b); }},
    };
    return all;
}

} // namespace

TEST_CASE("what the gradients read is what the facts say") {
    for (const op_case& of : cases()) {
        INFO(of.name);
        const context_ptr context = echo_ggml::new_context(1 << 20);
        ggml_context* const c = context.get();
        // Behind two ops of their own, so that the inputs are no parameters.
        const auto input = [&] {
            ggml_tensor* const w = ggml_new_tensor_2d(c, GGML_TYPE_F32, 8, 4);
            ggml_set_param(w);
            return ggml_reshape_2d(c, ggml_scale(c, w, 2), 8, 4); // takes a gradient of any layout
        };
        ggml_tensor* const a = input();
        ggml_tensor* const b = input();
        ggml_tensor* const y = of.make(c, a, b);
        REQUIRE(std::string(ggml_op_desc(y)) == of.name);
        ggml_tensor* const loss = ggml_sum(c, ggml_cont(c, y));
        ggml_set_loss(loss);
        ggml_cgraph* const g = ggml_new_graph_custom(c, 256, true);
        ggml_build_forward_expand(g, loss);
        const int forward = ggml_graph_n_nodes(g);
        ggml_build_backward_expand(c, g, nullptr);
        echo::reads found;
        for (int i = forward; i < ggml_graph_n_nodes(g); ++i)
            for (const ggml_tensor* const s : ggml_graph_node(g, i)->src) {
                if (!s) continue;
                if (s == y) found.outputs.insert(0);
                for (std::size_t k = 0; k < GGML_MAX_SRC; ++k)
                    if (y->src[k] == s && y != s) found.inputs.insert(k);
            }
        const auto* const facts = echo::ggml.find(of.name);
        REQUIRE(facts);
        auto said = facts->gradient_reads;
        if (std::string(of.name) == "ROPE")
            found.inputs.insert(2); // the optional factors, which this one has not
        CHECK(said == found);
    }
}

TEST_CASE("what the allocator may write over is what the facts say") {
    // Only ops whose description is their own name can be looked up without a tensor.
    for (int i = 1; i < GGML_OP_COUNT; ++i) {
        const auto op = static_cast<ggml_op>(i);
        const auto* const facts = echo::ggml.find(ggml_op_name(op));
        INFO(ggml_op_name(op));
        if (facts) CHECK(facts->inplace.empty() == !ggml_op_can_inplace(op));
    }
    for (int i = 0; i < GGML_UNARY_OP_COUNT; ++i) {
        const auto* const facts = echo::ggml.find(ggml_unary_op_name(static_cast<ggml_unary_op>(i)));
        INFO(ggml_unary_op_name(static_cast<ggml_unary_op>(i)));
        REQUIRE(facts);
        CHECK(facts->inplace.empty() == !ggml_op_can_inplace(GGML_OP_UNARY));
    }
}

TEST_CASE("every op of this ggml is known, but for those that run the host's own functions") {
    std::set<std::string> unknown;
    for (int i = 1; i < GGML_OP_COUNT; ++i)
        if (!echo::ggml.find(ggml_op_name(static_cast<ggml_op>(i))))
            unknown.insert(ggml_op_name(static_cast<ggml_op>(i)));
    CHECK(unknown ==
          std::set<std::string>{"CUSTOM", "GLU", "MAP_CUSTOM1", "MAP_CUSTOM2", "MAP_CUSTOM3", "UNARY"});
    for (int i = 0; i < GGML_GLU_OP_COUNT; ++i) {
        INFO(ggml_glu_op_name(static_cast<ggml_glu_op>(i)));
        CHECK(echo::ggml.find(ggml_glu_op_name(static_cast<ggml_glu_op>(i))));
    }
}

TEST_CASE("this ggml is laid out as the adapter says") { CHECK(echo_ggml::fits()); }

TEST_CASE("writes run once and in order, and what dies is taken over first") {
    using traits = echo::graph_traits<echo_ggml::graph>;
    using list = std::vector<ggml_tensor*>;
    const context_ptr context = echo_ggml::new_context(1 << 20);
    ggml_context* const c = context.get();
    ggml_tensor* const x = ggml_new_tensor_2d(c, GGML_TYPE_F32, 8, 4);
    ggml_tensor* const a = ggml_exp(c, x);
    ggml_tensor* const before = ggml_exp(c, a);
    ggml_tensor* const first = ggml_add_inplace(c, a, x);
    ggml_tensor* const part = ggml_view_1d(c, a, 8, 0);
    ggml_tensor* const second = ggml_scale_inplace(c, part, 2);
    ggml_tensor* const after = ggml_exp(c, a); // names no write
    ggml_tensor* const other = ggml_exp(c, x);
    ggml_tensor* const sum = ggml_add(c, other, ggml_exp(c, before)); // its second input dies with it
    ggml_tensor* const last = ggml_mul(c, sum, other);
    ggml_cgraph* const joint = ggml_new_graph(c);
    for (ggml_tensor* const t : {before, first, second, after, last}) ggml_build_forward_expand(joint, t);
    const echo_ggml::graph g(joint, ggml_graph_n_nodes(joint), {});
    const echo::snapshot s = echo::read(g);
    const auto of = [&](const ggml_tensor* t) { return echo::node_id(g.position(t)); };
    const auto once = [&](ggml_tensor* t) { return s[of(t)].rerun == echo::rerun_kind::never; };
    for (ggml_tensor* const t : {a, before, first, second}) CHECK(once(t));
    for (ggml_tensor* const t : {part, after, other, sum}) CHECK(!once(t));
    const auto behind = [&](ggml_tensor* t) {
        list all;
        for (const echo::node_id n : s.control(of(t))) all.push_back(g.order()[n.index()]);
        return all;
    };
    CHECK(behind(before).empty());
    CHECK(behind(second) == list{first});
    CHECK(behind(after) == list{second});
    CHECK(behind(other).empty());
    for (ggml_tensor* const t : {first, part, second}) CHECK(s[s.output(of(t), 0)].view_of == 0U);
    CHECK(traits::outputs(g, sum)[0].inplace == std::size_t{1});
}

TEST_CASE("what is read and what lies on what are parts of what a plan is remembered by") {
    using op = ggml_tensor* (*)(ggml_context*, ggml_tensor*, ggml_tensor*);
    const auto key = [](op add, bool swapped) {
        const context_ptr context = echo_ggml::new_context(1 << 20);
        ggml_context* const c = context.get();
        ggml_tensor* const x = ggml_new_tensor_2d(c, GGML_TYPE_F32, 8, 4);
        ggml_tensor *const a = ggml_exp(c, x), *const b = ggml_exp(c, a);
        ggml_tensor* const sum = swapped ? add(c, b, a) : add(c, a, b);
        ggml_cgraph* const joint = ggml_new_graph(c);
        for (ggml_tensor* const t : {b, sum}) ggml_build_forward_expand(joint, t);
        return echo_ggml::key_of(echo_ggml::graph(joint, ggml_graph_n_nodes(joint), {}));
    };
    CHECK(key(ggml_add, false) == key(ggml_add, false));
    CHECK(key(ggml_add, false) != key(ggml_add_inplace, false));
    CHECK(key(ggml_add, false) != key(ggml_add, true));
}

TEST_CASE("quantised weights cost what they take beside floats") {
    // Of each, the shortest of many runs on one thread: other work on the machine makes runs longer, never shorter.
    struct costs {
        double measured = 1e9, said = 0;
    };
    const auto cost_of = [](ggml_type type, bool outer) {
        const context_ptr context(ggml_init({.mem_size = 8 << 20, .mem_buffer = nullptr, .no_alloc = false}));
        ggml_context* const c = context.get();
        ggml_tensor* const w = ggml_new_tensor_2d(c, type, 128, 128);
        ggml_tensor* const x = ggml_new_tensor_2d(c, GGML_TYPE_F32, 128, 128);
        std::memset(w->data, 0, ggml_nbytes(w));
        std::memset(x->data, 0, ggml_nbytes(x));
        ggml_tensor* const y = outer ? ggml_out_prod(c, w, x) : ggml_mul_mat(c, w, x);
        ggml_cgraph* const g = ggml_new_graph(c);
        ggml_build_forward_expand(g, y);
        const std::unique_ptr<ggml_backend, decltype(&ggml_backend_free)> backend(ggml_backend_cpu_init(),
                                                                                  ggml_backend_free);
        ggml_backend_cpu_set_n_threads(backend.get(), 1);
        costs of{.said = echo_ggml::time_us(y)};
        for (int run = 0; run < 200; ++run) {
            const auto start = std::chrono::steady_clock::now();
            REQUIRE(ggml_backend_graph_compute(backend.get(), g) == GGML_STATUS_SUCCESS);
            const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
            of.measured = std::min(of.measured, took.count());
        }
        return of;
    };
    for (const bool outer : {false, true}) {
        const costs floats = cost_of(GGML_TYPE_F32, outer), quantised = cost_of(GGML_TYPE_Q8_0, outer);
        INFO((outer ? "OUT_PROD" : "MUL_MAT")
             << ": floats " << floats.measured << " us, said " << floats.said << "; quantised "
             << quantised.measured << " us, said " << quantised.said);
        const double off = quantised.measured / floats.measured / (quantised.said / floats.said);
        CHECK(off > 0.4);
        CHECK(off < 2.5);
    }
}
