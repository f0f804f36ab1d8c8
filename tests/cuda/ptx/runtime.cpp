// SPDX-License-Identifier: BSL-1.0
// Stands in for the runtime of CUDA: what nvcc's code and Echo call. Launches are interpreted at once; so is all
// that a stream is given, unless it is captured. Memory is the host's.
#include "state.hpp"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <utility>
#include <vector>

struct CUstream_st {
    CUgraph_st* captured = nullptr; ///< what it is given is put here
};
struct CUevent_st {
    bool recorded = false;
};
struct CUgraph_st {
    std::vector<std::function<cudaError_t()>> nodes;
};
struct CUgraphExec_st {
    std::vector<std::function<cudaError_t()>> nodes;
};
struct CUmemPoolHandle_st {
    std::uint64_t threshold = 0;
};

namespace {

struct kernel_name {
    ptx::module* from;
    std::string name;
};

struct runtime_state {
    std::map<const void*, kernel_name> kernels;
    std::map<void*, std::size_t> blocks;
    std::size_t used = 0, most_used = 0;
    cudaError_t last = cudaSuccess;
    std::vector<CUstream_st*> capturing;
    CUmemPoolHandle_st pool;
    int texts = 0;
};
runtime_state& runtime() {
    static runtime_state one;
    return one;
}
ptx::device_state& device() { return ptx::device_state::get(); }

constexpr std::size_t total_memory = std::size_t{4} << 30;

cudaError_t failed(cudaError_t code) {
    if (code != cudaSuccess) runtime().last = code;
    return code;
}

/// At once, or when the graph that captures the stream is launched.
cudaError_t put(cudaStream_t stream, std::function<cudaError_t()> what) {
    if (stream && stream->captured) {
        stream->captured->nodes.push_back(std::move(what));
        return cudaSuccess;
    }
    return failed(what());
}

cudaError_t copy(void* to, const void* from, std::size_t bytes) {
    if (bytes) std::memcpy(to, from, bytes);
    device().on.global.written(to, bytes);
    return cudaSuccess;
}

cudaError_t take(void** at, std::size_t bytes) {
    runtime_state& r = runtime();
    *at = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (r.used + bytes > total_memory) return failed(cudaErrorMemoryAllocation);
    // What is written behind the end is not the next block's, nor is it aligned better than CUDA promises.
    *at = std::aligned_alloc(256, (bytes + 511) / 256 * 256);
    if (!*at) return failed(cudaErrorMemoryAllocation);
    if (bytes < std::size_t{1} << 26) std::memset(*at, 0xcd, bytes);
    device().on.global.add(*at, bytes, "a block of " + std::to_string(bytes) + " bytes");
    r.blocks[*at] = bytes;
    r.used += bytes;
    r.most_used = std::max(r.most_used, r.used);
    return cudaSuccess;
}

cudaError_t give_back(void* at) {
    runtime_state& r = runtime();
    if (!at) return cudaSuccess;
    const auto found = r.blocks.find(at);
    if (found == r.blocks.end()) return failed(cudaErrorInvalidValue);
    r.used -= found->second;
    device().on.global.remove(at);
    std::free(at);
    r.blocks.erase(found);
    return cudaSuccess;
}

/// The texts of PTX in what nvcc puts into a program: a header, then entries, each with its own.
void read_fat_binary(const unsigned char* at, std::vector<ptx::module*>& made) {
    const auto number = [](const unsigned char* p, int bytes) {
        std::uint64_t n = 0;
        std::memcpy(&n, p, static_cast<std::size_t>(bytes));
        return n;
    };
    if (number(at, 4) != 0xba55ed50u) return;
    const auto header = number(at + 6, 2), size = number(at + 8, 8);
    const unsigned char *p = at + header, *const end = p + size;
    while (p < end) {
        const auto kind = number(p, 2), entry = number(p + 4, 4), bytes = number(p + 8, 8);
        const bool compressed = number(p + 56, 8) != 0;
        if (kind == 1) {
            std::string text = compressed ? "" : std::string(reinterpret_cast<const char*>(p + entry), bytes);
            if (compressed)
                device().fault = "the program's PTX is compressed: compile it with nvcc --no-compress";
            made.push_back(
                &device().add_module("program-" + std::to_string(runtime().texts++), std::move(text)));
        }
        p += entry + bytes;
    }
}

} // namespace

