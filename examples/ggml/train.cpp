// SPDX-License-Identifier: BSL-1.0
// An engine's user: trains a small model by ggml-opt on numbers made up from a seed, and prints the loss of each step,
// a hash of all parameters and gradients, the compute buffer and the time of a step. It knows nothing of Echo.
//
//   train [--model fc|cnn|transformer|lora] [--steps N] [--period N] [--dynamic] [--type f32|q8_0] [--layers N]
//         [--width N] [--tokens N] [--batch N] [--threads N] [--nodes N] [--paced] [--times]
//         [--accelerator]
//
// `--paced` waits for a line on standard input before each step, so that two runs can be timed in turns. `--times`
// prints what each kind of op takes, beside what times.hpp says.
#include "times.hpp"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml-opt.h>
#include <ggml.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace {

struct options {
    std::string model = "transformer";
    int steps = 4, period = 1, layers = 6, width = 128, tokens = 128, batch = 4, threads = 2, nodes = 2048;
    bool dynamic = false, paced = false, times = false, accelerator = false;
    ggml_type type = GGML_TYPE_F32; // of weights that are not trained
};

[[noreturn]] void refuse(const char* what) {
    std::fprintf(stderr, "train: %s\n", what);
    std::exit(2);
}

options read_options(int count, char** words) {
    options o;
    for (int i = 1; i < count; ++i) {
        const std::string word = words[i];
        bool* const flag = word == "--dynamic"       ? &o.dynamic
                           : word == "--paced"       ? &o.paced
                           : word == "--times"       ? &o.times
                           : word == "--accelerator" ? &o.accelerator
                                                     : nullptr;
        if (flag) {
            *flag = true;
            continue;
        }
        if (++i == count) refuse("an option lacks its value");
        const std::string value = words[i];
        if (word == "--model")
            o.model = value;
        else if (word == "--steps")
            o.steps = std::stoi(value);
        else if (word == "--period")
            o.period = std::stoi(value);
        else if (word == "--layers")
            o.layers = std::stoi(value);
        else if (word == "--width")
            o.width = std::stoi(value);
        else if (word == "--tokens")
            o.tokens = std::stoi(value);
        else if (word == "--batch")
            o.batch = std::stoi(value);
        else if (word == "--threads")
            o.threads = std::stoi(value);
        else if (word == "--nodes")
            o.nodes = std::stoi(value);
        else if (word == "--type")
            o.type = value == "q8_0" ? GGML_TYPE_Q8_0 : GGML_TYPE_F32;
        else
            refuse("an option is not known");
    }
    return o;
}

ggml_context* context_of(std::size_t bytes) {
    return ggml_init({.mem_size = bytes, .mem_buffer = nullptr, .no_alloc = true});
}

/// A model: its parameters, its input, and how its forward pass is built.
class model {
public:
    explicit model(const options& o) : o_(o), fixed_(context_of(2048 * ggml_tensor_overhead())) {
        if (o.model == "fc" || o.model == "cnn") {
            input_ = ggml_new_tensor_2d(fixed_, GGML_TYPE_F32, 784, 125 * o.batch);
            make_images();
        } else {
            input_ = ggml_new_tensor_1d(fixed_, GGML_TYPE_I32, o.tokens * o.batch);
            positions_ = ggml_new_tensor_1d(fixed_, GGML_TYPE_I32, o.tokens);
            make_transformer();
        }
        ggml_set_input(input_);
        ggml_set_name(input_, "input");
        buffer_ = ggml_backend_alloc_ctx_tensors_from_buft(fixed_, ggml_backend_cpu_buffer_type());
        fill();
    }
    ~model() {
        ggml_backend_buffer_free(buffer_);
        ggml_free(fixed_);
    }
    model(const model&) = delete;

    ggml_tensor* input() const { return input_; }
    const std::vector<ggml_tensor*>& trained() const { return trained_; }

    ggml_tensor* forward(ggml_context* c) const {
        ggml_tensor* const y = o_.model == "fc" ? fc(c) : o_.model == "cnn" ? cnn(c) : transformer(c);
        ggml_set_output(y);
        ggml_set_name(y, "logits");
        return y;
    }

