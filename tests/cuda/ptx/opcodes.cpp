// SPDX-License-Identifier: BSL-1.0
// What each opcode does, by its whole name. Written from the PTX ISA.
#include "machine.hpp"
#include "numbers.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace ptx {

void add_memory_opcodes(std::unordered_map<std::string, opcode>& to);
void add_warp_opcodes(std::unordered_map<std::string, opcode>& to);

namespace {

using table = std::unordered_map<std::string, opcode>;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

/// d = F(a, b, …), in a rounding mode.
template <int Mode, class F, class To, class... From>
void each_lane(machine& m, warp& w, const instruction& i, u32 mask) {
    if (i.operands.size() != sizeof...(From) + 1) m.stop(w, i, mask, "has another number of operands");
    if constexpr (Mode != FE_TONEAREST) std::fesetround(Mode);
    [&]<std::size_t... K>(std::index_sequence<K...>) {
        const u64* const from[] = {m.read(w, i, i.operands[K + 1].reg[0], mask).of...};
        const bool negated[] = {i.operands[K + 1].negated...};
        u64* const to = m.write(w, i.operands[0].reg[0], mask).of;
        const auto one = [&](int l) {
            if constexpr ((std::is_same_v<From, bool> || ...))
                to[l] = put<To>(F{}((std::is_same_v<From, bool> ? get<From>(from[K][l] ^ u64{negated[K]})
                                                                : get<From>(from[K][l]))...));
            else
                to[l] = put<To>(F{}(get<From>(from[K][l])...));
        };
        for (int l = 0; l < warp_lanes; ++l)
            if (mask >> l & 1) one(l);
    }(std::index_sequence_for<From...>{});
    if constexpr (Mode != FE_TONEAREST) std::fesetround(FE_TONEAREST);
}

template <class To, class... From, class F>
void def(table& t, const std::string& name, F) {
    t[name] = {each_lane<FE_TONEAREST, F, To, From...>};
}

// Integers.

template <class T>
struct wider;
template <>
struct wider<u16> {
    using type = u32;
};
template <>
struct wider<s16> {
    using type = s32;
};
template <>
struct wider<u32> {
    using type = u64;
};
template <>
struct wider<s32> {
    using type = s64;
};
__extension__ using u128 = unsigned __int128;
__extension__ using s128 = __int128;
template <>
struct wider<u64> {
    using type = u128;
};
template <>
struct wider<s64> {
    using type = s128;
};

/// An integer division by 0, for which PTX has no value: whoever reads the result reads what was never written.
template <class T, bool Rest>
void divide(machine& m, warp& w, const instruction& i, u32 mask) {
    const u64* const a = m.read(w, i, i.operands[1].reg[0], mask).of;
    const u64* const b = m.read(w, i, i.operands[2].reg[0], mask).of;
    u32 none = 0;
    u64* const to = m.write(w, i.operands[0].reg[0], mask).of;
    for (u32 left = mask; left; left &= left - 1) {
        const int l = std::countr_zero(left);
        const T x = get<T>(a[l]), y = get<T>(b[l]);
        if (y == 0) {
            none |= 1u << l;
        } else if (std::is_signed_v<T> && y == T(-1)) {
            to[l] = Rest ? 0 : put<T>(static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x)));
        } else {
            to[l] = put<T>(Rest ? x % y : x / y);
        }
    }
    w.defined[static_cast<std::size_t>(i.operands[0].reg[0])] &= ~none;
}

