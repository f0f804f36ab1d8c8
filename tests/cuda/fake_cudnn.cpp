// SPDX-License-Identifier: BSL-1.0
/// @file
/// As much of cuDNN as the engine calls, on the host, written from its documentation. Its first choice among the
/// algorithms is not deterministic, its second wants too much memory; the third asks for less than it then needs.
#include <cudnn.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>

/// The interpreter of PTX, where there is one, is told what a library writes (ptx/device.hpp).
extern "C" [[gnu::weak]] void echo_ptx_written(const void* at, std::size_t bytes);

namespace {

/// Any of the forms: extents [n, c, h, w], and how far elements lie apart.
struct form {
    std::array<int, 4> extent{};
    std::array<std::int64_t, 4> stride{};
};
struct window {
    std::array<int, 2> padding{}, stride{}, dilation{};
    int groups = 1;
    cudnnMathType_t mathematics = CUDNN_DEFAULT_MATH;
};

template <class Is, class Handle>
Is& as(Handle handle) {
    return *reinterpret_cast<Is*>(handle);
}

void set(form& f, cudnnTensorFormat_t order, int n, int c, int h, int w) {
    f.extent = {n, c, h, w};
    if (order == CUDNN_TENSOR_NHWC)
        f.stride = {std::int64_t{h} * w * c, 1, std::int64_t{w} * c, c};
    else
        f.stride = {std::int64_t{c} * h * w, std::int64_t{h} * w, w, 1};
}

constexpr int usual = 1; // the algorithm to be taken
constexpr std::size_t announced = 1000, needed = 1300;

template <class Perf, class Algorithm>
void offer(Perf* found, int asked, int* count) {
    const auto make = [](int algorithm, cudnnDeterminism_t d, std::size_t memory) {
        Perf p{};
        p.algo = static_cast<Algorithm>(algorithm);
        p.status = CUDNN_STATUS_SUCCESS;
        p.determinism = d;
        p.memory = memory;
        return p;
    };
    *count = 0;
    if (asked < 4) return;
    found[0] = make(0, CUDNN_NON_DETERMINISTIC, 0);
    found[1] = make(3, CUDNN_DETERMINISTIC, std::size_t{1} << 40);
    found[2] = make(2, CUDNN_DETERMINISTIC, 0);
    found[2].status = CUDNN_STATUS_NOT_SUPPORTED;
    found[3] = make(usual, CUDNN_DETERMINISTIC, announced);
    *count = 4;
}

/// Calls f with the offsets of x, w and y of every product of a convolution.
bool each(const form& x, const form& w, const window& c, const form& y,
          const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& f) {
    const int groups = c.groups, outputs = w.extent[0], inputs = w.extent[1];
    if (inputs * groups != x.extent[1] || outputs != y.extent[1] || x.extent[0] != y.extent[0] ||
        c.mathematics != CUDNN_FMA_MATH)
        return false;
    for (int i = 0; i < 2; ++i)
        if ((x.extent[static_cast<std::size_t>(2 + i)] + 2 * c.padding[static_cast<std::size_t>(i)] -
             (c.dilation[static_cast<std::size_t>(i)] * (w.extent[static_cast<std::size_t>(2 + i)] - 1) +
              1)) / c.stride[static_cast<std::size_t>(i)] +
                1 !=
            y.extent[static_cast<std::size_t>(2 + i)])
            return false;
    for (int n = 0; n < x.extent[0]; ++n)
        for (int o = 0; o < outputs; ++o)
            for (int i = 0; i < inputs; ++i)
                for (int p = 0; p < y.extent[2]; ++p)
                    for (int q = 0; q < y.extent[3]; ++q)
                        for (int r = 0; r < w.extent[2]; ++r)
                            for (int s = 0; s < w.extent[3]; ++s) {
                                const int h = p * c.stride[0] - c.padding[0] + r * c.dilation[0];
                                const int v = q * c.stride[1] - c.padding[1] + s * c.dilation[1];
                                if (h < 0 || v < 0 || h >= x.extent[2] || v >= x.extent[3]) continue;
                                const int from = o / (outputs / groups) * inputs + i;
                                f(n * x.stride[0] + from * x.stride[1] + h * x.stride[2] + v * x.stride[3],
                                  o * w.stride[0] + i * w.stride[1] + r * w.stride[2] + s * w.stride[3],
                                  n * y.stride[0] + o * y.stride[1] + p * y.stride[2] + q * y.stride[3]);
                            }
    return true;
}

void clear(const form& f, void* data) {
    const std::size_t bytes =
        sizeof(float) * static_cast<std::size_t>(f.extent[0] * f.extent[1] * f.extent[2] * f.extent[3]);
    std::memset(data, 0, bytes);
    if (echo_ptx_written) echo_ptx_written(data, bytes);
}

/// The workspace is written all over, as an algorithm would.
bool uses(int algorithm, void* work, std::size_t bytes) {
    if (algorithm != usual || !work || bytes < needed) return false;
    std::memset(work, 0xff, bytes);
    return true;
}

} // namespace

