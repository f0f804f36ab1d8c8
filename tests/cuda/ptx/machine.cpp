// SPDX-License-Identifier: BSL-1.0
#include "machine.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

namespace ptx {

void machine::stop(const warp& w, const instruction& i, std::uint32_t mask, const std::string& why) const {
    const int lane = mask ? std::countr_zero(mask) : 0;
    const extent3 b = w.block->index;
    throw fault(w.code->name + ", PTX line " + std::to_string(i.line) + ", block " + std::to_string(b.x) +
                (b.y || b.z ? "." + std::to_string(b.y) + "." + std::to_string(b.z) : "") + ", warp " +
                std::to_string(w.index) + ", lane " + std::to_string(lane) + ": " + why + " [" + i.text +
                "]");
}

void machine::launch(module& from, const function& f, extent3 grid, extent3 block,
                     std::uint32_t dynamic_shared_bytes, const void* const* arguments,
                     const std::string& counted_as) {
    code_ = &f;
    module_ = &from;
    grid_ = grid, block_ = block;
    counts_ = &counted[counted_as];
    if (counts_->executed.size() != f.code.size()) {
        counts_->executed.assign(f.code.size(), 0);
        counts_->lines.clear();
        for (const auto& i : f.code) counts_->lines.push_back(i.line);
    }
    ++counts_->launches;
    parameters_.assign(f.parameter_bytes, std::byte{});
    std::uint64_t at = 0;
    for (std::size_t k = 0; k < f.parameters.size(); ++k) {
        at = f.parameters[k].offset;
        std::memcpy(parameters_.data() + at, arguments[k], f.parameters[k].bytes);
    }
    if (next_phase_ > (1u << 25)) {
        global.forget_actors();
        next_phase_ = 2;
    }
    first_phase_ = next_phase_++; // stands for several warps
    owners_.assign(1, {~0u, ~0u, 0});
    last_ = nullptr;
    const std::uint32_t threads = block.x * block.y * block.z,
                        per_block = (threads + warp_lanes - 1) / warp_lanes;
    std::vector<warp> warps(per_block);
    std::uint32_t number = 0;
    for (std::uint32_t z = 0; z < grid.z; ++z)
        for (std::uint32_t y = 0; y < grid.y; ++y)
            for (std::uint32_t x = 0; x < grid.x; ++x) {
                block_state b;
                b.index = {x, y, z};
                b.number = number++;
                const std::size_t shared = f.shared_bytes + dynamic_shared_bytes;
                b.shared_bytes.resize(shared);
                b.shared.begin = shared_window, b.shared.end = shared_window + shared;
                b.shared.data = b.shared_bytes.data();
                b.shared.name = "shared memory";
                b.shared.facts = std::make_unique<byte_facts[]>(shared);
                for (std::uint32_t w = 0; w < per_block; ++w) start(warps[w], b, w, threads);
                for (;;) {
                    bool any = false;
                    for (auto& w : warps)
                        if (w.present) run_until_barrier(w), any = any || w.present;
                    if (!any) break;
                    // All that are left wait, or the block would not end.
                    ++b.barriers;
                    for (auto& w : warps)
                        if (w.present) w.waits = false, begin_phase(w);
                }
            }
}

void machine::begin_phase(warp& w) {
    w.phase = next_phase_++;
    owners_.push_back({w.number, w.block->number, w.block->barriers});
}

void machine::synchronise(warp& w) { begin_phase(w); }

void machine::start(warp& w, block_state& b, std::uint32_t index, std::uint32_t threads) {
    const function& f = *code_;
    w.code = &f;
    w.block = &b;
    w.index = index;
    w.number = b.number * ((threads + warp_lanes - 1) / warp_lanes) + index;
    const std::uint32_t left = threads - index * warp_lanes;
    w.present = left >= warp_lanes ? all_lanes : (1u << left) - 1;
    w.waits = false;
    w.steps = 0;
    w.registers.resize(static_cast<std::size_t>(f.registers));
    w.defined.assign(static_cast<std::size_t>(f.registers), 0);
    w.paths.assign(1, {0, -1, w.present});
    ++counts_->warps;
    begin_phase(w);
    for (const auto& c : f.constants) {
        lanes& r = write(w, c.reg, all_lanes);
        std::fill(std::begin(r.of), std::end(r.of), c.value);
    }
    for (const auto& s : f.specials) {
        lanes& r = write(w, s.reg, all_lanes);
        for (std::uint32_t l = 0; l < warp_lanes; ++l) {
            const std::uint32_t t = index * warp_lanes + l, bit = 1u << l;
            switch (s.which) {
            case special::tid_x:
                r.of[l] = t % block_.x;
                break;
            case special::tid_y:
                r.of[l] = t / block_.x % block_.y;
                break;
            case special::tid_z:
                r.of[l] = t / block_.x / block_.y;
                break;
            case special::ntid_x:
                r.of[l] = block_.x;
                break;
            case special::ntid_y:
                r.of[l] = block_.y;
                break;
            case special::ntid_z:
                r.of[l] = block_.z;
                break;
            case special::ctaid_x:
                r.of[l] = b.index.x;
                break;
            case special::ctaid_y:
                r.of[l] = b.index.y;
                break;
            case special::ctaid_z:
                r.of[l] = b.index.z;
                break;
            case special::nctaid_x:
                r.of[l] = grid_.x;
                break;
            case special::nctaid_y:
                r.of[l] = grid_.y;
                break;
            case special::nctaid_z:
                r.of[l] = grid_.z;
                break;
            case special::laneid:
                r.of[l] = l;
                break;
            case special::warpid:
                r.of[l] = index;
                break;
            case special::nwarpid:
                r.of[l] = (threads + warp_lanes - 1) / warp_lanes;
                break;
            case special::lanemask_eq:
                r.of[l] = bit;
                break;
            case special::lanemask_lt:
                r.of[l] = bit - 1;
                break;
            case special::lanemask_le:
                r.of[l] = bit | (bit - 1);
                break;
            case special::lanemask_gt:
                r.of[l] = ~(bit | (bit - 1));
                break;
            case special::lanemask_ge:
                r.of[l] = ~(bit - 1);
                break;
            }
        }
    }
    if (f.local_bytes) {
        w.local = std::make_unique<std::byte[]>(f.local_bytes * warp_lanes);
        w.local_facts = std::make_unique<byte_facts[]>(f.local_bytes * warp_lanes);
    }
}

void machine::run_until_barrier(warp& w) {
    const auto& code = code_->code;
    const auto size = static_cast<std::int32_t>(code.size());
    while (!w.paths.empty()) {
        path& on = w.paths.back();
        if (on.mask == 0 || on.next == on.until) {
            w.paths.pop_back();
            continue;
        }
        if (on.next >= size) stop(w, code.back(), on.mask, "runs past the end of the kernel");
        const instruction& i = code[static_cast<std::size_t>(on.next)];
        std::uint32_t mask = on.mask;
        if (i.guard >= 0) {
            const lanes& p = read(w, i, i.guard, mask);
            std::uint32_t taken = 0;
            for (int l = 0; l < warp_lanes; ++l)
                taken |= static_cast<std::uint32_t>((p.of[l] != 0) != i.unless) << l;
            mask &= taken;
        }
        ++counts_->warp_instructions;
        ++counts_->executed[static_cast<std::size_t>(on.next)];
        counts_->lane_instructions += static_cast<std::uint64_t>(std::popcount(mask));
        if (++w.steps > how.most_steps) stop(w, i, mask, "does not end");
        switch (i.then) {
        case flow::next:
            ++on.next;
            if (mask) i.run(*this, w, i, mask);
            break;
        case flow::branch: {
            const std::uint32_t others = on.mask & ~mask;
            if (mask == 0) {
                ++on.next;
            } else if (others == 0) {
                on.next = i.target;
            } else {
                if (i.uniform) stop(w, i, others, "lanes of a warp go different ways at bra.uni");
                const std::int32_t meet = i.reconverges, next = on.next + 1;
                if (meet == on.until)
                    w.paths.pop_back();
                else
                    on.next = meet;
                if (next != meet) w.paths.push_back({next, meet, others});
                if (i.target != meet) w.paths.push_back({i.target, meet, mask});
            }
            break;
        }
        case flow::leave:
            ++on.next;
            w.present &= ~mask;
            for (auto& p : w.paths) p.mask &= ~mask;
            break;
        case flow::barrier:
            if (mask != w.present)
                stop(w, i, w.present & ~mask, "is not at the barrier with the rest of its warp");
            ++on.next;
            w.waits = true;
            return;
        }
    }
    w.present = 0;
}

bool machine::ordered(const warp& w, std::uint32_t earlier, std::uint32_t lane) const {
    const std::uint32_t phase = actor::phase(earlier);
    if (phase < first_phase_) return true; // nobody, the host, or an earlier launch
    if (phase == first_phase_) return false;
    if (phase == w.phase) return actor::lane(earlier) == lane;
    const owner& o = owners_[phase - first_phase_];
    return o.warp == w.number || (o.block == w.block->number && o.barriers < w.block->barriers);
}

std::string machine::words_for(std::uint32_t who, const warp& w) const {
    const std::uint32_t phase = actor::phase(who);
    if (phase == first_phase_) return "several warps";
    const owner& o = owners_[phase - first_phase_];
    const std::string lane =
        actor::lane(who) < warp_lanes ? "lane " + std::to_string(actor::lane(who)) : "another lane";
    if (o.warp == w.number) return lane + " of the same warp";
    return lane + " of warp " + std::to_string(o.warp) + " of the grid";
}

std::string machine::writer_of(std::uint64_t address) {
    const region* r = global.find(address);
    if (!r) return "outside of every allocation";
    const byte_facts& b = r->facts[address - r->begin];
    const std::uint32_t phase = actor::phase(b.writer);
    if (b.writer == actor::nobody) return "nobody wrote it";
    if (phase < first_phase_) return "the last kernel did not write it";
    const owner& o = owners_[phase - first_phase_];
    return "written at PTX line " + std::to_string(b.line) + " by lane " +
           std::to_string(actor::lane(b.writer)) + " of warp " + std::to_string(o.warp) + " of the grid";
}

machine::found machine::locate(warp& w, const instruction& i, int lane, std::uint64_t address,
                               std::uint32_t bytes, bool stores) {
    const std::uint32_t mask = 1u << lane;
    const char* verb = stores ? "writes " : "reads ";
    const auto shown = [&] {
        char text[40];
        std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
        return std::to_string(bytes) + " bytes at " + text;
    };
    if (address % bytes != 0) stop(w, i, mask, verb + shown() + ", which is not aligned");
    if (address >= shared_window) {
        static const std::string local_name = "local memory";
        if (address >= local_window && address < parameter_window) {
            const std::uint64_t at = address - local_window;
            if (at + bytes > w.code->local_bytes)
                stop(w, i, mask, verb + shown() + ", outside of local memory");
            const std::uint64_t whole = static_cast<std::uint64_t>(lane) * w.code->local_bytes + at;
            return {w.local.get() + whole, w.local_facts.get() + whole, &local_name};
        }
        region& r = w.block->shared;
        if (address >= parameter_window || !r.holds(address, bytes))
            stop(w, i, mask, verb + shown() + ", outside of shared memory");
        return {r.data + (address - r.begin), r.facts.get() + (address - r.begin), &r.name};
    }
    if (!last_ || !last_->holds(address, bytes)) {
        region* r = global.find(address);
        if (!r) stop(w, i, mask, verb + shown() + ", outside of every allocation");
        if (!r->holds(address, bytes)) stop(w, i, mask, verb + shown() + ", past the end of " + r->name);
        last_ = r;
    }
    return {last_->data + (address - last_->begin), last_->facts.get() + (address - last_->begin),
            &last_->name};
}

std::byte* machine::load(warp& w, const instruction& i, int lane, std::uint64_t address,
                         std::uint32_t bytes) {
    if (i.where == space::parameter || address >= parameter_window) {
        const std::uint64_t at = address >= parameter_window ? address - parameter_window : address;
        if (at % bytes) stop(w, i, 1u << lane, "reads a parameter at an address that is not aligned");
        if (at + bytes > parameters_.size()) stop(w, i, 1u << lane, "reads past the end of the parameters");
        return parameters_.data() + at;
    }
    const found f = locate(w, i, lane, address, bytes, false);
    const auto own = actor::of(w.phase, static_cast<std::uint32_t>(lane));
    for (std::uint32_t k = 0; k < bytes; ++k) {
        byte_facts& b = f.facts[k];
        if (b.writer == actor::nobody)
            stop(w, i, 1u << lane,
                 "reads byte " + std::to_string(k) + " of " + std::to_string(bytes) + " of " + *f.name +
                     ", which was never written");
        if (!ordered(w, b.writer, static_cast<std::uint32_t>(lane)))
            stop(w, i, 1u << lane,
                 "reads " + *f.name + " where " + words_for(b.writer, w) + " writes (PTX line " +
                     std::to_string(b.line) + ") without waiting");
        const std::uint32_t before = actor::phase(b.reader);
        if (before < first_phase_)
            b.reader = own;
        else if (before == w.phase)
            b.reader = actor::lane(b.reader) == static_cast<std::uint32_t>(lane)
                           ? own
                           : actor::of(w.phase, actor::several);
        else if (before != first_phase_) {
            const owner& o = owners_[before - first_phase_];
            b.reader = o.warp == w.number ? own : actor::of(first_phase_, 0);
        }
    }
    return f.data;
}

std::byte* machine::store(warp& w, const instruction& i, int lane, std::uint64_t address, std::uint32_t bytes,
                          bool atomic) {
    const found f = locate(w, i, lane, address, bytes, true);
    const auto as = atomic ? actor::atomic : static_cast<std::uint32_t>(lane);
    for (std::uint32_t k = 0; k < bytes; ++k) {
        byte_facts& b = f.facts[k];
        if (atomic && b.writer == actor::nobody)
            stop(w, i, 1u << lane, "adds to " + *f.name + ", which was never written");
        const bool both = atomic && actor::lane(b.writer) == actor::atomic;
        if (!both && !ordered(w, b.writer, as))
            stop(w, i, 1u << lane,
                 "writes " + *f.name + " where " + words_for(b.writer, w) + " writes (PTX line " +
                     std::to_string(b.line) + ") without waiting");
        if (!ordered(w, b.reader, as))
            stop(w, i, 1u << lane,
                 "writes " + *f.name + " where " + words_for(b.reader, w) + " reads without waiting");
        b.writer = actor::of(w.phase, as);
        b.line = i.line;
    }
    return f.data;
}

void machine::count_sectors(warp&, const instruction& i, const std::uint64_t* addresses, std::uint32_t mask,
                            std::uint32_t bytes, bool stores) {
    if (i.where == space::parameter || i.where == space::local || i.where == space::shared) return;
    std::uint64_t seen[warp_lanes];
    int count = 0;
    for (std::uint32_t m = mask; m; m &= m - 1) {
        const std::uint64_t sector =
            addresses[std::countr_zero(m)] / 32; // an access is aligned, so it lies in one
        if (count && seen[count - 1] == sector) continue;
        seen[count++] = sector;
    }
    static_cast<void>(bytes);
    std::sort(seen, seen + count);
    const auto sectors = static_cast<std::uint64_t>(std::unique(seen, seen + count) - seen);
    (stores ? counts_->sectors_stored : counts_->sectors_loaded) += sectors;
    ++(stores ? counts_->stores : counts_->loads);
}

} // namespace ptx
