// SPDX-License-Identifier: BSL-1.0
/// @file
/// What of a fused kernel remains without a layout: tanh(q + k)'s gradient with one address for all tensors, which lie
/// a constant apart. Its loads, conversions, arithmetic and stores are the library's; no kernel of any layout needs
/// fewer.
#include <echo/cuda/fused.cuh>
#include <echo/ops/activations.hpp>
#include <echo/ops/arithmetic.hpp>

namespace counted {

using namespace echo::cuda::fused;
using echo::cuda::device_warp;

using map = apply<echo::tanh_op, apply<echo::add_op, arg<0>, arg<1>>>;
using gradient_alone = fuse<gradient_of<map, 0, arg<2>>>;

/// A group of every tensor, `apart` bytes from one to the next.
template <std::uint32_t Width>
struct group_alone {
    static constexpr std::size_t apart = 1 << 20;
    char* at;

    template <class T>
    ECHO_HOST_DEVICE void load(detail::raw_group<T, Width>& x, std::size_t i) const {
        x.set_quad(0, device_warp::load<detail::quad>(at + i * apart));
    }
    template <class T>
    ECHO_HOST_DEVICE void store(const float (&y)[Width], std::size_t i) const {
        device_warp::store_words(at + i * apart, detail::words_of<T>(y));
    }
};

template <class T>
__global__ void __launch_bounds__(128) arithmetic_alone(char* at, const char* end, std::size_t stride) {
    using body = detail::body<gradient_alone, T, T, T, T>;
    for (at += 16 * (blockIdx.x * blockDim.x + threadIdx.x); at < end; at += stride)
        body::write_group(frame<gradient_alone>{}, group_alone<body::width>{at}, {});
}

template __global__ void arithmetic_alone<float>(char*, const char*, std::size_t);
template __global__ void arithmetic_alone<echo::cuda::half>(char*, const char*, std::size_t);
template __global__ void arithmetic_alone<echo::cuda::bfloat16>(char*, const char*, std::size_t);

} // namespace counted
