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
    std::size_t offset = 0;
    bool inplace = false; ///< outputs lie on inputs where they may
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
        p.blocks.emplace_back(4 * elements(p.to[k]), h.offset, device, "output " + std::to_string(k));
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
    return t + " at " + std::to_string(h.offset) + (h.inplace ? ", in place" : "");
}

/// Products and convolutions have no kernels here.
bool by_library(const op& o) {
    const std::string_view name = name_of(o);
    return name.starts_with("fully_connected") || name.starts_with("convolution") || name == "batch_dot";
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
                    if (!integers && std::isnan(a) && std::isnan(b)) continue;
                    const double off = std::abs(a - b) / std::max(1.0, std::abs(b));
                    if (!integers && !exact(s.what) && off < 1e-5) {
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
        for (const subject& s : support::calls::every_subject()) {
            if (by_library(s.what) || !cases::group(std::string(name_of(s.what)))) continue;
            check(host, device, s, {});
            check(host, device, s, {.offset = 20});
            if (!facts(s.what).inplace.empty()) check(host, device, s, {.offset = 4, .inplace = true});
        }
        for (const auto& [name, off] : worst) std::printf("  %s: at most %.2g off\n", name.c_str(), off);
    });
}
