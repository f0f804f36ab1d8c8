// SPDX-License-Identifier: BSL-1.0
// Fused kernels on the device against their bodies on the host. Not to the last bit, since tanh and exp are
// the device's own; what is copied, added and multiplied alone is the same, and nothing around the results
// changes.
#include "device_test.cuh"

#include <echo/cuda/fused.cuh>
#include <echo/cuda/kernel/launch.hpp>
#include <echo/ops/activations.hpp>
#include <echo/ops/arithmetic.hpp>
#include <echo/ops/softmax.hpp>

#include <algorithm>
#include <cmath>

namespace {

using namespace echo::cuda::fused;
using device_test::expect;
using device_test::image;
using echo::cuda::bfloat16;
using echo::cuda::half;

template <std::size_t... I>
using sum_of = apply<echo::add_op, arg<I>...>;
using attention = apply<echo::tanh_op, sum_of<0, 1>>; // NMT's: tanh(query + keys)
using attention_gradient = gradient_of<attention, 0, arg<2>>;

/// Some numbers between −4 and 4, which T holds exactly.
template <class T>
void fill(T* at, std::int64_t n, std::uint64_t seed) {
    dice roll(seed);
    for (std::int64_t i = 0; i < n; ++i)
        at[i] = T(static_cast<float>(static_cast<int>(roll() >> 40 & 255) - 128) / 32);
}

template <class T>
bool near(T found, T wanted, float most) {
    const float a = static_cast<float>(found), b = static_cast<float>(wanted);
    return a == b || (std::isnan(a) && std::isnan(b)) ||
           std::fabs(a - b) <= most * std::max(1.0f, std::fabs(b));
}

/// `call(base, run)` gives the body with pointers from `base`; results lie at [first, first + n) of T.
template <class T, class Make>
void compare(const image& all, std::size_t first, std::int64_t n, float most, const std::string& what,
             const echo::cuda::stream& own, Make&& make) {
    echo::cuda::host_launch(make(all.host()), {.blocks = 3, .warps_per_block = 2});
    echo::cuda::launch("fused", make(all.device()), own);
    own.wait();
    const auto found = all.download();
    std::size_t wrong = 0, outside = 0;
    const std::size_t end = first + static_cast<std::size_t>(n) * sizeof(T);
    for (std::size_t i = 0; i < all.bytes(); ++i)
        outside += (i < first || i >= end) && found[i] != all.host()[i];
    const auto* const a = reinterpret_cast<const T*>(found.data() + first);
    const auto* const b = reinterpret_cast<const T*>(all.host() + first);
    for (std::int64_t i = 0; i < n; ++i) wrong += !near(a[i], b[i], most);
    expect(wrong == 0, what + ": " + std::to_string(wrong) + " of " + std::to_string(n) + " are wrong");
    expect(outside == 0, what + ": bytes outside the result changed");
}

/// tanh(q + k) and its gradient, from q of [batch, 1, hidden] and k of [batch, time, hidden], `skip` elements
/// off.
template <class T>
void attention_of(std::int64_t batch, std::int64_t time, std::int64_t hidden, std::size_t skip,
                  const echo::cuda::stream& own, const std::string& type, float most) {
    const extents e{batch, time, hidden};
    const std::int64_t n = batch * time * hidden;
    const auto room = [](std::int64_t count) {
        return (static_cast<std::size_t>(count) * sizeof(T) + 511) / 256 * 256;
    };
    const std::size_t q = 256 + skip * sizeof(T), k = q + room(batch * hidden), dy = k + room(n),
                      to = dy + room(n);
    image all(to + room(n) + 256);
    fill(reinterpret_cast<T*>(all.host() + q), batch * hidden, 1);
    fill(reinterpret_cast<T*>(all.host() + k), n, 2);
    fill(reinterpret_cast<T*>(all.host() + dy), n, 3);
    all.upload();
    const auto at = [](std::byte* base, std::size_t offset) { return reinterpret_cast<T*>(base + offset); };
    const std::string what = type + " [" + std::to_string(batch) + ", " + std::to_string(time) + ", " +
                             std::to_string(hidden) + "] + " + std::to_string(skip);
    compare<T>(all, to, n, most, what + ", forward", own, [&](std::byte* base) {
        return body_of<fuse<attention>>(
            results(whole(at(base, to), e)),
            operands(spread(at(base, q), {batch, 1, hidden}, e), whole(at(base, k), e)), e);
    });
    compare<T>(all, to, n, most, what + ", gradient", own, [&](std::byte* base) {
        return body_of<fuse<attention_gradient>>(results(whole(at(base, to), e)),
                                                 operands(spread(at(base, q), {batch, 1, hidden}, e),
                                                          whole(at(base, k), e), whole(at(base, dy), e)),
                                                 e);
    });
    using sum = fuse<sum_of<0, 1>>;
    compare<T>(all, to, n, 0, what + ", sum", own, [&](std::byte* base) {
        return body_of<sum>(results(whole(at(base, to), e)),
                            operands(spread(at(base, q), {batch, 1, hidden}, e), whole(at(base, k), e)), e);
    });
}

void softmax_of(std::int64_t rows, std::int64_t length, const echo::cuda::stream& own) {
    const extents e{rows, length};
    const std::int64_t n = rows * length;
    const std::size_t from = 256, to = from + (static_cast<std::size_t>(n) * sizeof(float) + 511) / 256 * 256;
    image all(to + static_cast<std::size_t>(n) * sizeof(float) + 256);
    fill(reinterpret_cast<float*>(all.host() + from), n, 4);
    all.upload();
    using soft = fuse<apply<echo::softmax_op<>, arg<0>>>;
    compare<float>(all, to, n, 1e-5f,
                   "softmax of " + std::to_string(rows) + " rows of " + std::to_string(length), own,
                   [&](std::byte* base) {
                       return body_of<soft>(results(whole(reinterpret_cast<float*>(base + to), e)),
                                            operands(whole(reinterpret_cast<float*>(base + from), e)), e);
                   });
}

} // namespace

int main(int argc, char** argv) {
    return device_test::run(argc, argv, "fused", [](bool small) {
        const echo::cuda::stream own;
        const std::int64_t many = small ? 9 : 51, wide = small ? 36 : 512;
        for (const std::size_t skip : {0, 1, 3}) {
            for (const std::int64_t hidden : {std::int64_t{1}, std::int64_t{7}, std::int64_t{33}, wide}) {
                attention_of<float>(3, many, hidden, skip, own, "float", 1e-5f);
                attention_of<half>(3, many, hidden, skip, own, "half", 2e-3f);
                attention_of<bfloat16>(3, many, hidden, skip, own, "bfloat16", 1.6e-2f);
            }
        }
        attention_of<float>(0, 4, 4, 0, own, "float", 0);
        for (const std::int64_t length : {1, 31, 32, 33, 1000}) softmax_of(small ? 3 : 129, length, own);
        if (!small) softmax_of(2, 70001, own);
    });
}