template <class T>
void add_arithmetic(table& t, const std::string& type) {
    using U = std::make_unsigned_t<T>;
    using W = typename wider<T>::type;
    def<T, T, T>(t, "add." + type, [](T a, T b) { return static_cast<T>(U(a) + U(b)); });
    def<T, T, T>(t, "sub." + type, [](T a, T b) { return static_cast<T>(U(a) - U(b)); });
    def<T, T, T>(t, "mul.lo." + type, [](T a, T b) { return static_cast<T>(W(a) * W(b)); });
    def<T, T, T>(t, "mul.hi." + type,
                 [](T a, T b) { return static_cast<T>((W(a) * W(b)) >> (8 * sizeof(T))); });
    def<T, T, T, T>(t, "mad.lo." + type,
                    [](T a, T b, T c) { return static_cast<T>(U(static_cast<T>(W(a) * W(b))) + U(c)); });
    def<T, T, T, T>(t, "mad.hi." + type, [](T a, T b, T c) {
        return static_cast<T>(U(static_cast<T>((W(a) * W(b)) >> (8 * sizeof(T)))) + U(c));
    });
    if constexpr (sizeof(T) < 8) {
        def<W, T, T>(t, "mul.wide." + type, [](T a, T b) { return static_cast<W>(W(a) * W(b)); });
        using V = std::make_unsigned_t<W>;
        def<W, T, T, W>(t, "mad.wide." + type,
                        [](T a, T b, W c) { return static_cast<W>(V(W(a) * W(b)) + V(c)); });
    }
    def<T, T, T>(t, "min." + type, [](T a, T b) { return a < b ? a : b; });
    def<T, T, T>(t, "max." + type, [](T a, T b) { return a < b ? b : a; });
    if constexpr (std::is_signed_v<T>) {
        def<T, T>(t, "neg." + type, [](T a) { return static_cast<T>(U(0) - U(a)); });
        def<T, T>(t, "abs." + type, [](T a) { return a < 0 ? static_cast<T>(U(0) - U(a)) : a; });
    }
    t["div." + type] = {divide<T, false>};
    t["rem." + type] = {divide<T, true>};
}

template <class T>
void add_shift_right(table& t, const std::string& type) {
    def<T, T, u32>(t, "shr." + type, [](T a, u32 n) {
        constexpr u32 width = 8 * sizeof(T);
        if (n >= width) return static_cast<T>(a < 0 ? -1 : 0);
        return static_cast<T>(a >> n);
    });
}

template <class T>
void add_bits(table& t, const std::string& type) {
    def<T, T, T>(t, "and." + type, [](T a, T b) { return static_cast<T>(a & b); });
    def<T, T, T>(t, "or." + type, [](T a, T b) { return static_cast<T>(a | b); });
    def<T, T, T>(t, "xor." + type, [](T a, T b) { return static_cast<T>(a ^ b); });
    def<T, T>(t, "not." + type, [](T a) { return static_cast<T>(~a); });
    def<T, T>(t, "cnot." + type, [](T a) { return static_cast<T>(a == 0); });
    def<T, T, u32>(t, "shl." + type,
                   [](T a, u32 n) { return n >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << n); });
    add_shift_right<T>(t, type);
    if constexpr (sizeof(T) >= 4) {
        def<u32, T>(t, "popc." + type, [](T a) { return static_cast<u32>(std::popcount(a)); });
        def<u32, T>(t, "clz." + type, [](T a) { return static_cast<u32>(std::countl_zero(a)); });
        def<T, T>(t, "brev." + type, [](T a) {
            T out = 0;
            for (u32 k = 0; k < 8 * sizeof(T); ++k) out = static_cast<T>(out << 1 | (a >> k & 1));
            return out;
        });
        def<T, T, T, u32, u32>(t, "bfi." + type, [](T a, T b, u32 c, u32 d) {
            const u32 at = c & 0xff, count = d & 0xff;
            T out = b;
            for (u32 k = 0; k < count && at + k < 8 * sizeof(T); ++k)
                out = static_cast<T>((out & ~(T{1} << (at + k))) | ((a >> k & 1) << (at + k)));
            return out;
        });
    }
}

template <class T>
void add_extract(table& t, const std::string& type) {
    def<T, T, u32, u32>(t, "bfe." + type, [](T a, u32 b, u32 c) {
        using U = std::make_unsigned_t<T>;
        constexpr u32 most = 8 * sizeof(T) - 1;
        const u32 at = b & 0xff, count = c & 0xff;
        const u32 top = std::min(at + count - 1, most);
        const bool sign = std::is_signed_v<T> && count && (static_cast<U>(a) >> top & 1);
        U out = 0;
        for (u32 k = 0; k <= most; ++k) {
            const bool bit = k < count && at + k <= most ? (static_cast<U>(a) >> (at + k) & 1) != 0 : sign;
            out = static_cast<U>(out | U{bit} << k);
        }
        return static_cast<T>(out);
    });
}

template <class T>
void add_choice(table& t, const std::string& type) {
    def<T, T, T, bool>(t, "selp." + type, [](T a, T b, bool p) { return p ? a : b; });
    def<T, T>(t, "mov." + type, [](T a) { return a; });
}

// Comparisons.

