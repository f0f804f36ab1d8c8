// SPDX-License-Identifier: BSL-1.0
/// @file
/// Echo's fp16 and bf16 are CUDA's, bit for bit: NVIDIA's own conversions, on the host, as the reference.
#include <echo/cuda/kernel/element.hpp>

#include <catch2/catch.hpp>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cstdint>

namespace own = echo::cuda; // CUDA's headers have a `half` of their own

static_assert(sizeof(__half) == sizeof(own::half) && alignof(__half) == alignof(own::half));
static_assert(sizeof(__nv_bfloat16) == sizeof(own::bfloat16) &&
              alignof(__nv_bfloat16) == alignof(own::bfloat16));

TEST_CASE("every half and bfloat16 is the float that CUDA makes of it") {
    for (std::uint32_t i = 0; i < 0x10000; ++i) {
        const auto bits = static_cast<std::uint16_t>(i);
        const float h = __half2float(std::bit_cast<__half>(bits)),
                    own_h = static_cast<float>(own::half::from_bits(bits));
        const float b = __bfloat162float(std::bit_cast<__nv_bfloat16>(bits)),
                    own_b = static_cast<float>(own::bfloat16::from_bits(bits));
        const auto same = [](float x, float y) {
            return x != x ? y != y : std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
        };
        if (!same(h, own_h) || !same(b, own_b)) FAIL(i);
    }
    SUCCEED();
}

TEST_CASE("every 509th float becomes the half and bfloat16 that CUDA makes of it, NaN too") {
    for (std::uint64_t i = 0; i < 0x1'0000'0000; i += 509) {
        const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(i));
        if (std::bit_cast<std::uint16_t>(__float2half_rn(x)) != own::half(x).bits) FAIL(i);
        if (std::bit_cast<std::uint16_t>(__float2bfloat16_rn(x)) != own::bfloat16(x).bits) FAIL(i);
    }
    SUCCEED();
}
