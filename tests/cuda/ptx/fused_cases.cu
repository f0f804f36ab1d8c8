// SPDX-License-Identifier: BSL-1.0
// Fused kernels as nvcc makes them, interpreted, against their bodies on the host: byte for byte where they add,
// multiply and compare alone, and else within what the device's functions may be off, whichever way they are.
#include "cases.hpp"
#include "cuda/typical_fused.hpp"

#include <echo/cuda/fused.cuh>
#include <echo/cuda/kernel/launch.hpp>
#include <echo/cuda/stream.hpp>

namespace {

using namespace typical;
using cases::array;
using echo::cuda::bfloat16;
using echo::cuda::half;

/// How operands and results lie over the extents {batch, time, hidden}.
enum class lies { whole, by_query, by_key, by_channel, apart, per_row };

struct layout {
    extents e;
    std::size_t skip = 0;   ///< elements before the first
    bool broadcast = false; ///< the first operands are repeated
    bool gaps = false;      ///< results and operands are every other element
    std::int64_t pad = 0;   ///< elements between lines, and between planes: neighbouring axes are none
};

/// The extents of what lies so over the kernel's; the last but one axis is repeated for each query.
extents own_extents(lies how, const extents& e) {
    extents own = e;
    switch (how) {
    case lies::by_query:
        own.of[e.rank - 2] = 1;
        return own;
    case lies::by_key:
        own.rank = e.rank - 1;
        std::copy(e.of.begin() + 1, e.of.begin() + static_cast<std::ptrdiff_t>(e.rank), own.of.begin());
        return own;
    case lies::by_channel:
        return {e.of[e.rank - 1]};
    case lies::per_row:
        for (std::size_t a = e.rank - e.row_axes; a < e.rank; ++a) own.of[a] = 1;
        return own;
    default:
        return own;
    }
}

/// Strides of the whole tensor, with what lies between its lines and planes.
strides strides_of(const layout& l) {
    strides step{};
    std::int64_t next = 1;
    for (std::size_t a = l.e.rank; a-- > 0;) {
        step[a] = next;
        next = l.e.of[a] * next + l.pad;
    }
    return step;
}

/// Whether the element of memory is none of the tensor's.
bool is_gap(std::int64_t n, const layout& l) {
    const strides step = strides_of(l);
    for (std::size_t a = 0; a < l.e.rank; n %= step[a++])
        if (n / step[a] >= l.e.of[a]) return true;
    return false;
}

std::int64_t count(lies how, const layout& l) {
    if (how == lies::apart) return 2 * l.e.elements();
    if (how == lies::whole) return l.e.of[0] * strides_of(l)[0];
    return own_extents(how, l.e).elements();
}

template <class T>
operand<T> placed(T* at, lies how, const layout& l) {
    if (how == lies::whole) return {at, strides_of(l)};
    operand<T> o{at, laid_over(own_extents(how, l.e), l.e)};
    if (how == lies::apart)
        for (auto& step : o.step) step *= 2;
    return o;
}

constexpr float special[] = {0.0f, -0.0f, 1e-40f, -1e-40f, 65504.0f, -65504.0f};

/// Numbers between −4 and 4, with as many digits as the type holds; some kernels also get what arithmetic treats by
/// itself.
template <class T>
T number(dice& roll, bool with_special) {
    const auto bits = roll();
    if (with_special && bits % 16 == 0) {
        const auto which = bits / 16 % 9;
        if (which < 6) return T(special[which]);
        const float far = which == 6 ? INFINITY : which == 7 ? -INFINITY : NAN;
        return T(far);
    }
    return T(static_cast<float>(static_cast<int>(bits >> 40 & 0xffffff) - 0x800000) / 0x200000);
}

/// What the operands hold.
enum class holds {
    ordinary,
    everything, ///< and among ordinary numbers NaN, infinities, zeros of both signs
    peaks,      ///< in each row, which is a line, one number lies far above the others, elsewhere in each
    low,        ///< all lie far below 0: whoever takes 0 for an element that is none is off
    halfway,    ///< of a layer normalisation: what it makes lies half way between two numbers of 16 bits
};

struct how_near {
    bool exact = false;
    float single = 2e-6f;
    holds numbers = exact ? holds::everything : holds::ordinary;
};

/// Operand i's element n of a line of this many for a layer normalisation in which nothing is rounded but the result:
/// the mean is 0, the deviation a power of 2 beside which the smallest variance is lost; the sum of scale and shift,
/// which have a step of 16 bits and half of one, is no number of 16 bits.
template <class T>
T halfway(std::size_t i, std::int64_t n, std::int64_t line) {
    const float step = std::is_same_v<T, half> ? 1.0f / 1024 : 1.0f / 128,
                deviation = std::is_same_v<T, half> ? 4096.0f : 1048576.0f;
    const bool negative = (n + n / line) % 2 != 0;
    return T(i == 0 ? (negative ? -deviation : deviation) : i == 1 ? 0.0f : i == 2 ? 1 + step : step / 2);
}

/// One kernel on one layout.
template <class F, class T, std::size_t Results, std::size_t Operands>
void one(const std::string& name, const layout& l, const std::array<lies, Results>& to,
         const std::array<lies, Operands>& from, how_near near, const echo::cuda::stream& own) {
    if (!cases::group(name)) return;
    std::string extents_text;
    for (std::size_t a = 0; a < l.e.rank; ++a) extents_text += (a ? ", " : "") + std::to_string(l.e.of[a]);
    const std::string what = name + " of {" + extents_text + "} at " + std::to_string(l.skip) +
                             (l.broadcast ? ", broadcast" : "") + (l.gaps ? ", with gaps" : "") +
                             (l.pad ? ", " + std::to_string(l.pad) + " apart" : "") +
                             (l.e.row_axes > 1 ? ", rows of several lines" : "");
    dice roll(static_cast<std::uint64_t>(l.e.elements()) + l.skip);
    std::vector<std::unique_ptr<array<T>>> x, y;
    const auto own_kind = [&](lies kind) { return l.gaps && kind == lies::whole ? lies::apart : kind; };
    for (std::size_t i = 0; i < Operands; ++i) {
        const lies kind = own_kind(l.broadcast                   ? from[i]
                                   : from[i] == lies::by_channel ? lies::by_channel
                                                                 : lies::whole);
        x.push_back(std::make_unique<array<T>>("operand " + std::to_string(i), count(kind, l), l.skip));
        x.back()->fill([&](std::int64_t n) {
            const std::int64_t line = l.e.of[l.e.rank - 1];
            if (near.numbers == holds::halfway) return halfway<T>(i, n, line);
            if (near.numbers == holds::peaks && n % line == n / line * 7 % line) return T(100.0f);
            if (l.pad && kind == lies::whole && is_gap(n, l)) return T(100.0f); // whoever reads it is off
            if (near.numbers == holds::low) return T(static_cast<float>(number<T>(roll, false)) - 200);
            return number<T>(roll, near.numbers == holds::everything);
        });
    }
    for (std::size_t k = 0; k < Results; ++k) {
        y.push_back(
            std::make_unique<array<T>>("result " + std::to_string(k), count(own_kind(to[k]), l), l.skip));
        std::memset(static_cast<void*>(y.back()->host()), 0xcd,
                    static_cast<std::size_t>(y.back()->size()) * sizeof(T));
        y.back()->forget();
    }
    const auto made = [&](auto&& of_array, auto&& then) {
        [&]<std::size_t... K, std::size_t... I>(std::index_sequence<K...>, std::index_sequence<I...>) {
            const auto kind = [&](std::size_t i) {
                return own_kind(l.broadcast                   ? from[i]
                                : from[i] == lies::by_channel ? lies::by_channel
                                                              : lies::whole);
            };
            then(results(placed(of_array(*y[K]), own_kind(to[K]), l)...),
                 operands(placed(static_cast<const T*>(of_array(*x[I])), kind(I), l)...));
        }(std::make_index_sequence<Results>{}, std::make_index_sequence<Operands>{});
    };
    made([](auto& a) { return a.host(); },
         [&](const auto& r, const auto& o) {
             echo::cuda::host_launch(body_of<F>(r, o, l.e), {.blocks = 3, .warps_per_block = 2});
         });
    const auto launch = [&] {
        made([](auto& a) { return a.device(); },
             [&](const auto& r, const auto& o) { run<F>(r, o, l.e, own); });
    };
    for (const double off : {0.0, 1.0, -1.0}) {
        if (off != 0 && (near.exact || sizeof(T) != 4)) continue;
        echo_ptx_approximation(off);
        cases::check(what, static_cast<std::uint64_t>(l.e.elements()), launch, [&] {
            bool same = true;
            for (const auto& r : y)
                same = r->same(what, cases::within<T>(near.exact ? 0.0f : near.single)) && same;
            for (std::size_t i = 0; i < Operands; ++i) same = x[i]->same(what) && same;
            return same;
        });
    }
    echo_ptx_approximation(0);
}

template <class T>
void every_kernel(const layout& l, const std::string& type, const echo::cuda::stream& own) {
    using enum lies;
    using std::array;
    constexpr how_near exact{.exact = true}, some{}, rows{.single = 2e-5f};
    constexpr array w{whole};
    one<forward, T>(type + " tanh(q + k)", l, w, array{by_query, whole}, some, own);
    one<stashed, T>(type + " tanh's gradient from its map", l, w, array{whole, whole}, exact, own);
    one<recomputed, T>(type + " tanh(q + k)'s gradient", l, w, array{by_query, by_key, whole}, some, own);
    one<cell, T>(type + " an LSTM's cell", l, w, array{whole, whole, by_key, whole}, some, own);
    one<gates, T>(type + " an LSTM's gates", l, array{whole, whole, whole},
                  array{whole, whole, whole, whole, by_query}, some, own);
    one<gelu, T>(type + " GELU's gradient", l, w, array{whole, by_channel, whole}, some, own);
    one<gelu_tanh, T>(type + " GELU's gradient by tanh", l, w, array{whole, by_channel, whole}, some, own);
    one<normed, T>(type + " layer normalisation", l, array{whole, per_row, per_row},
                   array{whole, by_query, by_channel, by_channel}, rows, own);
    one<norm_gradient, T>(type + " layer normalisation's gradient", l, w,
                          array{whole, by_query, by_channel, by_channel, whole}, rows, own);
    one<soft, T>(type + " softmax", l, w, w, rows, own);
    one<soft, T>(type + " softmax of NaN", l, w, w, {.single = 2e-5f, .numbers = holds::everything}, own);
    one<soft_gradient, T>(type + " softmax's gradient", l, w, array{whole, whole}, exact, own);
    one<bias, T>(type + " a bias's gradient behind relu", l, array{per_row}, array{whole, whole}, exact, own);
}

/// Without the largest number of a row, wherever it lies, its exponential is infinite.
template <class T>
void largest(const std::string& type, const echo::cuda::stream& own) {
    using enum lies;
    using std::array;
    // In each place of a row of a group for some lanes; in that of several groups for each.
    for (const std::int64_t hidden : {33, 34, 36, 37, 38, 39, 40, 300})
        one<soft, T>(type + " softmax of one peak", {{1, 43, hidden}}, array{whole}, array{whole},
                     {.single = 2e-5f, .numbers = holds::peaks}, own);
    // Lines that begin and end in each place of a group.
    one<soft, T>(type + " softmax far below 0", {extents{2, 9, 7}.with_rows_of(2), 1, false, false, 1},
                 array{whole}, array{whole}, {.single = 2e-5f, .numbers = holds::low}, own);
}

/// Ties, which go to the even number; of single precision nothing is rounded here.
template <class T>
void ties(const std::string& type, const echo::cuda::stream& own) {
    using enum lies;
    using std::array;
    for (const std::size_t skip : {0, 1})
        one<normed, T>(type + " layer normalisation, half way", {{2, 2, 64}, skip},
                       array{whole, per_row, per_row}, array{whole, whole, by_channel, by_channel},
                       {.exact = true, .numbers = holds::halfway}, own);
}

template <class T>
void every_case(const std::string& type, const echo::cuda::stream& own) {
    for (const std::size_t skip : {0, 1, 3})
        for (const std::int64_t hidden : {1, 7, 33, 36})
            every_kernel<T>({{3, 5, hidden}, skip, (hidden + static_cast<std::int64_t>(skip)) % 2 == 0}, type,
                            own);
    every_kernel<T>({{3, 5, 64}, 0, true}, type, own);
    every_kernel<T>({{2, 3, 520}, 0, false}, type, own);
    every_kernel<T>({{2, 3, 520}, 0, true}, type, own);
    every_kernel<T>({{2, 3, 21}, 1, false, true}, type, own);
    every_kernel<T>({{2, 3, 21}, 1, true, true}, type, own);
    // More groups than lanes of all warps.
    every_kernel<T>({{3, 40, 137}, 0, true}, type, own);
    // A first group that begins, and a last one that ends, behind each of its elements.
    for (std::size_t skip = 0; skip < 8; ++skip) {
        every_kernel<T>({{3, 5, 33}, skip}, type, own);
        every_kernel<T>({{1, 1, 5}, skip}, type, own);
    }
    // Lines that are no neighbours: as vectors, and as they come; rows of several of them, which groups lie across.
    for (const bool broadcast : {false, true}) {
        every_kernel<T>({{3, 5, 16}, 0, broadcast, false, 8}, type, own);
        every_kernel<T>({{3, 5, 21}, 2, broadcast, false, 11}, type, own);
        every_kernel<T>({extents{2, 9, 7}.with_rows_of(2), 1, broadcast, false, 1}, type, own);
        every_kernel<T>({extents{2, 5, 16}.with_rows_of(2), 0, broadcast, false, 8}, type, own);
        every_kernel<T>({extents{2, 40, 35}.with_rows_of(2), 0, broadcast, false, 3}, type, own);
        // As many axes as there can be, and some of them short.
        every_kernel<T>({{2, 2, 2, 16}, 0, broadcast, false, 8}, type, own);
        every_kernel<T>({{2, 3, 2, 21}, 1, broadcast, false, 3}, type, own);
        every_kernel<T>({extents{3, 2, 2, 9}.with_rows_of(2), 0, broadcast, false, 3}, type, own);
        every_kernel<T>({extents{2, 3, 2, 5}.with_rows_of(3), 0, broadcast, false, 3}, type, own);
        every_kernel<T>({extents{2, 2, 3, 5}.with_rows_of(4), 0, broadcast, false, 3}, type, own);
    }
}

/// Few long rows are refused, with what to do instead, and nothing is launched: there is no such memory.
void refused(const echo::cuda::stream& own) {
    const extents e{64, 100352};
    const auto before = echo_ptx_warp_instructions();
    try {
        run<soft>(results(whole(reinterpret_cast<float*>(std::uintptr_t{1} << 40), e)),
                  operands(whole(reinterpret_cast<const float*>(std::uintptr_t{1} << 41), e)), e, own);
        cases::fail("few long rows are not refused");
    } catch (const echo::cuda::argument_error& said) {
        if (std::string(said.what()).find("reduce parts of each row") == std::string::npos ||
            echo_ptx_warp_instructions() != before)
            cases::fail(std::string("few long rows: ") + said.what());
    }
}

} // namespace

int main() {
    return cases::main("fused", [] {
        const echo::cuda::stream own;
        refused(own);
        every_case<float>("float", own);
        every_case<half>("half", own);
        every_case<bfloat16>("bfloat16", own);
        largest<float>("float", own);
        largest<half>("half", own);
        largest<bfloat16>("bfloat16", own);
        ties<half>("half", own);
        ties<bfloat16>("bfloat16", own);
    });
}
