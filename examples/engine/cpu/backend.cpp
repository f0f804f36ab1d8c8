// SPDX-License-Identifier: BSL-1.0
#include "engine/cpu/backend.hpp"
#include "engine/cpu/broadcast.hpp"
#include "engine/cpu/elementwise.hpp"
#include "engine/cpu/heavy_kernels.hpp"
#include "engine/cpu/kernels.hpp"
#include "engine/cpu/parts.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace engine::cpu {

bool backend::in_parts(const op& o) const {
    return std::visit([](const auto& one) { return requires(const call& c) { cpu::part(one, c); }; }, o);
}

namespace {

/// The calls of a chain as one thread runs them: what has a slot lies in a buffer that holds one tile of it.
class tiled_chain {
public:
    tiled_chain(std::span<const op_call> chain, std::size_t tile) : calls_(chain.size()) {
        for (std::size_t k = 0; k < chain.size(); ++k) {
            own& mine = calls_[k];
            mine.in.assign(chain[k].with.inputs.begin(), chain[k].with.inputs.end());
            mine.out.assign(chain[k].with.outputs.begin(), chain[k].with.outputs.end());
            mine.with = chain[k].with;
            mine.with.inputs = mine.in;
            mine.with.outputs = mine.out;
            for (const auto& out : mine.out)
                if (out.slot != no_slot && !buffers_.contains(out.slot))
                    buffers_[out.slot].resize(tile + block_size);
        }
        for (std::size_t k = 0; k < chain.size(); ++k)
            std::visit(
                [&](const auto& one) {
                    if constexpr (requires { cpu::part(one, calls_[k].with); })
                        parts_.emplace_back(cpu::part(one, calls_[k].with));
                },
                *chain[k].what);
    }

    /// Elements [first, last), no more than a tile.
    void operator()(std::size_t first, std::size_t last) {
        if (!buffers_.empty())
            for (own& mine : calls_) {
                for (auto& in : mine.in)
                    if (in.slot != no_slot) in.data = element_0(in.slot, first);
                for (auto& out : mine.out)
                    if (out.slot != no_slot) out.data = element_0(out.slot, first);
            }
        for (const auto& part : parts_) part(first, last);
    }

private:
    struct own {
        std::vector<input_view> in;
        std::vector<output_view> out;
        call with;
    };
    /// Where element 0 would lie if element `first` lies where the buffer begins.
    void* element_0(std::int64_t slot, std::size_t first) {
        const auto at = reinterpret_cast<std::uintptr_t>(buffers_.at(slot).data());
        return reinterpret_cast<void*>(at - first * sizeof(float));
    }

    std::vector<own> calls_; // parts hold references to them
    std::vector<std::function<void(std::size_t, std::size_t)>> parts_;
    std::map<std::int64_t, std::vector<float>> buffers_;
};

} // namespace

void backend::run(std::span<const op_call> chain) {
    context_.parallel(chain[0].with.size(), thread_grain, [&](std::size_t first, std::size_t last) {
        tiled_chain tiled(chain, tile_);
        for (std::size_t at = first; at < last; at += tile_) tiled(at, std::min(last, at + tile_));
    });
}

void backend::run(const op& o, const call& c) {
    std::visit(
        [&](const auto& one) {
            if constexpr (requires { cpu::part(one, c); })
                context_.parallel(c.size(), thread_grain, cpu::part(one, c));
            else if constexpr (requires { cpu::run(one, c, context_); })
                cpu::run(one, c, context_);
            else
                throw echo::error({}, "op", std::string(one.name) + " has no CPU kernel",
                                  "leave it to a view, or write one");
        },
        o);
}

std::uint64_t backend::scratch(const op& o, tensor_span in, tensor_span out) {
    return std::visit(
        [&](const auto& one) -> std::uint64_t {
            if constexpr (requires { cpu::scratch(one, in, out, context_); })
                return cpu::scratch(one, in, out, context_);
            else
                return 0;
        },
        o);
}

} // namespace engine::cpu