/// d = F(a, b); with a pair p|q also q = !F(a, b); with a third operand c the results are joined with it.
template <class F, class T, int Join>
void compare(machine& m, warp& w, const instruction& i, u32 mask) {
    const operand& to = i.operands[0];
    const u64* const a = m.read(w, i, i.operands[1].reg[0], mask).of;
    const u64* const b = m.read(w, i, i.operands[2].reg[0], mask).of;
    u64 joined[warp_lanes] = {};
    if constexpr (Join != 0) {
        const u64* const c = m.read(w, i, i.operands[3].reg[0], mask).of;
        for (int l = 0; l < warp_lanes; ++l) joined[l] = c[l] ^ u64 { i.operands[3].negated };
    }
    bool found[warp_lanes] = {};
    for (u32 left = mask; left; left &= left - 1) {
        const int l = std::countr_zero(left);
        found[l] = F{}(get<T>(a[l]), get<T>(b[l]));
    }
    for (int k = 0; k < to.count; ++k) {
        if (to.reg[static_cast<std::size_t>(k)] < 0) continue;
        u64* const d = m.write(w, to.reg[static_cast<std::size_t>(k)], mask).of;
        for (u32 left = mask; left; left &= left - 1) {
            const int l = std::countr_zero(left);
            const bool x = found[l] != (k == 1), c = joined[l] != 0;
            d[l] = Join == 0 ? x : Join == 1 ? (x && c) : Join == 2 ? (x || c) : (x != c);
        }
    }
}

template <class T, class F>
void def_comparison(table& t, const std::string& name, const std::string& type, F) {
    t["setp." + name + "." + type] = {compare<F, T, 0>};
    t["setp." + name + ".and." + type] = {compare<F, T, 1>};
    t["setp." + name + ".or." + type] = {compare<F, T, 2>};
    t["setp." + name + ".xor." + type] = {compare<F, T, 3>};
}

template <class T>
void add_comparisons(table& t, const std::string& type) {
    def_comparison<T>(t, "eq", type, [](T a, T b) { return a == b; });
    def_comparison<T>(t, "ne", type, [](T a, T b) { return a < b || a > b; });
    def_comparison<T>(t, "lt", type, [](T a, T b) { return a < b; });
    def_comparison<T>(t, "le", type, [](T a, T b) { return a <= b; });
    def_comparison<T>(t, "gt", type, [](T a, T b) { return a > b; });
    def_comparison<T>(t, "ge", type, [](T a, T b) { return a >= b; });
    if constexpr (std::is_unsigned_v<T>) {
        def_comparison<T>(t, "lo", type, [](T a, T b) { return a < b; });
        def_comparison<T>(t, "ls", type, [](T a, T b) { return a <= b; });
        def_comparison<T>(t, "hi", type, [](T a, T b) { return a > b; });
        def_comparison<T>(t, "hs", type, [](T a, T b) { return a >= b; });
    }
    if constexpr (std::is_floating_point_v<T>) {
        def_comparison<T>(t, "equ", type, [](T a, T b) { return !(a < b || a > b); });
        def_comparison<T>(t, "neu", type, [](T a, T b) { return !(a == b); });
        def_comparison<T>(t, "ltu", type, [](T a, T b) { return !(a >= b); });
        def_comparison<T>(t, "leu", type, [](T a, T b) { return !(a > b); });
        def_comparison<T>(t, "gtu", type, [](T a, T b) { return !(a <= b); });
        def_comparison<T>(t, "geu", type, [](T a, T b) { return !(a < b); });
        def_comparison<T>(t, "num", type, [](T a, T b) { return a == a && b == b; });
        def_comparison<T>(t, "nan", type, [](T a, T b) { return a != a || b != b; });
    }
}

// Conversions.

