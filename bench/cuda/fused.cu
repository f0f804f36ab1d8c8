// SPDX-License-Identifier: BSL-1.0
// The gradient of NMT's tanh(query + keys), with the map made again in registers, beside the gradient that
// reads the stashed map; and the forward pass that never writes it. Both are Echo's own fused kernels.
#include "measure.cuh"

#include <echo/cuda/fused.cuh>
#include <echo/ops/activations.hpp>
#include <echo/ops/arithmetic.hpp>

namespace {

using namespace echo::cuda::fused;

using attention = apply<echo::tanh_op, apply<echo::add_op, arg<0>, arg<1>>>;
using recomputed = fuse<gradient_of<attention, 0, arg<2>>>;
using stashed = fuse<gradient<echo::tanh_op, 0, arg<0>, unused, arg<1>>>;

template <class T>
struct buffers {
    bench::memory query, keys, map, dy, dx;
    buffers(std::size_t small, std::size_t whole)
        : query(small * sizeof(T)), keys(whole * sizeof(T)), map(whole * sizeof(T)), dy(whole * sizeof(T)),
          dx(whole * sizeof(T)) {}
};

/// Query of [batch, 1, hidden]; keys of [batch, time, hidden], or of [1, time, hidden] where all share them.
template <class T>
void measure(const echo::cuda::stream& own, const char* type, std::int64_t batch, bool shared) {
    const std::int64_t time = 50, hidden = 1024, n = batch * time * hidden;
    const extents e{batch, time, hidden}, of_query{batch, 1, hidden},
        of_keys{shared ? 1 : batch, time, hidden};
    const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(T);
    std::vector<buffers<T>> sets;
    for (std::size_t i = bench::sets_beyond_cache(3 * bytes); i-- > 0;) {
        sets.emplace_back(static_cast<std::size_t>(batch * hidden), static_cast<std::size_t>(n));
        auto& s = sets.back();
        const auto seed = static_cast<std::uint32_t>(i);
        bench::fill(s.query.template as<T>(), batch * hidden, seed, own);
        bench::fill(s.keys.template as<T>(), n, seed + 7, own);
        bench::fill(s.dy.template as<T>(), n, seed + 8, own);
        run<fuse<attention>>(results(whole(s.map.template as<T>(), e)),
                             operands(spread(s.query.template as<T>(), of_query, e),
                                      spread(s.keys.template as<T>(), of_keys, e)),
                             e, own);
    }
    const auto timed = bench::compare(
        own,
        [&](std::size_t i) {
            const auto& s = sets[i % sets.size()];
            run<recomputed>(results(whole(s.dx.template as<T>(), e)),
                            operands(spread(s.query.template as<T>(), of_query, e),
                                     spread(s.keys.template as<T>(), of_keys, e),
                                     whole(s.dy.template as<T>(), e)),
                            e, own);
        },
        [&](std::size_t i) {
            const auto& s = sets[i % sets.size()];
            run<stashed>(results(whole(s.dx.template as<T>(), e)),
                         operands(whole(s.dy.template as<T>(), e), whole(s.map.template as<T>(), e)), e, own);
        });
    bench::print("fused", shared ? "tanh(query + shared keys), gradient" : "tanh(query + keys), gradient",
                 type, bytes, "time of the one that reads the map", 1 / timed.ratio, timed.a, "stashed map",
                 timed.b);
}

} // namespace

int main() {
    return bench::run("fused", [](const echo::cuda::stream& own) {
        for (const std::int64_t batch : {128, 1024, 4096}) {
            for (const bool shared : {false, true}) {
                bench::where_it_fits([&] { measure<float>(own, "float", batch, shared); });
                bench::where_it_fits([&] { measure<echo::cuda::half>(own, "half", batch, shared); });
                bench::where_it_fits([&] { measure<echo::cuda::bfloat16>(own, "bfloat16", batch, shared); });
            }
        }
    });
}
