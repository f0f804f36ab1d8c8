// SPDX-License-Identifier: BSL-1.0
#include "engine/cuda/backend.hpp"
#include "engine/cuda/fused_graph.hpp"
#include "engine/cuda/matrix_product.hpp"
#include "engine/cuda/recording.hpp"
#include "engine/cuda/stream_mover.hpp"
#include "engine/graph.hpp"

#include <echo/cuda/kernel/launch.hpp>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace engine::cuda {
namespace {

/// Gives out addresses in one row, and keeps nothing there.
class no_memory final : public tensor_memory {
public:
    bool on_host() const noexcept override { return false; }
    std::byte* allocate(std::size_t bytes, std::string_view what) override {
        const std::uint64_t at = next_;
        next_ += (bytes + 511) / 512 * 512; // as cudaMalloc does, or more
        pieces.push_back({at, bytes, std::string(what)});
        return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(at));
    }
    void free(std::byte*, std::size_t) noexcept override {}
    void write(void*, const void*, std::size_t) override {}
    void zero(void*, std::size_t) override {}
    void read(void* to, const void*, std::size_t bytes) override { std::memset(to, 0, bytes); }
    void wait() override {}

    /// Errors: the bytes lie in no piece.
    memory_range find(const void* data, std::uint64_t bytes) const {
        const auto at = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(data));
        const auto behind =
            std::upper_bound(pieces.begin(), pieces.end(), at,
                             [](std::uint64_t a, const recorded_piece& p) { return a < p.address; });
        if (behind != pieces.begin()) {
            const recorded_piece& p = *(behind - 1);
            if (at - p.address + bytes <= p.bytes)
                return {static_cast<std::size_t>(behind - 1 - pieces.begin()), at - p.address, bytes};
        }
        throw echo::error({}, "memory", std::to_string(bytes) + " bytes are used that nobody allocated");
    }

    std::vector<recorded_piece> pieces{}; ///< by address

private:
    std::uint64_t next_ = std::uint64_t{1} << 40; // no address of this process, nor null
};

/// Writes down what is started, for the step that is being issued.
struct notes {
    std::vector<recorded_call> calls{};
};

struct noting_launcher {
    notes* to;
    template <echo::cuda::kernel_body Body>
    void operator()(std::string_view name, const Body& body) const {
        if (const std::int64_t tiles = body.tiles()) to->calls.push_back({std::string(name), tiles, false});
    }
};

template <class Op>
concept product = requires(const Op& op, const call& c) { product_of(op, c); };
template <class Op>
concept slides = requires(const Op& op) { op.window.groups; } && !std::is_same_v<Op, ops::pooling>;

class noting_library {
public:
    explicit noting_library(notes& to) : to_(&to) {}

    template <product Op>
    void run(const Op& op, const call& c) {
        if (c.outputs[0].size() > 0)
            to_->calls.push_back({"cuBLAS " + to_string(product_of(op, c)), 0, true});
    }
    template <slides Op>
    void run(const Op& op, const call& c) {
        if (c.outputs[0].size() > 0)
            to_->calls.push_back({"cuDNN " + std::string(op.name) + " " +
                                      engine::to_string(c.inputs[0].shape()) + " " +
                                      engine::to_string(c.inputs[1].shape()),
                                  0, true});
    }
    template <class Op>
        requires product<Op> || slides<Op>
    std::uint64_t scratch(const Op&, tensor_span, tensor_span) {
        return 0;
    }

private:
    notes* to_;
};

/// A device for `stream_mover` that writes its copies down; places in the host's memory are counted from 1.
class noting_engines {
public:
    struct stream {
        void wait() const {}
    };
    struct event {
        void record(const stream&) {}
        void hold(const stream&) const {}
    };
    struct store {
        explicit store(std::uint64_t) {}
        std::uintptr_t data() const { return 1; }
    };

    noting_engines(const no_memory& memory, std::vector<recorded_copy>& to,
                   const std::vector<recorded_step>& steps)
        : memory_(memory), to_(to), steps_(steps) {}
    const stream& ops() const { return ops_; }
    void copy_out(std::uintptr_t place, const void* from, std::uint64_t bytes, const stream&) {
        to_.push_back({true, memory_.find(from, bytes), place - 1, steps_.size()});
    }
    void copy_in(const void* to, std::uintptr_t place, std::uint64_t bytes, const stream&) {
        to_.push_back({false, memory_.find(to, bytes), place - 1, steps_.size()});
    }

private:
    const no_memory& memory_;
    std::vector<recorded_copy>& to_;
    const std::vector<recorded_step>& steps_;
    stream ops_{};
};

