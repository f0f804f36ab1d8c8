// SPDX-License-Identifier: BSL-1.0
#include "engine/cuda/convolutions.hpp"

#include <echo/cuda/error.hpp>

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#if CUDNN_MAJOR != 9
#error "the engine's convolutions are written for cuDNN 9"
#endif

namespace engine::cuda {
namespace {

using echo::cuda::fault;

void check(cudnnStatus_t status, const char* call) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    const fault kind = status == CUDNN_STATUS_ALLOC_FAILED       ? fault::out_of_memory
                       : status == CUDNN_STATUS_BAD_PARAM        ? fault::invalid
                       : status == CUDNN_STATUS_EXECUTION_FAILED ? fault::device_lost
                                                                 : fault::other;
    throw echo::cuda::error(kind, 0, call, cudnnGetErrorString(status));
}

template <auto Destroy>
struct destroyer {
    template <class T>
    void operator()(T* handle) const {
        static_cast<void>(Destroy(handle));
    }
};
template <class Handle, auto Destroy>
using owned = std::unique_ptr<std::remove_pointer_t<Handle>, destroyer<Destroy>>;

using tensor_form = owned<cudnnTensorDescriptor_t, &cudnnDestroyTensorDescriptor>;
using filter_form = owned<cudnnFilterDescriptor_t, &cudnnDestroyFilterDescriptor>;
using window_form = owned<cudnnConvolutionDescriptor_t, &cudnnDestroyConvolutionDescriptor>;

int narrow(std::int64_t extent) {
    if (extent < 0 || extent > std::numeric_limits<int>::max())
        throw echo::cuda::error(fault::invalid, 0, "a convolution",
                                "an extent of " + std::to_string(extent) + " is too large for cuDNN");
    return static_cast<int>(extent);
}

/// Elements of weights [o, i, h, w] as they lie, or as cuDNN has them beside images with channels last: [o, h, w, i].
tensor_form weights_as_tensor(const echo::shape& w, bool channels_last) {
    cudnnTensorDescriptor_t made = nullptr;
    check(cudnnCreateTensorDescriptor(&made), "cudnnCreateTensorDescriptor");
    tensor_form kept(made);
    const int o = narrow(w[0]), i = narrow(w[1]), rows = narrow(w[2]), columns = narrow(w[3]);
    const int all = narrow(w[1] * w[2] * w[3]);
    if (channels_last)
        check(cudnnSetTensor4dDescriptorEx(made, CUDNN_DATA_FLOAT, o, i, rows, columns, all, 1,
                                           narrow(w[3] * w[1]), i),
              "cudnnSetTensor4dDescriptorEx");
    else
        check(cudnnSetTensor4dDescriptorEx(made, CUDNN_DATA_FLOAT, o, i, rows, columns, all,
                                           narrow(w[2] * w[3]), columns, 1),
              "cudnnSetTensor4dDescriptorEx");
    return kept;
}

tensor_form image(const echo::shape& s, bool channels_last) {
    cudnnTensorDescriptor_t made = nullptr;
    check(cudnnCreateTensorDescriptor(&made), "cudnnCreateTensorDescriptor");
    tensor_form kept(made);
    check(cudnnSetTensor4dDescriptor(made, channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                                     CUDNN_DATA_FLOAT, narrow(s[0]), narrow(s[channels_last ? 3 : 1]),
                                     narrow(s[channels_last ? 1 : 2]), narrow(s[channels_last ? 2 : 3])),
          "cudnnSetTensor4dDescriptor");
    return kept;
}

filter_form filter(const echo::shape& w, bool channels_last) {
    cudnnFilterDescriptor_t made = nullptr;
    check(cudnnCreateFilterDescriptor(&made), "cudnnCreateFilterDescriptor");
    filter_form kept(made);
    check(cudnnSetFilter4dDescriptor(made, CUDNN_DATA_FLOAT,
                                     channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, narrow(w[0]),
                                     narrow(w[1]), narrow(w[2]), narrow(w[3])),
          "cudnnSetFilter4dDescriptor");
    return kept;
}

window_form window_of(const ops::sliding& how, bool tf32) {
    cudnnConvolutionDescriptor_t made = nullptr;
    check(cudnnCreateConvolutionDescriptor(&made), "cudnnCreateConvolutionDescriptor");
    window_form kept(made);
    check(cudnnSetConvolution2dDescriptor(made, narrow(how.padding[0]), narrow(how.padding[1]),
                                          narrow(how.stride[0]), narrow(how.stride[1]),
                                          narrow(how.dilation[0]), narrow(how.dilation[1]),
                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          "cudnnSetConvolution2dDescriptor");
    check(cudnnSetConvolutionGroupCount(made, narrow(how.groups)), "cudnnSetConvolutionGroupCount");
    check(cudnnSetConvolutionMathType(made, tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH),
          "cudnnSetConvolutionMathType");
    return kept;
}

/// What differs from one of the three to the other.
struct forward {
    using algorithm = cudnnConvolutionFwdAlgo_t;
    static constexpr const char* called = "convolution";
};
struct data_gradient {
    using algorithm = cudnnConvolutionBwdDataAlgo_t;
    static constexpr const char* called = "convolution_data_gradient";
};
struct weight_gradient {
    using algorithm = cudnnConvolutionBwdFilterAlgo_t;
    static constexpr const char* called = "convolution_weight_gradient";
};

/// y = x * w: the shapes, whatever of it is computed.
struct shapes {
    const ops::sliding& window;
    const echo::shape &x, &w, &y;

    std::vector<std::int64_t> key() const {
        std::vector<std::int64_t> k{window.groups, window.channels_last};
        for (const auto& two : {window.stride, window.padding, window.dilation})
            k.insert(k.end(), two.begin(), two.end());
        for (const auto* s : {&x, &w}) k.insert(k.end(), s->extents().begin(), s->extents().end());
        return k;
    }
};

shapes shapes_of(const ops::convolution& op, const echo::shape& x, const echo::shape& w,
                 const echo::shape& y) {
    return {op.window, x, w, y};
}
shapes shapes_of(const ops::convolution_data_gradient& op, const echo::shape& dy, const echo::shape& w,
                 const echo::shape& dx) {
    return {op.window, dx, w, dy};
}
shapes shapes_of(const ops::convolution_weight_gradient& op, const echo::shape& dy, const echo::shape& x,
                 const echo::shape& dw) {
    return {op.window, x, dw, dy};
}
forward part_of(const ops::convolution&) { return {}; }
data_gradient part_of(const ops::convolution_data_gradient&) { return {}; }
weight_gradient part_of(const ops::convolution_weight_gradient&) { return {}; }

} // namespace

class convolutions::cudnn {
public:
    cudnn(echo::cuda::stream_ref stream, bool tf32) : tf32_(tf32) {
        const std::size_t found = cudnnGetVersion();
        if (found < CUDNN_VERSION / 100 * 100)
            throw echo::cuda::error(fault::other, 0, "cuDNN",
                                    version() + " is too old: the program was built for " +
                                        std::to_string(CUDNN_MAJOR) + "." + std::to_string(CUDNN_MINOR),
                                    "install that, or build against the older one");
        cudnnHandle_t made = nullptr;
        check(cudnnCreate(&made), "cudnnCreate");
        handle_.reset(made);
        check(cudnnSetStream(made, stream.get()), "cudnnSetStream");
    }

