// SPDX-License-Identifier: BSL-1.0
// Streams, events, arenas and the kernels together on the device: a plan's arena from each allocator, one
// capture of everything in a CUDA graph, times by events, the typed errors that only a device gives.
#include "../../bench/cards/layer_timer.hpp"
#include "../../bench/cards/nvtx.hpp"
#include "../../bench/cards/power.hpp"
#include "device_test.cuh"

#include <echo/cuda/allocators.hpp>
#include <echo/cuda/bitmask.cuh>
#include <echo/cuda/dropout.cuh>

namespace {

using namespace echo::cuda;
using device_test::expect;
using device_test::expect_error;

constexpr std::int64_t elements = 10000;

/// x, y, mask and dx as four blocks of one arena.
echo::memory_plan four_blocks() {
    const std::uint64_t data = 40192, bits = 1280; // whole granules of 256
    echo::memory_plan_parts parts;
    parts.align = arena_alignment;
    std::uint64_t at = 0;
    for (std::uint32_t i = 0; i < 4; ++i) {
        const std::uint64_t bytes = i == 2 ? bits : data;
        parts.blocks.push_back({{echo::step_id(i), 0}, at, bytes});
        parts.offsets.push_back(at);
        parts.first_copy.push_back(i + 1);
        at += bytes;
    }
    parts.bytes = at;
    return echo::memory_plan(parts);
}

template <class T>
T* block(const auto& arena, std::uint32_t i) {
    return static_cast<T*>(arena.at(echo::step_id(i)));
}

/// ReLU and its gradient by way of the arena; positive numbers come through, others do not.
template <class Allocator>
void runs_in(Allocator allocator, const stream& own, const std::string& name) {
    const device_arena arena(four_blocks(), std::move(allocator), own);
    expect(reinterpret_cast<std::uintptr_t>(arena.at(echo::step_id(0))) % arena_alignment == 0,
           name + ": aligned");
    auto *const x = block<float>(arena, 0), *const y = block<float>(arena, 1),
                *const dx = block<float>(arena, 3);
    auto* const mask = block<std::uint32_t>(arena, 2);
    std::vector<float> values(elements), found(elements);
    for (std::int64_t i = 0; i < elements; ++i)
        values[static_cast<std::size_t>(i)] = static_cast<float>(i % 7) - 3.0f;
    const std::size_t bytes = elements * sizeof(float);
    check(cudaMemcpyAsync(x, values.data(), bytes, cudaMemcpyHostToDevice, own.get()), "cudaMemcpyAsync");
    relu_forward(x, y, mask, elements, own);
    relu_backward(y, mask, dx, elements, own);
    check(cudaMemcpyAsync(found.data(), dx, bytes, cudaMemcpyDeviceToHost, own.get()), "cudaMemcpyAsync");
    own.wait();
    for (std::size_t i = 0; i < found.size(); ++i)
        if (found[i] != (values[i] > 0 ? values[i] : 0.0f)) {
            expect(false, name + ": element " + std::to_string(i));
            return;
        }
    expect(true, name);
}

/// Everything of the helpers between the begin and the end of a capture, the allocation too; then replayed.
void captured(const stream& own) {
    const cudaStream_t s = own.get();
    float* out = nullptr;
    check(cudaMalloc(&out, elements * sizeof(float)), "cudaMalloc");
    cudaGraph_t graph = nullptr;
    prepare<echo::cuda::kernel::relu_forward_body<float>>(); // the launches below are their kernels' first
    prepare<echo::cuda::kernel::relu_backward_body<float>>();
    prepare<echo::cuda::kernel::dropout_draw_body<float, true>>();
    prepare<echo::cuda::kernel::dropout_draw_body<float, false>>();
    check(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    expect(capturing(own), "a capture is seen");
    {
        const layer_range range("captured");
        stream_ordered_allocator pool;
        auto* const x = static_cast<float*>(pool.allocate(elements * sizeof(float), 256, own));
        auto* const mask = static_cast<std::uint32_t*>(
            pool.allocate(static_cast<std::size_t>(bytes_required(elements)), 256, own));
        check(cudaMemsetAsync(x, 0x3f, elements * sizeof(float), s), "cudaMemsetAsync"); // 0.747
        relu_forward(x, x, mask, elements, own);
        relu_backward(x, mask, x, elements, own);
        dropout_forward(x, x, mask, elements, 0.5, {.seed = 5}, own);
        dropout_backward(x, out, elements, 0.5, {.seed = 5}, own);
        pool.deallocate(x, elements * sizeof(float), own);
        pool.deallocate(mask, static_cast<std::size_t>(bytes_required(elements)), own);
    }
    check(cudaStreamEndCapture(s, &graph), "cudaStreamEndCapture");
    cudaGraphExec_t ready = nullptr;
    check(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
    std::vector<float> first(elements), second(elements);
    for (auto* found : {&first, &second}) {
        check(cudaGraphLaunch(ready, s), "cudaGraphLaunch");
        check(cudaMemcpyAsync(found->data(), out, elements * sizeof(float), cudaMemcpyDeviceToHost, s),
              "cudaMemcpyAsync");
        own.wait();
    }
    std::size_t kept = 0;
    for (const float v : first) kept += v != 0;
    expect(first == second, "a replay gives the same");
    expect(kept > elements * 45 / 100 && kept < elements * 55 / 100, "about half is kept");
    static_cast<void>(cudaGraphExecDestroy(ready));
    static_cast<void>(cudaGraphDestroy(graph));
    static_cast<void>(cudaFree(out));
}

void times(const stream& own) {
    const std::size_t bytes = 64 << 20;
    void* memory = nullptr;
    check_allocation(cudaMalloc(&memory, bytes), "cudaMalloc", bytes);
    layer_timer timer(2);
    for (int i = 0; i < 4; ++i) {
        auto outer = timer.start("both", own);
        for (const char* layer : {"first", "second"}) {
            const auto run = timer.start(layer, own);
            check(cudaMemsetAsync(memory, i, bytes, own.get()), "cudaMemsetAsync");
        }
        outer.stop();
    }
    const auto all = timer.collect();
    expect(all.size() == 3 && all[0].layer == "both" && all[2].layer == "second", "three layers, in order");
    for (const auto& layer : all) expect(layer.runs == 4 && layer.milliseconds > 0, layer.layer);
    if (all.size() == 3)
        expect(all[0].milliseconds >= all[1].milliseconds, "the outer range counts the inner");
    expect(timer.collect().empty(), "a timer begins anew");
    static_cast<void>(cudaFree(memory));

    event begin, end(timing::off);
    begin.record(own);
    end.record(own);
    end.wait();
    expect(begin.done() && end.done(), "events are done");
    const stream other;
    end.hold(other);
    other.wait();
}

void peak_of_a_pool(const stream& own) {
    memory_pool pool(current_device());
    stream_ordered_allocator from(pool);
    void* const a = from.allocate(1 << 20, 256, own);
    void* const b = from.allocate(1 << 20, 256, own);
    from.deallocate(a, 1 << 20, own);
    from.deallocate(b, 1 << 20, own);
    own.wait();
    expect(pool.peak() >= 2u << 20, "the peak of a pool");
    expect(pool.used() < pool.peak(), "a pool takes memory back");
    pool.reset_peak();
    expect(pool.peak() == pool.used(), "a peak begins anew");
}

void refused(const stream& own) {
    const echo::memory_plan huge({.bytes = std::uint64_t{1} << 42}); // 4 TiB
    expect_error<out_of_memory>("4398046511104 bytes asked for the arena, ",
                                [&] { device_arena(huge, cuda_malloc_allocator{}, own); });
    expect_error<out_of_memory>("bytes asked for the arena", [&] {
        memory_pool pool(current_device());
        device_arena(huge, stream_ordered_allocator(pool), own);
    });
    expect_error<error>("cudaErrorInvalidDevice", [] { check(cudaSetDevice(1000), "cudaSetDevice"); });
    expect_error<argument_error>("256 bytes", [&] { cuda_malloc_allocator{}.allocate(1, 512, own); });
    check(cudaStreamBeginCapture(own.get(), cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    expect_error<error>("capture", [&] { own.wait(); });
    cudaGraph_t graph = nullptr;
    static_cast<void>(cudaStreamEndCapture(own.get(), &graph)); // invalid by now
    if (graph) static_cast<void>(cudaGraphDestroy(graph));
    static_cast<void>(cudaGetLastError());
}

void power() {
    const power_meter meter(properties_of(current_device()).bus);
    std::printf("  power: %s", std::string(words(meter.source())).c_str());
    if (const auto watts = meter.watts()) std::printf(", %.1f W", *watts);
    if (const auto joules = meter.joules()) std::printf(", %.0f J since the driver was loaded", *joules);
    if (const auto clock = meter.multiprocessor_clock()) std::printf(", %u MHz", *clock);
    std::printf("\n");
}

} // namespace

int main(int argc, char** argv) {
    return device_test::run(argc, argv, "helpers", [](bool small) {
        const stream own;
        runs_in(cuda_malloc_allocator{}, own, "cudaMalloc");
        runs_in(stream_ordered_allocator(), own, "the default pool");
        {
            const memory_pool pool(current_device());
            runs_in(stream_ordered_allocator(pool), own, "a pool of its own");
        }
        captured(own);
        times(own);
        peak_of_a_pool(own);
        power();
        if (!small) refused(own); // compute-sanitizer would count the errors
    });
}
