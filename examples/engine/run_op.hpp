// SPDX-License-Identifier: BSL-1.0
/// @file
/// Runs one op by itself on data in vectors: for tests.
#pragma once

#include "engine/call.hpp"
#include "engine/op.hpp"

#include <cstddef>
#include <memory>
#include <utility>

namespace engine {

/// A tensor with its data; one of the two vectors is used.
struct tensor_data {
    echo::tensor what;
    std::vector<float> f32{};
    std::vector<std::int32_t> i32{};

    tensor_data() = default;
    tensor_data(echo::tensor t, std::vector<float> v) : what(std::move(t)), f32(std::move(v)) {}
    tensor_data(echo::tensor t, std::vector<std::int32_t> v) : what(std::move(t)), i32(std::move(v)) {}
    explicit tensor_data(echo::tensor t) : what(std::move(t)) {
        if (what.type == echo::dtype::f32)
            f32.resize(elements(what));
        else
            i32.resize(elements(what));
    }
    void* data() { return what.type == echo::dtype::f32 ? static_cast<void*>(f32.data()) : i32.data(); }
    const void* data() const {
        return what.type == echo::dtype::f32 ? static_cast<const void*>(f32.data()) : i32.data();
    }
};

/// Outputs of an op on these inputs. Errors: the op's and the backend's.
template <class Backend>
std::vector<tensor_data> run_op(Backend& backend, const op& o, const std::vector<tensor_data>& inputs,
                                std::uint64_t seed = 1, std::uint64_t iteration = 1) {
    tensors in;
    for (const auto& t : inputs) in.push_back(t.what);
    const tensors out = infer(o, in);
    std::vector<tensor_data> made;
    for (const auto& t : out) made.emplace_back(t);
    std::vector<input_view> from;
    for (const auto& t : inputs) from.push_back({t.data(), &t.what, false});
    std::vector<output_view> to;
    for (std::size_t k = 0; k < made.size(); ++k) to.push_back({made[k].data(), &out[k]});
    const std::size_t bytes = backend.scratch(o, in, out);
    // 64-byte aligned, as in an arena.
    std::vector<std::byte> memory(bytes + 64);
    void* at = memory.data();
    std::size_t room = memory.size();
    std::align(64, bytes, at, room);
    backend.run(o, {.inputs = from,
                    .outputs = to,
                    .scratch = {static_cast<std::byte*>(at), bytes},
                    .seed = seed,
                    .iteration = iteration});
    return made;
}

} // namespace engine