    template <class Op>
    std::uint64_t scratch(const Op& op, tensor_span in, tensor_span out) {
        if (elements(out[0]) == 0) return 0;
        return find(part_of(op), shapes_of(op, in[0].shape, in[1].shape, out[0].shape)).scratch();
    }

    template <class Op>
    void run(const Op& op, const call& c) {
        if (c.outputs[0].size() == 0) return;
        const auto part = part_of(op);
        const shapes s = shapes_of(op, c.inputs[0].shape(), c.inputs[1].shape(), c.outputs[0].shape());
        const auto& how = find(part, s);
        std::byte* const turned = c.scratch.data() + how.workspace; // weights with channels last
        start(part, how, c.inputs[0].data, c.inputs[1].data, c.outputs[0].data, c.scratch.data(), turned);
    }

private:
    template <class Part>
    struct plan {
        tensor_form x, y;
        filter_form w;
        window_form window;
        tensor_form w_lies, w_turned; ///< only where weights are turned
        typename Part::algorithm algorithm{};
        std::uint64_t workspace = 0; ///< a multiple of 256
        std::uint64_t turned = 0;    ///< bytes of the turned weights
        std::uint64_t scratch() const { return workspace + turned; }
    };

    template <class Part>
    const plan<Part>& find(Part part, const shapes& s) {
        auto& known = std::get<std::map<std::vector<std::int64_t>, plan<Part>>>(known_);
        const auto key = s.key();
        const auto at = known.find(key);
        if (at != known.end()) return at->second;
        plan<Part> p;
        const bool last = s.window.channels_last;
        p.x = image(s.x, last), p.y = image(s.y, last);
        p.w = filter(s.w, last);
        p.window = window_of(s.window, tf32_);
        if (last) {
            p.w_lies = weights_as_tensor(s.w, false), p.w_turned = weights_as_tensor(s.w, true);
            p.turned = sizeof(float) * echo::element_count(s.w);
        }
        choose(part, p, s);
        return known.emplace(key, std::move(p)).first->second;
    }

