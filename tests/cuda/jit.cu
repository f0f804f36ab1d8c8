// SPDX-License-Identifier: BSL-1.0
// Kernels generated at run time give on the device what the fused kernels of the same ops give, whatever the
// types; a second compiler finds them on disk; and a launch can be captured.
#include "device_test.cuh"

#include <echo/cuda/fused.cuh>
#include <echo/cuda/jit.hpp>
#include <echo/ops/activations.hpp>
#include <echo/ops/arithmetic.hpp>
#include <echo/ops/softmax.hpp>

#include <cmath>
#include <cstdlib>
#include <filesystem>

namespace {

using namespace echo::cuda::fused;
namespace jit = echo::cuda::jit;
using device_test::expect;
using device_test::image;

using attention = apply<echo::tanh_op, apply<echo::add_op, arg<0>, arg<1>>>;
using attention_gradient = gradient_of<attention, 0, arg<2>>;

/// A folder of this process's own.
class folder {
public:
    folder() {
        std::string name = (std::filesystem::temp_directory_path() / "echo-jit-XXXXXX").string();
        if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
        path_ = name;
    }
    folder(const folder&) = delete;
    folder& operator=(const folder&) = delete;
    ~folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

jit::graph gradient_graph(storage kind) {
    jit::graph g;
    const auto q = g.operand(kind), k = g.operand(kind), dy = g.operand(kind);
    g.result(g.gradient_of("tanh_op", {g.apply("add_op", {q, k})}, 0, {dy}), kind);
    return g;
}

template <class T>
void same_as_fused(jit::compiler& compiler, std::int64_t batch, std::int64_t time, std::int64_t hidden,
                   const echo::cuda::stream& own, const std::string& type, float most) {
    const extents e{batch, time, hidden};
    const std::int64_t n = batch * time * hidden;
    const std::size_t room = (static_cast<std::size_t>(n) * sizeof(T) + 511) / 256 * 256;
    image all(6 * room);
    dice roll(9);
    for (std::size_t i = 0; i < all.bytes() / sizeof(T); ++i)
        reinterpret_cast<T*>(all.host())[i] =
            T(static_cast<float>(static_cast<int>(roll() >> 40 & 255) - 128) / 32);
    all.upload();
    const auto at = [&](std::size_t i) { return reinterpret_cast<T*>(all.device() + i * room); };
    run<fuse<attention_gradient>>(
        results(whole(at(3), e)),
        operands(spread(at(0), {batch, 1, hidden}, e), whole(at(1), e), whole(at(2), e)), e, own);
    const auto kernel = compiler.compile(gradient_graph(storage_of<T>));
    kernel({whole(at(4), e)}, {spread(at(0), {batch, 1, hidden}, e), whole(at(1), e), whole(at(2), e)}, e,
           own);
    const auto once =
        compiler.compile_for(gradient_graph(storage_of<T>), {whole(at(5), e)},
                             {spread(at(0), {batch, 1, hidden}, e), whole(at(1), e), whole(at(2), e)}, e);
    once({whole(at(5), e)}, {spread(at(0), {batch, 1, hidden}, e), whole(at(1), e), whole(at(2), e)}, e, own);
    own.wait();
    const auto found = all.download();
    const auto* const a = reinterpret_cast<const T*>(found.data() + 3 * room);
    const auto* const b = reinterpret_cast<const T*>(found.data() + 4 * room);
    expect(std::memcmp(b, found.data() + 5 * room, static_cast<std::size_t>(n) * sizeof(T)) == 0,
           type + ": a kernel for one layout gives other bits");
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < n; ++i)
        wrong += !(std::fabs(static_cast<float>(a[i]) - static_cast<float>(b[i])) <= most);
    expect(wrong == 0, type + ": " + std::to_string(wrong) + " of " + std::to_string(n) + " differ");
}

void softmax(jit::compiler& compiler, const echo::cuda::stream& own) {
    const extents e{37, 501};
    const std::size_t room = (37 * 501 * sizeof(float) + 511) / 256 * 256;
    image all(3 * room);
    for (std::size_t i = 0; i < 37 * 501; ++i)
        reinterpret_cast<float*>(all.host())[i] = static_cast<float>(i % 97) / 16;
    all.upload();
    const auto at = [&](std::size_t i) { return reinterpret_cast<float*>(all.device() + i * room); };
    run<fuse<apply<echo::softmax_op<>, arg<0>>>>(results(whole(at(1), e)), operands(whole(at(0), e)), e, own);
    jit::graph g;
    g.result(g.apply("softmax_op", {g.operand(storage::f32)}), storage::f32);
    const auto kernel = compiler.compile(g);
    kernel({whole(at(2), e)}, {whole(at(0), e)}, e, own);
    own.wait();
    const auto found = all.download();
    const auto* const a = reinterpret_cast<const float*>(found.data() + room);
    const auto* const b = reinterpret_cast<const float*>(found.data() + 2 * room);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < 37 * 501; ++i) wrong += !(std::fabs(a[i] - b[i]) <= 1e-6f);
    expect(wrong == 0, "softmax: " + std::to_string(wrong) + " differ");
}

void captured(jit::compiler& compiler, const echo::cuda::stream& own) {
    using echo::cuda::check;
    const extents e{256};
    image all(4 * 1024);
    const auto at = [&](std::size_t i) { return reinterpret_cast<float*>(all.device() + i * 1024); };
    const auto kernel = compiler.compile(gradient_graph(storage::f32));
    kernel.load();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    check(cudaMemsetAsync(all.device(), 0, all.bytes(), own.get()), "cudaMemsetAsync");
    check(cudaMemsetAsync(at(2), 0x3f, 1024, own.get()), "cudaMemsetAsync");
    check(cudaStreamBeginCapture(own.get(), cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    kernel({whole(at(3), e)}, {whole(at(0), e), whole(at(1), e), whole(at(2), e)}, e, own);
    check(cudaStreamEndCapture(own.get(), &graph), "cudaStreamEndCapture");
    check(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
    check(cudaGraphLaunch(ready, own.get()), "cudaGraphLaunch");
    own.wait();
    const auto found = all.download();
    expect(std::memcmp(found.data() + 3 * 1024, found.data() + 2 * 1024, 1024) == 0,
           "a captured launch: dy · (1 − 0)");
    static_cast<void>(cudaGraphExecDestroy(ready));
    static_cast<void>(cudaGraphDestroy(graph));
}

} // namespace

int main(int argc, char** argv) {
    return device_test::run(argc, argv, "jit", [](bool small) {
        const echo::cuda::stream
            own; // with it the runtime makes the context that the driver's calls look for
        const folder cache;
        jit::compiler first({.cache = cache.path()}), second({.cache = cache.path()});
        for (auto* compiler : {&first, &second}) {
            // Lines of any length, and such whose groups are all whole.
            for (const std::int64_t hidden : {small ? 33 : 513, small ? 40 : 512}) {
                same_as_fused<float>(*compiler, 3, 17, hidden, own, "float", 1e-6f);
                same_as_fused<echo::cuda::half>(*compiler, 3, 17, hidden, own, "half", 1e-2f);
                same_as_fused<echo::cuda::bfloat16>(*compiler, 3, 17, hidden, own, "bfloat16", 1e-1f);
            }
            softmax(*compiler, own);
            captured(*compiler, own);
        }
        expect(first.seen().compiled == 10, "each is compiled once");
        expect(second.seen().compiled == 0 && second.seen().on_disk == 10, "and then found on disk");
    });
}
