// SPDX-License-Identifier: BSL-1.0
// Random models: the gradients of a graph that Echo has rewritten are the same bits as those of the graph as it was,
// with ggml's fusion on, and its compute buffer is never larger and exactly what was foretold.
#include <catch2/catch.hpp>
#include <engine.hpp>
#include <ggml-cpu.h>

#include <map>
#include <random>
#include <string>

namespace {

using echo_ggml::context_ptr;

/// A model of light and heavy ops over rows of numbers, with weights that are trained and weights that are not.
class random_model {
public:
    explicit random_model(std::uint32_t seed) : seed_(seed), fixed_(echo_ggml::new_context(1 << 20)) {
        std::mt19937 random(seed);
        width_ = 32 * static_cast<int>(1 + random() % 3), rows_ = 16 * static_cast<int>(1 + random() % 4);
        for (int i = 0; i < 12; ++i) {
            ggml_tensor* const w =
                ggml_new_tensor_2d(fixed_.get(), GGML_TYPE_F32, width_, i % 3 == 2 ? 1 : width_);
            if (random() % 3) ggml_set_param(w);
            weights_.push_back(w);
        }
        weights_.push_back(ggml_new_tensor_2d(fixed_.get(), GGML_TYPE_F32, width_, rows_));
        ggml_set_param(weights_.front());
        cache_ = ggml_new_tensor_2d(fixed_.get(), GGML_TYPE_F32, width_, rows_);
        constant_ = ggml_new_tensor_2d(fixed_.get(), GGML_TYPE_F32, width_, rows_);
        positions_ = ggml_new_tensor_1d(fixed_.get(), GGML_TYPE_I32, rows_);
        buffer_ = ggml_backend_alloc_ctx_tensors_from_buft(fixed_.get(), ggml_backend_cpu_buffer_type());
        std::normal_distribution<float> normal(0, 0.3F);
        for (ggml_tensor* const w : weights_)
            for (std::int64_t i = 0; i < ggml_nelements(w); ++i)
                static_cast<float*>(w->data)[i] = normal(random);
        for (std::int64_t i = 0; i < ggml_nelements(constant_); ++i)
            static_cast<float*>(constant_->data)[i] = 0.01F * static_cast<float>(i % 100);
        for (int i = 0; i < rows_; ++i) static_cast<std::int32_t*>(positions_->data)[i] = i;
    }
    ~random_model() { ggml_backend_buffer_free(buffer_); }
    random_model(const random_model&) = delete;

    /// Of each norm, by its name, whether ggml computes it together with its reader; a copy has the name of its
    /// original.
    using fusions = std::map<std::string, bool>;

    struct outcome {
        fusions fused;
        std::vector<std::vector<char>> gradients;
        std::size_t buffer = 0;
        std::optional<echo_ggml::decision> made;
    };

    static fusions fusions_of(ggml_cgraph* g) {
        std::map<const ggml_tensor*, int> readers;
        for (int i = 0; i < ggml_graph_n_nodes(g); ++i)
            for (const ggml_tensor* const s : ggml_graph_node(g, i)->src)
                if (s) ++readers[s];
        const auto& is = echo_ggml::layout_of(g);
        for (std::size_t slot = 0; slot < is.hash_size; ++slot)
            if (is.used(slot)) CHECK(is.use_counts[slot] == readers[is.hash_keys[slot]]);
        fusions all;
        for (int i = 0; i + 1 < ggml_graph_n_nodes(g); ++i) {
            const ggml_tensor* const n = ggml_graph_node(g, i);
            if (std::string(ggml_op_desc(n)) != "RMS_NORM") continue;
            const bool fused = readers[n] == 1 && echo_ggml::can_fuse(n, ggml_graph_node(g, i + 1));
            const auto [found, is_new] = all.try_emplace(n->name, fused);
            CHECK((is_new || found->second == fused));
        }
        return all;
    }

    outcome train(const echo_ggml::settings* asked) {
        std::fill_n(static_cast<float*>(cache_->data), ggml_nelements(cache_), 0.25F);
        const context_ptr context = echo_ggml::new_context(8 << 20);
        ggml_cgraph* const g = ggml_new_graph_custom(context.get(), 2048, true);
        build(context.get(), g);
        const int forward = ggml_graph_n_nodes(g);
        ggml_build_backward_expand(context.get(), g, nullptr);
        outcome of;
        if (asked) of.made = echo_ggml::engine(*asked)(context.get(), g, forward, nullptr);
        of.fused = fusions_of(g);
        ggml_gallocr_t allocator = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        REQUIRE(ggml_gallocr_alloc_graph(allocator, g));
        of.buffer = ggml_gallocr_get_buffer_size(allocator, 0);
        ggml_graph_reset(g);
        ggml_backend_t backend = ggml_backend_cpu_init();
        ggml_backend_cpu_set_n_threads(backend, 1);
        REQUIRE(ggml_backend_graph_compute(backend, g) == GGML_STATUS_SUCCESS);
        for (ggml_tensor* const w : weights_)
            if (const ggml_tensor* const dw = ggml_graph_get_grad(g, w)) {
                of.gradients.emplace_back(ggml_nbytes(dw));
                ggml_backend_tensor_get(dw, of.gradients.back().data(), 0, ggml_nbytes(dw));
            }
        ggml_backend_free(backend);
        ggml_gallocr_free(allocator);
        return of;
    }

private:
    void build(ggml_context* c, ggml_cgraph* g) const {
        std::mt19937 random(seed_ + 1);
        const auto any = [&](const auto& list) { return list[random() % list.size()]; };
        std::vector<ggml_tensor*> made{ggml_mul_mat(c, weights_.front(), weights_.back())};
        const int count = 12 + static_cast<int>(random() % 30);
        for (int i = 0; i < count; ++i) {
            ggml_tensor* const x = random() % 3 ? made.back() : any(made);
            ggml_tensor* const other = any(made);
            ggml_tensor* const matrix = weights_[3 * (random() % 4)];
            ggml_tensor* const row = weights_[3 * (random() % 4) + 2];
            made.push_back(apply(c, g, static_cast<unsigned>(random() % 20), x, other, matrix, row));
        }
        ggml_tensor* loss = ggml_sum(c, made.front());
        for (std::size_t i = made.size() - 3; i < made.size(); ++i) {
            ggml_tensor* const part = ggml_sum(c, ggml_sqr(c, made[i]));
            loss = ggml_add(c, loss, part);
        }
        ggml_set_loss(loss);
        ggml_set_output(loss);
        ggml_build_forward_expand(g, loss);
    }