template <class To, class From>
void add_integer_conversion(table& t, const std::string& to, const std::string& from) {
    def<To, From>(t, "cvt." + to + "." + from, [](From a) { return static_cast<To>(a); });
}
template <class To>
void add_conversions_to(table& t, const std::string& to) {
    add_integer_conversion<To, u8>(t, to, "u8");
    add_integer_conversion<To, s8>(t, to, "s8");
    add_integer_conversion<To, u16>(t, to, "u16");
    add_integer_conversion<To, s16>(t, to, "s16");
    add_integer_conversion<To, u32>(t, to, "u32");
    add_integer_conversion<To, s32>(t, to, "s32");
    add_integer_conversion<To, u64>(t, to, "u64");
    add_integer_conversion<To, s64>(t, to, "s64");
    if constexpr (sizeof(To) >= 4) {
        const auto float_to = [&]<class F, int Mode>(const std::string& mode, const std::string& from) {
            def<To, F>(t, "cvt." + mode + "." + to + "." + from, [](F a) { return to_integer<To>(a, Mode); });
        };
        float_to.template operator()<float, FE_TONEAREST>("rni", "f32");
        float_to.template operator()<float, FE_TOWARDZERO>("rzi", "f32");
        float_to.template operator()<float, FE_DOWNWARD>("rmi", "f32");
        float_to.template operator()<float, FE_UPWARD>("rpi", "f32");
        float_to.template operator()<double, FE_TONEAREST>("rni", "f64");
        float_to.template operator()<double, FE_TOWARDZERO>("rzi", "f64");
    }
}

template <class From>
void add_conversions_to_floats(table& t, const std::string& from) {
    const auto mode = [&]<int Mode>(const std::string& name) {
        const auto f = [](From a) { return static_cast<float>(a); };
        const auto d = [](From a) { return static_cast<double>(a); };
        t["cvt." + name + ".f32." + from] = {each_lane<Mode, decltype(f), float, From>};
        t["cvt." + name + ".f64." + from] = {each_lane<Mode, decltype(d), double, From>};
    };
    mode.template operator()<FE_TONEAREST>("rn");
    if (sizeof(From) >= 4) mode.template operator()<FE_TOWARDZERO>("rz");
}

void add_float_conversions(table& t) {
    def<float, half_bits>(t, "cvt.f32.f16", [](half_bits a) { return from_half(a); });
    def<float, bfloat_bits>(t, "cvt.f32.bf16", [](bfloat_bits a) { return from_bfloat(a); });
    def<half_bits, float>(t, "cvt.rn.f16.f32", [](float a) { return to_half(a); });
    def<bfloat_bits, float>(t, "cvt.rn.bf16.f32", [](float a) { return to_bfloat(a); });
    def<u32, float, float>(t, "cvt.rn.f16x2.f32",
                           [](float a, float b) { return u32{to_half(a).bits} << 16 | to_half(b).bits; });
    def<u32, float, float>(t, "cvt.rn.bf16x2.f32",
                           [](float a, float b) { return u32{to_bfloat(a).bits} << 16 | to_bfloat(b).bits; });
    def<double, float>(t, "cvt.f64.f32", [](float a) { return static_cast<double>(a); });
    def<float, double>(t, "cvt.rn.f32.f64", [](double a) { return canonical(static_cast<float>(a)); });
    def<float, float>(t, "cvt.f32.f32", [](float a) { return canonical(a); });
    def<float, float>(t, "cvt.ftz.f32.f32", [](float a) { return canonical(flushed(a)); });
    def<float, float>(t, "cvt.sat.f32.f32", [](float a) { return saturated(a); });
    def<float, float>(t, "cvt.ftz.sat.f32.f32", [](float a) { return saturated(flushed(a)); });
    const auto whole = [&]<int Mode>(const std::string& name) {
        const auto round = []<class T>(T a) {
            return canonical(Mode == FE_TOWARDZERO ? std::trunc(a)
                             : Mode == FE_UPWARD   ? std::ceil(a)
                             : Mode == FE_DOWNWARD ? std::floor(a)
                                                   : std::nearbyint(a));
        };
        const auto f = [](float a) { return decltype(round){}(a); };
        const auto g = [](float a) { return decltype(round){}(flushed(a)); };
        const auto d = [](double a) { return decltype(round){}(a); };
        t["cvt." + name + ".f32.f32"] = {each_lane<FE_TONEAREST, decltype(f), float, float>};
        t["cvt." + name + ".ftz.f32.f32"] = {each_lane<FE_TONEAREST, decltype(g), float, float>};
        t["cvt." + name + ".f64.f64"] = {each_lane<FE_TONEAREST, decltype(d), double, double>};
    };
    whole.template operator()<FE_TONEAREST>("rni");
    whole.template operator()<FE_TOWARDZERO>("rzi");
    whole.template operator()<FE_DOWNWARD>("rmi");
    whole.template operator()<FE_UPWARD>("rpi");
}

// Floating point.

enum class finish { none, flush, saturate, both };

