// SPDX-License-Identifier: BSL-1.0
// Loads, stores, atomic operations, and addresses of the spaces.
#include "machine.hpp"
#include "numbers.hpp"

#include <bit>
#include <cstring>

namespace ptx {
namespace {

using table = std::unordered_map<std::string, opcode>;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

/// The lanes' addresses, as generic ones.
void addresses_of(machine& m, warp& w, const instruction& i, const operand& o, u32 mask, u64* to) {
    const u64* const base = m.read(w, i, o.reg[0], mask).of;
    const u64 window = machine::window(i.where);
    for (int l = 0; l < warp_lanes; ++l) to[l] = base[l] + static_cast<u64>(o.offset) + window;
}

template <class T>
void load(machine& m, warp& w, const instruction& i, u32 mask) {
    const operand& to = i.operands[0];
    u64 at[warp_lanes];
    addresses_of(m, w, i, i.operands[1], mask, at);
    const u32 bytes = sizeof(T) * to.count;
    m.count_sectors(w, i, at, mask, bytes, false);
    u64* into[4] = {};
    for (u32 left = mask; left; left &= left - 1) {
        const int l = std::countr_zero(left);
        const std::byte* const from = m.load(w, i, l, at[l], bytes);
        for (int k = 0; k < to.count; ++k) {
            const auto reg = to.reg[static_cast<std::size_t>(k)];
            if (reg < 0) continue;
            if (!into[k]) into[k] = m.write(w, reg, mask).of;
            T v;
            std::memcpy(&v, from + static_cast<std::size_t>(k) * sizeof(T), sizeof(T));
            if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
                into[k][l] = static_cast<u64>(static_cast<std::int64_t>(v)); // to the width of any register
            else
                into[k][l] = put<T>(v);
        }
    }
}

template <class T>
void store(machine& m, warp& w, const instruction& i, u32 mask) {
    const operand& from = i.operands[1];
    u64 at[warp_lanes];
    addresses_of(m, w, i, i.operands[0], mask, at);
    const u32 bytes = sizeof(T) * from.count;
    m.count_sectors(w, i, at, mask, bytes, true);
    const u64* values[4] = {};
    for (int k = 0; k < from.count; ++k)
        values[k] = m.read(w, i, from.reg[static_cast<std::size_t>(k)], mask).of;
    for (u32 left = mask; left; left &= left - 1) {
        const int l = std::countr_zero(left);
        std::byte* const to = m.store(w, i, l, at[l], bytes);
        for (int k = 0; k < from.count; ++k) {
            const T v = get<T>(values[k][l]);
            std::memcpy(to + static_cast<std::size_t>(k) * sizeof(T), &v, sizeof(T));
        }
    }
}

/// The old value into the first operand, where there is one; F(old, b) into memory.
template <class T, class F, bool Returns>
void atomic(machine& m, warp& w, const instruction& i, u32 mask) {
    const operand &at_operand = i.operands[Returns ? 1 : 0], &with = i.operands[Returns ? 2 : 1];
    u64 at[warp_lanes];
    addresses_of(m, w, i, at_operand, mask, at);
    m.count_sectors(w, i, at, mask, sizeof(T), true);
    const lanes b = m.read(w, i, with.reg[0], mask);
    for (u32 left = mask; left; left &= left - 1) {
        const int l = std::countr_zero(left);
        std::byte* const to = m.store(w, i, l, at[l], sizeof(T), true);
        T old;
        std::memcpy(&old, to, sizeof(T));
        const T made = F{}(old, get<T>(b.of[l]));
        std::memcpy(to, &made, sizeof(T));
        if constexpr (Returns)
            if (i.operands[0].reg[0] >= 0) m.write(w, i.operands[0].reg[0], 1u << l).of[l] = put<T>(old);
    }
}

template <class T, class F>
void def_atomic(table& t, const std::string& name, F) {
    for (const auto& [word, where] : {std::pair{"", space::generic}, std::pair{".global", space::global},
                                      std::pair{".shared", space::shared}}) {
        t["atom" + std::string(word) + "." + name] = {atomic<T, F, true>, flow::next, false, where};
        t["red" + std::string(word) + "." + name] = {atomic<T, F, false>, flow::next, false, where};
    }
}

template <class T>
void add_type(table& t, const std::string& type) {
    const auto add = [&](const std::string& word, space where, bool stores) {
        for (const char* vector : {"", ".v2", ".v4"}) {
            for (const char* more : {"", ".nc", ".L1::no_allocate"}) // how caches take it changes no result
                t["ld" + word + more + vector + "." + type] = {load<T>, flow::next, false, where};
            if (stores) t["st" + word + vector + "." + type] = {store<T>, flow::next, false, where};
        }
    };
    add(".param", space::parameter, false);
    add(".global", space::global, true);
    add(".const", space::constant, false);
    add(".shared", space::shared, true);
    add(".local", space::local, true);
    add("", space::generic, true);
    add(".volatile.global", space::global, true);
    add(".volatile.shared", space::shared, true);
}

/// From an address of a space to a generic one, or back.
template <bool Back, space Where>
void convert_address(machine& m, warp& w, const instruction& i, u32 mask) {
    const lanes a = m.read(w, i, i.operands[1].reg[0], mask);
    u64* const to = m.write(w, i.operands[0].reg[0], mask).of;
    const u64 window = machine::window(Where);
    for (u32 left = mask; left; left &= left - 1) {
        const int l = std::countr_zero(left);
        to[l] = Back ? a.of[l] - window : a.of[l] + window;
    }
}

template <space Where>
void add_space(table& t, const std::string& name) {
    for (const char* type : {"u64", "u32"}) {
        t["cvta." + name + "." + type] = {convert_address<false, Where>};
        t["cvta.to." + name + "." + type] = {convert_address<true, Where>};
    }
}

} // namespace

void add_memory_opcodes(table& t) {
    for (const char* type : {"u8", "b8"}) add_type<std::uint8_t>(t, type);
    add_type<std::int8_t>(t, "s8");
    for (const char* type : {"u16", "b16"}) add_type<std::uint16_t>(t, type);
    add_type<std::int16_t>(t, "s16");
    for (const char* type : {"u32", "b32", "f32"}) add_type<u32>(t, type);
    add_type<std::int32_t>(t, "s32");
    for (const char* type : {"u64", "b64", "f64", "s64"}) add_type<u64>(t, type);
    add_space<space::global>(t, "global");
    add_space<space::constant>(t, "const");
    add_space<space::shared>(t, "shared");
    add_space<space::local>(t, "local");
    add_space<space::parameter>(t, "param");
    def_atomic<u32>(t, "add.u32", [](u32 a, u32 b) { return a + b; });
    def_atomic<u32>(t, "add.s32", [](u32 a, u32 b) { return a + b; });
    def_atomic<u64>(t, "add.u64", [](u64 a, u64 b) { return a + b; });
    def_atomic<float>(t, "add.f32",
                      [](float a, float b) { return canonical(flushed(flushed(a) + flushed(b))); });
    def_atomic<u32>(t, "max.u32", [](u32 a, u32 b) { return a < b ? b : a; });
    def_atomic<u32>(t, "min.u32", [](u32 a, u32 b) { return a < b ? a : b; });
    def_atomic<u32>(t, "or.b32", [](u32 a, u32 b) { return a | b; });
    def_atomic<u32>(t, "and.b32", [](u32 a, u32 b) { return a & b; });
    def_atomic<u32>(t, "exch.b32", [](u32, u32 b) { return b; });
}

} // namespace ptx