    /// New data for a step.
    void feed(std::mt19937& random, ggml_tensor* labels) const {
        const auto classes = static_cast<std::uint32_t>(labels->ne[0]);
        if (input_->type == GGML_TYPE_I32) {
            std::vector<std::int32_t> ids(static_cast<std::size_t>(input_->ne[0]));
            for (auto& id : ids) id = static_cast<std::int32_t>(random() % vocabulary);
            ggml_backend_tensor_set(input_, ids.data(), 0, ggml_nbytes(input_));
        } else {
            std::vector<float> pixels(static_cast<std::size_t>(ggml_nelements(input_)));
            for (auto& p : pixels) p = static_cast<float>(random() % 256) / 255;
            ggml_backend_tensor_set(input_, pixels.data(), 0, ggml_nbytes(input_));
        }
        std::vector<float> one_hot(static_cast<std::size_t>(ggml_nelements(labels)), 0);
        for (std::size_t row = 0; row < one_hot.size(); row += classes) one_hot[row + random() % classes] = 1;
        ggml_backend_tensor_set(labels, one_hot.data(), 0, ggml_nbytes(labels));
    }

private:
    static constexpr std::uint32_t vocabulary = 256;
    static constexpr int heads = 4;

    ggml_tensor* weight(ggml_type type, bool trained, std::int64_t a, std::int64_t b = 1, std::int64_t c = 1,
                        std::int64_t d = 1) {
        ggml_tensor* const w = ggml_new_tensor_4d(fixed_, type, a, b, c, d);
        ggml_format_name(w, "w%zu", all_.size());
        all_.push_back(w);
        if (trained) {
            ggml_set_param(w);
            trained_.push_back(w);
        }
        return w;
    }

    void make_images() {
        if (o_.model == "fc") {
            weight(GGML_TYPE_F32, true, 784, 500);
            weight(GGML_TYPE_F32, true, 500);
            weight(GGML_TYPE_F32, true, 500, 10);
            weight(GGML_TYPE_F32, true, 10);
        } else {
            weight(GGML_TYPE_F32, true, 3, 3, 1, 8);
            weight(GGML_TYPE_F32, true, 1, 1, 8);
            weight(GGML_TYPE_F32, true, 3, 3, 8, 16);
            weight(GGML_TYPE_F32, true, 1, 1, 16);
            weight(GGML_TYPE_F32, true, 7 * 7 * 16, 10);
            weight(GGML_TYPE_F32, true, 10);
        }
    }

    void make_transformer() {
        const bool whole = o_.model == "transformer", lora = !whole;
        const int d = o_.width, hidden = 3 * d;
        weight(whole ? GGML_TYPE_F32 : o_.type, whole, d, vocabulary);
        for (int l = 0; l < o_.layers; ++l) {
            weight(GGML_TYPE_F32, whole, d); // norms stay in 32 bits
            for (int i = 0; i < 4; ++i) weight(whole ? GGML_TYPE_F32 : o_.type, whole, d, d);
            weight(GGML_TYPE_F32, whole, d);
            for (int i = 0; i < 2; ++i) weight(whole ? GGML_TYPE_F32 : o_.type, whole, d, hidden);
            weight(whole ? GGML_TYPE_F32 : o_.type, whole, hidden, d);
            if (!lora) continue;
            for (int i = 0; i < 2; ++i) {
                weight(GGML_TYPE_F32, true, d, 8);
                weight(GGML_TYPE_F32, true, 8, d);
            }
        }
        weight(GGML_TYPE_F32, whole, d);
        weight(whole ? GGML_TYPE_F32 : o_.type, whole, d, vocabulary);
    }

    void fill() {
        std::mt19937 random(42);
        std::normal_distribution<float> normal(0, 0.05F);
        for (ggml_tensor* const w : all_) {
            std::vector<float> values(static_cast<std::size_t>(ggml_nelements(w)));
            const bool norm = ggml_nelements(w) == o_.width && input_->type == GGML_TYPE_I32;
            for (auto& v : values) v = (norm ? 1 : 0) + normal(random);
            if (w->type == GGML_TYPE_F32) {
                ggml_backend_tensor_set(w, values.data(), 0, ggml_nbytes(w));
                continue;
            }
            std::vector<char> packed(ggml_nbytes(w));
            ggml_quantize_chunk(w->type, values.data(), packed.data(), 0, ggml_nelements(w) / w->ne[0],
                                w->ne[0], nullptr);
            ggml_backend_tensor_set(w, packed.data(), 0, packed.size());
        }
        if (!positions_) return;
        std::vector<std::int32_t> at(static_cast<std::size_t>(o_.tokens));
        for (std::size_t i = 0; i < at.size(); ++i) at[i] = static_cast<std::int32_t>(i);
        ggml_backend_tensor_set(positions_, at.data(), 0, ggml_nbytes(positions_));
    }

    ggml_tensor* fc(ggml_context* c) const {
        ggml_tensor* const h = ggml_relu(c, ggml_add(c, ggml_mul_mat(c, all_[0], input_), all_[1]));
        return ggml_add(c, ggml_mul_mat(c, all_[2], h), all_[3]);
    }

