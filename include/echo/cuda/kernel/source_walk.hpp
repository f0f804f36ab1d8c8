// SPDX-License-Identifier: BSL-1.0
/// @file
/// The part of a generated kernel's source that is the same for all: how a warp walks rows and groups. It says what
/// kernel/fused.hpp and kernel/warp.hpp say.
#pragma once

#include <echo/config.hpp>

#include <string_view>

namespace echo::cuda::fused {

/// Stands behind `source_access`.
inline constexpr std::string_view source_walk = R"source(
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

// f(group) for the groups of a kernel that knows no rows: echo_groups_… say which of them.
template <bool Repeats, class F> ECHO_DEVICE void echo_groups_of_lines(const echo_params& p, const echo_warp& w, F f) {
    const echo_shape& s = p.shape;
    const u32 groups = static_cast<u32>(s.groups), stride = static_cast<u32>(w.count()) * 32;
    for (u32 begin = static_cast<u32>(w.index()) * 32; begin < groups; begin += stride)
        w.lanes([&](int lane) {
            const u32 group = begin + static_cast<u32>(lane);
            if (group >= groups) return;
            const u32 line = echo_quotient(group, s.by_line_groups);
            const u32 inner = echo_quotient(line, s.by_within[1]), outer = echo_quotient(inner, s.by_within[0]);
            const u32 column = echo_rest(group, line, s.by_line_groups) * ECHO_WIDTH;
            const u32 second = echo_rest(line, inner, s.by_within[1]), first_axis = echo_rest(inner, outer, s.by_within[0]);
            u32 first[ECHO_OPERANDS];
#pragma unroll
            for (int i = 0; i < ECHO_OPERANDS; ++i) {
                const i64* step = p.operand[i].step;
                first[i] = column + second * static_cast<u32>(step[2]) + first_axis * static_cast<u32>(step[1]) +
                           outer * static_cast<u32>(step[0]);
            }
            f(echo_whole_group<Repeats, u32>{p.operand, first, column});
        });
}
template <class F> ECHO_DEVICE void echo_groups_flat(const echo_params& p, const echo_warp& w, F f) {
    const echo_shape& s = p.shape;
    const u32 groups = static_cast<u32>(s.groups), stride = static_cast<u32>(w.count()) * 32;
    for (u32 begin = static_cast<u32>(w.index()) * 32; begin < groups; begin += stride)
        w.lanes([&](int lane) {
            const u32 group = begin + static_cast<u32>(lane);
            if (group - s.first_whole >= s.whole) return;
            i64 first[ECHO_OPERANDS];
#pragma unroll
            for (int i = 0; i < ECHO_OPERANDS; ++i) first[i] = static_cast<i64>(group) * ECHO_WIDTH - s.shift;
            f(echo_whole_group<false, i64>{p.operand, first, 0});
        });
}
// All groups; behind echo_groups_flat those of the first and the last tile that it has left.
template <class F> ECHO_DEVICE void echo_groups_any(const echo_params& p, const echo_warp& w, F f) {
    const echo_shape& s = p.shape;
    const bool flat = s.walk == flat_walk;
    const u64 tiles = (s.groups + 31) / 32, stride = flat && tiles > 2 ? tiles - 1 : 1;
    for (u64 tile = w.index() * stride; tile < tiles; tile += w.count() * stride)
        w.lanes([&](int lane) {
            const u64 group = tile * 32 + static_cast<u64>(lane);
            if (group >= s.groups || (flat && group - s.first_whole < s.whole)) return;
            i64 at[ECHO_OPERANDS] = {};
            u64 line = 0;
            if (s.groups != s.line_groups) {
                line = echo_divide(group, s.line_groups);
                echo_offsets(at, p.operand, line, s.within);
            }
            f(echo_any_group{p.operand, at, echo_place_of(group - line * s.line_groups, s)});
        });
}
template <class F> ECHO_DEVICE void echo_groups(const echo_params& p, const echo_warp& w, F f) {
    if (p.shape.walk == lines_walk) return echo_groups_of_lines<false>(p, w, f);
    if (p.shape.walk == repeating_walk) return echo_groups_of_lines<true>(p, w, f);
    if (p.shape.walk == flat_walk) echo_groups_flat(p, w, f);
    echo_groups_any(p, w, f);
}

// f(group, place in the row, lane) for each group of a row, on the lane that has it.
template <class F> ECHO_DEVICE void echo_walk_whole(const echo_params& p, int lane, const i64* at, F f) {
    for (u64 group = static_cast<u64>(lane); group < p.shape.groups; group += 32) {
        const i64 begin = static_cast<i64>(group) * ECHO_WIDTH;
        i64 first[ECHO_OPERANDS];
#pragma unroll
        for (int i = 0; i < ECHO_OPERANDS; ++i) first[i] = at[i] + begin;
        f(echo_whole_group<true, i64>{p.operand, first, begin}, begin, lane);
    }
}
template <class F> ECHO_DEVICE void echo_walk_any(const echo_params& p, int lane, const i64* at, F f) {
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
            f(echo_any_group{p.operand, offset, g}, begin, lane);
            e = stop;
        }
    }
}
template <class F> ECHO_DEVICE void echo_walk(const echo_params& p, const echo_warp& w, const i64* at, F f) {
    w.lanes([&](int lane) {
        if (p.shape.walk == repeating_walk)
            echo_walk_whole(p, lane, at, f);
        else
            echo_walk_any(p, lane, at, f);
    });
}
)source";

/// Stands at the end: the kernel itself, with as many threads of a multiprocessor as ECHO_THREADS says. It calls
/// `echo_run` and `echo_laid_out` of the generated part.
inline constexpr std::string_view source_entry = R"source(
#if defined(__CUDACC_RTC__)
#if __CUDA_ARCH__ < 800
#define ECHO_MOST_THREADS 1024
#elif __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 870 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1100
#define ECHO_MOST_THREADS 1536
#else
#define ECHO_MOST_THREADS 2048
#endif
extern "C" __global__ void __launch_bounds__(128, (ECHO_THREADS < ECHO_MOST_THREADS ? ECHO_THREADS : ECHO_MOST_THREADS) / 128)
    echo_fused(const echo_params p) {
    echo_run(echo_laid_out(p), echo_warp());
}
#else
extern "C" void echo_fused(const echo_params* p, u64 warp, u64 warps) {
    echo_run(echo_laid_out(*p), echo_warp{warp, warps});
}
#endif
)source";

} // namespace echo::cuda::fused