extern "C" {

size_t cudnnGetVersion() { return CUDNN_VERSION; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "refused"; }
cudnnStatus_t cudnnCreate(cudnnHandle_t* made) {
    static int all = 0;
    *made = reinterpret_cast<cudnnHandle_t>(&all);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; }

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* made) {
    *made = reinterpret_cast<cudnnTensorDescriptor_t>(new form);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t t) {
    delete &as<form>(t);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t t, cudnnTensorFormat_t order,
                                         cudnnDataType_t, int n, int c, int h, int w) {
    set(as<form>(t), order, n, c, h, w);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t t, cudnnDataType_t, int n, int c, int h,
                                           int w, int sn, int sc, int sh, int sw) {
    as<form>(t) = {{n, c, h, w}, {sn, sc, sh, sw}};
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* made) {
    *made = reinterpret_cast<cudnnFilterDescriptor_t>(new form);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t t) {
    delete &as<form>(t);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t t, cudnnDataType_t,
                                         cudnnTensorFormat_t order, int k, int c, int h, int w) {
    set(as<form>(t), order, k, c, h, w);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* made) {
    *made = reinterpret_cast<cudnnConvolutionDescriptor_t>(new window);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t c) {
    delete &as<window>(c);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t c, int ph, int pw, int u, int v,
                                              int dh, int dw, cudnnConvolutionMode_t mode, cudnnDataType_t) {
    as<window>(c) = {{ph, pw}, {u, v}, {dh, dw}};
    return mode == CUDNN_CROSS_CORRELATION ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t c, int groups) {
    as<window>(c).groups = groups;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t c, cudnnMathType_t how) {
    as<window>(c).mathematics = how;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                     cudnnFilterDescriptor_t, cudnnConvolutionDescriptor_t,
                                                     cudnnTensorDescriptor_t, int asked, int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* found) {
    offer<cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t>(found, asked, count);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, cudnnFilterDescriptor_t,
                                                          cudnnTensorDescriptor_t,
                                                          cudnnConvolutionDescriptor_t,
                                                          cudnnTensorDescriptor_t, int asked, int* count,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* found) {
    offer<cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t>(found, asked, count);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                            cudnnTensorDescriptor_t,
                                                            cudnnConvolutionDescriptor_t,
                                                            cudnnFilterDescriptor_t, int asked, int* count,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* found) {
    offer<cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t>(found, asked, count);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                      cudnnFilterDescriptor_t, cudnnConvolutionDescriptor_t,
                                                      cudnnTensorDescriptor_t, cudnnConvolutionFwdAlgo_t,
                                                      size_t* bytes) {
    *bytes = needed;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t,
                                                           cudnnTensorDescriptor_t,
                                                           cudnnConvolutionDescriptor_t,
                                                           cudnnTensorDescriptor_t,
                                                           cudnnConvolutionBwdDataAlgo_t, size_t* bytes) {
    *bytes = needed;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t,
                                                             cudnnTensorDescriptor_t,
                                                             cudnnConvolutionDescriptor_t,
                                                             cudnnFilterDescriptor_t,
                                                             cudnnConvolutionBwdFilterAlgo_t, size_t* bytes) {
    *bytes = needed;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnTransformTensor(cudnnHandle_t, const void*, cudnnTensorDescriptor_t from, const void* x,
                                   const void*, cudnnTensorDescriptor_t to, void* y) {
    const form &a = as<form>(from), &b = as<form>(to);
    if (a.extent != b.extent) return CUDNN_STATUS_BAD_PARAM;
    for (int n = 0; n < a.extent[0]; ++n)
        for (int c = 0; c < a.extent[1]; ++c)
            for (int h = 0; h < a.extent[2]; ++h)
                for (int w = 0; w < a.extent[3]; ++w) {
                    float* const one = static_cast<float*>(y) + n * b.stride[0] + c * b.stride[1] +
                                       h * b.stride[2] + w * b.stride[3];
                    *one = static_cast<const float*>(
                        x)[n * a.stride[0] + c * a.stride[1] + h * a.stride[2] + w * a.stride[3]];
                    if (echo_ptx_written) echo_ptx_written(one, sizeof *one);
                }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t, const void*, cudnnTensorDescriptor_t x_form,
                                      const void* x, cudnnFilterDescriptor_t w_form, const void* w,
                                      cudnnConvolutionDescriptor_t c, cudnnConvolutionFwdAlgo_t algorithm,
                                      void* work, size_t bytes, const void*, cudnnTensorDescriptor_t y_form,
                                      void* y) {
    if (!uses(algorithm, work, bytes)) return CUDNN_STATUS_BAD_PARAM;
    clear(as<form>(y_form), y);
    return each(as<form>(x_form), as<form>(w_form), as<window>(c), as<form>(y_form),
                [&](std::int64_t i, std::int64_t k, std::int64_t o) {
                    static_cast<float*>(y)[o] +=
                        static_cast<const float*>(x)[i] * static_cast<const float*>(w)[k];
                })
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t, const void*, cudnnFilterDescriptor_t w_form,
                                           const void* w, cudnnTensorDescriptor_t y_form, const void* dy,
                                           cudnnConvolutionDescriptor_t c,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* work, size_t bytes,
                                           const void*, cudnnTensorDescriptor_t x_form, void* dx) {
    if (!uses(algorithm, work, bytes)) return CUDNN_STATUS_BAD_PARAM;
    clear(as<form>(x_form), dx);
    return each(as<form>(x_form), as<form>(w_form), as<window>(c), as<form>(y_form),
                [&](std::int64_t i, std::int64_t k, std::int64_t o) {
                    static_cast<float*>(dx)[i] +=
                        static_cast<const float*>(dy)[o] * static_cast<const float*>(w)[k];
                })
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t, const void*, cudnnTensorDescriptor_t x_form,
                                             const void* x, cudnnTensorDescriptor_t y_form, const void* dy,
                                             cudnnConvolutionDescriptor_t c,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* work,
                                             size_t bytes, const void*, cudnnFilterDescriptor_t w_form,
                                             void* dw) {
    if (!uses(algorithm, work, bytes)) return CUDNN_STATUS_BAD_PARAM;
    clear(as<form>(w_form), dw);
    return each(as<form>(x_form), as<form>(w_form), as<window>(c), as<form>(y_form),
                [&](std::int64_t i, std::int64_t k, std::int64_t o) {
                    static_cast<float*>(dw)[k] +=
                        static_cast<const float*>(dy)[o] * static_cast<const float*>(x)[i];
                })
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_BAD_PARAM;
}

} // extern "C"
