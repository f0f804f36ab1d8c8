// SPDX-License-Identifier: BSL-1.0
/// @file
/// What the CUDA back end asks of cuBLAS and cuDNN is what its ops mean: the calls go to stand-ins on the host, written
/// from the libraries' documentation (cuda/fake_cublas.cpp, cuda/fake_cudnn.cpp), and give what the CPU backend gives.
#include "engine/cpu/backend.hpp"
#include "engine/cuda/convolutions.hpp"
#include "engine/cuda/products.hpp"
#include "engine/run_op.hpp"

#include <echo/cuda/error.hpp>

#include <catch2/catch.hpp>

#include <random>
#include <string>
#include <vector>

using namespace engine;

namespace {

std::mt19937 draw(7);
tensor_data noise(echo::shape shape) {
    tensor_data t(f32(std::move(shape)));
    for (float& x : t.f32) x = static_cast<float>(draw() % 2001) / 1000.0f - 1;
    return t;
}

/// Both libraries as a backend, for run_op.
class libraries {
public:
    void run(const op& o, const call& c) {
        std::visit(
            [&](const auto& one) {
                if constexpr (requires { products_.run(one, c); })
                    products_.run(one, c);
                else if constexpr (requires { convolutions_.run(one, c); })
                    convolutions_.run(one, c);
            },
            o);
    }
    std::uint64_t scratch(const op& o, tensor_span in, tensor_span out) {
        return std::visit(
            [&](const auto& one) -> std::uint64_t {
                if constexpr (requires { convolutions_.scratch(one, in, out); })
                    return convolutions_.scratch(one, in, out);
                else
                    return 0;
            },
            o);
    }

private:
    alignas(256) std::byte workspace_[256];
    cuda::products products_{echo::cuda::default_stream, workspace_, false, ECHO_FAKE_CUBLAS_LIBRARY};
    cuda::convolutions convolutions_{echo::cuda::default_stream};
};

void check_same(const op& o, const std::vector<tensor_data>& in) {
    static libraries theirs;
    static cpu::backend ours(1);
    const auto expected = run_op(ours, o, in), found = run_op(theirs, o, in);
    REQUIRE(found[0].f32.size() == expected[0].f32.size());
    for (std::size_t i = 0; i < expected[0].f32.size(); ++i) {
        INFO(name_of(o) << ", element " << i);
        REQUIRE(static_cast<double>(found[0].f32[i]) ==
                Approx(static_cast<double>(expected[0].f32[i])).epsilon(1e-4).margin(1e-4));
    }
}

} // namespace

TEST_CASE("dense layers and their gradients") {
    for (const std::int64_t rows : {1, 6})
        for (const std::int64_t in : {1, 5})
            for (const std::int64_t out : {1, 4}) {
                const auto x = noise({2, rows, in}), w = noise({out, in}), b = noise({out}),
                           dy = noise({2, rows, out});
                check_same(ops::fully_connected{.bias = true}, {x, w, b});
                check_same(ops::fully_connected{.bias = false}, {x, w});
                check_same(ops::fully_connected_data_gradient{{2, rows, in}}, {dy, w});
                check_same(ops::fully_connected_weight_gradient{{out, in}}, {dy, x});
                check_same(ops::fully_connected_weight_gradient{{out, in}, true}, {dy, x, noise({out, in})});
            }
    check_same(ops::fully_connected{.bias = true, .flatten = true},
               {noise({3, 2, 2, 2}), noise({5, 8}), noise({5})});
}

TEST_CASE("batched products, either factor transposed") {
    for (const bool ta : {false, true})
        for (const bool tb : {false, true}) {
            const auto factor = [](bool transposed, std::int64_t rows, std::int64_t columns) {
                return transposed ? noise({2, 3, columns, rows}) : noise({2, 3, rows, columns});
            };
            check_same(ops::batch_dot{ta, tb}, {factor(ta, 4, 5), factor(tb, 5, 7)});
            check_same(ops::batch_dot{ta, tb}, {factor(ta, 1, 5), factor(tb, 5, 1)});
            check_same(ops::batch_dot{ta, tb},
                       {ta ? noise({5, 4}) : noise({4, 5}), tb ? noise({6, 5}) : noise({5, 6})});
        }
}

TEST_CASE("convolutions and their gradients, channels first and last, in groups, dilated") {
    for (const bool last : {false, true})
        for (const std::int64_t groups : {1, 2})
            for (const std::int64_t dilation : {1, 2})
                for (const std::int64_t stride : {1, 2}) {
                    const ops::sliding how{.stride = {stride, 1},
                                           .padding = {1, 2},
                                           .dilation = {1, dilation},
                                           .groups = groups,
                                           .channels_last = last};
                    const echo::shape xs = last ? echo::shape{2, 7, 8, 4} : echo::shape{2, 4, 7, 8};
                    const echo::shape ws{6, 4 / groups, 3, 2};
                    const auto ys = how.slide(f32(xs), 6, {3, 2});
                    const auto x = noise(xs), w = noise(ws), dy = noise(ys);
                    check_same(ops::convolution{how}, {x, w});
                    check_same(ops::convolution_data_gradient{how, xs}, {dy, w});
                    check_same(ops::convolution_weight_gradient{how, ws}, {dy, x});
                }
}

TEST_CASE("scratch memory is what cuDNN needs, and turned weights where channels are last") {
    libraries theirs;
    const tensors in{f32({2, 4, 7, 8}), f32({6, 4, 3, 2})}, out{f32({2, 6, 5, 7})};
    CHECK(theirs.scratch(ops::convolution{}, in, out) == 1536);
    const tensors last{f32({2, 7, 8, 4}), f32({6, 4, 3, 2})}, made{f32({2, 5, 7, 6})};
    CHECK(theirs.scratch(ops::convolution{{.channels_last = true}}, last, made) == 1536 + 4 * 6 * 4 * 3 * 2);
}

TEST_CASE("a library that is not cuBLAS is refused in one line") {
    std::byte workspace[1];
    const auto refusal = [&](const std::string& library) -> std::string {
        try {
            cuda::products(echo::cuda::default_stream, workspace, false, library);
        } catch (const echo::cuda::error& e) {
            return e.what();
        }
        return "accepted";
    };
    CHECK(refusal("libm.so.6").find("cuBLAS: has no cublasLtCreate; ") != std::string::npos);
}

TEST_CASE("a tensor that begins at no multiple of 16 is refused") {
    libraries theirs;
    alignas(16) float data[64] = {};
    const echo::tensor x = f32({2, 3}), w = f32({4, 3}), y = f32({2, 4});
    const input_view in[] = {{data + 1, &x}, {data + 16, &w}};
    const output_view out[] = {{data + 32, &y}};
    try {
        theirs.run(ops::fully_connected{.bias = false}, {.inputs = in, .outputs = out});
        FAIL("accepted");
    } catch (const echo::cuda::error& e) {
        CHECK(e.kind() == echo::cuda::fault::misaligned);
    }
}
