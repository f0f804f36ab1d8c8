// SPDX-License-Identifier: BSL-1.0
// The CUDA runtime's own answers as typed errors. Without a driver every call fails, which is what most
// machines that build this have; with a device the same calls are used for what they are for.
#include "../bench/cards/layer_timer.hpp"
#include "../bench/cards/nvtx.hpp"
#include "../bench/cards/power.hpp"
#include "support/toy_graph.hpp"

#include <echo/analysis/plan_memory.hpp>
#include <echo/cuda/allocators.hpp>
#include <echo/cuda/device.hpp>
#include <echo/cuda/stream.hpp>

#include <catch2/catch.hpp>

namespace {

using Catch::Contains;
using namespace echo::cuda;

// error.hpp knows codes by number, so that it needs no CUDA header: these are the runtime's.
static_assert(fault_of(cudaErrorNoDevice) == fault::no_device);
static_assert(fault_of(cudaErrorStubLibrary) == fault::no_driver);
static_assert(fault_of(cudaErrorInsufficientDriver) == fault::driver_too_old);
static_assert(fault_of(cudaErrorCallRequiresNewerDriver) == fault::driver_too_old);
static_assert(fault_of(cudaErrorUnsupportedPtxVersion) == fault::driver_too_old);
static_assert(fault_of(cudaErrorSystemDriverMismatch) == fault::driver_too_old);
static_assert(fault_of(cudaErrorMemoryAllocation) == fault::out_of_memory);
static_assert(fault_of(cudaErrorInvalidDeviceFunction) == fault::wrong_architecture);
static_assert(fault_of(cudaErrorInvalidKernelImage) == fault::wrong_architecture);
static_assert(fault_of(cudaErrorNoKernelImageForDevice) == fault::wrong_architecture);
static_assert(fault_of(cudaErrorMisalignedAddress) == fault::misaligned);
constexpr cudaError_t lost[] = {cudaErrorECCUncorrectable,
                                cudaErrorNvlinkUncorrectable,
                                cudaErrorContained,
                                cudaErrorIllegalAddress,
                                cudaErrorLaunchTimeout,
                                cudaErrorContextIsDestroyed,
                                cudaErrorAssert,
                                cudaErrorHardwareStackError,
                                cudaErrorIllegalInstruction,
                                cudaErrorInvalidAddressSpace,
                                cudaErrorInvalidPc,
                                cudaErrorLaunchFailure,
                                cudaErrorTensorMemoryLeak};
static_assert([] {
    for (const auto code : lost)
        if (fault_of(code) != fault::device_lost) return false;
    return true;
}());
constexpr cudaError_t refused[] = {cudaErrorInvalidValue,          cudaErrorInvalidConfiguration,
                                   cudaErrorInvalidDevicePointer,  cudaErrorInvalidDevice,
                                   cudaErrorInvalidResourceHandle, cudaErrorLaunchOutOfResources};
static_assert([] {
    for (const auto code : refused)
        if (fault_of(code) != fault::invalid) return false;
    return true;
}());
static_assert(fault_of(cudaErrorStreamCaptureUnsupported) == fault::capture &&
              fault_of(cudaErrorStreamCaptureWrongThread) == fault::capture &&
              fault_of(cudaErrorTimeout) == fault::other);
static_assert(fault_of(cudaErrorNotReady) == fault::other && fault_of(cudaErrorUnknown) == fault::other);

static_assert(std::is_same_v<cudaStream_t, CUstream_st*>);

/// The runtime finds no device, for whatever reason; the reason.
std::optional<fault> nothing_there() {
    try {
        device_count();
        return std::nullopt;
    } catch (const error& e) {
        return e.kind();
    }
}

/// One line that says what is missing: of a driver or of a device, and what to do.
void check_none(const error& e, const std::string& operation) {
    const std::string said = e.what();
    INFO(said);
    CHECK(said.find('\n') == said.npos);
    CHECK(said.starts_with(operation + ": no CUDA device"));
    CHECK(said.find("nvidia-smi") != said.npos);
    CHECK((e.kind() == fault::no_driver || e.kind() == fault::no_device));
    CHECK(e.code() != 0);
}

template <class Call>
void require_none(const std::string& operation, Call call) {
    try {
        call();
        FAIL(operation << " did not fail");
    } catch (const error& e) {
        check_none(e, operation);
    }
}

echo::memory_plan some_plan() {
    support::toy_graph g;
    const auto x = g.heavy({g.input(64)}, 512);
    const auto s = g.finish({g.light({x}, 256)});
    return echo::plan_memory(s, echo::baseline_schedule(s), {.align = arena_alignment});
}

} // namespace

