// SPDX-License-Identifier: BSL-1.0
// Generated kernels as NVRTC makes them, interpreted, against their own source compiled for the host: every
// registered op with all its gradients, and chains, over extents that broadcast and do not; byte for byte where
// only arithmetic is done. Chains also as they are compiled for one layout.
#include "cases.hpp"
#include "support/generated_library.hpp"

#include <echo/cuda/jit.hpp>
#include <echo/cuda/stream.hpp>

#include <catch2/catch.hpp>

#include <filesystem>

namespace {

namespace fused = echo::cuda::fused;
namespace jit = echo::cuda::jit;
using echo::cuda::bfloat16;
using echo::cuda::half;
using fused::extents;
using fused::storage;

struct trial {
    std::string name;
    bool chain = false; ///< of several ops
    jit::graph graph{};
    std::vector<storage> operands{};
    fused::run_time_program program{};
    std::string source{};

    jit::value operand(storage kind) {
        operands.push_back(kind);
        return graph.operand(kind);
    }
};

/// Forward, and the gradient of each input that has one.
trial op_trial(const std::string& name, const jit::registered_op& op, storage kind) {
    trial t{name};
    std::vector<jit::value> x, dy;
    for (std::size_t i = 0; i < op.inputs; ++i) x.push_back(t.operand(kind));
    for (std::size_t k = 0; k < op.gradients; ++k) dy.push_back(t.operand(kind));
    for (std::size_t k = 0; k < op.outputs; ++k) t.graph.result(t.graph.apply(name, x, k), kind);
    for (std::size_t i = 0; i < op.inputs && op.gradients > 0; ++i) {
        if (op.gradient.results[i] == op.gradient.none) continue;
        try {
            t.graph.result(t.graph.gradient_of(name, x, i, dy), kind);
        } catch (const echo::cuda::argument_error&) { // it reduces over other axes: no kernel of this one
        }
    }
    return t;
}

/// tanh(q + k)'s gradient.
trial attention(storage kind) {
    trial t{"attention in " + std::to_string(static_cast<int>(kind)), true};
    const auto q = t.operand(kind), k = t.operand(kind), dy = t.operand(kind);
    t.graph.result(t.graph.gradient_of("tanh_op", {t.graph.apply("add_op", {q, k})}, 0, {dy}), kind);
    return t;
}
/// relu(x · scale + shift) and its gradient, from a packed mask.
trial masked(storage kind) {
    trial t{"masked in " + std::to_string(static_cast<int>(kind)), true};
    const auto x = t.operand(kind), scale = t.operand(kind), shift = t.operand(kind),
               bit = t.operand(storage::bit);
    const auto y = t.graph.apply(
        "relu_op", {t.graph.apply("add_op", {t.graph.apply("multiply_op", {x, scale}), shift})});
    t.graph.result(y, kind);
    t.graph.result(t.graph.apply("multiply_op", {y, bit}), kind);
    return t;
}

/// A tensor of any type on both sides.
struct tensor {
    std::shared_ptr<void> owner{};
    jit::any_operand host{}, device{};
    std::function<bool(const std::string&, float)> same{};
    std::function<void(std::int64_t)>
        raise{}; ///< one number of each row of this many: a place further in each
};

template <class T>
T number_from(std::uint64_t bits) {
    static constexpr float special[] = {0.0f, -0.0f, 1e-40f, INFINITY, -INFINITY, NAN, 64.0f, -64.0f};
    if (bits % 24 == 0) return T(special[bits / 24 % 8]);
    return T(static_cast<float>(static_cast<int>(bits >> 40 & 0xffffff) - 0x800000) / 0x200000);
}

template <class T>
tensor typed(const std::string& name, std::int64_t count, const fused::strides& step, dice& roll, bool result,
             std::size_t skip) {
    auto made = std::make_shared<cases::array<T>>(name, count, skip);
    if constexpr (std::is_same_v<T, std::uint32_t>)
        made->fill([&](std::int64_t) { return static_cast<std::uint32_t>(roll() >> 20); });
    else
        made->fill([&](std::int64_t) { return number_from<T>(roll()); });
    if (result) {
        std::memset(static_cast<void*>(made->host()), 0xcd, static_cast<std::size_t>(count) * sizeof(T));
        made->forget();
    }
    constexpr storage kind = std::is_same_v<T, std::uint32_t> ? storage::bit
                             : sizeof(T) == 4                 ? storage::f32
                             : std::is_same_v<T, half>        ? storage::f16
                                                              : storage::bf16;
    return {made, jit::any_operand(made->host(), kind, step), jit::any_operand(made->device(), kind, step),
            [made](const std::string& what, float most) {
                if constexpr (std::is_same_v<T, std::uint32_t>)
                    return made->same(what);
                else
                    return made->same(what, cases::within<T>(most));
            },
            [made](std::int64_t row) {
                if constexpr (!std::is_same_v<T, std::uint32_t>)
                    for (std::int64_t r = 0; r < made->size() / row; ++r)
                        made->host()[r * row + r % row] = T(300.0f);
                made->upload();
            }};
}

tensor tensor_of(storage kind, const std::string& name, std::int64_t count, const fused::strides& step,
                 dice& roll, bool result, std::size_t skip) {
    switch (kind) {
    case storage::bit:
        return typed<std::uint32_t>(name, (count + 31) / 32, step, roll, result, 0);
    case storage::f16:
        return typed<half>(name, count, step, roll, result, skip);
    case storage::bf16:
        return typed<bfloat16>(name, count, step, roll, result, skip);
    default:
        return typed<float>(name, count, step, roll, result, skip);
    }
}

/// A trial's operands and results. `first`: the extents of the first operand. `peaks`: in each row of it one number
/// lies far above the others.
struct layout {
    extents e, first;
    std::size_t skip = 0; ///< elements before the first
    bool peaks = false;
};

/// A trial on one layout: for any, or, without a kernel, compiled for this one.
void run(const trial& t, jit::compiler& compiler, const jit::kernel* kernel,
         support::generated_library::function* host, const layout& l, const echo::cuda::stream& own) {
    const auto& [e, first, skip, peaks] = l;
    dice roll(static_cast<std::uint64_t>(e.elements()) + 31 * skip);
    std::vector<tensor> from, to;
    const auto& p = t.program;
    for (std::size_t i = 0; i < t.operands.size(); ++i) {
        const extents& shape = i == 0 && t.operands[i] != storage::bit ? first : e;
        from.push_back(tensor_of(t.operands[i], "operand " + std::to_string(i), shape.elements(),
                                 laid_over(shape, e), roll, false, skip));
        if (peaks && i == 0) from[i].raise(e.of[e.rank - 1]);
    }
    for (std::size_t k = 0; k < p.results.size(); ++k) {
        extents shape = e;
        if (p.result_by_row(k))
            for (std::size_t a = e.rank - e.row_axes; a < e.rank; ++a) shape.of[a] = 1;
        to.push_back(tensor_of(p.kinds[k], "result " + std::to_string(k), shape.elements(),
                               laid_over(shape, e), roll, true, skip));
    }
    std::vector<jit::any_operand> host_from, host_to, device_from, device_to;
    for (const auto& x : from) host_from.push_back(x.host), device_from.push_back(x.device);
    for (const auto& y : to) host_to.push_back(y.host), device_to.push_back(y.device);
    host_from.resize(p.operands()), device_from.resize(p.operands()); // the last ones may be read by nobody
    jit::detail::parameters arguments;
    if (!jit::detail::prepare(p, host_to, host_from, e, arguments)) return;
    for (unsigned long long warp = 0; warp < 3; ++warp) host(&arguments, warp, 3);
    bool exact = true;
    for (const char* name : {"exp", "log", "tanh", "erf", "sin", "cos", "pow"})
        if (t.source.find(std::string(name) + "f(") != t.source.npos) exact = false;
    const float most = exact ? 0 : 1e-5f;
    std::string what = t.name + " over {";
    for (std::size_t a = 0; a < e.rank; ++a) what += (a ? ", " : "") + std::to_string(e.of[a]);
    what += "} at " + std::to_string(skip);
    if (peaks) what += ", a number of each row far above the others";
    if (!kernel) what += ", for this layout";
    cases::check(
        what, static_cast<std::uint64_t>(e.elements()),
        [&] {
            if (kernel)
                (*kernel)(device_to, device_from, e, own);
            else
                compiler.compile_for(t.graph, device_to, device_from, e)(device_to, device_from, e, own);
        },
        [&] {
            bool same = true;
            for (const auto& y : to) same = y.same(what, most) && same;
            return same;
        });
}

} // namespace