    ggml_tensor* cnn(ggml_context* c) const {
        const auto convolve = [&](ggml_tensor* x, std::size_t w) {
            x = ggml_relu(c, ggml_add(c, ggml_conv_2d(c, all_[w], x, 1, 1, 1, 1, 1, 1), all_[w + 1]));
            return ggml_pool_2d(c, x, GGML_OP_POOL_MAX, 2, 2, 2, 2, 0, 0);
        };
        ggml_tensor* x = ggml_reshape_4d(c, input_, 28, 28, 1, input_->ne[1]);
        x = convolve(convolve(x, 0), 2);
        x = ggml_cont(c, ggml_permute(c, x, 1, 2, 0, 3));
        x = ggml_reshape_2d(c, x, 7 * 7 * 16, input_->ne[1]);
        return ggml_add(c, ggml_mul_mat(c, all_[4], x), all_[5]);
    }

    ggml_tensor* transformer(ggml_context* c) const {
        const bool lora = o_.model == "lora";
        const int d = o_.width, t = o_.tokens, b = o_.batch;
        std::size_t next = 0;
        const auto norm = [&](ggml_tensor* x) {
            return ggml_mul(c, ggml_rms_norm(c, x, 1e-5F), all_[next++]);
        };
        ggml_tensor* x = ggml_get_rows(c, all_[next++], input_);
        for (int l = 0; l < o_.layers; ++l) {
            ggml_tensor* const n = norm(x);
            ggml_tensor* const* const w = &all_[next];
            next += 4;
            ggml_tensor* const* const adapter = &all_[next + 4];
            const auto adapted = [&](ggml_tensor* y, int i) {
                return lora
                           ? ggml_add(c, y,
                                      ggml_mul_mat(c, adapter[2 * i + 1], ggml_mul_mat(c, adapter[2 * i], n)))
                           : y;
            };
            const auto split = [&](ggml_tensor* y) { return ggml_reshape_4d(c, y, d / heads, heads, t, b); };
            ggml_tensor* const q = ggml_permute(c, split(adapted(ggml_mul_mat(c, w[0], n), 0)), 0, 2, 1, 3);
            ggml_tensor* const k = ggml_permute(c, split(ggml_mul_mat(c, w[1], n)), 0, 2, 1, 3);
            ggml_tensor* const v =
                ggml_cont(c, ggml_permute(c, split(adapted(ggml_mul_mat(c, w[2], n), 1)), 1, 2, 0, 3));
            ggml_tensor* kq =
                ggml_scale(c, ggml_mul_mat(c, k, q), 1 / std::sqrt(static_cast<float>(d / heads)));
            kq = ggml_soft_max(c, ggml_diag_mask_inf(c, kq, 0));
            ggml_tensor* a = ggml_permute(c, ggml_mul_mat(c, v, kq), 0, 2, 1, 3);
            a = ggml_mul_mat(c, w[3], ggml_cont_2d(c, a, d, t * b));
            x = ggml_add(c, x, a);
            ggml_tensor* const m = norm(x);
            ggml_tensor* const h =
                ggml_swiglu_split(c, ggml_mul_mat(c, all_[next], m), ggml_mul_mat(c, all_[next + 1], m));
            x = ggml_add(c, x, ggml_mul_mat(c, all_[next + 2], h));
            next += lora ? 7 : 3;
        }
        ggml_tensor* const n = norm(x);
        return ggml_mul_mat(c, all_[next], n);
    }

    const options& o_;
    ggml_context* fixed_;
    ggml_backend_buffer_t buffer_ = nullptr;
    ggml_tensor *input_ = nullptr, *positions_ = nullptr;
    std::vector<ggml_tensor*> all_, trained_;
};

class hash {
public:
    void add(const ggml_tensor* t) {
        std::vector<unsigned char> bytes(ggml_nbytes(t));
        ggml_backend_tensor_get(t, bytes.data(), 0, bytes.size());
        for (const auto b : bytes) value_ = (value_ ^ b) * 1099511628211U;
    }
    std::uint64_t value() const { return value_; }

private:
    std::uint64_t value_ = 14695981039346656037U;
};

double seconds() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Times of the ops of a run, by the names of the ops.
struct op_times {
    struct sum {
        int runs = 0;
        double measured = 0, predicted = 0;
    };
    std::map<std::string, sum> by_op;
    double started = 0;

