// SPDX-License-Identifier: BSL-1.0
/// @file
/// Chains: consecutive steps that compute element by element are run together, a part of each in turn, so that what one
/// writes is still in the cache when the next one reads it. A recomputation then costs one pass over memory, not one
/// per op.
#pragma once

#include "engine/call.hpp"

#include <span>
#include <vector>

namespace engine {

/// Bytes that an op reads or writes while it computes some of its elements.
struct access {
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    std::size_t bits_per_element = 0; ///< element i lies i times this behind the first one; 0: anywhere
    bool writes = false;

    bool overlaps(const access& other) const {
        return begin < other.begin + other.bytes && other.begin < begin + bytes;
    }
    /// Whether one may run ahead of the other by some elements.
    bool in_step_with(const access& other) const {
        if (!(writes || other.writes) || !overlaps(other)) return true;
        return begin == other.begin && bits_per_element && bits_per_element == other.bits_per_element;
    }
};

/// All of a call in memory, of which `count` elements are to be computed.
inline std::vector<access> accesses_of(const call& c, std::size_t count) {
    std::vector<access> made;
    const auto add = [&](const auto& view, bool packed, bool writes) {
        if (view.slot != no_slot) return;
        const echo::tensor& what = *view.what;
        const std::size_t n = elements(what);
        const std::uint64_t bytes = packed ? echo::encoded_bytes(n) : echo::byte_count(what);
        const bool words = writes && what.type == echo::dtype::i32 && n == (count + 31) / 32; // an encoding
        const std::size_t bits = packed || words ? 1 : n == count ? 32 : 0;
        made.push_back({static_cast<const std::byte*>(view.data), bytes, bits, writes});
    };
    for (const auto& in : c.inputs) add(in, in.packed, false);
    for (const auto& out : c.outputs) add(out, false, true);
    return made;
}

/// Grows a chain call by call.
class chain_builder {
public:
    /// Adds the call and says so, unless what the chain holds would read or write other bits with it.
    bool add(const call& c) {
        const std::size_t count = c.size();
        if (count_ && count != count_) return false;
        const auto added = accesses_of(c, count);
        for (const auto& a : added)
            for (const auto& b : all_)
                if (!a.in_step_with(b)) return false;
        count_ = count;
        all_.insert(all_.end(), added.begin(), added.end());
        return true;
    }

private:
    std::size_t count_ = 0;
    std::vector<access> all_;
};

} // namespace engine
