// SPDX-License-Identifier: BSL-1.0
// Branches, barriers, votes and shuffles.
#include "machine.hpp"

#include <bit>

namespace ptx {
namespace {

using table = std::unordered_map<std::string, opcode>;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

/// A register that names lanes must name those that execute the instruction, and no others: a lane that is named
/// and not there is waited for, and one that is there and not named has no result.
u32 named_lanes(machine& m, warp& w, const instruction& i, const operand& o, u32 mask) {
    const u64* const named = m.read(w, i, o.reg[0], mask).of;
    for (u32 left = mask; left; left &= left - 1) {
        const int l = std::countr_zero(left);
        const auto own = static_cast<u32>(named[l]);
        if (own & ~mask)
            m.stop(w, i, own & ~mask,
                   "lane " + std::to_string(std::countr_zero(own & ~mask)) +
                       " is named in the mask and does not come along");
        if (mask & ~own) m.stop(w, i, mask & ~own, "executes it without being named in the mask");
    }
    return mask;
}

u32 votes_of(machine& m, warp& w, const instruction& i, u32 mask) {
    const operand& o = i.operands[1];
    const u64* const p = m.read(w, i, o.reg[0], mask).of;
    u32 votes = 0;
    for (u32 left = mask; left; left &= left - 1) {
        const int l = std::countr_zero(left);
        votes |= static_cast<u32>((p[l] != 0) != o.negated) << l;
    }
    return votes;
}

enum class vote { ballot, any, all, uniform };

template <vote Kind>
void take_vote(machine& m, warp& w, const instruction& i, u32 mask) {
    named_lanes(m, w, i, i.operands[2], mask);
    const u32 votes = votes_of(m, w, i, mask);
    const u64 outcome = Kind == vote::ballot ? votes
                        : Kind == vote::any  ? votes != 0
                        : Kind == vote::all  ? votes == mask
                                             : votes == 0 || votes == mask;
    u64* const to = m.write(w, i.operands[0].reg[0], mask).of;
    for (u32 left = mask; left; left &= left - 1) to[std::countr_zero(left)] = outcome;
    m.synchronise(w);
}

enum class shuffle { index, up, down, butterfly };

/// d|p = a of lane b, where c has the segments and how far lanes reach.
template <shuffle Kind>
void take_shuffle(machine& m, warp& w, const instruction& i, u32 mask) {
    named_lanes(m, w, i, i.operands[4], mask);
    const auto source = i.operands[1].reg[0];
    const lanes& from = w.registers[static_cast<std::size_t>(source)];
    const u32 defined = w.defined[static_cast<std::size_t>(source)];
    const u64* const b = m.read(w, i, i.operands[2].reg[0], mask).of;
    const u64* const c = m.read(w, i, i.operands[3].reg[0], mask).of;
    u64 made[warp_lanes] = {};
    u32 inside = 0;
    for (u32 left = mask; left; left &= left - 1) {
        const int lane = std::countr_zero(left);
        const int by = static_cast<int>(b[lane] & 31), clamp = static_cast<int>(c[lane] & 31),
                  segment = static_cast<int>(c[lane] >> 8 & 31);
        const int low = lane & segment, high = (lane & segment) | (clamp & ~segment);
        int at = 0;
        bool reached = false;
        switch (Kind) {
        case shuffle::index:
            at = low | (by & ~segment), reached = at <= high;
            break;
        case shuffle::up:
            at = lane - by, reached = at >= high;
            break;
        case shuffle::down:
            at = lane + by, reached = at <= high;
            break;
        case shuffle::butterfly:
            at = lane ^ by, reached = at <= high;
            break;
        }
        if (!reached) at = lane;
        if (!(mask >> at & 1))
            m.stop(w, i, 1u << lane,
                   "takes the value of lane " + std::to_string(at) + ", which does not come along");
        if (!(defined >> at & 1))
            m.stop(w, i, 1u << lane, "takes a value that lane " + std::to_string(at) + " never wrote");
        made[lane] = from.of[at];
        inside |= static_cast<u32>(reached) << lane;
    }
    const operand& to = i.operands[0];
    u64* const d = m.write(w, to.reg[0], mask).of;
    for (u32 left = mask; left; left &= left - 1)
        d[std::countr_zero(left)] = made[std::countr_zero(left)] & 0xffffffffu;
    if (to.count == 2 && to.reg[1] >= 0) {
        u64* const p = m.write(w, to.reg[1], mask).of;
        for (u32 left = mask; left; left &= left - 1)
            p[std::countr_zero(left)] = inside >> std::countr_zero(left) & 1;
    }
    m.synchronise(w);
}

void wait_for_warp(machine& m, warp& w, const instruction& i, u32 mask) {
    named_lanes(m, w, i, i.operands[0], mask);
    m.synchronise(w);
}

void active_lanes(machine& m, warp& w, const instruction& i, u32 mask) {
    u64* const to = m.write(w, i.operands[0].reg[0], mask).of;
    for (u32 left = mask; left; left &= left - 1) to[std::countr_zero(left)] = mask;
}

void nothing(machine&, warp&, const instruction&, u32) {}

void give_up(machine& m, warp& w, const instruction& i, u32 mask) {
    m.stop(w, i, mask, "ends the kernel with a trap");
}

} // namespace

void add_warp_opcodes(table& t) {
    t["bra"] = {nothing, flow::branch};
    t["bra.uni"] = {nothing, flow::branch, true};
    for (const char* name : {"ret", "ret.uni", "exit"}) t[name] = {nothing, flow::leave};
    t["trap"] = {give_up};
    for (const char* name : {"bar.sync", "barrier.sync", "barrier.sync.aligned"})
        t[name] = {nothing, flow::barrier};
    for (const char* name : {"membar.gl", "membar.cta", "membar.sys", "fence.sc.gpu", "fence.acq_rel.gpu"})
        t[name] = {nothing};
    t["bar.warp.sync"] = {wait_for_warp};
    t["activemask.b32"] = {active_lanes};
    t["vote.sync.ballot.b32"] = {take_vote<vote::ballot>};
    t["vote.sync.any.pred"] = {take_vote<vote::any>};
    t["vote.sync.all.pred"] = {take_vote<vote::all>};
    t["vote.sync.uni.pred"] = {take_vote<vote::uniform>};
    t["shfl.sync.idx.b32"] = {take_shuffle<shuffle::index>};
    t["shfl.sync.up.b32"] = {take_shuffle<shuffle::up>};
    t["shfl.sync.down.b32"] = {take_shuffle<shuffle::down>};
    t["shfl.sync.bfly.b32"] = {take_shuffle<shuffle::butterfly>};
}

} // namespace ptx