    /// The first of those that cuDNN names, fastest first, that is deterministic and small enough.
    template <class Part, std::size_t Count, class Found>
    void take(Part, plan<Part>& p, const std::array<Found, Count>& found, int count, const shapes& s) {
        for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
            const Found& one = found[i];
            if (one.status != CUDNN_STATUS_SUCCESS || one.determinism != CUDNN_DETERMINISTIC ||
                one.memory > workspace_limit)
                continue;
            p.algorithm = one.algo;
            const std::uint64_t bytes = std::max<std::uint64_t>(one.memory, workspace_of(p));
            p.workspace = (bytes + 255) / 256 * 256;
            return;
        }
        throw echo::cuda::error(fault::other, 0, Part::called,
                                "cuDNN has no deterministic algorithm within " +
                                    std::to_string(workspace_limit) + " bytes for images " + to_string(s.x) +
                                    " and weights " + to_string(s.w),
                                s.window.channels_last ? "put channels first" : "");
    }

    void choose(forward part, plan<forward>& p, const shapes& s) {
        std::array<cudnnConvolutionFwdAlgoPerf_t, CUDNN_CONVOLUTION_FWD_ALGO_COUNT> found{};
        int count = 0;
        check(cudnnGetConvolutionForwardAlgorithm_v7(handle_.get(), p.x.get(), p.w.get(), p.window.get(),
                                                     p.y.get(), static_cast<int>(found.size()), &count,
                                                     found.data()),
              "cudnnGetConvolutionForwardAlgorithm_v7");
        take(part, p, found, count, s);
    }
    void choose(data_gradient part, plan<data_gradient>& p, const shapes& s) {
        std::array<cudnnConvolutionBwdDataAlgoPerf_t, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT> found{};
        int count = 0;
        check(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle_.get(), p.w.get(), p.y.get(), p.window.get(),
                                                          p.x.get(), static_cast<int>(found.size()), &count,
                                                          found.data()),
              "cudnnGetConvolutionBackwardDataAlgorithm_v7");
        take(part, p, found, count, s);
    }
    void choose(weight_gradient part, plan<weight_gradient>& p, const shapes& s) {
        std::array<cudnnConvolutionBwdFilterAlgoPerf_t, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT> found{};
        int count = 0;
        check(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                  handle_.get(), p.x.get(), p.y.get(), p.window.get(), p.w.get(),
                  static_cast<int>(found.size()), &count, found.data()),
              "cudnnGetConvolutionBackwardFilterAlgorithm_v7");
        take(part, p, found, count, s);
    }

    std::uint64_t workspace_of(const plan<forward>& p) {
        std::size_t bytes = 0;
        check(cudnnGetConvolutionForwardWorkspaceSize(handle_.get(), p.x.get(), p.w.get(), p.window.get(),
                                                      p.y.get(), p.algorithm, &bytes),
              "cudnnGetConvolutionForwardWorkspaceSize");
        return bytes;
    }
    std::uint64_t workspace_of(const plan<data_gradient>& p) {
        std::size_t bytes = 0;
        check(cudnnGetConvolutionBackwardDataWorkspaceSize(handle_.get(), p.w.get(), p.y.get(),
                                                           p.window.get(), p.x.get(), p.algorithm, &bytes),
              "cudnnGetConvolutionBackwardDataWorkspaceSize");
        return bytes;
    }
    std::uint64_t workspace_of(const plan<weight_gradient>& p) {
        std::size_t bytes = 0;
        check(cudnnGetConvolutionBackwardFilterWorkspaceSize(handle_.get(), p.x.get(), p.y.get(),
                                                             p.window.get(), p.w.get(), p.algorithm, &bytes),
              "cudnnGetConvolutionBackwardFilterWorkspaceSize");
        return bytes;
    }

    void turn(const tensor_form& is, const void* from, const tensor_form& becomes, void* to) {
        const float one = 1, zero = 0;
        check(cudnnTransformTensor(handle_.get(), &one, is.get(), from, &zero, becomes.get(), to),
              "cudnnTransformTensor");
    }
    /// The weights as the convolution reads them.
    template <class Part>
    const void* weights(const plan<Part>& p, const void* w, void* turned) {
        if (!p.turned) return w;
        turn(p.w_lies, w, p.w_turned, turned);
        return turned;
    }

    void start(forward, const plan<forward>& p, const void* x, const void* w, void* y, void* work,
               void* turned) {
        const float one = 1, zero = 0;
        check(cudnnConvolutionForward(handle_.get(), &one, p.x.get(), x, p.w.get(), weights(p, w, turned),
                                      p.window.get(), p.algorithm, work, p.workspace, &zero, p.y.get(), y),
              "cudnnConvolutionForward");
    }
    void start(data_gradient, const plan<data_gradient>& p, const void* dy, const void* w, void* dx,
               void* work, void* turned) {
        const float one = 1, zero = 0;
        check(cudnnConvolutionBackwardData(handle_.get(), &one, p.w.get(), weights(p, w, turned), p.y.get(),
                                           dy, p.window.get(), p.algorithm, work, p.workspace, &zero,
                                           p.x.get(), dx),
              "cudnnConvolutionBackwardData");
    }
    void start(weight_gradient, const plan<weight_gradient>& p, const void* dy, const void* x, void* dw,
               void* work, void* turned) {
        const float one = 1, zero = 0;
        check(cudnnConvolutionBackwardFilter(handle_.get(), &one, p.x.get(), x, p.y.get(), dy, p.window.get(),
                                             p.algorithm, work, p.workspace, &zero, p.w.get(),
                                             p.turned ? turned : dw),
              "cudnnConvolutionBackwardFilter");
        if (p.turned) turn(p.w_turned, turned, p.w_lies, dw);
    }

    bool tf32_;
    owned<cudnnHandle_t, &cudnnDestroy> handle_;
    std::tuple<std::map<std::vector<std::int64_t>, plan<forward>>,
               std::map<std::vector<std::int64_t>, plan<data_gradient>>,
               std::map<std::vector<std::int64_t>, plan<weight_gradient>>>
        known_;
};

