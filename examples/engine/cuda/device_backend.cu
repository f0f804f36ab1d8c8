// SPDX-License-Identifier: BSL-1.0
#include "engine/cuda/backend.hpp"
#include "engine/cuda/convolutions.hpp"
#include "engine/cuda/device_backend.hpp"
#include "engine/cuda/device_launcher.cuh"
#include "engine/cuda/device_memory.hpp"
#include "engine/cuda/fused_graph.hpp"
#include "engine/cuda/products.hpp"
#include "engine/cuda/stream_mover.hpp"

#include <echo/cuda/device.hpp>
#include <echo/cuda/event.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace engine::cuda {
namespace detail {

struct nothing {
    std::int64_t tiles() const { return 1; }
    template <class Warp>
    ECHO_HOST_DEVICE void operator()(Warp&) const {}
};

} // namespace detail

namespace {

/// cuBLAS and cuDNN, by reference.
class libraries {
public:
    libraries(products& p, convolutions& c) : products_(&p), convolutions_(&c) {}

    template <class Op>
        requires requires(products& p, const Op& op, const call& c) { p.run(op, c); }
    void run(const Op& op, const call& c) {
        products_->run(op, c);
    }
    template <class Op>
        requires requires(convolutions& p, const Op& op, const call& c) { p.run(op, c); }
    void run(const Op& op, const call& c) {
        convolutions_->run(op, c);
    }
    template <class Op>
        requires requires(products& p, const Op& op, const call& c) { p.run(op, c); }
    std::uint64_t scratch(const Op&, tensor_span, tensor_span) {
        return 0; // all products have one workspace
    }
    template <class Op>
        requires requires(convolutions& p, const Op& op, const call& c) { p.run(op, c); }
    std::uint64_t scratch(const Op& op, tensor_span in, tensor_span out) {
        return convolutions_->scratch(op, in, out);
    }

private:
    products* products_;
    convolutions* convolutions_;
};

/// Memory of the host that copy engines reach by themselves.
class pinned_memory {
public:
    explicit pinned_memory(std::size_t bytes) {
        if (!bytes) return;
        void* made = nullptr;
        echo::cuda::check(cudaMallocHost(&made, bytes),
                          "cudaMallocHost of " + std::to_string(bytes) + " bytes of the host's memory");
        at_ = static_cast<std::byte*>(made);
    }
    pinned_memory(pinned_memory&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
    pinned_memory& operator=(pinned_memory&& other) noexcept {
        std::swap(at_, other.at_);
        return *this;
    }
    ~pinned_memory() {
        if (at_) static_cast<void>(cudaFreeHost(at_));
    }
    std::byte* data() const noexcept { return at_; }

private:
    std::byte* at_ = nullptr;
};

/// What `stream_mover` needs of CUDA.
class copy_engines {
public:
    using stream = echo::cuda::stream;
    using store = pinned_memory;
    struct event : echo::cuda::event {
        event() : echo::cuda::event(echo::cuda::timing::off) {}
    };

    explicit copy_engines(echo::cuda::stream_ref ops) : ops_(ops) {}
    echo::cuda::stream_ref ops() const noexcept { return ops_; }
    void copy_out(void* to, const void* from, std::size_t bytes, echo::cuda::stream_ref in) const {
        echo::cuda::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, in.get()),
                          "cudaMemcpyAsync");
    }
    void copy_in(void* to, const void* from, std::size_t bytes, echo::cuda::stream_ref in) const {
        echo::cuda::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, in.get()),
                          "cudaMemcpyAsync");
    }

private:
    echo::cuda::stream_ref ops_;
};

/// Refuses a device for which the program has no code, before anything is built for it.
int usable(int device) {
    if (device >= echo::cuda::device_count())
        throw echo::cuda::error(echo::cuda::fault::no_device, 0, "CUDA device " + std::to_string(device),
                                "there are " + std::to_string(echo::cuda::device_count()));
    echo::cuda::check(cudaSetDevice(device), "cudaSetDevice");
    static_cast<void>(echo::cuda::detail::resident_blocks_of<detail::nothing>());
    return device;
}