extern "C" {

// What nvcc's code calls.

void** __cudaRegisterFatBinary(void* wrapper) {
    struct wrapped {
        int magic, version;
        const unsigned char* data;
        void* unused;
    };
    auto* made = new std::vector<ptx::module*>;
    read_fat_binary(static_cast<wrapped*>(wrapper)->data, *made);
    return reinterpret_cast<void**>(made);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** handle) { delete reinterpret_cast<std::vector<ptx::module*>*>(handle); }
void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
    const auto& modules = *reinterpret_cast<std::vector<ptx::module*>*>(handle);
    if (!modules.empty()) runtime().kernels[host] = {modules.front(), name};
}
char __cudaInitModule(void**) { return 1; }
unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, void*);
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared, cudaStream_t stream);

namespace {
struct configuration {
    dim3 grid, block;
    std::size_t shared = 0;
    void* stream = nullptr;
} configured;
} // namespace
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, void* stream) {
    configured = {grid, block, shared, stream};
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
    *grid = configured.grid, *block = configured.block, *shared = configured.shared;
    *static_cast<void**>(stream) = configured.stream;
    return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
    *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
    return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared, cudaStream_t stream) {
    return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, arguments, shared, stream);
}

// Kernels.

cudaError_t cudaLaunchKernel(const void* host, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                             cudaStream_t stream) {
    const auto found = runtime().kernels.find(host);
    if (found == runtime().kernels.end()) return failed(cudaErrorInvalidDeviceFunction);
    const kernel_name k = found->second;
    const ptx::function* f = nullptr;
    try {
        f = k.from->find(k.name);
    } catch (const ptx::fault&) { // said when it is launched
    }
    // Arguments are taken now, and used when the kernel runs.
    auto kept = std::make_shared<std::vector<std::vector<std::byte>>>();
    if (f)
        for (std::size_t i = 0; i < f->parameters.size(); ++i) {
            const auto* const from = static_cast<const std::byte*>(arguments[i]);
            kept->emplace_back(from, from + f->parameters[i].bytes);
        }
    return put(stream, [=] {
        std::vector<const void*> list;
        for (const auto& one : *kept) list.push_back(one.data());
        return static_cast<cudaError_t>(device().launch(*k.from, k.name, {grid.x, grid.y, grid.z},
                                                        {block.x, block.y, block.z},
                                                        static_cast<std::uint32_t>(shared), list.data()));
    });
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* host, int, std::size_t) {
    *blocks = 1; // few, so that a warp takes several tiles of a small tensor
    return runtime().kernels.contains(host) ? cudaSuccess : failed(cudaErrorInvalidDeviceFunction);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* host, int threads,
                                                                   std::size_t shared, unsigned) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, host, threads, shared);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* of, const void* host) {
    *of = {};
    return runtime().kernels.contains(host) ? cudaSuccess : failed(cudaErrorInvalidDeviceFunction);
}

// The device.

cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int* number) {
    *number = 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int number) { return number == 0 ? cudaSuccess : failed(cudaErrorInvalidDevice); }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int number) {
    if (number != 0) return failed(cudaErrorInvalidDevice);
    *value = which == cudaDevAttrMultiProcessorCount      ? 2
             : which == cudaDevAttrComputeCapabilityMajor ? 12
                                                          : 9;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* to, int number) {
    if (number != 0) return failed(cudaErrorInvalidDevice);
    *to = {};
    std::strcpy(to->name, "interpreter of PTX");
    to->major = 12, to->minor = 9;
    to->multiProcessorCount = 2;
    to->maxThreadsPerMultiProcessor = 2048;
    to->totalGlobalMem = total_memory;
    to->l2CacheSize = 1 << 20;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* to, int size, int) {
    std::snprintf(to, static_cast<std::size_t>(size), "0000:00:00.0");
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    *free = total_memory - runtime().used, *total = total_memory;
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
    return runtime().last == cudaErrorLaunchFailure ? cudaErrorLaunchFailure : cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaGetLastError() {
    const cudaError_t code = runtime().last;
    if (code != cudaErrorLaunchFailure) runtime().last = cudaSuccess; // that one stays, as on a device
    return code;
}
cudaError_t cudaPeekAtLastError() { return runtime().last; }
const char* cudaGetErrorName(cudaError_t code) {
    switch (code) {
    case cudaSuccess:
        return "cudaSuccess";
    case cudaErrorInvalidValue:
        return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
        return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidDevice:
        return "cudaErrorInvalidDevice";
    case cudaErrorInvalidDeviceFunction:
        return "cudaErrorInvalidDeviceFunction";
    case cudaErrorLaunchFailure:
        return "cudaErrorLaunchFailure";
    case cudaErrorNotReady:
        return "cudaErrorNotReady";
    default:
        return "cudaErrorUnknown";
    }
}
const char* cudaGetErrorString(cudaError_t code) {
    if (code == cudaErrorLaunchFailure || code == cudaErrorInvalidDeviceFunction)
        return device().fault.c_str();
    return cudaGetErrorName(code);
}

// Memory.

cudaError_t cudaMalloc(void** at, std::size_t bytes) { return take(at, bytes); }
cudaError_t cudaFree(void* at) { return give_back(at); }
cudaError_t cudaMallocAsync(void** at, std::size_t bytes, cudaStream_t) { return take(at, bytes); }
cudaError_t cudaMallocFromPoolAsync(void** at, std::size_t bytes, cudaMemPool_t, cudaStream_t) {
    return take(at, bytes);
}
cudaError_t cudaFreeAsync(void* at, cudaStream_t stream) {
    if (stream && stream->captured) return cudaSuccess; // the graph uses it at each launch: it is kept
    return give_back(at);
}
cudaError_t cudaMallocHost(void** at, std::size_t bytes) {
    *at = std::malloc(bytes);
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void* at) {
    std::free(at);
    return cudaSuccess;
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
    *pool = &runtime().pool;
    return cudaSuccess;
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
    *pool = new CUmemPoolHandle_st;
    return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    delete pool;
    return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
    if (which == cudaMemPoolAttrReleaseThreshold) std::memcpy(&pool->threshold, value, 8);
    if (which == cudaMemPoolAttrUsedMemHigh) runtime().most_used = runtime().used;
    return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
    const std::uint64_t number = which == cudaMemPoolAttrReleaseThreshold ? pool->threshold
                                 : which == cudaMemPoolAttrUsedMemHigh    ? runtime().most_used
                                                                          : runtime().used;
    std::memcpy(value, &number, 8);
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
    return copy(to, from, bytes);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
    return put(stream, [=] { return copy(to, from, bytes); });
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
    return put(stream, [=] {
        if (bytes) std::memset(to, value, bytes);
        device().on.global.written(to, bytes);
        return cudaSuccess;
    });
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
    return cudaMemsetAsync(to, value, bytes, nullptr);
}

// Streams, events, graphs.

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned) {
    *made = new CUstream_st;
    return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* made) { return cudaStreamCreateWithFlags(made, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    delete stream;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaDeviceSynchronize(); }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaDeviceSynchronize(); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    *status = stream && stream->captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    stream->captured = new CUgraph_st;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* made) {
    *made = std::exchange(stream->captured, nullptr);
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
    *made = new CUgraphExec_st{graph->nodes};
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    delete graph;
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
    for (const auto& node : graph->nodes)
        if (const cudaError_t code = node(); code != cudaSuccess) return failed(code);
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned) {
    *made = new CUevent_st;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
    event->recorded = true;
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaDeviceSynchronize(); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
    *milliseconds = 0.001f;
    return cudaSuccess;
}

} // extern "C"