constexpr std::string_view name_of(echo::step_kind kind) {
    return kind == echo::step_kind::run ? "run" : kind == echo::step_kind::encode ? "encode" : "recompute";
}

} // namespace

class recording_backend::implementation {
public:
    no_memory memory{};
    notes written{};
    noting_launcher launcher{&written};
    noting_library library{written};
    backend<noting_launcher, noting_library> ops{launcher, library};
    std::vector<recorded_step> steps{};
    recorded_step next{};
    std::vector<recorded_copy> copies{};
    noting_engines engines{memory, copies, steps};
    stream_mover<noting_engines> moves{engines};

    void note_tensors(const call& c, recorded_step& made) const {
        for (const input_view& in : c.inputs) {
            if (in.slot != no_slot) continue;
            const std::uint64_t bytes =
                in.packed ? echo::encoded_bytes(in.size()) : echo::byte_count(*in.what);
            made.in.push_back(memory.find(in.data, bytes));
            made.in.back().packed = in.packed;
        }
        for (const output_view& out : c.outputs)
            if (out.slot == no_slot) made.out.push_back(memory.find(out.data, echo::byte_count(*out.what)));
        if (!c.scratch.empty()) made.scratch = memory.find(c.scratch.data(), c.scratch.size());
    }
};

recording_backend::recording_backend() : all_(std::make_unique<implementation>()) {}
recording_backend::~recording_backend() = default;

void recording_backend::run(const op& o, const call& c) {
    recorded_step made = all_->next;
    made.op = engine::name_of(o);
    all_->note_tensors(c, made);
    all_->written.calls.clear();
    all_->ops.run(o, c);
    made.calls = all_->written.calls;
    all_->steps.push_back(std::move(made));
}

bool recording_backend::in_parts(const op& o) const { return in_fused_kernels(o); }

void recording_backend::run(std::span<const op_call> together) {
    recorded_step made = all_->next;
    made.op = engine::name_of(*together.back().what);
    const fused_kernel generated = fuse(together);
    const auto tiles = echo::cuda::jit::tiles_of(generated.graph.program(), generated.results,
                                                 generated.operands, generated.extents);
    recorded_call kernel{"fused", static_cast<std::int64_t>(tiles), false};
    for (const op_call& each : together) {
        kernel.what += "." + std::string(engine::name_of(*each.what));
        all_->note_tensors(each.with, made);
    }
    made.calls.push_back(std::move(kernel));
    all_->steps.push_back(std::move(made));
}

std::uint64_t recording_backend::scratch(const op& o, tensor_span in, tensor_span out) {
    return all_->ops.scratch(o, in, out);
}
tensor_memory& recording_backend::memory() noexcept { return all_->memory; }
mover& recording_backend::moves() noexcept { return all_->moves; }
void recording_backend::at_step(std::size_t step, echo::step_kind kind, const node& at) {
    all_->next.step = step, all_->next.kind = kind, all_->next.at = &at;
}
std::span<const recorded_step> recording_backend::steps() const noexcept { return all_->steps; }
std::span<const recorded_copy> recording_backend::copies() const noexcept { return all_->copies; }
std::span<const recorded_piece> recording_backend::pieces() const noexcept { return all_->memory.pieces; }
void recording_backend::clear() {
    all_->steps.clear();
    all_->copies.clear();
}

std::string to_string(const recorded_step& s, std::span<const recorded_piece> pieces) {
    const auto range = [&](const memory_range& r) {
        const bool arena = pieces[r.piece].what == "the arena";
        return (arena ? std::to_string(r.offset) : "[" + pieces[r.piece].what + "]") + "+" +
               std::to_string(r.bytes) + (r.packed ? " bits" : "");
    };
    const auto all = [&](const std::vector<memory_range>& of) {
        std::string text;
        for (const memory_range& r : of) text += (text.empty() ? "" : ", ") + range(r);
        return text.empty() ? std::string("-") : text;
    };
    std::string text = std::to_string(s.step) + " " + std::string(name_of(s.kind)) + " " + s.op + " " +
                       (s.at ? s.at->name : "") + ":";
    for (const recorded_call& c : s.calls)
        text += (&c == s.calls.data() ? " " : ", ") +
                (c.library ? c.what : "kernel " + c.what + " (" + std::to_string(c.tiles) + ")");
    return text + " | in " + all(s.in) + " | out " + all(s.out) + " | scratch " +
           (s.scratch.bytes ? range(s.scratch) : "-");
}

} // namespace engine::cuda