/// Operands and the result of a function as modifiers want them. Arithmetic in single precision makes one NaN.
template <finish How, class F>
struct finished {
    static float in(float x) { return How == finish::flush || How == finish::both ? flushed(x) : x; }
    static float out(float x) {
        if (How == finish::flush || How == finish::both) x = flushed(x);
        if (How == finish::saturate || How == finish::both) return saturated(x);
        return canonical(x);
    }
    template <class... A>
    float operator()(A... a) const {
        // Not to be moved to where the rounding mode is another.
        volatile float r = F{}(in(a)...);
        return out(r);
    }
};
template <class F>
struct in_double {
    template <class... A>
    double operator()(A... a) const {
        volatile double r = F{}(a...);
        return r;
    }
};

template <int Mode, class... From, class F>
void def_float(table& t, const std::string& head, F) {
    t[head + ".f32"] = {each_lane<Mode, finished<finish::none, F>, float, From...>};
    if constexpr (Mode == FE_TONEAREST) {
        t[head + ".ftz.f32"] = {each_lane<Mode, finished<finish::flush, F>, float, From...>};
        t[head + ".sat.f32"] = {each_lane<Mode, finished<finish::saturate, F>, float, From...>};
        t[head + ".ftz.sat.f32"] = {each_lane<Mode, finished<finish::both, F>, float, From...>};
    }
}

template <int Mode>
void add_rounded(table& t, const std::string& mode) {
    const auto add = [](auto a, auto b) { return a + b; };
    const auto sub = [](auto a, auto b) { return a - b; };
    const auto mul = [](auto a, auto b) { return a * b; };
    const auto fma = [](auto a, auto b, auto c) { return std::fma(a, b, c); };
    const auto div = [](auto a, auto b) { return a / b; };
    const auto rcp = [](auto a) { return decltype(a){1} / a; };
    const auto sqrt = [](auto a) { return std::sqrt(a); };
    const auto all = [&](const std::string& m) {
        def_float<Mode, float, float>(t, "add" + m, add);
        def_float<Mode, float, float>(t, "sub" + m, sub);
        def_float<Mode, float, float>(t, "mul" + m, mul);
        t["add" + m + ".f64"] = {each_lane<Mode, in_double<decltype(add)>, double, double, double>};
        t["sub" + m + ".f64"] = {each_lane<Mode, in_double<decltype(sub)>, double, double, double>};
        t["mul" + m + ".f64"] = {each_lane<Mode, in_double<decltype(mul)>, double, double, double>};
    };
    all("." + mode);
    if (mode == "rn") all("");
    def_float<Mode, float, float, float>(t, "fma." + mode, fma);
    def_float<Mode, float, float>(t, "div." + mode, div);
    def_float<Mode, float>(t, "rcp." + mode, rcp);
    def_float<Mode, float>(t, "sqrt." + mode, sqrt);
    t["fma." + mode + ".f64"] = {each_lane<Mode, in_double<decltype(fma)>, double, double, double, double>};
    t["div." + mode + ".f64"] = {each_lane<Mode, in_double<decltype(div)>, double, double, double>};
    t["rcp." + mode + ".f64"] = {each_lane<Mode, in_double<decltype(rcp)>, double, double>};
    t["sqrt." + mode + ".f64"] = {each_lane<Mode, in_double<decltype(sqrt)>, double, double>};
}

/// A function whose result may be off: by so many units of the last place (`Ulps`, in eighths), which is more than
/// the specification allows nowhere. The machine's options say how much of that is made use of.
template <class F, int Eighths, bool Flush, class... From>
void approximate(machine& m, warp& w, const instruction& i, u32 mask) {
    [&]<std::size_t... K>(std::index_sequence<K...>) {
        const u64* const from[] = {m.read(w, i, i.operands[K + 1].reg[0], mask).of...};
        u64* const to = m.write(w, i.operands[0].reg[0], mask).of;
        for (u32 left = mask; left; left &= left - 1) {
            const int l = std::countr_zero(left);
            const auto in = [](float x) { return static_cast<double>(Flush ? flushed(x) : x); };
            double exact = F{}(in(get<From>(from[K][l]))...);
            if (m.how.approximation != 0 && std::isnormal(exact) && exact != 1)
                exact += m.how.approximation * Eighths / 8.0 * std::ldexp(1.0, std::ilogb(exact) - 23);
            float r = static_cast<float>(exact);
            if (Flush) r = flushed(r);
            to[l] = put<float>(canonical(r));
        }
    }(std::index_sequence_for<From...>{});
}

