// SPDX-License-Identifier: BSL-1.0
/// @file
/// The part of a generated kernel's source that is the same for all: the types of its parameters, which are the host's,
/// and numbers, how they are stored and rounded. Without NVRTC it is plain C++.
#pragma once

#include <echo/config.hpp>

#include <string_view>

namespace echo::cuda::fused {

/// Stands in front of what `source_of` generates, behind the definitions of ECHO_OPERANDS and ECHO_WIDTH.
inline constexpr std::string_view source_numbers = R"source(
#if defined(__CUDACC_RTC__)
#define ECHO_DEVICE static __device__ __forceinline__
#define ECHO_MEMBER __device__ __forceinline__
#else
#include <math.h>
#include <string.h>
#define ECHO_DEVICE static inline
#define ECHO_MEMBER inline
#endif

typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned long long u64;
typedef long long i64;

struct echo_operand {
    void* data;
    i64 step[4];
    u32 how;
    u32 unused;
};
struct echo_divisor {
    u32 minus_by, factor, shift;
};
struct echo_shape {
    u64 rows, groups, line_groups;
    i64 line, row_length;
    u64 outer[3], within[3];
    u32 shift, walk;
    echo_divisor by_line_groups, by_within[2];
    u32 first_whole, whole, unused;
};
struct echo_params {
    echo_shape shape;
    echo_operand operand[ECHO_OPERANDS];
};
static_assert(sizeof(echo_operand) == 48 && sizeof(echo_shape) == 144, "the host's layout");

enum { vector_access = 0, scalar_access = 1, repeated_access = 2 };
enum { any_walk = 0, lines_walk = 1, repeating_walk = 2, flat_walk = 3 };

// n / by, and n % by from the quotient, of numbers below 2^31.
ECHO_DEVICE u32 echo_quotient(u32 n, const echo_divisor& d) {
#if defined(__CUDACC_RTC__)
    u64 product;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(n), "r"(d.factor));
    return static_cast<u32>(product >> d.shift);
#else
    return static_cast<u32>(static_cast<u64>(n) * d.factor >> d.shift);
#endif
}
ECHO_DEVICE u32 echo_rest(u32 n, u32 quotient, const echo_divisor& d) { return quotient * d.minus_by + n; }

ECHO_DEVICE float echo_number(u32 bits) {
#if defined(__CUDACC_RTC__)
    return __uint_as_float(bits);
#else
    float out;
    memcpy(&out, &bits, 4);
    return out;
#endif
}
ECHO_DEVICE u32 echo_bits(float x) {
#if defined(__CUDACC_RTC__)
    return __float_as_uint(x);
#else
    u32 out;
    memcpy(&out, &x, 4);
    return out;
#endif
}

ECHO_DEVICE float from_f16(u16 bits) {
#if defined(__CUDACC_RTC__)
    float out;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(bits));
    return out;
#else
    _Float16 in;
    memcpy(&in, &bits, 2);
    return static_cast<float>(in);
#endif
}
ECHO_DEVICE u16 to_f16(float x) {
    u16 bits;
#if defined(__CUDACC_RTC__)
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
    if (x != x) return 0x7fff;
    const _Float16 out = static_cast<_Float16>(x);
    memcpy(&bits, &out, 2);
#endif
    return bits;
}
ECHO_DEVICE u16 to_bf16(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    u16 rounded;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(x));
    return rounded;
#else
    if (x != x) return 0x7fff;
    const u32 bits = echo_bits(x);
    return static_cast<u16>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
#endif
}

// How an element is stored, by its number.
template <int Kind> struct echo_stored;
template <> struct echo_stored<0> {
    typedef float type;
    static ECHO_MEMBER float load(float x) { return x; }
    static ECHO_MEMBER float store(float x) { return x; }
    template <int I> static ECHO_MEMBER u32 word(const float* y) { return echo_bits(y[I]); }
};
template <> struct echo_stored<1> {
    typedef u16 type;
    static ECHO_MEMBER float load(u16 x) { return from_f16(x); }
    static ECHO_MEMBER u16 store(float x) { return to_f16(x); }
    template <int I> static ECHO_MEMBER u32 word(const float* y) {
        return to_f16(y[2 * I]) | static_cast<u32>(to_f16(y[2 * I + 1])) << 16;
    }
};
template <> struct echo_stored<2> {
    typedef u16 type;
    static ECHO_MEMBER float load(u16 x) { return echo_number(static_cast<u32>(x) << 16); }
    static ECHO_MEMBER u16 store(float x) { return to_bf16(x); }
    template <int I> static ECHO_MEMBER u32 word(const float* y) {
        return to_bf16(y[2 * I]) | static_cast<u32>(to_bf16(y[2 * I + 1])) << 16;
    }
};
template <> struct echo_stored<3> {
    typedef int type;
    static ECHO_MEMBER float load(int x) { return static_cast<float>(x); }
};

struct alignas(16) echo_quad {
    u32 x, y, z, w;
};
ECHO_DEVICE void echo_store_quad(void* to, const echo_quad& v) {
#if defined(__CUDACC_RTC__)
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(v.x), "r"(v.y),
                 "r"(v.z), "r"(v.w)
                 : "memory");
#else
    memcpy(to, &v, 16);
#endif
}
ECHO_DEVICE echo_quad echo_load_quad(const void* from) {
#if defined(__CUDACC_RTC__)
    return *static_cast<const echo_quad*>(from);
#else
    echo_quad out;
    memcpy(&out, from, 16);
    return out;
#endif
}
)source";

} // namespace echo::cuda::fused
