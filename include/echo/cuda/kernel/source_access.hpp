// SPDX-License-Identifier: BSL-1.0
/// @file
/// The part of a generated kernel's source that is the same for all: how elements are reached. It says what
/// kernel/fused_access.hpp says, without a header, so that NVRTC needs no include path.
#pragma once

#include <echo/config.hpp>

#include <string_view>

namespace echo::cuda::fused {

/// Stands behind `source_numbers`.
inline constexpr std::string_view source_access = R"source(
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
// One that is whole, with every operand a vector or, if Repeats, repeated along the line: where each has the group's
// first element, and which of the line that is.
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
