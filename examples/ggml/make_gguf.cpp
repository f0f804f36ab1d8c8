// SPDX-License-Identifier: BSL-1.0
// Writes a GGUF file with a small model of the llama architecture: random weights from a seed, and a vocabulary of
// bytes.
//
//   make_gguf FILE [layers] [width] [context]
#include <ggml.h>
#include <gguf.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace {

class writer {
public:
    writer()
        : file_(gguf_init_empty()),
          tensors_(ggml_init({.mem_size = std::size_t{1} << 30, .mem_buffer = nullptr, .no_alloc = false})) {}
    ~writer() {
        ggml_free(tensors_);
        gguf_free(file_);
    }
    writer(const writer&) = delete;

    gguf_context* file() const { return file_; }

    void weight(const std::string& name, std::int64_t a, std::int64_t b, float mean) {
        ggml_tensor* const t = b > 0 ? ggml_new_tensor_2d(tensors_, GGML_TYPE_F32, a, b)
                                     : ggml_new_tensor_1d(tensors_, GGML_TYPE_F32, a);
        ggml_set_name(t, name.c_str());
        std::normal_distribution<float> normal(mean, 0.02F);
        auto* const values = ggml_get_data_f32(t);
        for (std::int64_t i = 0; i < ggml_nelements(t); ++i) values[i] = normal(random_);
        gguf_add_tensor(file_, t);
    }

private:
    gguf_context* file_;
    ggml_context* tensors_;
    std::mt19937 random_{11};
};

/// The three tokens that every vocabulary of this kind has, and the 256 bytes.
void write_vocabulary(gguf_context* file) {
    std::vector<std::string> names{"<unk>", "<s>", "</s>"};
    std::vector<std::int32_t> types{2, 3, 3};
    for (int byte = 0; byte < 256; ++byte) {
        char name[8];
        std::snprintf(name, sizeof(name), "<0x%02X>", static_cast<unsigned>(byte));
        names.emplace_back(name);
        types.push_back(6);
    }
    std::vector<const char*> texts;
    for (const auto& n : names) texts.push_back(n.c_str());
    const std::vector<float> scores(names.size(), 0);
    gguf_set_val_str(file, "tokenizer.ggml.model", "llama");
    gguf_set_arr_str(file, "tokenizer.ggml.tokens", texts.data(), texts.size());
    gguf_set_arr_data(file, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores.data(), scores.size());
    gguf_set_arr_data(file, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
    gguf_set_val_u32(file, "tokenizer.ggml.unknown_token_id", 0);
    gguf_set_val_u32(file, "tokenizer.ggml.bos_token_id", 1);
    gguf_set_val_u32(file, "tokenizer.ggml.eos_token_id", 2);
}

} // namespace

int main(int count, char** words) {
    if (count < 2) {
        std::fprintf(stderr, "usage: make_gguf FILE [layers] [width] [context]\n");
        return 2;
    }
    const auto number = [&](int i, int otherwise) { return count > i ? std::atoi(words[i]) : otherwise; };
    const int layers = number(2, 6), width = number(3, 128), context = number(4, 256), hidden = 3 * width,
              heads = 4;
    constexpr int vocabulary = 259;
    writer w;
    gguf_context* const file = w.file();
    gguf_set_val_str(file, "general.architecture", "llama");
    gguf_set_val_str(file, "general.name", "random weights");
    const auto set = [&](const char* name, int value) {
        gguf_set_val_u32(file, (std::string("llama.") + name).c_str(), static_cast<std::uint32_t>(value));
    };
    set("context_length", context);
    set("embedding_length", width);
    set("block_count", layers);
    set("feed_forward_length", hidden);
    set("attention.head_count", heads);
    set("attention.head_count_kv", heads);
    set("rope.dimension_count", width / heads);
    gguf_set_val_f32(file, "llama.attention.layer_norm_rms_epsilon", 1e-5F);
    write_vocabulary(file);
    w.weight("token_embd.weight", width, vocabulary, 0);
    for (int l = 0; l < layers; ++l) {
        const std::string block = "blk." + std::to_string(l) + ".";
        w.weight(block + "attn_norm.weight", width, 0, 1);
        for (const char* const name : {"attn_q", "attn_k", "attn_v", "attn_output"})
            w.weight(block + name + ".weight", width, width, 0);
        w.weight(block + "ffn_norm.weight", width, 0, 1);
        w.weight(block + "ffn_gate.weight", width, hidden, 0);
        w.weight(block + "ffn_up.weight", width, hidden, 0);
        w.weight(block + "ffn_down.weight", hidden, width, 0);
    }
    w.weight("output_norm.weight", width, 0, 1);
    w.weight("output.weight", width, vocabulary, 0);
    if (!gguf_write_to_file(file, words[1], false)) {
        std::fprintf(stderr, "make_gguf: '%s' cannot be written\n", words[1]);
        return 1;
    }
}