class recorded_graph {
public:
    explicit recorded_graph(cudaGraph_t graph) {
        const cudaError_t code = cudaGraphInstantiate(&handle_, graph, 0);
        static_cast<void>(cudaGraphDestroy(graph));
        echo::cuda::check(code, "cudaGraphInstantiate");
    }
    recorded_graph(recorded_graph&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    recorded_graph& operator=(recorded_graph&&) = delete;
    ~recorded_graph() {
        if (handle_) static_cast<void>(cudaGraphExecDestroy(handle_));
    }
    void start(echo::cuda::stream_ref stream) const {
        echo::cuda::check(cudaGraphLaunch(handle_, stream.get()), "cudaGraphLaunch");
    }

private:
    cudaGraphExec_t handle_ = nullptr;
};

std::string words_of(int device) {
    const auto card = echo::cuda::properties_of(device);
    int driver = 0;
    echo::cuda::check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    return card.name + " (sm_" + std::to_string(card.architecture()) + ", " + std::to_string(card.memory) +
           " bytes), driver for CUDA " + echo::cuda::detail::version_words(driver) + ", " +
           convolutions::version();
}

} // namespace

class device_backend::implementation {
public:
    explicit implementation(const device_options& options)
        : device_(usable(options.device)), free_at_first_(echo::cuda::memory_of_current_device().free),
          words_(words_of(device_)), workspace_(memory, products::workspace_bytes, "cuBLAS's workspace"),
          products_(stream, workspace_.data(), options.tf32), convolutions_(stream, options.tf32),
          libraries_(products_, convolutions_), ops(launcher_, libraries_) {}

    void begin() {
        echo::cuda::check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
                          "cudaStreamBeginCapture");
    }
    std::size_t end() {
        cudaGraph_t graph = nullptr;
        echo::cuda::check(cudaStreamEndCapture(stream.get(), &graph), "cudaStreamEndCapture");
        recordings.emplace_back(graph);
        return recordings.size() - 1;
    }
    std::uint64_t taken() const {
        const std::uint64_t free = echo::cuda::memory_of_current_device().free;
        return free_at_first_ - std::min(free, free_at_first_);
    }
    const std::string& words() const noexcept { return words_; }
    /// Microseconds that the device takes for what `issue` issues.
    template <class Issue>
    double timed(const Issue& issue) {
        before.record(stream);
        issue();
        behind.record(stream);
        behind.wait();
        return 1000 * echo::cuda::milliseconds_between(before, behind);
    }

private:
    int device_;
    std::uint64_t free_at_first_;
    std::string words_;

public:
    echo::cuda::stream stream{};
    device_memory memory{stream};

private:
    copy_engines engines_{stream};

public:
    stream_mover<copy_engines> moves{engines_};

private:
    memory_piece workspace_;
    products products_;
    convolutions convolutions_;
    libraries libraries_;
    device_launcher launcher_{stream};

public:
    backend<device_launcher, libraries> ops;
    echo::cuda::jit::compiler compiler{{.contract = false}};
    std::vector<recorded_graph> recordings{};
    echo::cuda::event before{}, behind{};
};

device_backend::device_backend(const device_options& options)
    : all_(std::make_unique<implementation>(options)) {}
device_backend::~device_backend() = default;
device_backend::device_backend(device_backend&&) noexcept = default;
device_backend& device_backend::operator=(device_backend&&) noexcept = default;

void device_backend::run(const op& o, const call& c) { all_->ops.run(o, c); }
std::uint64_t device_backend::scratch(const op& o, tensor_span in, tensor_span out) {
    return all_->ops.scratch(o, in, out);
}
bool device_backend::in_parts(const op& o) const { return in_fused_kernels(o); }
void device_backend::run(std::span<const op_call> together) {
    const fused_kernel made = fuse(together);
    all_->compiler.compile(made.graph)(made.results, made.operands, made.extents, all_->stream);
}
double device_backend::timed(const op& o, const call& c) {
    return all_->timed([&] { run(o, c); });
}
double device_backend::timed(std::span<const op_call> together) {
    return all_->timed([&] { run(together); });
}
tensor_memory& device_backend::memory() noexcept { return all_->memory; }
mover& device_backend::moves() noexcept { return all_->moves; }
void device_backend::begin_recording() { all_->begin(); }
std::size_t device_backend::end_recording() { return all_->end(); }
void device_backend::replay(std::size_t which) { all_->recordings.at(which).start(all_->stream); }
const std::string& device_backend::description() const noexcept { return all_->words(); }
std::uint64_t device_backend::free_bytes() const { return echo::cuda::memory_of_current_device().free; }
std::uint64_t device_backend::driver_bytes() const { return all_->taken(); }

} // namespace engine::cuda
