// SPDX-License-Identifier: BSL-1.0
/// @file
/// The kernels of the CUDA back end, run on the CPU, against those of the CPU backend: every op, over several shapes.
/// Each is run at several addresses and on several grids, in place where its facts say so, and from packed inputs: the
/// same bits every time, and nothing is written beside the results.
#include "engine/cpu/backend.hpp"
#include "engine/cuda/host_backend.hpp"
#include "engine/run_op.hpp"
#include "support/engine_subjects.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace engine;
using support::calls::integers, support::calls::noise, support::calls::subject;

namespace {

/// Memory at an address that is a multiple of 64, plus `offset`, with bytes on both sides that must stay.
class memory {
public:
    static constexpr unsigned char guard = 0xa5;
    static constexpr std::size_t guards = 128;

    memory(std::size_t bytes, std::size_t offset, unsigned char fill)
        : bytes_(bytes + offset + 64 + 2 * guards, guard), size_(bytes) {
        const auto at = reinterpret_cast<std::uintptr_t>(bytes_.data()) + guards;
        begin_ = guards + (64 - at % 64) % 64 + offset;
        std::memset(bytes_.data() + begin_, fill, bytes);
    }
    std::byte* at() { return reinterpret_cast<std::byte*>(bytes_.data() + begin_); }
    const std::byte* at() const { return reinterpret_cast<const std::byte*>(bytes_.data() + begin_); }
    bool kept() const {
        for (std::size_t i = 0; i < bytes_.size(); ++i)
            if ((i < begin_ || i >= begin_ + size_) && bytes_[i] != guard) return false;
        return true;
    }

private:
    std::vector<unsigned char> bytes_;
    std::size_t begin_ = 0, size_;
};

constexpr std::size_t everywhere = 1000;

struct how {
    std::size_t offset = 0;
    unsigned char fill = 0xff;
    std::optional<std::size_t>
        inplace{};       ///< the input on which outputs lie that may; `everywhere`: each that may
    bool numbers = true; ///< the seed comes from memory
};

constexpr std::uint64_t node_seed = 77;
constexpr step_numbers numbers{.seed = 5, .iteration = 3};
constexpr std::uint64_t drawn_seed = seed_of(numbers, node_seed);

using bytes = std::vector<std::byte>;

std::vector<bytes> run_once(auto& on, const subject& s, how h) {
    tensors from;
    for (const auto& t : s.in) from.push_back(t.what);
    const tensors to = infer(s.what, from);
    std::vector<memory> memories;
    memories.reserve(s.in.size() + to.size() + 1);
    std::vector<input_view> read;
    for (std::size_t i = 0; i < s.in.size(); ++i) {
        const std::size_t n = elements(from[i]);
        const bool packed = s.packed.contains(i);
        memories.emplace_back(packed ? echo::encoded_bytes(n) : 4 * n, h.offset, h.fill);
        if (packed) {
            std::vector<std::uint32_t> words(echo::encoded_bytes(n) / 4);
            for (std::size_t k = 0; k < n; ++k)
                words[k / 32] |= std::uint32_t{s.in[i].f32[k] > 0} << (k % 32);
            if (n) std::memcpy(memories.back().at(), words.data(), 4 * words.size());
        } else if (n) {
            std::memcpy(memories.back().at(), s.in[i].data(), 4 * n);
        }
        read.push_back({memories.back().at(), &s.in[i].what, packed});
    }
    std::vector<output_view> written;
    for (std::size_t k = 0; k < to.size(); ++k) {
        memories.emplace_back(4 * elements(to[k]), h.offset, h.fill);
        void* at = memories.back().at();
        for (const auto& pair : facts(s.what).inplace)
            if (pair.output == k && (h.inplace == pair.input || h.inplace == everywhere) &&
                pair.input < from.size() && elements(from[pair.input]) == elements(to[k]) &&
                !s.packed.contains(pair.input))
                at = const_cast<void*>(read[pair.input].data);
        written.push_back({at, &to[k]});
    }
    const std::size_t wanted = on.scratch(s.what, from, to);
    memories.emplace_back(wanted, h.offset, h.fill);
    call c{.inputs = read,
           .outputs = written,
           .scratch = {memories.back().at(), wanted},
           .seed = drawn_seed,
           .iteration = numbers.iteration};
    if (h.numbers) {
        c.numbers = &numbers;
        c.seed_at = &drawn_seed;
        c.seed = 0;
        c.iteration = 1;
    }
    on.run(s.what, c);
    std::vector<bytes> made;
    for (const auto& w : written) {
        const auto* at = static_cast<const std::byte*>(w.data);
        made.emplace_back(at, at + 4 * w.size());
    }
    for (const memory& m : memories) CHECK(m.kept());
    if (!h.inplace)
        for (std::size_t i = 0; i < s.in.size(); ++i)
            if (!s.packed.contains(i) && s.in[i].what.type == echo::dtype::f32 && elements(from[i]))
                CHECK(std::memcmp(read[i].data, s.in[i].data(), 4 * elements(from[i])) == 0);
    return made;
}

float number_at(const bytes& of, std::size_t i) {
    float x;
    std::memcpy(&x, of.data() + 4 * i, 4);
    return x;
}
std::uint32_t word_at(const bytes& of, std::size_t i) {
    return std::bit_cast<std::uint32_t>(number_at(of, i));
}

/// The largest difference, of the larger of 1 and the expected value; infinite where one is no number.
double difference(const bytes& actual, const bytes& expected, bool exact) {
    double worst = 0;
    for (std::size_t i = 0; i < expected.size() / 4; ++i) {
        if (word_at(actual, i) == word_at(expected, i)) continue;
        const auto a = static_cast<double>(number_at(actual, i)),
                   b = static_cast<double>(number_at(expected, i));
        if (std::isnan(a) && std::isnan(b)) continue; // of any bits
        const double error = std::abs(a - b) / std::max(1.0, std::abs(b));
        worst = std::max(worst, exact || !(error < 1e9) ? 1e9 : error);
    }
    return worst;
}

std::string text(const subject& s) {
    std::string t(name_of(s.what));
    for (const auto& in : s.in) t += " " + to_string(in.what.shape);
    for (const auto i : s.packed) t += ", packed " + std::to_string(i);
    return t;
}

/// Runs it in all ways. Returns whether everything held.
void check(const subject& s) {
    static cpu::backend processor(1);
    static cuda::host_backend one(1),
        other(1, {.blocks = 3, .warps_per_block = 2, .warps_backwards = true, .lanes_backwards = true});
    INFO(text(s));
    const auto first = run_once(one, s, {});
    const auto expected = run_once(processor, s, {.numbers = false});
    REQUIRE(first.size() == expected.size());
    for (std::size_t k = 0; k < first.size(); ++k) {
        INFO("output " << k);
        CHECK(difference(first[k], expected[k], s.tolerance == 0) <= s.tolerance);
    }
    CHECK(run_once(one, s, {.fill = 0x3c, .numbers = false}) == first);
    CHECK(run_once(one, s, {.offset = 4}) == first);
    CHECK(run_once(other, s, {.offset = 20, .fill = 0}) == first);
    CHECK(run_once(other, s, {}) == first);
    if (facts(s.what).inplace.empty()) return;
    CHECK(run_once(one, s, {.inplace = everywhere}) == first);
    for (const auto& pair : facts(s.what).inplace) {
        CHECK(run_once(one, s, {.inplace = pair.input}) == first);
        CHECK(run_once(other, s, {.offset = 12, .inplace = pair.input}) == first);
    }
}

template <class Op, class... Ops>
constexpr std::size_t position(std::type_identity<std::variant<Ops...>>) {
    std::size_t at = 0, found = sizeof...(Ops);
    ((std::is_same_v<Op, Ops> ? found = at++ : at++), ...);
    return found;
}
template <class Op>
constexpr std::size_t position_of = position<Op>(std::type_identity<op>{});

} // namespace

