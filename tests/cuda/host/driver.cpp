// SPDX-License-Identifier: BSL-1.0
// Launches of generated kernels, as the driver sees them: a stand-in for libcuda is loaded first, under its
// name, and serves as NVRTC too.
#include "cuda/fake_cuda.hpp"

#include <echo/cuda/jit.hpp>

#include <catch2/catch.hpp>
#include <dlfcn.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace {

namespace fused = echo::cuda::fused;
namespace jit = echo::cuda::jit;
using fused::storage;

fake_cuda& card() {
    static fake_cuda* const one = [] {
        void* const library = dlopen(ECHO_FAKE_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
        REQUIRE(library);
        return reinterpret_cast<decltype(&echo_fake_cuda)>(dlsym(library, "echo_fake_cuda"))();
    }();
    return *one;
}
/// A card that nothing was asked yet. A context that none was before.
fake_cuda& fresh_card() {
    static unsigned long long context = 0;
    card() = {};
    card().context = ++context;
    return card();
}

jit::graph doubled() {
    jit::graph g;
    const auto x = g.operand(storage::f32);
    g.result(g.apply("add_op", {x, x}), storage::f32);
    return g;
}

struct task {
    std::vector<float> x, y;
    fused::extents e;
    std::vector<jit::any_operand> to, from;
    explicit task(std::int64_t n)
        : x(static_cast<std::size_t>(n) + 1), y(x.size()), e{n}, to{whole(y.data(), e)},
          from{whole(x.data(), e)} {}
};

jit::kernel compiled(std::optional<int> architecture = std::nullopt) {
    jit::compiler c({.cache = {}, .nvrtc = ECHO_FAKE_CUDA_LIBRARY});
    return c.compile(doubled(), architecture);
}

int stream; // an address
echo::cuda::stream_ref a_stream() { return reinterpret_cast<CUstream_st*>(&stream); }

template <class F>
std::string error_of(F&& f, echo::cuda::fault kind) {
    try {
        f();
    } catch (const echo::cuda::error& e) {
        CHECK(e.kind() == kind);
        return e.what();
    }
    return "nothing";
}

} // namespace

TEST_CASE("a kernel is loaded once and launched with its call's parameters", "[jit]") {
    fake_cuda& d = fresh_card();
    const auto k = compiled();
    task t(100'000);
    k(t.to, t.from, t.e, a_stream());
    CHECK(d.loaded == 1);
    CHECK(d.launched == 1);
    CHECK(d.stream == &stream);
    CHECK(d.threads == 128);
    CHECK(d.blocks == 12); // as many as stay resident: 4 multiprocessors hold 3 each
    jit::detail::parameters expected;
    REQUIRE(k.prepare(t.to, t.from, t.e, expected));
    static_assert(sizeof expected == sizeof d.parameters);
    CHECK(std::memcmp(d.parameters, &expected, 144 + 2 * 48) == 0);

    task small(5);
    k(small.to, small.from, small.e, a_stream());
    CHECK(d.loaded == 1);
    CHECK(d.blocks == 1);
    task none(0);
    k(none.to, none.from, none.e, a_stream());
    CHECK(d.launched == 2);
    CHECK(d.unloaded == 0);
}

TEST_CASE("what was compiled for the card that is there says so", "[jit]") {
    fresh_card().architecture = 75;
    const auto k = compiled(), same = compiled(75), other = compiled(90);
    CHECK(k.code().bytes == same.code().bytes);
    CHECK(k.code().bytes == "--gpu-architecture=sm_75");
    CHECK(other.code().bytes == "--gpu-architecture=sm_90");
}

TEST_CASE("another context at the address of one that is gone gets code of its own", "[jit]") {
    const auto k = (fresh_card(), compiled());
    task t(1000);
    k(t.to, t.from, t.e, a_stream());
    void* const first = card().function;
    CHECK(card().loaded == 1);
    card().context += 1'000'000; // the device was reset
    k(t.to, t.from, t.e, a_stream());
    CHECK(card().loaded == 2);
    CHECK(card().function != first);
    card().context -= 1'000'000;
    k(t.to, t.from, t.e, a_stream());
    CHECK(card().loaded == 2);
    CHECK(card().function == first);
}

TEST_CASE("code without its kernel is not kept loaded", "[jit]") {
    fake_cuda& d = fresh_card();
    const auto k = compiled();
    task t(1000);
    d.find = 500;
    const auto words = error_of([&] { k(t.to, t.from, t.e, a_stream()); }, echo::cuda::fault::other);
    CHECK(words.starts_with("cuModuleGetFunction: as it was told (CUDA_ERROR_FAKE)"));
    CHECK(d.loaded == 1);
    CHECK(d.unloaded == 1);
    CHECK(d.launched == 0);
    k(t.to, t.from, t.e, a_stream()); // and the next call tries again
    CHECK(d.loaded == 2);
    CHECK(d.unloaded == 1);
    CHECK(d.launched == 1);
}

TEST_CASE("a launch that is refused, and a thread without a context", "[jit]") {
    fake_cuda& d = fresh_card();
    const auto k = compiled();
    task t(1000);
    d.launch = 700;
    CHECK(error_of([&] { k(t.to, t.from, t.e, a_stream()); }, echo::cuda::fault::device_lost)
              .starts_with("cuLaunchKernel: "));
    d.context = 0;
    const auto words = error_of([&] { k(t.to, t.from, t.e, a_stream()); }, echo::cuda::fault::invalid);
    CHECK(words.find("the thread has no context") != words.npos);
    CHECK(words.find("cudaSetDevice(0)") != words.npos);
    CHECK(d.launched == 1);
}
