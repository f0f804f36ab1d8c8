// SPDX-License-Identifier: BSL-1.0
// ReLU's gradient from one bit beside the version that reads the feature map, Echo's own and cuDNN's where it
// is installed (built with -lcudnn then: run in tests/cuda sees to it).
#include "measure.cuh"

#include <echo/cuda/bitmask.cuh>

#if __has_include(<cudnn.h>) && defined(ECHO_BENCH_CUDNN)
#include <cudnn.h>
#endif

#include <stdexcept>

namespace {

using namespace echo::cuda;

template <class T>
struct alignas(16) sixteen_bytes {
    T at[16 / sizeof(T)];
};

/// dx = x > 0 ? dy : 0, 16 bytes to an access: what a framework without the bit runs.
template <class T>
__global__ void __launch_bounds__(256) float_version(const sixteen_bytes<T>* x, const sixteen_bytes<T>* dy,
                                                     sixteen_bytes<T>* dx, std::int64_t vectors) {
    for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < vectors;
         i += std::int64_t{gridDim.x} * blockDim.x) {
        const auto a = x[i];
        auto b = dy[i];
        for (int k = 0; k < static_cast<int>(16 / sizeof(T)); ++k)
            if (!is_positive(a.at[k])) b.at[k] = T(0.0f);
        dx[i] = b;
    }
}

template <class T>
struct buffers {
    bench::memory x, dy, dx, mask;
    explicit buffers(std::int64_t n)
        : x(static_cast<std::size_t>(n) * sizeof(T)), dy(static_cast<std::size_t>(n) * sizeof(T)),
          dx(static_cast<std::size_t>(n) * sizeof(T)), mask(static_cast<std::size_t>(bytes_required(n))) {}
};

#if defined(CUDNN_MAJOR)

void check_cudnn(cudnnStatus_t status, const char* what) {
    if (status != CUDNN_STATUS_SUCCESS)
        throw std::runtime_error(std::string(what) + ": " + cudnnGetErrorString(status));
}

/// cudnnActivationBackward of ReLU, which reads x, y and dy; y is x here.
class cudnn_version {
public:
    cudnn_version(std::int64_t n, cudnnDataType_t type, const stream& own) {
        check_cudnn(cudnnCreate(&handle_), "cudnnCreate");
        check_cudnn(cudnnSetStream(handle_, own.get()), "cudnnSetStream");
        check_cudnn(cudnnCreateTensorDescriptor(&tensor_), "cudnnCreateTensorDescriptor");
        check_cudnn(cudnnSetTensor4dDescriptor(tensor_, CUDNN_TENSOR_NCHW, type, static_cast<int>(n >> 20),
                                               1 << 10, 1 << 5, 1 << 5),
                    "cudnnSetTensor4dDescriptor");
        check_cudnn(cudnnCreateActivationDescriptor(&relu_), "cudnnCreateActivationDescriptor");
        check_cudnn(cudnnSetActivationDescriptor(relu_, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0.0),
                    "cudnnSetActivationDescriptor");
    }
    cudnn_version(const cudnn_version&) = delete;
    cudnn_version& operator=(const cudnn_version&) = delete;
    ~cudnn_version() {
        cudnnDestroyActivationDescriptor(relu_);
        cudnnDestroyTensorDescriptor(tensor_);
        cudnnDestroy(handle_);
    }
    void operator()(const void* x, const void* dy, void* dx) const {
        const float one = 1, zero = 0;
        check_cudnn(cudnnActivationBackward(handle_, relu_, &one, tensor_, x, tensor_, dy, tensor_, x, &zero,
                                            tensor_, dx),
                    "cudnnActivationBackward");
    }

private:
    cudnnHandle_t handle_ = nullptr;
    cudnnTensorDescriptor_t tensor_ = nullptr;
    cudnnActivationDescriptor_t relu_ = nullptr;
};

#endif

template <class T>
void measure(const stream& own, const char* type, std::size_t bytes) {
    const auto n = static_cast<std::int64_t>(bytes / sizeof(T));
    std::vector<buffers<T>> sets;
    for (std::size_t i = bench::sets_beyond_cache(3 * bytes); i-- > 0;) {
        sets.emplace_back(n);
        bench::fill(sets.back().x.template as<T>(), n, static_cast<std::uint32_t>(i), own);
        bench::fill(sets.back().dy.template as<T>(), n, static_cast<std::uint32_t>(i) + 99, own);
        encode(sets.back().x.template as<T>(), sets.back().mask.template as<std::uint32_t>(), n, own);
    }
    const auto at = [&](std::size_t i) -> const buffers<T>& { return sets[i % sets.size()]; };
    const auto one_bit = [&](std::size_t i) {
        relu_backward(at(i).dy.template as<T>(), at(i).mask.template as<std::uint32_t>(),
                      at(i).dx.template as<T>(), n, own);
    };
    using vector = sixteen_bytes<T>;
    const std::int64_t vectors = static_cast<std::int64_t>(bytes / sizeof(vector));
    const unsigned blocks =
        grid_blocks(static_cast<std::uint64_t>(vectors), 256,
                    resident_blocks(reinterpret_cast<const void*>(&float_version<T>), 256));
    const auto whole = [&](std::size_t i) {
        float_version<T><<<blocks, 256, 0, own.get()>>>(at(i).x.template as<vector>(),
                                                        at(i).dy.template as<vector>(),
                                                        at(i).dx.template as<vector>(), vectors);
        check_launch("float_version");
    };
    const auto own_version = bench::compare(own, one_bit, whole);
    bench::print("relu_backward", "from one bit", type, bytes, "times as fast", own_version.ratio,
                 own_version.a, "the version that reads the map", own_version.b);
#if defined(CUDNN_MAJOR)
    const cudnn_version cudnn(n,
                              std::is_same_v<T, float>  ? CUDNN_DATA_FLOAT
                              : std::is_same_v<T, half> ? CUDNN_DATA_HALF
                                                        : CUDNN_DATA_BFLOAT16,
                              own);
    const auto beside = bench::compare(own, one_bit, [&](std::size_t i) {
        cudnn(at(i).x.template as<T>(), at(i).dy.template as<T>(), at(i).dx.template as<T>());
    });
    bench::print("relu_backward", "from one bit", type, bytes, "times as fast", beside.ratio, beside.a,
                 "cuDNN", beside.b);
#endif
}

} // namespace

int main() {
    return bench::run("relu_backward", [](const stream& own) {
        for (const std::size_t mib : {64, 256, 1024}) {
            bench::where_it_fits([&] { measure<float>(own, "float", mib << 20); });
            bench::where_it_fits([&] { measure<half>(own, "half", mib << 20); });
            bench::where_it_fits([&] { measure<bfloat16>(own, "bfloat16", mib << 20); });
        }
    });
}
