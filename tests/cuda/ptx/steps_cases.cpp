// SPDX-License-Identifier: BSL-1.0
// Training steps of the four models, tiny, on the device back end: every kernel is interpreted as nvcc or NVRTC
// makes it, cuBLAS and cuDNN are stand-ins. The losses and parameters are those of the same kernels on the host,
// with the same stand-ins. All four losses are made of exp and log, for which the device has libdevice and the host its
// C library: the two may differ in the last place of any of them, so that equal bits are no law. They are what comes
// out, since a loss is rounded to single precision after sums in double, and that is held here.
#include "cases.hpp"
#include "engine/cuda/convolutions.hpp"
#include "engine/cuda/device_backend.hpp"
#include "engine/cuda/host_backend.hpp"
#include "engine/cuda/products.hpp"
#include "engine/session.hpp"
#include "support/tiny_models.hpp"

#include <echo/cuda/stream.hpp>

using namespace support::tiny;

namespace {

/// The kernels on the host, and the stand-ins of the libraries.
class reference {
public:
    void run(const engine::op& o, const engine::call& c) {
        std::visit(
            [&](const auto& one) {
                if constexpr (requires { products_.run(one, c); })
                    products_.run(one, c);
                else if constexpr (requires { convolutions_.run(one, c); })
                    convolutions_.run(one, c);
                else
                    kernels_.run(o, c);
            },
            o);
    }
    std::uint64_t scratch(const engine::op& o, engine::tensor_span in, engine::tensor_span out) {
        return std::visit(
            [&](const auto& one) -> std::uint64_t {
                if constexpr (requires(const engine::call& c) { products_.run(one, c); })
                    return 0;
                else if constexpr (requires { convolutions_.scratch(one, in, out); })
                    return convolutions_.scratch(one, in, out);
                else
                    return kernels_.scratch(o, in, out);
            },
            o);
    }

private:
    echo::cuda::stream stream_;
    std::vector<std::byte> memory_ = std::vector<std::byte>(engine::cuda::products::workspace_bytes + 256);
    engine::cuda::products products_{
        stream_, memory_.data() + (256 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 256)};
    engine::cuda::convolutions convolutions_{stream_};
    engine::cuda::host_backend kernels_{1};
};

struct outcome {
    std::vector<float> losses;
    std::vector<std::vector<float>> parameters;
    std::size_t recomputed = 0, fused = 0, offloaded = 0;
};

template <class Backend>
engine::mover* moves_of(Backend& on) {
    if constexpr (requires { on.moves(); })
        return &on.moves();
    else
        return nullptr;
}

template <class Backend>
outcome train(const subject& what, Backend& on, echo::strategy how, bool fuse) {
    engine::graph g;
    const models::model m = what.build(g);
    const auto trained = engine::train(g, m.loss, m.optimizer);
    engine::session<Backend> s(g, on,
                               {.plan = {.how = how,
                                         .host = {.fuse = fuse, .offload = true},
                                         .link = {.out_bytes_per_us = 25000, .in_bytes_per_us = 25000}},
                                .memory = {.align = 256},
                                .execution = {.chain = false, .record = false, .moves = moves_of(on)}});
    outcome made;
    for (std::uint64_t i = 1; i <= 2; ++i) {
        m.fill(s.outside(), i);
        made.losses.push_back(s.step());
    }
    s.wait();
    for (const auto& t : trained) {
        const auto data = s.outside().f32(t.parameter);
        made.parameters.emplace_back(data.begin(), data.end());
    }
    made.recomputed = s.execution().counts().recomputed;
    made.fused = s.execution().counts().fused;
    made.offloaded = s.execution().counts().offloaded;
    return made;
}

/// How far parameters may be apart. Adam divides a gradient by its own size: where that is next to nothing, its last
/// places decide the step, a part of which is what the two sides differ by.
double most_apart(const subject& what) { return what.name == tiny_transformer.name ? 1e-3 : 1e-6; }

double off(float a, float b) {
    return std::abs(static_cast<double>(a) - static_cast<double>(b)) /
           std::max(1.0, std::abs(static_cast<double>(b)));
}

} // namespace

int main() {
    return cases::main("steps", [] {
        reference host;
        engine::cuda::device_backend device;
        for (const auto* const what : {&tiny_nmt, &tiny_transformer, &tiny_deepspeech2, &tiny_resnet}) {
            if (!cases::group(what->name)) continue;
            const outcome expected = train(*what, host, echo::strategy::baseline, false);
            for (const auto how : {echo::strategy::baseline, echo::strategy::echo, echo::strategy::min_cut,
                                   echo::strategy::budget}) {
                const std::string name = what->name + ", " + std::string(echo::name_of(how));
                outcome found;
                cases::check(
                    name, 1, [&] { found = train(*what, device, how, how == echo::strategy::min_cut); },
                    [&] {
                        double worst = 0, most = 0;
                        bool bits = true;
                        for (std::size_t i = 0; i < expected.losses.size(); ++i) {
                            worst = std::max(worst, off(found.losses[i], expected.losses[i]));
                            bits = bits && found.losses[i] == expected.losses[i];
                        }
                        for (std::size_t k = 0; k < expected.parameters.size(); ++k)
                            for (std::size_t i = 0; i < expected.parameters[k].size(); ++i)
                                most = std::max(most, off(found.parameters[k][i], expected.parameters[k][i]));
                        std::printf("  %s: loss %.8g, expected %.8g: %s %.2g off; parameters %.2g; %zu "
                                    "recomputed, %zu inside generated kernels, %zu offloaded\n",
                                    name.c_str(), static_cast<double>(found.losses.back()),
                                    static_cast<double>(expected.losses.back()),
                                    bits ? "the same bits," : "at most", worst, most, found.recomputed,
                                    found.fused, found.offloaded);
                        if ((how == echo::strategy::budget) != (found.offloaded > 0))
                            cases::fail(name + ": offloads " + std::to_string(found.offloaded) + " values");
                        if (!bits)
                            cases::fail(name + ": the loss is " + std::to_string(found.losses.back()) +
                                        ", expected " + std::to_string(expected.losses.back()) +
                                        ", bit for bit");
                        if (!(most <= most_apart(*what)))
                            cases::fail(name + ": a parameter is " + std::to_string(most) + " off, " +
                                        std::to_string(most_apart(*what)) + " allowed");
                        return bits && most <= most_apart(*what);
                    });
            }
        }
    });
}
