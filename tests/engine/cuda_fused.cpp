// SPDX-License-Identifier: BSL-1.0
/// @file
/// Fused steps as generated kernels: whole training steps in which every step that has others inside it is also run by
/// the kernel that a device would be given, compiled for the host, and compared with the CPU's loops.
#include "engine/cpu/backend.hpp"
#include "engine/cuda/fused_graph.hpp"
#include "engine/models/nmt.hpp"
#include "engine/models/resnet.hpp"
#include "engine/models/transformer.hpp"
#include "engine/session.hpp"
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
    CHECK(on.worst < 2e-5);
}

} // namespace

TEST_CASE("generated kernels of NMT's fused steps compute what the CPU does", "[fused]") {
    compare<models::nmt>(models::nmt::preset("tiny"), 10);
}
TEST_CASE("generated kernels of a ResNet's fused steps compute what the CPU does", "[fused]") {
    compare<models::resnet>(
        models::resnet_options{.depth = 50, .batch = 2, .image = 16, .classes = 4, .filters = 2}, 10);
}
TEST_CASE("generated kernels of a Transformer's fused steps compute what the CPU does", "[fused]") {
    compare<models::transformer>(models::transformer::preset("tiny"), 5);
}

TEST_CASE("a dropout inside its reader draws the numbers that it drew alone", "[fused]") {
    const op dropout = ops::elementwise<ops::dropout_op>{{0.3}};
    const op product = ops::elementwise<echo::multiply_op>{};
    const std::uint64_t seed = 0x123456789abcdef;
    support::generated_library library;
    const auto compare = [&](const echo::shape& shape, bool compiled) {
        const echo::tensor what = f32(shape);
        const std::size_t n = elements(what);
        std::vector<float> x(n), w(n), y(n), mask(n), alone(n), together(n);
        for (std::size_t i = 0; i < n; ++i) {
            x[i] = 1 + static_cast<float>(i);
            w[i] = 1 + static_cast<float>(i % 7);
        }
        const input_view dropped{x.data(), &what};
        const input_view stored[] = {{y.data(), &what}, {w.data(), &what}};
        const input_view passed[] = {{nullptr, &what, false, 4}, {w.data(), &what}};
        const output_view made[] = {{y.data(), &what}, {mask.data(), &what}};
        const output_view slots[] = {{nullptr, &what, 4}, {nullptr, &what, 5}};
        const output_view to_alone{alone.data(), &what}, to_together{together.data(), &what};
        const op_call calls[] = {
            {&dropout, {.inputs = {&dropped, 1}, .outputs = slots, .seed_at = &seed}},
            {&product, {.inputs = passed, .outputs = {&to_together, 1}}},
        };
        const cuda::fused_kernel kernel = cuda::fuse(calls);
        const auto program = kernel.graph.program();
        if (!compiled) return library.add(fused::source_of(program)); // the same for all shapes
        cpu::backend on(1);
        on.run(dropout, {.inputs = {&dropped, 1}, .outputs = made, .seed = seed});
        on.run(product, {.inputs = stored, .outputs = {&to_alone, 1}});
        echo::cuda::jit::detail::parameters arguments;
        REQUIRE(echo::cuda::jit::detail::prepare(program, kernel.results, kernel.operands, kernel.extents,
                                                 arguments));
        for (unsigned long long warp = 0; warp < 2; ++warp) library.at(0)(&arguments, warp, 2);
        CHECK(std::memcmp(alone.data(), together.data(), n * sizeof(float)) == 0);
        if (n > 60) CHECK(std::count(together.begin(), together.end(), 0.0f) > 0);
    };
    compare({64}, false);
    if (!library.compile()) {
        WARN("no compiler for generated source");
        return;
    }
    for (const echo::shape& shape : {echo::shape{64}, {3, 37}, {2, 5, 8}, {1, 1}, {4099}})
        compare(shape, true);
}

TEST_CASE("what no generated kernel holds is refused", "[fused]") {
    CHECK(cuda::in_fused_kernels(ops::elementwise<echo::tanh_op>{}));
    CHECK(cuda::in_fused_kernels(ops::elementwise<ops::dropout_op>{}));
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