void add_approximations(table& t) {
    const auto exp2 = [](double a) { return std::exp2(a); };
    const auto rcp = [](double a) { return 1 / a; };
    const auto div = [](double a, double b) {
        // The specification's ranges: of a large divisor the quotient is 0, infinite over large is NaN.
        if (std::fabs(b) > 0x1p126 && std::isfinite(b))
            return std::isinf(a) ? std::nan("") : std::copysign(0.0, a * (b < 0 ? -1 : 1));
        return a / b;
    };
    const auto full = [](double a, double b) { return a / b; };
    const auto log2 = [](double a) { return std::log2(a); };
    const auto sqrt = [](double a) { return std::sqrt(a); };
    const auto rsqrt = [](double a) { return 1 / std::sqrt(a); };
    const auto tanh = [](double a) { return std::tanh(a); };
    t["ex2.approx.ftz.f32"] = {approximate<decltype(exp2), 16, true, float>}; // 2^-22 of the result
    t["ex2.approx.f32"] = {approximate<decltype(exp2), 16, false, float>};
    t["rcp.approx.ftz.f32"] = {approximate<decltype(rcp), 8, true, float>}; // 1 unit
    t["rcp.approx.f32"] = {approximate<decltype(rcp), 8, false, float>};
    t["div.approx.ftz.f32"] = {approximate<decltype(div), 16, true, float, float>}; // 2 units
    t["div.approx.f32"] = {approximate<decltype(div), 16, false, float, float>};
    t["div.full.ftz.f32"] = {approximate<decltype(full), 16, true, float, float>};
    t["div.full.f32"] = {approximate<decltype(full), 16, false, float, float>};
    t["lg2.approx.ftz.f32"] = {approximate<decltype(log2), 8, true, float>};
    t["lg2.approx.f32"] = {approximate<decltype(log2), 8, false, float>};
    t["sqrt.approx.ftz.f32"] = {approximate<decltype(sqrt), 8, true, float>};
    t["sqrt.approx.f32"] = {approximate<decltype(sqrt), 8, false, float>};
    t["rsqrt.approx.ftz.f32"] = {approximate<decltype(rsqrt), 16, true, float>};
    t["rsqrt.approx.f32"] = {approximate<decltype(rsqrt), 16, false, float>};
    t["tanh.approx.f32"] = {approximate<decltype(tanh), 64, false, float>}; // 2^-11 at most
    // A gross approximation: the low half of the result is 0.
    def<double, double>(t, "rcp.approx.ftz.f64", [](double a) {
        if (a != 0 && std::fabs(a) < std::numeric_limits<double>::min()) a = std::copysign(0.0, a);
        double r = 1 / a;
        if (r != 0 && std::fabs(r) < std::numeric_limits<double>::min()) r = std::copysign(0.0, r);
        if (r != r) return r;
        return std::bit_cast<double>(std::bit_cast<u64>(r) & 0xffffffff00000000u);
    });
}

template <class T>
void add_signs(table& t, const std::string& type) {
    // Of a NaN these make a NaN that is not said; here its sign alone changes.
    def<T, T>(t, "neg." + type, [](T a) { return -a; });
    def<T, T>(t, "abs." + type, [](T a) { return std::fabs(a); });
    def<T, T, T>(t, "copysign." + type, [](T a, T b) { return std::copysign(b, a); });
    // The smaller is −0 of two zeros; a NaN is left out unless both are.
    def<T, T, T>(t, "min." + type, [](T a, T b) {
        if (a != a || b != b) return canonical(a != a ? b : a);
        return a == b ? (std::signbit(a) ? a : b) : a < b ? a : b;
    });
    def<T, T, T>(t, "max." + type, [](T a, T b) {
        if (a != a || b != b) return canonical(a != a ? b : a);
        return a == b ? (std::signbit(a) ? b : a) : a > b ? a : b;
    });
    def<bool, T>(t, "testp.finite." + type, [](T a) { return std::isfinite(a); });
    def<bool, T>(t, "testp.infinite." + type, [](T a) { return std::isinf(a); });
    def<bool, T>(t, "testp.notanumber." + type, [](T a) { return a != a; });
}