    static bool call(ggml_tensor* t, bool before, void* self) {
        auto& all = *static_cast<op_times*>(self);
        if (before) {
            all.started = seconds();
            return true;
        }
        char name[96];
        const bool product = std::strcmp(ggml_op_desc(t), "MUL_MAT") == 0,
                   outer = std::strcmp(ggml_op_desc(t), "OUT_PROD") == 0;
        if (product || outer)
            std::snprintf(name, sizeof(name), "%s %lld -> %lldx%lldx%lld", ggml_op_desc(t),
                          static_cast<long long>(t->src[0]->ne[outer ? 1 : 0]),
                          static_cast<long long>(t->ne[0]), static_cast<long long>(t->ne[1]),
                          static_cast<long long>(t->ne[2] * t->ne[3]));
        else
            std::snprintf(name, sizeof(name), "%s", ggml_op_desc(t));
        sum& of = all.by_op[name];
        ++of.runs;
        of.measured += 1e6 * (seconds() - all.started);
        of.predicted += echo_ggml::time_us(t);
        return true;
    }
    void print() const {
        for (const auto& [op, of] : by_op)
            std::printf("%-32s %6d runs %12.1f us measured %12.1f us predicted\n", op.c_str(), of.runs,
                        of.measured, of.predicted);
    }
};

} // namespace

int main(int count, char** words) {
    const options o = read_options(count, words);
    ggml_backend_t backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backend, o.threads);
    std::vector<ggml_backend_t> backends; // the CPU's is the last
    for (std::size_t i = 0; o.accelerator && i < ggml_backend_dev_count(); ++i)
        if (ggml_backend_dev_type(ggml_backend_dev_get(i)) == GGML_BACKEND_DEVICE_TYPE_ACCEL)
            backends.push_back(ggml_backend_dev_init(ggml_backend_dev_get(i), nullptr));
    if (o.accelerator && backends.empty()) refuse("this ggml has no accelerator");
    backends.push_back(backend);
    ggml_backend_sched_t sched =
        ggml_backend_sched_new(backends.data(), nullptr, static_cast<int>(backends.size()),
                               static_cast<std::size_t>(o.nodes), false, false);
    op_times times;
    if (o.times) ggml_backend_sched_set_eval_callback(sched, op_times::call, &times);
    const model m(o);
    const std::size_t graph = static_cast<std::size_t>(o.nodes) * ggml_tensor_overhead() +
                              3 * ggml_graph_overhead_custom(static_cast<std::size_t>(o.nodes), true);
    ggml_context* const fixed = o.dynamic ? nullptr : context_of(graph);
    ggml_opt_params params = ggml_opt_default_params(sched, GGML_OPT_LOSS_TYPE_CROSS_ENTROPY);
    params.opt_period = o.period;
    if (fixed) {
        params.ctx_compute = fixed;
        params.inputs = m.input();
        params.outputs = m.forward(fixed);
    }
    ggml_opt_context_t training = ggml_opt_init(params);
    std::mt19937 random(7);
    ggml_opt_result_t result = ggml_opt_result_init();
    for (int step = 0; step < o.steps * o.period; ++step) {
        if (o.paced && std::getchar() == EOF) break;
        ggml_context* built = nullptr;
        const double before = seconds();
        if (o.dynamic) {
            built = context_of(graph);
            ggml_cgraph* const forward =
                ggml_new_graph_custom(built, static_cast<std::size_t>(o.nodes), true);
            ggml_tensor* const y = m.forward(built);
            ggml_build_forward_expand(forward, y);
            ggml_opt_prepare_alloc(training, built, forward, m.input(), y);
        }
        ggml_opt_alloc(training, true);
        m.feed(random, ggml_opt_labels(training));
        ggml_opt_eval(training, result);
        const double took = seconds() - before;
        double loss = 0;
        ggml_opt_result_loss(result, &loss, nullptr);
        hash parameters, gradients;
        for (ggml_tensor* const w : m.trained()) {
            parameters.add(w);
            if (const ggml_tensor* const g =
                    o.period > 1 && !o.dynamic ? ggml_opt_grad_acc(training, w) : nullptr)
                gradients.add(g);
        }
        std::printf("step %d loss %.17g parameters %016llx gradients %016llx time %.6f\n", step, loss,
                    static_cast<unsigned long long>(parameters.value()),
                    static_cast<unsigned long long>(gradients.value()), took);
        std::fflush(stdout);
        if (built) ggml_free(built);
        ggml_opt_result_reset(result);
    }
    if (o.times) times.print();
    std::size_t bytes = 0;
    for (ggml_backend_t b : backends) bytes += ggml_backend_sched_get_buffer_size(sched, b);
    std::fprintf(stderr, "compute buffer %zu\n", bytes);
    ggml_opt_result_free(result);
    ggml_opt_free(training);
    if (fixed) ggml_free(fixed);
    ggml_backend_sched_free(sched);
    for (ggml_backend_t b : backends) ggml_backend_free(b);
}
