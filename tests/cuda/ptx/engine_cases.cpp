// SPDX-License-Identifier: BSL-1.0
// The engine's kernels as nvcc makes them, interpreted: every op over several shapes, at several addresses, in
// place and from packed inputs, against the same kernels on the host. Bits differ only where an op computes exp,
// log, tanh or a power, which the device has functions of its own for.
#include "cases.hpp"
#include "engine/cuda/device_backend.hpp"
#include "engine/cuda/host_backend.hpp"
#include "support/engine_subjects.hpp"

#include <map>
#include <optional>
#include <set>

using namespace engine;
using support::calls::subject;

namespace {

/// Memory of a tensor; the device's is an allocation by itself.
class block {
public:
    block(std::size_t bytes, std::size_t offset, bool device, std::string name)
        : bytes_(bytes), device_(device), name_(std::move(name)),
          all_(static_cast<std::byte*>(std::aligned_alloc(256, (bytes + offset) / 256 * 256 + 512))),
          at_(all_ + offset) {
        std::memset(all_, 0x3c, (bytes + offset) / 256 * 256 + 512);
        if (device_) echo_ptx_add(at_, bytes_, name_.c_str());
    }
    block(block&& o) noexcept
        : bytes_(o.bytes_), device_(o.device_), name_(std::move(o.name_)),
          all_(std::exchange(o.all_, nullptr)), at_(o.at_) {}
    block& operator=(block&&) = delete;
    ~block() {
        if (!all_) return;
        if (device_) echo_ptx_remove(at_);
        std::free(all_);
    }
    std::byte* at() const { return at_; }
    void write(const void* from, std::size_t bytes) {
        if (!bytes) return;
        std::memcpy(at_, from, bytes);
        if (device_) echo_ptx_written(at_, bytes);
    }

private:
    std::size_t bytes_;
    bool device_;
    std::string name_;
    std::byte *all_, *at_;
};

struct how {
    std::size_t offset = 0;  ///< of what is read and of scratch memory, from a multiple of 256
    bool inplace = false;    ///< outputs lie on inputs where they may
    std::size_t outputs = 0; ///< how much further outputs are from one
};

constexpr step_numbers numbers{.seed = 5, .iteration = 3};
constexpr std::uint64_t drawn_seed = seed_of(numbers, 77);

/// An op's tensors on one side.
struct prepared {
    std::vector<block> blocks;
    tensors from, to;
    std::vector<input_view> read;
    std::vector<output_view> written;
    call with;
};

void prepare(prepared& p, auto& on, const subject& s, how h, bool device) {
    for (const auto& t : s.in) p.from.push_back(t.what);
    p.to = infer(s.what, p.from);
    p.blocks.reserve(s.in.size() + p.to.size() + 3);
    for (std::size_t i = 0; i < s.in.size(); ++i) {
        const std::size_t n = elements(p.from[i]);
        const bool packed = s.packed.contains(i);
        p.blocks.emplace_back(packed ? echo::encoded_bytes(n) : 4 * n, h.offset, device,
                              "input " + std::to_string(i));
        if (packed) {
            std::vector<std::uint32_t> words(echo::encoded_bytes(n) / 4);
            for (std::size_t k = 0; k < n; ++k)
                words[k / 32] |= std::uint32_t{s.in[i].f32[k] > 0} << (k % 32);
            p.blocks.back().write(words.data(), 4 * words.size());
        } else {
            p.blocks.back().write(s.in[i].data(), 4 * n);
        }
        p.read.push_back({p.blocks.back().at(), &s.in[i].what, packed});
    }
    for (std::size_t k = 0; k < p.to.size(); ++k) {
        p.blocks.emplace_back(4 * elements(p.to[k]), h.offset + h.outputs, device,
                              "output " + std::to_string(k));
        void* at = p.blocks.back().at();
        for (const auto& pair : facts(s.what).inplace)
            if (h.inplace && pair.output == k && pair.input < p.from.size() &&
                elements(p.from[pair.input]) == elements(p.to[k]) && !s.packed.contains(pair.input))
                at = const_cast<void*>(p.read[pair.input].data);
        p.written.push_back({at, &p.to[k]});
    }
    const std::size_t wanted = on.scratch(s.what, p.from, p.to);
    p.blocks.emplace_back(wanted, h.offset, device, "scratch");
    p.with = {.inputs = p.read,
              .outputs = p.written,
              .scratch = {p.blocks.back().at(), wanted},
              .seed = 0,
              .iteration = 1};
    p.blocks.emplace_back(sizeof numbers, 0, device, "the step's numbers");
    p.blocks.back().write(&numbers, sizeof numbers);
    p.with.numbers = reinterpret_cast<const step_numbers*>(p.blocks.back().at());
    p.blocks.emplace_back(sizeof drawn_seed, 0, device, "the node's seed");
    p.blocks.back().write(&drawn_seed, sizeof drawn_seed);
    p.with.seed_at = reinterpret_cast<const std::uint64_t*>(p.blocks.back().at());
}

float number_at(const void* data, std::size_t i) {
    float x;
    std::memcpy(&x, static_cast<const std::byte*>(data) + 4 * i, 4);
    return x;
}

std::string text(const subject& s, how h) {
    std::string t(name_of(s.what));
    for (const auto& in : s.in) t += " " + to_string(in.what.shape);
    for (const auto i : s.packed) t += ", packed " + std::to_string(i);
    return t + " at " + std::to_string(h.offset) + (h.inplace ? ", in place" : "") +
           (h.outputs ? ", outputs at " + std::to_string(h.offset + h.outputs) : "");
}

/// Products and convolutions have no kernels here.
bool by_library(const op& o) {
    const std::string_view name = name_of(o);
    return name.starts_with("fully_connected") || name.starts_with("convolution") || name == "batch_dot";
}

/// Every other number is so large that it swallows those that are added to it, until the next one takes it away: a sum
/// depends on the order.
tensor_data uneven(echo::shape shape, unsigned seed) {
    tensor_data t = support::calls::noise(std::move(shape), seed);
    for (std::size_t i = 0; i < t.f32.size(); i += 2) t.f32[i] = i % 4 ? -0x1p80f : 0x1p80f;
    return t;
}

/// The gradient of input I of an op whose inputs have these shapes: a sum over what is repeated. Twice: of numbers of
/// one size, of which none is lost in the sum, and of uneven ones, which keep their sizes.
template <class Op, std::size_t I>
void add_gradient(std::vector<subject>& to, const std::array<echo::shape, 2>& of) {
    constexpr auto list = ops::component<Op, I>::arguments();
    const echo::shape whole = broadcast_shape(of[0], of[1]);
    subject s{ops::broadcast_gradient<Op, I>{of[I]}, {}};
    for (std::size_t k = 0; k < list.count; ++k) {
        const std::size_t at = list.of[k]; // dy, a, b, y
        s.in.push_back(support::calls::noise(at == 0 || at == 3 ? whole : of[at - 1],
                                             static_cast<unsigned>(at), 0.5, 1.5));
    }
    to.push_back(s);
    for (auto& one : s.in) std::fill(one.f32.begin(), one.f32.end(), 1.0f);
    s.in.front() = uneven(whole, 7); // dy
    to.push_back(s);
}
template <class Op>
void add_gradients(std::vector<subject>& to) {
    const auto both = [&](const echo::shape& whole, const echo::shape& part) {
        add_gradient<Op, 1>(to, {whole, part});
        add_gradient<Op, 0>(to, {part, whole});
    };
    both({4100, 3}, {3}); // a sum is a lane's
    both({2, 1300, 5}, {1300, 1});
    both({3, 40, 5, 41}, {40, 1, 41});
    both({6, 231}, {6, 1});     // a warp's
    both({3, 2, 1500}, {2, 1}); // that of several warps
    // Two and more axes that do not lie together, of which every other one is summed: by lanes, and by warps.
    for (std::size_t rank = 2; rank <= 9; ++rank)
        for (const std::int64_t last : {3, 70})
            for (std::size_t first : {0, 1}) {
                std::vector<std::int64_t> whole(rank, 2), part(rank, 1);
                whole.back() = last;
                for (; first < rank; first += 2) part[first] = whole[first];
                both(echo::shape(whole), echo::shape(part));
            }
}

/// Calls beside those of the back end's own tests: as many tiles as the interpreted card's eight warps take in two
/// turns, a unit more than whole tiles, sums in parts, rows whose end falls within each part of an unrolled loop.
std::vector<subject> more_subjects() {
    using namespace support::calls;
    std::vector<subject> to;
    const auto soft = [&](echo::shape x, std::int64_t axis) {
        to.push_back({ops::softmax{axis}, {noise(x, 1, -4, 4)}});
        to.push_back({ops::softmax_gradient{axis}, {noise(x, 2), noise(x, 3, 0, 1)}});
    };
    for (const std::int64_t n : {130, 170, 200, 260}) soft({2, n}, -1);
    soft({3, 200}, 0);
    const auto parts = [&](echo::shape whole, std::vector<std::int64_t> sizes) {
        to.push_back({ops::split{1, sizes, false}, {noise(whole, 1)}});
        subject s{ops::concat{1, false}, {}};
        for (const auto size : sizes)
            s.in.push_back(noise(echo::shape{whole[0], size}, static_cast<unsigned>(size)));
        to.push_back(s);
    };
    parts({16, 384}, {128, 256});
    parts({5, 52}, {16, 36});
    parts({16, 129}, {64, 65});
    for (const std::int64_t width : {8, 7}) {
        const tensor_data x = noise({9, 40, width}, 1), lengths = integers({40}, 2, 1, 9);
        to.push_back({ops::sequence_mask{-2.5}, {x, lengths}});
        to.push_back({ops::sequence_reverse{}, {x, lengths}});
        to.push_back({ops::sequence_last{}, {x, lengths}});
        to.push_back({ops::sequence_last_gradient{x.what.shape}, {noise({40, width}, 4), lengths}});
    }
    const auto sum = [&](echo::shape x, std::vector<std::int64_t> axes) {
        to.push_back({ops::reduce{ops::reduce::sum, axes, false}, {noise(x, 5)}});
    };
    for (const std::int64_t n : {200, 231, 262, 293, 4100}) {
        sum({n, 37}, {0});
        sum({37, n}, {1});
        sum({5, 7, n}, {0, 2});
        sum({n, 3, 9}, {0});
        sum({n, 2, 9, 3}, {0, 2});
        to.push_back({ops::reduce{ops::reduce::sum, {0}, false}, {uneven({n, 37}, 6)}});
        to.push_back({ops::reduce{ops::reduce::sum, {1}, false}, {uneven({37, n}, 6)}});
    }
    add_gradients<echo::add_op>(to), add_gradients<echo::subtract_op>(to);
    add_gradients<echo::multiply_op>(to), add_gradients<echo::divide_op>(to);
    // A label that repeats behind the first 32, with a step too few and with just enough.
    for (const std::int64_t labels : {40, 100, 135})
        for (const std::int64_t spare : {0, 1}) {
            std::vector<std::int32_t> spelt;
            for (std::int32_t i = 0; i < static_cast<std::int32_t>(labels); ++i)
                spelt.push_back(i == static_cast<std::int32_t>(labels) - 4 ? spelt.back() : 1 + i % 5);
            const tensor_data x = noise({labels + spare, 1, 6}, 1, -2, 2), l = integers({1, labels}, spelt);
            to.push_back({ops::ctc_loss{0.5}, {x, l}});
            to.push_back({ops::ctc_loss_gradient{0.5}, {noise({1}, 2, 0.5, 2), x, l}});
        }
    // As many sequences as make the sum of their losses one of two lanes, of a warp, and of two warps.
    for (const std::int64_t batch : {33, 70, 1100}) {
        const tensor_data x = noise({2, batch, 3}, 1, -2, 2), l = integers({batch, 1}, 2, 0, 2);
        to.push_back({ops::ctc_loss{0.5}, {x, l}});
        to.push_back({ops::ctc_loss_gradient{0.5}, {noise({1}, 2, 0.5, 2), x, l}});
    }
    for (const std::int64_t n : {129, 1500}) {
        to.push_back({ops::update_statistics{0.9}, {noise({n}, 1), noise({n}, 2)}});
        to.push_back({ops::sgd{0.1, 0.9, 0.01}, {noise({n}, 1), noise({n}, 2), noise({n}, 3)}});
        to.push_back({ops::adam{}, {noise({n}, 1), noise({n}, 2), noise({n}, 3), noise({n}, 4, 0, 1)}});
    }
    const echo::shape odd{12, 12, 2};
    to.push_back({ops::elementwise<echo::log_op>{}, {special(odd, 1)}});
    to.push_back({ops::elementwise<echo::exp_op>{}, {special(odd, 1)}});
    to.push_back({ops::elementwise<echo::tanh_op>{}, {special(odd, 1)}});
    to.push_back({ops::elementwise<echo::sigmoid_op>{}, {special(odd, 1)}});
    return to;
}

/// The largest difference of ops that compute exp, log, tanh or a power.
std::map<std::string, double> worst;

/// Whether an op's kernels have none of these. What is listed differs in the last places.
bool exact(const op& o) {
    static const std::set<std::string, std::less<>> not_exact{
        "tanh_op", "sigmoid_op", "exp_op", "log_op", "softmax", "softmax_output", "ctc_loss_gradient"};
    return !not_exact.contains(name_of(o));
}

void check(cuda::host_backend& host, cuda::device_backend& device, const subject& s, how h) {
    prepared expected, found;
    prepare(expected, host, s, h, false);
    prepare(found, device, s, h, true);
    const std::string what = text(s, h);
    std::uint64_t count = 0;
    for (const auto& t : expected.to) count += elements(t);
    host.run(s.what, expected.with);
    cases::check(
        what, count, [&] { device.run(s.what, found.with); },
        [&] {
            bool same = true;
            for (std::size_t k = 0; k < found.written.size(); ++k)
                for (std::size_t i = 0; i < elements(found.to[k]); ++i) {
                    const auto* const at = static_cast<const std::byte*>(found.written[k].data) + 4 * i;
                    if (std::memcmp(at, static_cast<const std::byte*>(expected.written[k].data) + 4 * i, 4) ==
                        0)
                        continue;
                    const auto a = static_cast<double>(number_at(found.written[k].data, i)),
                               b = static_cast<double>(number_at(expected.written[k].data, i));
                    const bool integers = found.to[k].type != echo::dtype::f32;
                    // Where functions differ, so do the NaN that they make.
                    if (!integers && std::isnan(b) &&
                        (exact(s.what) ? cases::is_made_by_arithmetic(number_at(found.written[k].data, i))
                                       : std::isnan(a)))
                        continue;
                    const double off = std::abs(a - b) / std::max(1.0, std::abs(b));
                    if (!integers && !exact(s.what) && off < 2.5e-7) {
                        double& most = worst[std::string(name_of(s.what))];
                        most = std::max(most, off);
                        continue;
                    }
                    cases::fail(std::string(echo_ptx_kernel()) + ": " + what + ": output " +
                                std::to_string(k) + "[" + std::to_string(i) + "] is " + std::to_string(a) +
                                ", expected " + std::to_string(b) + "; " + echo_ptx_writer(at));
                    same = false;
                    break;
                }
            return same;
        });
}

} // namespace

int main() {
    return cases::main("engine", [&] {
        cuda::host_backend host(1, {.blocks = 3, .warps_per_block = 2});
        cuda::device_backend device;
        std::vector<subject> all = support::calls::every_subject();
        for (const subject& s : more_subjects()) all.push_back(s);
        for (const subject& s : all) {
            if (by_library(s.what) || !cases::group(std::string(name_of(s.what)))) continue;
            check(host, device, s, {});
            check(host, device, s, {.offset = 20});
            // Accesses of 16 bytes on one side alone.
            check(host, device, s, {.offset = 0, .outputs = 20});
            check(host, device, s, {.offset = 20, .outputs = 12});
            if (!facts(s.what).inplace.empty()) check(host, device, s, {.offset = 4, .inplace = true});
        }
        for (const auto& [name, off] : worst) std::printf("  %s: at most %.2g off\n", name.c_str(), off);
    });
}