TEST_CASE("every op gives what the CPU backend gives, wherever its tensors lie and on any grid") {
    std::set<std::size_t> covered{position_of<ops::input>, position_of<ops::reshape>}; // they never run
    for (const subject& s : support::calls::every_subject()) {
        covered.insert(s.what.index());
        check(s);
    }
    for (std::size_t i = 0; i < std::variant_size_v<op>; ++i) {
        INFO("op " << i << " of the variant");
        CHECK(covered.contains(i));
    }
}

TEST_CASE("dropout draws other numbers in another step, and the same for a recomputation") {
    cuda::host_backend on(1);
    const op o = ops::elementwise<ops::dropout_op>{{0.5}};
    const tensor_data x = noise({1000}, 1);
    const tensors out(2, f32({1000}));
    const auto run = [&](const step_numbers& at, std::uint64_t node) {
        std::vector<float> y(1000), kept(1000);
        const input_view in[] = {{x.data(), &x.what}};
        const output_view to[] = {{y.data(), &out[0]}, {kept.data(), &out[1]}};
        const std::uint64_t seed = seed_of(at, node);
        on.run(o, {.inputs = in, .outputs = to, .seed_at = &seed});
        return kept;
    };
    const auto first = run({1, 1}, 9);
    CHECK(run({1, 1}, 9) == first);
    CHECK(run({1, 2}, 9) != first);
    CHECK(run({2, 1}, 9) != first);
    CHECK(run({1, 1}, 10) != first);
    CHECK(std::count(first.begin(), first.end(), 1.0f) == Approx(500).margin(60));
}

