// SPDX-License-Identifier: BSL-1.0
/// @file
/// Storage outside the arena: data, parameters, kept gradients, optimizer state. It stays from step to step. Where it
/// does not lie on the host, the host sees a copy, a mirror, of what it asks for.
#pragma once

#include "engine/graph.hpp"
#include "engine/memory.hpp"
#include "engine/mix.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <vector>

namespace engine {

class residents {
public:
    explicit residents(std::uint64_t seed = 1, tensor_memory& memory = host_memory())
        : seed_(seed), memory_(memory) {}
    residents(const residents&) = delete;
    residents& operator=(const residents&) = delete;

    /// Where the ops of a step find an output; made, and for an input node filled as it says, the first time it is
    /// asked for.
    std::byte* operator()(const value& v) { return place_of(v).storage.data(); }

    /// The same as the host sees it, to be read and filled until the next step.
    std::span<float> f32(const value& v) {
        return {reinterpret_cast<float*>(on_host(v)), elements(v.producer->outputs[v.output])};
    }
    std::span<std::int32_t> i32(const value& v) {
        return {reinterpret_cast<std::int32_t*>(on_host(v)), elements(v.producer->outputs[v.output])};
    }
    std::uint64_t bytes() const noexcept { return bytes_; }
    tensor_memory& memory() const noexcept { return memory_; }

    /// Steps will write what lies there.
    void note_written(const void* at) {
        if (const auto found = by_address_.find(at); found != by_address_.end())
            found->second->written = true;
    }
    /// What the host was given goes to where the step reads it; what the step writes is read anew when it is asked for.
    void before_step() {
        for (place* p : seen_) {
            memory_.write(p->storage.data(), p->mirror.data(), p->storage.size());
            p->seen = false;
        }
        seen_.clear();
        for (place* p : mirrored_) p->current = p->current && !p->written;
    }

private:
    struct place {
        memory_piece storage{}, mirror{};
        bool written = false; ///< by steps
        bool current = false; ///< the mirror has what the storage has, or something newer
        bool seen = false;    ///< the host may have changed the mirror since the last step
    };

    place& place_of(const value& v) {
        place& made = places_[{v.producer, v.output}];
        if (!made.storage.data()) {
            const echo::tensor& t = v.producer->outputs[v.output];
            const std::size_t bytes = std::max<std::size_t>(4, echo::byte_count(t));
            made.storage = memory_piece(memory_, bytes, v.producer->name);
            by_address_[made.storage.data()] = &made;
            bytes_ += bytes;
            fill(v, made.storage);
        }
        return made;
    }

    std::byte* on_host(const value& v) {
        place& p = place_of(v);
        if (memory_.on_host()) return p.storage.data();
        if (!p.mirror.data()) {
            p.mirror = memory_piece(host_memory(), p.storage.size(), v.producer->name);
            mirrored_.push_back(&p);
        }
        if (!p.current) memory_.read(p.mirror.data(), p.storage.data(), p.storage.size());
        if (!p.seen) seen_.push_back(&p);
        p.current = p.seen = true;
        return p.mirror.data();
    }

    void fill(const value& v, const memory_piece& storage) {
        const auto* const in = std::get_if<ops::input>(&v.producer->op);
        if (!in || in->start.how == ops::initial::zeros || in->what.type != echo::dtype::f32)
            return memory_.zero(storage.data(), storage.size());
        const std::size_t n = elements(in->what);
        if (memory_.on_host()) return begin(*in, v, {reinterpret_cast<float*>(storage.data()), n});
        std::vector<float> made(n);
        begin(*in, v, made);
        memory_.write(storage.data(), made.data(), n * sizeof(float));
        memory_.wait();
    }

    /// The same parameter begins the same in every graph that has one of its name.
    void begin(const ops::input& in, const value& v, std::span<float> to) const {
        std::uint64_t name = seed_;
        for (const char c : v.producer->name) name = mix(name, static_cast<unsigned char>(c));
        const auto uniform = [&](std::uint64_t i) {
            return static_cast<double>(mix(name, i) >> 11) * 0x1p-53; // [0, 1)
        };
        for (std::size_t i = 0; i < to.size(); ++i) {
            double made = in.start.value;
            if (in.start.how == ops::initial::uniform) made *= 2 * uniform(i) - 1;
            if (in.start.how == ops::initial::normal)
                made *= std::sqrt(-2 * std::log(1 - uniform(2 * i))) *
                        std::cos(6.283185307179586 * uniform(2 * i + 1));
            to[i] = static_cast<float>(made);
        }
    }

    std::uint64_t seed_, bytes_ = 0;
    tensor_memory& memory_;
    std::map<std::pair<const node*, std::size_t>, place> places_;
    std::map<const void*, place*> by_address_;
    std::vector<place*> mirrored_; ///< those with mirrors
    std::vector<place*> seen_;     ///< those whose mirrors go to the storage before the next step
};

} // namespace engine
