// SPDX-License-Identifier: BSL-1.0
/// @file
/// Storage outside the arena: data, parameters, kept gradients, optimizer state. It stays from step to step.
#pragma once

#include "engine/graph.hpp"

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <new>

namespace engine {

/// Memory that begins at a multiple of 64.
class aligned_bytes {
public:
    aligned_bytes() = default;
    explicit aligned_bytes(std::size_t size)
        : at_(size ? static_cast<std::byte*>(::operator new(size, std::align_val_t{64})) : nullptr),
          size_(size) {}
    std::byte* data() const noexcept { return at_.get(); }
    std::size_t size() const noexcept { return size_; }

private:
    struct free {
        void operator()(std::byte* at) const { ::operator delete(at, std::align_val_t{64}); }
    };
    std::unique_ptr<std::byte, free> at_;
    std::size_t size_ = 0;
};

class residents {
public:
    explicit residents(std::uint64_t seed = 1) : seed_(seed) {}

    /// Storage of an output; made, and for an input node filled as it says, the first time it is asked for.
    std::byte* operator()(const value& v) {
        auto& place = places_[{v.producer, v.output}];
        if (!place.data()) {
            const echo::tensor& t = v.producer->outputs[v.output];
            place = aligned_bytes(std::max<std::size_t>(4, echo::byte_count(t)));
            std::memset(place.data(), 0, place.size());
            bytes_ += place.size();
            if (const auto* in = std::get_if<ops::input>(&v.producer->op)) begin(*in, v, place);
        }
        return place.data();
    }
    std::span<float> f32(const value& v) {
        return {reinterpret_cast<float*>((*this)(v)), elements(v.producer->outputs[v.output])};
    }
    std::span<std::int32_t> i32(const value& v) {
        return {reinterpret_cast<std::int32_t*>((*this)(v)), elements(v.producer->outputs[v.output])};
    }
    std::uint64_t bytes() const noexcept { return bytes_; }

    /// Well-mixed bits of two numbers (splitmix64).
    static std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
        std::uint64_t z = a + 0x9E3779B97F4A7C15u * (b + 1);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }

private:
    /// The same parameter begins the same in every graph that has one of its name.
    void begin(const ops::input& in, const value& v, const aligned_bytes& place) const {
        if (in.start.how == ops::initial::zeros || in.what.type != echo::dtype::f32) return;
        std::uint64_t name = seed_;
        for (const char c : v.producer->name) name = mix(name, static_cast<unsigned char>(c));
        auto* to = reinterpret_cast<float*>(place.data());
        const auto uniform = [&](std::uint64_t i) {
            return static_cast<double>(mix(name, i) >> 11) * 0x1p-53; // [0, 1)
        };
        for (std::size_t i = 0, n = elements(in.what); i < n; ++i) {
            double made = in.start.value;
            if (in.start.how == ops::initial::uniform) made *= 2 * uniform(i) - 1;
            if (in.start.how == ops::initial::normal)
                made *= std::sqrt(-2 * std::log(1 - uniform(2 * i))) *
                        std::cos(6.283185307179586 * uniform(2 * i + 1));
            to[i] = static_cast<float>(made);
        }
    }

    std::uint64_t seed_, bytes_ = 0;
    std::map<std::pair<const node*, std::size_t>, aligned_bytes> places_;
};

} // namespace engine
