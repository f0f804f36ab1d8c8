// SPDX-License-Identifier: BSL-1.0
// An engine of its own that takes two headers from Echo and nothing else. Its layer is relu, then dropout.
// What the backward pass needs of it is one bit per element for relu, and for dropout one bit more, or none
// and the seed again.
#include <echo/cuda/bitmask.cuh>
#include <echo/cuda/dropout.cuh>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <vector>

namespace engine {

void expect(cudaError_t code) {
    if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

/// The engine's own tensor: its own memory, its own type of element.
template <class T>
class tensor {
public:
    explicit tensor(std::int64_t n, std::int64_t bytes) : size_(n), bytes_(bytes) {
        void* memory = nullptr;
        expect(cudaMalloc(&memory, static_cast<std::size_t>(bytes)));
        memory_.reset(static_cast<T*>(memory));
    }
    explicit tensor(std::int64_t n) : tensor(n, n * static_cast<std::int64_t>(sizeof(T))) {}

    T* data() const { return memory_.get(); }
    std::int64_t size() const { return size_; }
    std::int64_t bytes() const { return bytes_; }

private:
    struct free_memory {
        void operator()(T* at) const { static_cast<void>(cudaFree(at)); }
    };
    std::int64_t size_, bytes_;
    std::unique_ptr<T, free_memory> memory_;
};

/// One bit for each of n elements: the helpers say how many bytes that takes.
tensor<std::uint32_t> bits_for(std::int64_t n) {
    return tensor<std::uint32_t>(n, echo::cuda::bytes_required(n));
}

/// The layer. All that it keeps from forward to backward are its members.
struct relu_dropout {
    double p;
    echo::cuda::dropout_seed seed;
    bool replay; ///< dropout's mask is drawn again instead of kept
    tensor<std::uint32_t> positive, kept;

    relu_dropout(std::int64_t n, double rate, echo::cuda::dropout_seed drawn, bool again)
        : p(rate), seed(drawn), replay(again), positive(bits_for(n)), kept(bits_for(again ? 0 : n)) {}

    void forward(const tensor<__half>& x, const tensor<__half>& y, cudaStream_t stream) const {
        echo::cuda::relu_forward(x.data(), y.data(), positive.data(), x.size(), stream);
        // In place: y is not needed as it was.
        if (replay)
            echo::cuda::dropout_forward(y.data(), y.data(), y.size(), p, seed, stream);
        else
            echo::cuda::dropout_forward(y.data(), y.data(), kept.data(), y.size(), p, seed, stream);
    }
    void backward(const tensor<__half>& dy, const tensor<__half>& dx, cudaStream_t stream) const {
        if (replay)
            echo::cuda::dropout_backward(dy.data(), dx.data(), dy.size(), p, seed, stream);
        else
            echo::cuda::dropout_backward(dy.data(), kept.data(), dx.data(), dy.size(), p, stream);
        echo::cuda::relu_backward(dx.data(), positive.data(), dx.data(), dx.size(), stream);
    }
    std::int64_t stashed() const { return positive.bytes() + kept.bytes(); }
};

std::vector<__half> read(const tensor<__half>& t, cudaStream_t stream) {
    std::vector<__half> out(static_cast<std::size_t>(t.size()));
    expect(cudaMemcpyAsync(out.data(), t.data(), static_cast<std::size_t>(t.bytes()), cudaMemcpyDeviceToHost,
                           stream));
    expect(cudaStreamSynchronize(stream));
    return out;
}

bool run() {
    constexpr std::int64_t n = 1'000'003;
    constexpr double p = 0.1;
    cudaStream_t stream = nullptr;
    expect(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

    std::vector<__half> values(n), ones(n, __float2half(1.0f));
    for (std::int64_t i = 0; i < n; ++i)
        values[static_cast<std::size_t>(i)] = __float2half(static_cast<float>((i * 37) % 101 - 50));
    const tensor<__half> x(n), y(n), dy(n), dx(n);
    expect(cudaMemcpyAsync(x.data(), values.data(), n * sizeof(__half), cudaMemcpyHostToDevice, stream));
    expect(cudaMemcpyAsync(dy.data(), ones.data(), n * sizeof(__half), cudaMemcpyHostToDevice, stream));

    bool right = true;
    std::vector<__half> gradients[2];
    for (const bool replay : {false, true}) {
        const relu_dropout layer(n, p, {.seed = 2020, .offset = 1}, replay);
        layer.forward(x, y, stream);
        layer.backward(dy, dx, stream);
        const auto out = read(y, stream), gradient = read(dx, stream);
        std::int64_t dropped = 0, positive = 0;
        for (std::size_t i = 0; i < out.size(); ++i) {
            const float in = __half2float(values[i]), came = __half2float(out[i]),
                        went = __half2float(gradient[i]);
            // Where something came through, the gradient goes back, by the same scale; nowhere else.
            right = right && (came != 0) == (went != 0) && (in > 0 || came == 0);
            positive += in > 0;
            dropped += in > 0 && came == 0;
        }
        gradients[replay] = gradient;
        std::printf("%-30s %8lld bytes kept for backward, instead of %lld for the two maps; %.4f dropped\n",
                    replay ? "relu's bit, dropout's seed:" : "a bit for each:",
                    static_cast<long long>(layer.stashed()), static_cast<long long>(2 * x.bytes()),
                    static_cast<double>(dropped) / static_cast<double>(positive));
    }
    for (std::size_t i = 0; i < ones.size(); ++i)
        right = right && __half2float(gradients[0][i]) == __half2float(gradients[1][i]);
    std::printf("%s\n", right ? "Both ways give the same gradient." : "The gradients are wrong.");

    // A mistake is an error of a type and in words, before anything runs.
    try {
        echo::cuda::dropout_forward(x.data(), y.data(), n, 1.0, {}, stream);
        right = false;
    } catch (const echo::cuda::argument_error& e) {
        std::printf("%s\n", e.what());
    }
    expect(cudaStreamDestroy(stream));
    return right;
}

} // namespace engine

int main() {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::printf("No CUDA device here: nothing was run.\n");
        return 77;
    }
    try {
        return engine::run() ? 0 : 1;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