TEST_CASE("generated kernels") {
    const echo::cuda::stream own;
    std::vector<trial> trials;
    static constexpr storage kinds[] = {storage::f32, storage::f16, storage::bf16};
    std::size_t turn = 0;
    for (const auto& [name, op] : jit::op_registry::standard())
        trials.push_back(op_trial(name, op, kinds[turn++ % 3]));
    for (const auto kind : kinds) trials.push_back(attention(kind)), trials.push_back(masked(kind));
    support::generated_library host;
    if (const char* only = std::getenv("ECHO_PTX_ONLY"))
        std::erase_if(trials, [&](const trial& t) { return t.name != only; });
    for (auto& t : trials) {
        t.program = t.graph.program();
        t.source = fused::source_of(t.program);
        host.add(t.source);
    }
    REQUIRE(host.compile());
    const char* cache = std::getenv("ECHO_PTX_CACHE");
    jit::compiler compiler({.cache = cache ? cache : "", .contract = false});
    for (std::size_t n = 0; n < trials.size(); ++n) {
        if (!cases::group(trials[n].name)) continue;
        const jit::kernel any = compiler.compile(trials[n].graph);
        const auto each = [&](const layout& l, const jit::kernel* kernel) {
            run(trials[n], compiler, kernel, host.at(n), l, own);
        };
        for (const std::size_t skip : {0, 1}) {
            each({{4, 37}, {4, 37}, skip}, &any);
            each({{3, 5, 64}, {3, 1, 64}, skip}, &any);
            each({{6, 15}, {15}, skip}, &any);
            each({{2, 1037}, {2, 1037}, skip}, &any);
        }
        // A first group that begins, and a last one that ends, behind each of its elements; rows of several lines,
        // which groups lie across.
        for (std::size_t skip = 2; skip < 8; ++skip) each({{5, 13}, {5, 13}, skip}, &any);
        const auto rows = extents{2, 9, 7}.with_rows_of(2);
        each({rows, {2, 1, 7}, 1}, &any);
        each({{9, 37}, {9, 37}, 0, true}, &any);
        each({{9, 1037}, {9, 1037}, 0, true}, &any); // lanes take several groups
        if (!trials[n].chain) continue;
        each({{24, 37}, {24, 37}, 1}, nullptr);
        each({{3, 5, 64}, {3, 1, 64}, 0}, nullptr); // lines whose groups are whole
        each({{40, 15}, {15}, 0}, nullptr);
        each({{2, 1037}, {2, 1037}, 0}, nullptr); // one line
    }
    std::printf("jit: %ld cases, %d differ\n", cases::checked, cases::failed);
    CHECK(cases::failed == 0);
}