TEST_CASE("what indexes, labels and lengths out of range touch is not a number, and nothing else is read") {
    cuda::host_backend on(1);
    const auto first = [&](const op& o, const std::vector<tensor_data>& in) {
        return run_op(on, o, in)[0].f32;
    };
    const auto rows = first(ops::embedding{}, {noise({3, 4}, 1), integers({3}, {2, 3, -1})});
    CHECK(std::isfinite(rows[0]));
    for (std::size_t i = 4; i < 12; ++i) CHECK(std::isnan(rows[i]));
    const auto gradient =
        first(ops::embedding_gradient{{3, 4}}, {noise({3, 4}, 1), integers({3}, {2, 3, -1})});
    for (const float x : gradient) CHECK(std::isfinite(x));
    for (const std::int32_t label : {-3, 5, 1 << 30})
        CHECK(std::isnan(first(ops::softmax_output{}, {noise({2, 5}, 1), integers({2}, {1, label})})[0]));
    for (const std::int32_t label : {5, 1 << 30}) {
        const auto labels = integers({2, 2}, {1, label, 2, 0});
        CHECK(std::isnan(first(ops::ctc_loss{}, {noise({4, 2, 5}, 1), labels})[0]));
        for (const float x : first(ops::ctc_loss_gradient{}, {noise({1}, 2), noise({4, 2, 5}, 1), labels}))
            CHECK(std::isfinite(x));
    }
    for (const std::int32_t length : {-1, 4}) {
        const auto lengths = integers({2}, {2, length});
        for (const op& o :
             {op(ops::sequence_mask{}), op(ops::sequence_reverse{}), op(ops::sequence_last{})}) {
            const auto y = first(o, {noise({3, 2, 1}, 1), lengths});
            CHECK(std::isfinite(y[0]));
            CHECK(std::isnan(y[1]));
        }
    }
    const float none = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(first(ops::clip_factor{}, {tensor_data(f32({2}), std::vector<float>{1, none})})[0]));
}

TEST_CASE("what kernels cannot number is refused") {
    cuda::host_backend on(1);
    const echo::tensor large = f32({1 << 16, 1 << 15});
    const input_view in[] = {{nullptr, &large}};
    const output_view out[] = {{nullptr, &large}};
    CHECK_THROWS_WITH(on.run(ops::elementwise<echo::tanh_op>{}, {.inputs = in, .outputs = out}),
                      Catch::Contains("lower the batch"));
    CHECK_THROWS_WITH(on.run(ops::reshape{{1}}, {}), Catch::Contains("leave it to a view"));
    const tensor_data x = noise({2, 2, 2, 2, 2, 2, 2, 2}, 1), y = noise({1, 2, 1, 2, 1, 2, 1, 2}, 1);
    CHECK_THROWS_WITH(run_op(on, ops::broadcast<echo::add_op>{}, {x, y}), Catch::Contains("axes"));
}
