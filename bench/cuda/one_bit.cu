// SPDX-License-Identifier: BSL-1.0
// Bandwidth of every kernel of bitmask.cuh and dropout.cuh, as a share of what copying the same tensor
// reaches.
#include "measure.cuh"

#include <echo/cuda/bitmask.cuh>
#include <echo/cuda/dropout.cuh>

namespace {

using namespace echo::cuda;

template <class T>
struct buffers {
    bench::memory x, y, mask;
    explicit buffers(std::int64_t n)
        : x(static_cast<std::size_t>(n) * sizeof(T)), y(static_cast<std::size_t>(n) * sizeof(T)),
          mask(static_cast<std::size_t>(bytes_required(n))) {}
};

template <class T>
void measure(const stream& own, const char* type, std::size_t bytes) {
    const auto n = static_cast<std::int64_t>(bytes / sizeof(T));
    std::vector<buffers<T>> sets;
    for (std::size_t i = bench::sets_beyond_cache(2 * bytes); i-- > 0;) {
        sets.emplace_back(n);
        bench::fill(sets.back().x.template as<T>(), n, static_cast<std::uint32_t>(i), own);
        encode(sets.back().x.template as<T>(), sets.back().mask.template as<std::uint32_t>(), n, own);
    }
    const auto at = [&](std::size_t i) -> const buffers<T>& { return sets[i % sets.size()]; };
    const auto copy = [&](std::size_t i) {
        check(cudaMemcpyAsync(at(i).y.template as<T>(), at(i).x.template as<T>(), bytes,
                              cudaMemcpyDeviceToDevice, own.get()),
              "cudaMemcpyAsync");
    };
    /// `moved`: bytes that the kernel has to read and write.
    const auto row = [&](const char* name, double moved, auto kernel) {
        const auto timed = bench::compare(
            own,
            [&](std::size_t i) {
                const auto& s = at(i);
                kernel(s.x.template as<T>(), s.y.template as<T>(), s.mask.template as<std::uint32_t>());
            },
            copy);
        const double copied = 2.0 * static_cast<double>(bytes);
        bench::print("one_bit", name, type, bytes, "share of copy bandwidth", timed.ratio * moved / copied,
                     timed.a, "copy", timed.b);
    };
    const double data = static_cast<double>(bytes), bits = static_cast<double>(bytes_required(n));
    const dropout_seed seed{1, 2};
    row("encode", data + bits, [&](T* x, T*, std::uint32_t* m) { encode(x, m, n, own); });
    row("decode", data + bits, [&](T*, T* y, std::uint32_t* m) { decode(m, y, n, own); });
    row("relu_forward", 2 * data + bits,
        [&](T* x, T* y, std::uint32_t* m) { relu_forward(x, y, m, n, own); });
    row("relu_backward", 2 * data + bits,
        [&](T* x, T* y, std::uint32_t* m) { relu_backward(x, m, y, n, own); });
    row("dropout_forward, one bit", 2 * data + bits,
        [&](T* x, T* y, std::uint32_t* m) { dropout_forward(x, y, m, n, 0.1, seed, own); });
    row("dropout_forward, no bit", 2 * data,
        [&](T* x, T* y, std::uint32_t*) { dropout_forward(x, y, n, 0.1, seed, own); });
    row("dropout_backward, one bit", 2 * data + bits,
        [&](T* x, T* y, std::uint32_t* m) { dropout_backward(x, m, y, n, 0.1, own); });
    row("dropout_backward, no bit", 2 * data,
        [&](T* x, T* y, std::uint32_t*) { dropout_backward(x, y, n, 0.1, seed, own); });
}

} // namespace

int main() {
    return bench::run("one_bit", [](const stream& own) {
        for (const std::size_t mib : {64, 256, 1024}) {
            bench::where_it_fits([&] { measure<float>(own, "float", mib << 20); });
            bench::where_it_fits([&] { measure<half>(own, "half", mib << 20); });
            bench::where_it_fits([&] { measure<bfloat16>(own, "bfloat16", mib << 20); });
        }
    });
}