    ggml_tensor* apply(ggml_context* c, ggml_cgraph* g, unsigned which, ggml_tensor* x, ggml_tensor* y,
                       ggml_tensor* matrix, ggml_tensor* row) const {
        switch (which) {
        case 0:
            return ggml_add(c, x, y);
        case 1:
            return ggml_mul(c, x, y);
        case 2:
            return ggml_sub(c, x, y);
        case 3:
            return ggml_silu(c, x);
        case 4:
            return ggml_relu(c, x);
        case 5:
            return ggml_soft_max(c, x);
        case 6:
            return ggml_mul(c, ggml_rms_norm(c, x, 1e-5F), row);
        case 7:
            return ggml_mul(c, row->ne[1] == x->ne[1] ? x : ggml_rms_norm(c, x, 1e-5F), y);
        case 8:
            return ggml_swiglu_split(c, x, y);
        case 9: { // ggml's CONT wants a contiguous gradient, which a reshape makes
            ggml_tensor* const turned = ggml_transpose(c, ggml_reshape_2d(c, x, width_, rows_));
            return ggml_reshape_2d(c, ggml_cont(c, turned), width_, rows_);
        }
        case 10:
            return ggml_reshape_2d(c, ggml_scale(c, ggml_reshape_1d(c, x, width_ * rows_), 0.5F), width_,
                                   rows_);
        case 11:
            return ggml_reshape_2d(
                c, ggml_rope(c, ggml_reshape_3d(c, x, 32, width_ / 32, rows_), positions_, 32, 0), width_,
                rows_);
        case 12:
            return ggml_add(c, x, row);
        case 13:
            return ggml_sqrt(c, ggml_add(c, ggml_sqr(c, x), ggml_exp(c, ggml_scale(c, y, 0.1F))));
        case 14: { // what is written into a cache is read from it, as inference engines do
            ggml_tensor* const part = ggml_view_2d(c, cache_, width_, 1, cache_->nb[1], 0);
            ggml_build_forward_expand(g, ggml_cpy(c, ggml_scale(c, weights_[2], 0.5F), part));
            return ggml_mul(c, x, ggml_view_2d(c, cache_, width_, rows_, cache_->nb[1], 0));
        }
        case 16: { // an op in place overwrites what others have read before, and will read after it
            ggml_tensor* const a = ggml_sqr(c, ggml_scale(c, constant_, 0.5F));
            ggml_tensor* const before = ggml_sqr(c, a);
            ggml_build_forward_expand(g, before);
            ggml_tensor* const after = ggml_add_inplace(c, a, constant_);
            ggml_build_forward_expand(g, after);
            return ggml_mul(c, ggml_mul(c, x, before), seed_ % 2 ? a : after);
        }
        case 15:
            return ggml_repeat(c, ggml_sum_rows(c, x), x);
        default:
            return ggml_mul_mat(c, matrix, x);
        }
    }

    std::uint32_t seed_;
    context_ptr fixed_;
    int width_ = 0, rows_ = 0;
    std::vector<ggml_tensor*> weights_;
    ggml_tensor *cache_ = nullptr, *constant_ = nullptr, *positions_ = nullptr;
    ggml_backend_buffer_t buffer_ = nullptr;
};

} // namespace

TEST_CASE("random models have the same gradients in less memory") {
    int changed = 0, count = 150;
    for (int i = 0; i < count; ++i) {
        const auto seed = static_cast<std::uint32_t>(1000 + i);
        INFO("seed " << seed);
        random_model model(seed);
        const auto plain = model.train(nullptr);
        echo_ggml::settings asked;
        if (i % 3)
            asked.ratio = 0.5 + 0.1 * (i % 5);
        else
            asked.max_overhead = 0.3;
        const auto echo = model.train(&asked);
        REQUIRE(!plain.gradients.empty());
        CHECK(echo.gradients == plain.gradients);
        CHECK(echo.fused == plain.fused);
        CHECK(echo.buffer <= plain.buffer);
        CHECK(echo.made->before.bytes == plain.buffer);
        CHECK(echo.made->after.bytes == echo.buffer);
        changed += echo.made->steps.has_value();
    }
    CHECK(changed > count / 3);
}
