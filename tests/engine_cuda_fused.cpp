// SPDX-License-Identifier: BSL-1.0
/// @file
/// Fused steps as generated kernels: whole training steps in which every step that has others inside it is also run by
/// the kernel that a device would be given, compiled for the host, and compared with the CPU's loops.
#include "engine/cpu/backend.hpp"
#include "engine/cuda/fused_graph.hpp"
#include "engine/session.hpp"
#include "models/nmt.hpp"
#include "models/resnet.hpp"
#include "models/transformer.hpp"
#include "support/generated_library.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <map>
#include <set>

using namespace engine;
namespace fused = echo::cuda::fused;

namespace {

/// Runs the CPU's loops; beside them, where told, the generated kernels.
class comparing_backend {
public:
    bool compares = false;
    std::size_t compared = 0, different = 0;
    double worst = 0;

    void run(const op& o, const call& c) { cpu_.run(o, c); }
    bool in_parts(const op& o) const { return cuda::in_fused_kernels(o); }
    std::uint64_t scratch(const op& o, tensor_span in, tensor_span out) { return cpu_.scratch(o, in, out); }

    void run(std::span<const op_call> chain) {
        const bool groups = std::any_of(chain.begin(), chain.end(), [](const op_call& each) {
            return std::any_of(each.with.outputs.begin(), each.with.outputs.end(),
                               [](const output_view& out) { return out.slot != no_slot; });
        });
        if (!groups) return cpu_.run(chain);
        const cuda::fused_kernel kernel = cuda::fuse(chain);
        const auto program = kernel.graph.program();
        const std::string source = fused::source_of(program);
        const auto [at, added] = numbers_.emplace(source, numbers_.size());
        if (added && !compares) library_.add(source);
        if (!compares) return cpu_.run(chain);
        REQUIRE_FALSE(added); // the second step runs what the first did
        const auto expected = by_generated(kernel, program, at->second);
        cpu_.run(chain);
        for (std::size_t k = 0; k < kernel.results.size(); ++k) {
            const auto* const is = static_cast<const float*>(kernel.results[k].data);
            for (std::size_t i = 0; i < expected[k].size(); ++i) {
                ++compared;
                different += std::memcmp(&expected[k][i], &is[i], sizeof(float)) != 0;
                const double size = 1e-3 + std::abs(static_cast<double>(is[i]));
                worst = std::max(worst, std::abs(static_cast<double>(expected[k][i] - is[i])) / size);
            }
        }
    }
    bool compile() { return library_.compile(); }
    std::size_t kernels() const { return numbers_.size(); }

private:
    /// The kernel's results, elsewhere: the memory stays as it is.
    std::vector<std::vector<float>> by_generated(const cuda::fused_kernel& kernel,
                                                 const fused::run_time_program& program,
                                                 std::size_t number) const {
        const std::size_t n = static_cast<std::size_t>(kernel.extents.elements());
        std::vector<std::vector<float>> made(kernel.results.size(), std::vector<float>(n));
        auto results = kernel.results;
        for (std::size_t k = 0; k < made.size(); ++k) results[k].data = made[k].data();
        echo::cuda::jit::detail::parameters arguments;
        if (echo::cuda::jit::detail::prepare(program, results, kernel.operands, kernel.extents, arguments))
            for (unsigned long long warp = 0; warp < 3; ++warp) library_.at(number)(&arguments, warp, 3);
        return made;
    }

    cpu::backend cpu_{1};
    support::generated_library library_;
    std::map<std::string, std::size_t> numbers_;
};

template <class Model, class Options>
void compare(const Options& asked, std::size_t least) {
    engine::graph g;
    const Model m(g, asked);
    engine::train(g, m.loss(), Model::optimizer());
    comparing_backend on;
    session<comparing_backend> s(
        g, on,
        {.plan = {.how = echo::strategy::min_cut, .host = {.fuse = true}}, .execution = {.chain = false}});
    m.fill(s.outside(), 1);
    s.step();
    REQUIRE(s.execution().counts().fused >= least);
    REQUIRE(on.kernels() > 0);
    if (!on.compile()) {
        WARN("no compiler for generated source");
        return;
    }
    on.compares = true;
    s.step();
    WARN(on.kernels() << " kernels, " << on.compared << " elements, " << on.different
                      << " of them with other bits, worst " << on.worst);
    CHECK(on.compared > 100);
    CHECK(on.worst < 1e-5);
}

} // namespace

TEST_CASE("generated kernels of NMT's fused steps compute what the CPU does", "[fused]") {
    compare<models::nmt>(models::nmt::preset("tiny"), 10);
}
TEST_CASE("generated kernels of a ResNet's fused steps compute what the CPU does", "[fused]") {
    compare<models::resnet>(
        models::resnet_options{.depth = 50, .batch = 2, .image = 16, .classes = 4, .filters = 2}, 0);
}
TEST_CASE("generated kernels of a Transformer's fused steps compute what the CPU does", "[fused]") {
    compare<models::transformer>(models::transformer::preset("tiny"), 5);
}

TEST_CASE("what no generated kernel holds is refused", "[fused]") {
    CHECK(cuda::in_fused_kernels(ops::elementwise<echo::tanh_op>{}));
    CHECK_FALSE(cuda::in_fused_kernels(ops::elementwise<ops::dropout_op>{}));
    CHECK_FALSE(cuda::in_fused_kernels(ops::softmax{}));
    const echo::tensor t = f32({4});
    std::vector<float> data(4);
    const input_view in{data.data(), &t};
    const output_view out{data.data(), &t};
    const op what = ops::softmax{};
    const op_call one{&what, {.inputs = {&in, 1}, .outputs = {&out, 1}}};
    CHECK_THROWS_WITH(cuda::fuse({&one, 1}), Catch::Contains("softmax is in no generated kernel"));
    const op tanh = ops::elementwise<echo::tanh_op>{};
    const input_view missing{nullptr, &t, false, 7};
    const op_call early{&tanh, {.inputs = {&missing, 1}, .outputs = {&out, 1}}};
    CHECK_THROWS_WITH(cuda::fuse({&early, 1}), Catch::Contains("read before it is made"));
}
