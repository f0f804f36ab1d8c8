// SPDX-License-Identifier: BSL-1.0
/// @file
/// The part of a generated kernel's source that is the same for all: how elements are reached, and how a warp walks rows.
/// It says what kernel/fused.hpp and kernel/warp.hpp say, without a header, so that NVRTC needs no include path. Without
/// NVRTC it is plain C++ with a host warp, which is how its tests run it.
#pragma once

#include <string_view>

namespace echo::cuda::fused {

/// Stands in front of what `source_of` generates, behind the definitions of ECHO_OPERANDS and ECHO_WIDTH.
inline constexpr std::string_view source_prelude = R"source(
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
struct echo_shape {
    u64 rows, groups, line_groups;
    i64 line, row_length;
    u64 outer[3], within[3];
    u32 shift, unused;
};
struct echo_params {
    echo_shape shape;
    echo_operand operand[ECHO_OPERANDS];
};
static_assert(sizeof(echo_operand) == 48 && sizeof(echo_shape) == 96, "the host's layout");

enum { vector_access = 0, scalar_access = 1, repeated_access = 2 };

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
    if (x != x) return 0x7fff;
    const u32 bits = echo_bits(x);
    return static_cast<u16>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
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
template <class T> struct alignas(16) echo_packet {
    T of[16 / sizeof(T)];
};

ECHO_DEVICE u64 echo_divide(u64 n, u64 d) {
    if (((n | d) >> 32) == 0) return static_cast<u32>(n) / static_cast<u32>(d);
    return n / d;
}
ECHO_DEVICE void echo_offsets(i64* at, const echo_operand* of, u64 number, const u64* by) {
    if (number == 0) return;
    for (int axis = 2; axis >= 0; --axis) {
        if (by[axis] == 1) continue;
        const u64 rest = echo_divide(number, by[axis]);
        const i64 place = static_cast<i64>(number - rest * by[axis]);
        for (int i = 0; i < ECHO_OPERANDS; ++i) at[i] += place * of[i].step[axis];
        number = rest;
    }
}

// The elements of a group that lie inside the line: [begin, end).
struct echo_place {
    i64 first;
    u32 begin, end;
};
ECHO_DEVICE echo_place echo_place_of(u64 group, const echo_shape& s) {
    const i64 first = static_cast<i64>(group * ECHO_WIDTH) - static_cast<i64>(s.shift);
    const i64 left = s.line - first;
    echo_place g;
    g.first = first;
    g.begin = first < 0 ? static_cast<u32>(-first) : 0u;
    g.end = left < ECHO_WIDTH ? static_cast<u32>(left) : ECHO_WIDTH;
    return g;
}

// Four uniform numbers of a counter.
ECHO_DEVICE void echo_draw(float* x, const void* key, u64 counter) {
    const u64 seed = *static_cast<const u64*>(key);
    u32 a = static_cast<u32>(counter), b = static_cast<u32>(counter >> 32), c = 0, d = 0;
    u32 first = static_cast<u32>(seed), second = static_cast<u32>(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const u64 left = 0xD2511F53ull * a, right = 0xCD9E8D57ull * c;
        a = static_cast<u32>(right >> 32) ^ b ^ first;
        b = static_cast<u32>(right);
        c = static_cast<u32>(left >> 32) ^ d ^ second;
        d = static_cast<u32>(left);
        first += 0x9E3779B9u;
        second += 0xBB67AE85u;
    }
    const float scale = 1.0f / 16777216.0f;
    x[0] = static_cast<float>(a >> 8) * scale;
    x[1] = static_cast<float>(b >> 8) * scale;
    x[2] = static_cast<float>(c >> 8) * scale;
    x[3] = static_cast<float>(d >> 8) * scale;
}
template <int Kind> ECHO_DEVICE float echo_load_one(const void* data, i64 at) {
    if constexpr (Kind == 5) {
        float x[4];
        echo_draw(x, data, static_cast<u64>(at) / 4);
        const u32 word = static_cast<u32>(at) % 4;
        return word == 0 ? x[0] : word == 1 ? x[1] : word == 2 ? x[2] : x[3];
    } else if constexpr (Kind == 4)
        return static_cast<float>(static_cast<const u32*>(data)[at / 32] >> (at % 32) & 1u);
    else
        return echo_stored<Kind>::load(static_cast<const typename echo_stored<Kind>::type*>(data)[at]);
}
template <int Kind> ECHO_DEVICE void echo_load(float* x, const echo_operand& o, i64 at, const echo_place& g) {
    if (o.how == repeated_access) {
        const float same = echo_load_one<Kind>(o.data, at);
#pragma unroll
        for (u32 e = 0; e < ECHO_WIDTH; ++e) x[e] = same;
        return;
    }
    if (o.how == vector_access && g.begin == 0 && g.end == ECHO_WIDTH) {
        const i64 first = at + g.first;
        if constexpr (Kind == 5) {
#pragma unroll
            for (u32 p = 0; p < ECHO_WIDTH / 4; ++p) echo_draw(x + 4 * p, o.data, static_cast<u64>(first) / 4 + p);
        } else if constexpr (Kind == 4) {
            const u32 word = static_cast<const u32*>(o.data)[first / 32] >> (first % 32);
#pragma unroll
            for (u32 e = 0; e < ECHO_WIDTH; ++e) x[e] = static_cast<float>(word >> e & 1u);
        } else {
            typedef typename echo_stored<Kind>::type stored;
            const u32 length = 16 / sizeof(stored);
#pragma unroll
            for (u32 p = 0; p < ECHO_WIDTH / length; ++p) {
                const echo_packet<stored> in = *reinterpret_cast<const echo_packet<stored>*>(
                    static_cast<const stored*>(o.data) + first + p * length);
#pragma unroll
                for (u32 e = 0; e < length; ++e) x[p * length + e] = echo_stored<Kind>::load(in.of[e]);
            }
        }
        return;
    }
#pragma unroll
    for (u32 e = 0; e < ECHO_WIDTH; ++e) {
        x[e] = 0;
        if (e >= g.begin && e < g.end) x[e] = echo_load_one<Kind>(o.data, at + (g.first + e) * o.step[3]);
    }
}
template <int Kind> ECHO_DEVICE void echo_store(const float* y, const echo_operand& o, i64 at, const echo_place& g) {
    typedef typename echo_stored<Kind>::type stored;
    if (o.how == vector_access && g.begin == 0 && g.end == ECHO_WIDTH) {
        const u32 length = 16 / sizeof(stored);
#pragma unroll
        for (u32 p = 0; p < ECHO_WIDTH / length; ++p) {
            echo_quad out;
            out.x = echo_stored<Kind>::template word<0>(y + p * length);
            out.y = echo_stored<Kind>::template word<1>(y + p * length);
            out.z = echo_stored<Kind>::template word<2>(y + p * length);
            out.w = echo_stored<Kind>::template word<3>(y + p * length);
            echo_store_quad(static_cast<stored*>(o.data) + at + g.first + p * length, out);
        }
        return;
    }
#pragma unroll
    for (u32 e = 0; e < ECHO_WIDTH; ++e)
        if (e >= g.begin && e < g.end)
            static_cast<stored*>(o.data)[at + (g.first + e) * o.step[3]] = echo_stored<Kind>::store(y[e]);
}
template <int Kind> ECHO_DEVICE void echo_store_one(float y, const echo_operand& o, i64 at) {
    static_cast<typename echo_stored<Kind>::type*>(o.data)[at] = echo_stored<Kind>::store(y);
}

ECHO_DEVICE float echo_greater(float a, float b) { return a < b || b != b ? b : a; }

template <int Count> struct echo_sums {
    float of[Count];
};

#if defined(__CUDACC_RTC__)
struct echo_warp {
    template <class T> struct value {
        T own;
        ECHO_MEMBER T& operator[](int) { return own; }
    };
    ECHO_MEMBER u64 index() const { return blockIdx.x * static_cast<u64>(blockDim.x / 32) + threadIdx.x / 32; }
    ECHO_MEMBER u64 count() const { return gridDim.x * static_cast<u64>(blockDim.x / 32); }
    template <class F> ECHO_MEMBER void lanes(F f) const { f(static_cast<int>(threadIdx.x % 32)); }
    template <int Count>
    ECHO_MEMBER value<echo_sums<Count>> across(value<echo_sums<Count>>& from, int distance) const {
        value<echo_sums<Count>> out;
#pragma unroll
        for (int i = 0; i < Count; ++i) out.own.of[i] = __shfl_xor_sync(~0u, from.own.of[i], distance);
        return out;
    }
    template <int Count> ECHO_MEMBER echo_sums<Count> first(value<echo_sums<Count>>& from) const {
        echo_sums<Count> out;
#pragma unroll
        for (int i = 0; i < Count; ++i) out.of[i] = __shfl_sync(~0u, from.own.of[i], 0);
        return out;
    }
};
#else
struct echo_warp {
    u64 index_, count_;
    template <class T> struct value {
        T of[32];
        T& operator[](int lane) { return of[lane]; }
    };
    u64 index() const { return index_; }
    u64 count() const { return count_; }
    template <class F> void lanes(F f) const {
        for (int lane = 0; lane < 32; ++lane) f(lane);
    }
    template <int Count> value<echo_sums<Count>> across(value<echo_sums<Count>>& from, int distance) const {
        value<echo_sums<Count>> out;
        for (int lane = 0; lane < 32; ++lane) out.of[lane] = from.of[lane ^ distance];
        return out;
    }
    template <int Count> echo_sums<Count> first(value<echo_sums<Count>>& from) const { return from.of[0]; }
};
#endif

// f(offsets, group, place in the row, lane) for each group of a row, on the lane that has it.
template <class F> ECHO_DEVICE void echo_walk(const echo_params& p, const echo_warp& w, const i64* at, F f) {
    w.lanes([&](int lane) {
        const echo_shape& s = p.shape;
        for (u64 group = static_cast<u64>(lane); group < s.groups; group += 32) {
            const i64 begin = static_cast<i64>(group) * ECHO_WIDTH;
            const i64 left = s.row_length - begin, end = left < ECHO_WIDTH ? left : ECHO_WIDTH;
            for (i64 e = 0; e < end;) {
                i64 offset[ECHO_OPERANDS];
#pragma unroll
                for (int i = 0; i < ECHO_OPERANDS; ++i) offset[i] = at[i];
                i64 column = begin + e;
                if (s.row_length != s.line) {
                    const u64 line = echo_divide(static_cast<u64>(column), static_cast<u64>(s.line));
                    echo_offsets(offset, p.operand, line, s.within);
                    column -= static_cast<i64>(line) * s.line;
                }
                const i64 stop = end - e < s.line - column ? end : e + s.line - column;
                echo_place g;
                g.first = column - e;
                g.begin = static_cast<u32>(e);
                g.end = static_cast<u32>(stop);
                f(offset, g, begin, lane);
                e = stop;
            }
        }
    });
}
)source";

} // namespace echo::cuda::fused