void add_special_floats(table& t) {
    add_signs<float>(t, "f32");
    add_signs<double>(t, "f64");
    def<float, float>(t, "neg.ftz.f32", [](float a) { return -flushed(a); });
    def<float, float>(t, "abs.ftz.f32", [](float a) { return std::fabs(flushed(a)); });
    def<float, float, float>(t, "max.NaN.f32", [](float a, float b) {
        if (a != a || b != b) return canonical(a + b);
        return a == b ? (std::signbit(a) ? b : a) : a > b ? a : b;
    });
    def<float, float, float>(t, "min.NaN.f32", [](float a, float b) {
        if (a != a || b != b) return canonical(a + b);
        return a == b ? (std::signbit(a) ? a : b) : a < b ? a : b;
    });
}

// Bytes and halves of registers.

u32 permuted(u32 a, u32 b, u32 c) {
    const u64 all = u64{b} << 32 | a;
    u32 out = 0;
    for (u32 k = 0; k < 4; ++k) {
        const u32 how = c >> (4 * k) & 15;
        u32 byte = static_cast<u32>(all >> (8 * (how & 7)) & 0xff);
        if (how & 8) byte = byte & 0x80 ? 0xff : 0;
        out |= byte << (8 * k);
    }
    return out;
}

/// mov with a vector on one side: the parts of a register, the first lowest.
template <int Bits>
void move_parts(machine& m, warp& w, const instruction& i, u32 mask) {
    const operand &to = i.operands[0], &from = i.operands[1];
    const auto part = [](int count) { return Bits / count; };
    const auto low = [](u64 v, int bits) { return bits == 64 ? v : v & ((u64{1} << bits) - 1); };
    if (to.count == 1 && from.count == 1) {
        const u64* const a = m.read(w, i, from.reg[0], mask).of;
        u64* const d = m.write(w, to.reg[0], mask).of;
        for (u32 left = mask; left; left &= left - 1)
            d[std::countr_zero(left)] = low(a[std::countr_zero(left)], Bits);
    } else if (to.count == 1) {
        u64 whole[warp_lanes] = {};
        for (int k = 0; k < from.count; ++k) {
            const u64* const a = m.read(w, i, from.reg[static_cast<std::size_t>(k)], mask).of;
            for (int l = 0; l < warp_lanes; ++l)
                whole[l] |= low(a[l], part(from.count)) << (part(from.count) * k);
        }
        u64* const d = m.write(w, to.reg[0], mask).of;
        for (u32 left = mask; left; left &= left - 1)
            d[std::countr_zero(left)] = whole[std::countr_zero(left)];
    } else {
        const lanes a = m.read(w, i, from.reg[0], mask);
        for (int k = 0; k < to.count; ++k) {
            if (to.reg[static_cast<std::size_t>(k)] < 0) continue;
            u64* const d = m.write(w, to.reg[static_cast<std::size_t>(k)], mask).of;
            for (u32 left = mask; left; left &= left - 1) {
                const int l = std::countr_zero(left);
                d[l] = low(a.of[l] >> (part(to.count) * k), part(to.count));
            }
        }
    }
}

void lop3(machine& m, warp& w, const instruction& i, u32 mask) {
    const u64* const a = m.read(w, i, i.operands[1].reg[0], mask).of;
    const u64* const b = m.read(w, i, i.operands[2].reg[0], mask).of;
    const u64* const c = m.read(w, i, i.operands[3].reg[0], mask).of;
    const u64* const how = m.read(w, i, i.operands[4].reg[0], mask).of;
    u64* const d = m.write(w, i.operands[0].reg[0], mask).of;
    for (u32 left = mask; left; left &= left - 1) {
        const int l = std::countr_zero(left);
        u32 out = 0;
        for (u32 k = 0; k < 32; ++k) {
            const u32 row = static_cast<u32>((a[l] >> k & 1) << 2 | (b[l] >> k & 1) << 1 | (c[l] >> k & 1));
            out |= static_cast<u32>(how[l] >> row & 1) << k;
        }
        d[l] = out;
    }
}

void add_parts(table& t) {
    t["mov.b16"] = {move_parts<16>};
    t["mov.b32"] = {move_parts<32>};
    t["mov.b64"] = {move_parts<64>};
    t["lop3.b32"] = {lop3};
    def<u32, u32, u32, u32>(t, "prmt.b32", [](u32 a, u32 b, u32 c) { return permuted(a, b, c); });
    const auto shift = [&](const std::string& name, auto count) {
        using C = decltype(count);
        def<u32, u32, u32, u32>(t, "shf.l." + name + ".b32", [](u32 a, u32 b, u32 n) {
            n = C{}(n);
            return n == 0 ? b : n == 32 ? a : b << n | a >> (32 - n);
        });
        def<u32, u32, u32, u32>(t, "shf.r." + name + ".b32", [](u32 a, u32 b, u32 n) {
            n = C{}(n);
            return n == 0 ? a : n == 32 ? b : b << (32 - n) | a >> n;
        });
    };
    shift("wrap", [](u32 n) { return n & 31; });
    shift("clamp", [](u32 n) { return n < 32 ? n : 32; });
}