TEST_CASE("without a device every call says so in one line", "[cuda][device]") {
    const auto missing = nothing_there();
    int driver = 0;
    static_cast<void>(cudaDriverGetVersion(&driver));
    if (!missing || driver != 0) return; // there is one, or an old driver
    CHECK(*missing == fault::no_driver);
    const stream_ref on(default_stream);
    require_none("cudaGetDeviceCount", [] { device_count(); });
    require_none("cudaGetDevice", [] { current_device(); });
    require_none("cudaGetDeviceProperties", [] { properties_of(0); });
    require_none("cudaMemGetInfo", [] { memory_of_current_device(); });
    require_none("cudaGetDevice", [] { device_scope other(0); });
    require_none("cudaOccupancyMaxActiveBlocksPerMultiprocessor", [] { resident_blocks(nullptr, 128); });
    require_none("cudaMalloc", [&] { device_arena(some_plan(), cuda_malloc_allocator{}, on); });
    require_none("cudaGetDevice", [&] { device_arena(some_plan(), stream_ordered_allocator(), on); });
    require_none("cudaMemPoolCreate", [&] { memory_pool pool(0); });
    require_none("cudaStreamCreateWithFlags", [] { stream s; });
    require_none("cudaEventCreateWithFlags", [] { event e; });
    require_none("cudaEventCreateWithFlags", [&] { static_cast<void>(layer_timer().start("layer", on)); });
    require_none("cudaStreamSynchronize", [&] { wait(on); });
    require_none("cudaStreamIsCapturing", [&] { capturing(on); });
    require_none("kernel relu_forward", [] { check_launch("relu_forward"); });
}

TEST_CASE("what a call returns becomes a typed error", "[cuda][check]") {
    check(cudaSuccess, "nothing");
    try {
        check(cudaErrorNoKernelImageForDevice, "cudaLaunchKernel");
        FAIL("not thrown");
    } catch (const error& e) {
        CHECK(e.kind() == fault::wrong_architecture);
        CHECK(e.code() == 209);
        CHECK_THAT(e.what(), Contains("cudaLaunchKernel: ") &&
                                 Contains("cudaErrorNoKernelImageForDevice, 209") &&
                                 Contains("finds no code for it") && Contains("-arch=sm_XY"));
    }
    CHECK_THROWS_WITH((check_kernel<architectures<750, 900>>(cudaErrorNoKernelImageForDevice, "relu")),
                      Contains("relu: ") && Contains("the program was built for sm_75, sm_90"));
    CHECK_THROWS_WITH(check(cudaErrorIllegalAddress, "cudaStreamSynchronize"),
                      Contains("cudaErrorIllegalAddress, 700") && Contains("compute-sanitizer"));
    CHECK_THROWS_WITH(check(cudaErrorMisalignedAddress, "x"), Contains("no multiple of its type's size"));
    CHECK_THROWS_WITH(check(cudaErrorStreamCaptureUnsupported, "cudaMalloc"), Contains("before the capture"));
    CHECK_THROWS_AS(check_allocation(cudaErrorMemoryAllocation, "cudaMalloc", 12345), out_of_memory);
    CHECK_THROWS_WITH(check_allocation(cudaErrorMemoryAllocation, "cudaMalloc", 12345),
                      Contains("cudaMalloc: 12345 bytes asked"));
    CHECK_THROWS_WITH(check_allocation(cudaErrorInvalidValue, "cudaMalloc", 1),
                      Contains("cudaErrorInvalidValue, 1"));
    CHECK_THROWS_WITH(detail::check_alignment(512), Contains("256 bytes"));
}

TEST_CASE("a grid has a block for all items, and no more than are resident", "[cuda][device]") {
    static_assert(grid_blocks(1, 256, 100) == 1);
    static_assert(grid_blocks(256, 256, 100) == 1);
    static_assert(grid_blocks(257, 256, 100) == 2);
    static_assert(grid_blocks(25600, 256, 100) == 100);
    static_assert(grid_blocks(25601, 256, 100) == 100);
    static_assert(grid_blocks(0, 256, 100) == 1);
    static_assert(grid_blocks(1, 256, 0) == 1);
    static_assert(grid_blocks(~std::uint64_t{0}, 1, 2112) == 2112);
}

TEST_CASE("layers are marked for the profiler where NVTX is there", "[cuda][nvtx]") {
    CHECK(nvtx_found); // a part of the toolkit
    const layer_range outer("encoder");
    const layer_range inner("attention");
}

TEST_CASE("with a device: an arena, times of layers, a peak", "[cuda][device]") {
    if (nothing_there()) return;
    const auto card = properties_of(current_device());
    CHECK(card.multiprocessors > 0);
    CHECK(card.architecture() >= 75);
    check_launch("nothing");
    CHECK_THROWS_WITH(check(cudaSetDevice(1000), "cudaSetDevice"), Contains("cudaErrorInvalidDevice, 101"));
    CHECK(cudaPeekAtLastError() == cudaSuccess); // taken back
    const stream own;
    memory_pool pool(current_device());
    {
        const device_arena arena(some_plan(), stream_ordered_allocator(pool), own);
        layer_timer timer(1);
        for (int i = 0; i < 3; ++i) {
            auto run = timer.start("fill", own);
            check(cudaMemsetAsync(arena.at(echo::step_id(1)), i, 512, own.get()), "cudaMemsetAsync");
            run.stop();
        }
        const auto times = timer.collect();
        REQUIRE(times.size() == 1);
        CHECK(times[0].runs == 3);
        CHECK(times[0].milliseconds > 0);
        CHECK(pool.peak() >= arena.bytes());
    }
    CHECK_THROWS_AS(
        device_arena(echo::memory_plan({.bytes = std::uint64_t{1} << 42}), cuda_malloc_allocator{}, own),
        out_of_memory);
}
