// SPDX-License-Identifier: BSL-1.0
/// @file
/// What a backend is handed to run one op. A backend is any class with
///   run(const op&, const call&)                                 runs the op; a packed input is read as 1 and 0
///   scratch(const op&, tensor_span in, tensor_span out) -> bytes it wants while it runs that op
/// and, where it can run ops that compute element by element a part at a time (chains.hpp), also
///   in_parts(const op&) -> bool                                 whether this op is one
///   run(span<const op_call>)                                       runs such ops of equal size, a part of each in turn;
///                                                               values in slots pass from op to op and are stored nowhere
/// where ops find their tensors elsewhere than on the host (memory.hpp)
///   memory() -> tensor_memory&
/// where they may run later than they are issued
///   timed(const op&, const call&) -> double                        runs the op and waits; its time, in microseconds
///   timed(span<const op_call>) -> double                        the same of ops that run together, where they do
/// where a sequence of runs can be recorded and run again with what lies in memory then
///   records() -> bool                                              whether it can, now
///   begin_recording(), end_recording() -> std::size_t              the runs between them are kept, and not done
///   replay(std::size_t)                                            does the runs of a recording
/// and, where it wants to know what a run is for,
///   at_step(std::size_t, echo::step_kind, const node&)             the step of the plan that is issued next
/// The graph side knows nothing else of it.
#pragma once

#include "engine/mix.hpp"
#include "engine/op.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace engine {

/// What a fused step makes has no storage: it is known by a number, its slot, within one run of calls.
inline constexpr std::int64_t no_slot = -1;

/// An input where it lies. `packed`: one bit per element in i32 words, set where the element is above 0.
struct input_view {
    const void* data = nullptr;
    const echo::tensor* what = nullptr; ///< as the op's input, whether packed or not
    bool packed = false;
    std::int64_t slot = no_slot; ///< if it has one, `data` says nothing

    const float* f32() const { return static_cast<const float*>(data); }
    const std::int32_t* i32() const { return static_cast<const std::int32_t*>(data); }
    const echo::shape& shape() const { return what->shape; }
    std::size_t size() const { return elements(*what); }
};

/// An output where it goes. It may lie on an input that the op's facts name in place.
struct output_view {
    void* data = nullptr;
    const echo::tensor* what = nullptr;
    std::int64_t slot = no_slot; ///< if it has one, `data` says nothing

    float* f32() const { return static_cast<float*>(data); }
    std::int32_t* i32() const { return static_cast<std::int32_t*>(data); }
    const echo::shape& shape() const { return what->shape; }
    std::size_t size() const { return elements(*what); }
};

struct call {
    std::span<const input_view> inputs{};
    std::span<const output_view> outputs{};
    std::span<std::byte> scratch{};
    std::uint64_t seed = 0;      ///< of this node in this step: equal for a node and its recomputation
    std::uint64_t iteration = 1; ///< training steps so far, this one included
    /// For kernels that run later than they are issued, and again: where `seed` and `iteration` lie in the memory of
    /// the backend. Null: take them as they stand above.
    const std::uint64_t* seed_at = nullptr;
    const step_numbers* numbers = nullptr;

    /// Elements that an op which computes element by element goes over: those of its largest tensor, or none where it
    /// makes none, whatever it is to be repeated from.
    std::size_t size() const {
        std::size_t most = 0;
        for (const auto& t : inputs) most = std::max(most, t.size());
        for (const auto& t : outputs) {
            if (t.size() == 0) return 0;
            most = std::max(most, t.size());
        }
        return most;
    }
};

/// An op and what it is handed.
struct op_call {
    const op* what = nullptr;
    call with{};
};

} // namespace engine