void add_predicates(table& t) {
    def<bool, bool, bool>(t, "and.pred", [](bool a, bool b) { return a && b; });
    def<bool, bool, bool>(t, "or.pred", [](bool a, bool b) { return a || b; });
    def<bool, bool, bool>(t, "xor.pred", [](bool a, bool b) { return a != b; });
    def<bool, bool>(t, "not.pred", [](bool a) { return !a; });
    def<bool, bool>(t, "mov.pred", [](bool a) { return a; });
}

table every_opcode() {
    table t;
    add_arithmetic<u16>(t, "u16");
    add_arithmetic<s16>(t, "s16");
    add_arithmetic<u32>(t, "u32");
    add_arithmetic<s32>(t, "s32");
    add_arithmetic<u64>(t, "u64");
    add_arithmetic<s64>(t, "s64");
    add_bits<u16>(t, "b16");
    add_bits<u32>(t, "b32");
    add_bits<u64>(t, "b64");
    add_shift_right<u16>(t, "u16");
    add_shift_right<s16>(t, "s16");
    add_shift_right<u32>(t, "u32");
    add_shift_right<s32>(t, "s32");
    add_shift_right<u64>(t, "u64");
    add_shift_right<s64>(t, "s64");
    add_extract<u32>(t, "u32");
    add_extract<s32>(t, "s32");
    add_extract<u64>(t, "u64");
    add_extract<s64>(t, "s64");
    for (const char* type : {"b16", "u16", "s16"}) add_choice<u16>(t, type);
    for (const char* type : {"b32", "u32", "s32"}) add_choice<u32>(t, type);
    for (const char* type : {"b64", "u64", "s64"}) add_choice<u64>(t, type);
    add_choice<float>(t, "f32");
    add_choice<double>(t, "f64");
    for (const char* type : {"b16", "u16"}) add_comparisons<u16>(t, type);
    for (const char* type : {"b32", "u32"}) add_comparisons<u32>(t, type);
    for (const char* type : {"b64", "u64"}) add_comparisons<u64>(t, type);
    add_comparisons<s16>(t, "s16");
    add_comparisons<s32>(t, "s32");
    add_comparisons<s64>(t, "s64");
    add_comparisons<float>(t, "f32");
    add_comparisons<double>(t, "f64");
    add_conversions_to<u8>(t, "u8");
    add_conversions_to<s8>(t, "s8");
    add_conversions_to<u16>(t, "u16");
    add_conversions_to<s16>(t, "s16");
    add_conversions_to<u32>(t, "u32");
    add_conversions_to<s32>(t, "s32");
    add_conversions_to<u64>(t, "u64");
    add_conversions_to<s64>(t, "s64");
    add_conversions_to_floats<u8>(t, "u8");
    add_conversions_to_floats<s8>(t, "s8");
    add_conversions_to_floats<u16>(t, "u16");
    add_conversions_to_floats<s16>(t, "s16");
    add_conversions_to_floats<u32>(t, "u32");
    add_conversions_to_floats<s32>(t, "s32");
    add_conversions_to_floats<u64>(t, "u64");
    add_conversions_to_floats<s64>(t, "s64");
    add_float_conversions(t);
    add_rounded<FE_TONEAREST>(t, "rn");
    add_rounded<FE_TOWARDZERO>(t, "rz");
    add_rounded<FE_DOWNWARD>(t, "rm");
    add_rounded<FE_UPWARD>(t, "rp");
    add_approximations(t);
    add_special_floats(t);
    add_parts(t);
    add_predicates(t);
    add_memory_opcodes(t);
    add_warp_opcodes(t);
    return t;
}

} // namespace

const opcode* find_opcode(std::string_view name) {
    static const table all = every_opcode();
    const auto found = all.find(std::string(name));
    return found == all.end() ? nullptr : &found->second;
}

} // namespace ptx