convolutions::convolutions(echo::cuda::stream_ref stream, bool tf32)
    : library_(std::make_unique<cudnn>(stream, tf32)) {}
convolutions::~convolutions() = default;
convolutions::convolutions(convolutions&&) noexcept = default;
convolutions& convolutions::operator=(convolutions&&) noexcept = default;

std::string convolutions::version() {
    const std::size_t found = cudnnGetVersion();
    return "cuDNN " + std::to_string(found / 10000) + "." + std::to_string(found / 100 % 100) + "." +
           std::to_string(found % 100);
}

void convolutions::run(const ops::convolution& op, const call& c) { library_->run(op, c); }
void convolutions::run(const ops::convolution_data_gradient& op, const call& c) { library_->run(op, c); }
void convolutions::run(const ops::convolution_weight_gradient& op, const call& c) { library_->run(op, c); }
std::uint64_t convolutions::scratch(const ops::convolution& op, tensor_span in, tensor_span out) {
    return library_->scratch(op, in, out);
}
std::uint64_t convolutions::scratch(const ops::convolution_data_gradient& op, tensor_span in,
                                    tensor_span out) {
    return library_->scratch(op, in, out);
}
std::uint64_t convolutions::scratch(const ops::convolution_weight_gradient& op, tensor_span in,
                                    tensor_span out) {
    return library_->scratch(op, in, out);
}

} // namespace engine::cuda
