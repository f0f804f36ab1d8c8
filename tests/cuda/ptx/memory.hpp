// SPDX-License-Identifier: BSL-1.0
/// @file
/// Memory as kernels see it: which bytes are allocated, which were written, and by whom. Global memory lies where
/// the host has it, so that an address is the same on both sides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ptx {

/// Who reads or writes: the time between two synchronisations of a warp (a phase), and a lane of it. Phases are
/// numbered through all launches.
struct actor {
    static constexpr std::uint32_t lane_bits = 6;
    static constexpr std::uint32_t several = 32; ///< as a lane: more than one
    static constexpr std::uint32_t atomic = 33;  ///< as a lane: by an atomic operation
    static constexpr std::uint32_t nobody = 0, host = 1;

    static std::uint32_t of(std::uint32_t phase, std::uint32_t lane) { return phase << lane_bits | lane; }
    static std::uint32_t phase(std::uint32_t a) { return a >> lane_bits; }
    static std::uint32_t lane(std::uint32_t a) { return a & ((1u << lane_bits) - 1); }
};

/// What is known of a byte.
struct byte_facts {
    std::uint32_t writer = actor::nobody; ///< the last one; nobody: it was never written
    std::uint32_t reader = actor::nobody; ///< the last one
    std::uint32_t line = 0;               ///< PTX line of the last store
};

struct region {
    std::uint64_t begin = 0, end = 0;
    std::byte* data = nullptr;
    std::string name;
    std::unique_ptr<byte_facts[]> facts;

    bool holds(std::uint64_t at, std::uint64_t bytes) const { return at >= begin && at + bytes <= end; }
};

class memory {
public:
    /// Bytes that nobody has written yet. A region that is there already is replaced.
    region& add(void* at, std::size_t bytes, std::string name);
    void remove(const void* at);
    /// What the host, or a library, has written.
    void written(const void* at, std::size_t bytes);
    /// As if nobody had written it.
    void forget(const void* at, std::size_t bytes);
    /// The region with this byte; null if there is none.
    region* find(std::uint64_t at);
    /// No phase has been counted: everything that was written is the host's.
    void forget_actors();

private:
    std::map<std::uint64_t, std::unique_ptr<region>> regions_; ///< by their ends
};

} // namespace ptx
