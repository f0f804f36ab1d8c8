// SPDX-License-Identifier: BSL-1.0
/// @file
/// The part of a generated kernel's source that is the same for all: how elements are reached.
/// It says what kernel/fused.hpp and kernel/warp.hpp say, without a header, so that NVRTC needs no include path. Without
/// NVRTC it is plain C++ with a host warp, which is how its tests run it.
#pragma once

#include <string_view>

namespace echo::cuda::fused {

/// Stands in front of what `source_of` generates, behind the definitions of ECHO_OPERANDS and ECHO_WIDTH.
inline constexpr std::string_view source_access = R"source(
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

// A group's elements as they are stored, so that all operands are asked for before the first is waited for: whoever
// converts an element waits for it. Elements are set in order.
template <int Kind> struct echo_raw {
    typedef typename echo_stored<Kind>::type stored;
    u32 word[ECHO_WIDTH * sizeof(stored) / 4];
    ECHO_MEMBER void set_quad(u32 p, const echo_quad& v) {
        word[4 * p] = v.x;
        word[4 * p + 1] = v.y;
        word[4 * p + 2] = v.z;
        word[4 * p + 3] = v.w;
    }
    ECHO_MEMBER void set(u32 e, stored v) {
        if constexpr (sizeof(stored) == 2) {
            if (e % 2 == 0)
                word[e / 2] = v;
            else
                word[e / 2] |= static_cast<u32>(v) << 16;
        } else if constexpr (Kind == 3)
            word[e] = static_cast<u32>(v);
        else
            word[e] = echo_bits(v);
    }
    ECHO_MEMBER float get(u32 e) const {
        if constexpr (sizeof(stored) == 2)
            return echo_stored<Kind>::load(static_cast<u16>(word[e / 2] >> (16 * (e % 2))));
        else if constexpr (Kind == 3)
            return static_cast<float>(static_cast<int>(word[e]));
        else
            return echo_number(word[e]);
    }
};
template <> struct echo_raw<4> {
    u32 bits;
    ECHO_MEMBER float get(u32 e) const { return static_cast<float>(bits >> e & 1u); }
};
template <> struct echo_raw<5> {
    float of[ECHO_WIDTH];
    ECHO_MEMBER float get(u32 e) const { return of[e]; }
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
ECHO_DEVICE float echo_draw_one(const void* key, u64 at) {
    float x[4];
    echo_draw(x, key, at / 4);
    const u32 word = static_cast<u32>(at) % 4;
    return word == 0 ? x[0] : word == 1 ? x[1] : word == 2 ? x[2] : x[3];
}
// The bit of a mask, in all its bits.
template <class Index> ECHO_DEVICE u32 echo_bit(const void* data, Index at) {
    return 0u - (static_cast<const u32*>(data)[at / 32] >> (at % 32) & 1u);
}
// The same element for the whole group.
template <int Kind, class Index> ECHO_DEVICE void echo_load_repeated(echo_raw<Kind>& x, const void* data, Index at) {
    if constexpr (Kind == 4)
        x.bits = echo_bit(data, at);
    else if constexpr (Kind == 5) {
        const float same = echo_draw_one(data, static_cast<u64>(at));
#pragma unroll
        for (u32 e = 0; e < ECHO_WIDTH; ++e) x.of[e] = same;
    } else {
        const typename echo_stored<Kind>::type same = static_cast<const typename echo_stored<Kind>::type*>(data)[at];
#pragma unroll
        for (u32 e = 0; e < ECHO_WIDTH; ++e) x.set(e, same);
    }
}
// A whole group that begins at element `first`.
template <int Kind, class Index> ECHO_DEVICE void echo_load_vector(echo_raw<Kind>& x, const void* data, Index first) {
    if constexpr (Kind == 4)
        x.bits = static_cast<const u32*>(data)[first / 32] >> (first % 32);
    else if constexpr (Kind == 5) {
#pragma unroll
        for (u32 p = 0; p < ECHO_WIDTH / 4; ++p) echo_draw(x.of + 4 * p, data, static_cast<u64>(first) / 4 + p);
    } else {
        typedef typename echo_stored<Kind>::type stored;
        const u32 length = 16 / sizeof(stored);
#pragma unroll
        for (u32 p = 0; p < ECHO_WIDTH / length; ++p)
            x.set_quad(p, echo_load_quad(static_cast<const stored*>(data) + first + p * length));
    }
}
template <int Kind>
ECHO_DEVICE void echo_load(echo_raw<Kind>& x, const echo_operand& o, i64 at, const echo_place& g) {
    if (o.how == repeated_access) return echo_load_repeated(x, o.data, at);
    if (o.how == vector_access && g.begin == 0 && g.end == ECHO_WIDTH)
        return echo_load_vector(x, o.data, at + g.first);
    if constexpr (Kind == 4) x.bits = 0;
#pragma unroll
    for (u32 e = 0; e < ECHO_WIDTH; ++e) {
        const bool inside = e >= g.begin && e < g.end;
        const i64 place = at + (g.first + e) * o.step[3];
        if constexpr (Kind == 4) {
            if (inside) x.bits |= echo_bit(o.data, place) & 1u << e;
        } else if constexpr (Kind == 5) {
            x.of[e] = 0;
            if (inside) x.of[e] = echo_draw_one(o.data, static_cast<u64>(place));
        } else {
            typedef typename echo_stored<Kind>::type stored;
            x.set(e, inside ? static_cast<const stored*>(o.data)[place] : stored());
        }
    }
}
template <int Kind, class Index> ECHO_DEVICE void echo_store_vector(const float* y, void* data, Index first) {
    typedef typename echo_stored<Kind>::type stored;
    const u32 length = 16 / sizeof(stored);
#pragma unroll
    for (u32 p = 0; p < ECHO_WIDTH / length; ++p) {
        echo_quad out;
        out.x = echo_stored<Kind>::template word<0>(y + p * length);
        out.y = echo_stored<Kind>::template word<1>(y + p * length);
        out.z = echo_stored<Kind>::template word<2>(y + p * length);
        out.w = echo_stored<Kind>::template word<3>(y + p * length);
        echo_store_quad(static_cast<stored*>(data) + first + p * length, out);
    }
}
template <int Kind> ECHO_DEVICE void echo_store(const float* y, const echo_operand& o, i64 at, const echo_place& g) {
    typedef typename echo_stored<Kind>::type stored;
    if (o.how == vector_access && g.begin == 0 && g.end == ECHO_WIDTH)
        return echo_store_vector<Kind>(y, o.data, at + g.first);
#pragma unroll
    for (u32 e = 0; e < ECHO_WIDTH; ++e)
        if (e >= g.begin && e < g.end)
            static_cast<stored*>(o.data)[at + (g.first + e) * o.step[3]] = echo_stored<Kind>::store(y[e]);
}

// A group as any layout has it: which elements lie inside its line, and where each operand has the line.
struct echo_any_group {
    const echo_operand* operand;
    const i64* at;
    echo_place place;
    ECHO_MEMBER bool has(u32 e) const { return e >= place.begin && e < place.end; }
    template <int Kind> ECHO_MEMBER void load(echo_raw<Kind>& x, int i) const {
        echo_load<Kind>(x, operand[i], at[i], place);
    }
    template <int Kind> ECHO_MEMBER void store(const float* y, int i) const {
        echo_store<Kind>(y, operand[i], at[i], place);
    }
};
// One that is whole, with every operand a vector or, if Repeats, repeated along the line: where each has the group's first
// element, and which of the line that is.
template <bool Repeats, class Index> struct echo_whole_group {
    const echo_operand* operand;
    const Index* first;
    Index column;
    ECHO_MEMBER bool has(u32) const { return true; }
    template <int Kind> ECHO_MEMBER void load(echo_raw<Kind>& x, int i) const {
        if (Repeats && operand[i].how == repeated_access)
            echo_load_repeated(x, operand[i].data, first[i] - column);
        else
            echo_load_vector(x, operand[i].data, first[i]);
    }
    template <int Kind> ECHO_MEMBER void store(const float* y, int i) const {
        echo_store_vector<Kind>(y, operand[i].data, first[i]);
    }
};
template <int Kind> ECHO_DEVICE void echo_store_one(float y, const echo_operand& o, i64 at) {
    static_cast<typename echo_stored<Kind>::type*>(o.data)[at] = echo_stored<Kind>::store(y);
}

ECHO_DEVICE float echo_greater(float a, float b) { return a < b || b != b ? b : a; }
)source";

} // namespace echo::cuda::fused
