// SPDX-License-Identifier: BSL-1.0
/// @file
/// `hash_of`: tells two plans apart by a number.
#pragma once

#include <echo/analysis/plan/plan.hpp>
#include <echo/analysis/plan_memory.hpp>

#include <cstdint>
#include <string_view>

namespace support {

/// FNV-1a, of 64 bits.
class hash {
public:
    hash& add(std::uint64_t number) {
        for (int i = 0; i < 8; ++i) byte(static_cast<unsigned char>(number >> (8 * i)));
        return *this;
    }
    hash& add(std::string_view text) {
        for (const char c : text) byte(static_cast<unsigned char>(c));
        return add(text.size());
    }
    std::uint64_t value() const { return value_; }

private:
    void byte(unsigned char b) { value_ = (value_ ^ b) * 0x100000001b3U; }
    std::uint64_t value_ = 0xcbf29ce484222325U;
};

/// Of the steps, what each reads, and which are fused.
inline std::uint64_t hash_of(const echo::schedule& steps) {
    hash sum;
    for (const auto t : steps.steps()) {
        const auto& step = steps[t];
        sum.add(step.node.index()).add(static_cast<std::uint64_t>(step.kind)).add(step.bytes).add(step.fused);
        for (const auto c : steps.inputs(t)) sum.add(c.step.index()).add(c.output);
    }
    return sum.value();
}

/// Of the arena of the steps: where each block lies.
inline std::uint64_t hash_of(const echo::snapshot& s, const echo::schedule& steps) {
    const auto memory = echo::plan_memory(s, steps, {.limit = 0});
    hash sum;
    sum.add(memory.bytes()).add(memory.lower_bound());
    for (const auto& block : memory.blocks()) sum.add(block.offset).add(block.bytes);
    return sum.value();
}

/// Of what the report says in words.
inline std::uint64_t hash_of(const echo::plan_report& r) {
    hash sum;
    for (const auto& note : r.notes) sum.add(note);
    for (const auto& op : r.unknown_ops) sum.add(op);
    return sum.value();
}

} // namespace support
