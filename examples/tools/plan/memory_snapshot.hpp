// SPDX-License-Identifier: BSL-1.0
/// @file
/// A planned step in the format of PyTorch's memory snapshots, so that its viewer opens it: the arena, the residents
/// and the workspace are segments, and every storage is allocated and freed at its place.
#pragma once

#include "command_line/one_line.hpp"
#include "format/pickle_out.hpp"

#include <echo/analysis/memory/memory_plan.hpp>
#include <echo/analysis/schedule/liveness.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace echo::format {

namespace detail {

/// A piece of memory with the step that asks for it.
struct placed_block {
    std::uint64_t address = 0, bytes = 0;
    step_id step{};
};

struct placed_event {
    placed_block block{};
    bool is_free = false;
};

/// Where the three segments begin: apart, whatever they hold, and in numbers that a browser holds exactly.
inline constexpr std::uint64_t arena_address = std::uint64_t{1} << 40,
                               workspace_address = std::uint64_t{1} << 45,
                               resident_address = std::uint64_t{1} << 46;

struct planned_memory {
    std::vector<placed_block> residents{}, at_end{}; ///< by address
    std::vector<placed_event> events{};
    std::uint64_t most_workspace = 0;
};

inline void add_workspace(const snapshot& s, const schedule& steps, step_id t, planned_memory& made) {
    const std::uint64_t bytes = runs_node(steps[t].kind) ? s[steps[t].node].workspace : 0;
    if (bytes == 0) return;
    made.most_workspace = std::max(made.most_workspace, bytes);
    for (const bool is_free : {false, true})
        made.events.push_back({{.address = workspace_address, .bytes = bytes, .step = t}, is_free});
}

/// What is allocated and freed, step by step: within one, all is allocated before anything is freed.
inline planned_memory planned(const snapshot& s, const schedule& steps, const memory_plan& arena) {
    liveness_analysis analyse;
    const liveness& live = analyse(s, steps);
    planned_memory made;
    std::vector<std::vector<placed_block>> begin(steps.size()), end(steps.size());
    std::uint64_t resident = resident_address;
    for (const auto i : live.storages()) {
        const storage_record& r = live[i];
        if (r.bytes == 0) continue;
        placed_block block{.bytes = r.bytes, .step = r.maker.step};
        block.address = r.resident ? resident : arena_address + arena.offset(r.maker).value_or(0);
        if (r.resident) {
            made.residents.push_back(block);
            resident += r.bytes;
            continue;
        }
        begin[r.first.index()].push_back(block);
        if (r.holds_result)
            made.at_end.push_back(block);
        else
            end[r.last.index()].push_back(block);
    }
    for (const auto t : steps.steps()) {
        for (const auto& block : begin[t.index()]) made.events.push_back({block, false});
        add_workspace(s, steps, t, made);
        for (const auto& block : end[t.index()]) made.events.push_back({block, true});
    }
    std::ranges::sort(made.at_end, {}, &placed_block::address);
    return made;
}

/// Writes the parts of a snapshot.
class memory_snapshot_writer {
public:
    memory_snapshot_writer(pickle_out& out, const snapshot& s, const schedule& steps)
        : out_(out), s_(s), steps_(steps) {}

    void event(const placed_event& e, std::string_view action) {
        out_.begin_dictionary();
        pair("action", action);
        pair("addr", e.block.address);
        pair("size", e.block.bytes);
        pair("stream", 0);
        frames(e.block.step);
        out_.end_dictionary();
    }

    /// `blocks` by address; what lies between them is free.
    void segment(std::uint64_t address, std::uint64_t bytes, const std::vector<placed_block>& blocks) {
        std::uint64_t used = 0;
        for (const auto& block : blocks) used += block.bytes;
        out_.begin_dictionary();
        pair("device", 0);
        pair("address", address);
        pair("total_size", bytes);
        pair("allocated_size", used);
        pair("active_size", used);
        pair("requested_size", used);
        pair("stream", 0);
        pair("segment_type", "large");
        out_.key("is_expandable");
        out_.yes_or_no(false);
        out_.key("segment_pool_id");
        out_.list(2, [&](std::size_t) { out_.whole(0); });
        no_frames();
        out_.key("blocks");
        const auto pieces = with_gaps(address, bytes, blocks);
        out_.list(pieces.size(), [&](std::size_t i) { piece(pieces[i]); });
        out_.end_dictionary();
    }

private:
    void pair(std::string_view key, std::string_view value) {
        out_.key(key);
        out_.text(value);
    }
    void pair(std::string_view key, std::uint64_t value) {
        out_.key(key);
        out_.whole(value);
    }

    static std::vector<placed_block> with_gaps(std::uint64_t address, std::uint64_t bytes,
                                               const std::vector<placed_block>& blocks) {
        std::vector<placed_block> pieces;
        std::uint64_t at = address;
        for (const auto& block : blocks) {
            if (block.address > at) pieces.push_back({at, block.address - at, step_id::none()});
            pieces.push_back(block);
            at = block.address + block.bytes;
        }
        if (at < address + bytes) pieces.push_back({at, address + bytes - at, step_id::none()});
        return pieces;
    }

    void piece(const placed_block& block) {
        out_.begin_dictionary();
        pair("address", block.address);
        pair("size", block.bytes);
        pair("requested_size", block.bytes);
        pair("state", block.step.valid() ? "active_allocated" : "inactive");
        if (block.step.valid())
            frames(block.step);
        else
            no_frames();
        out_.end_dictionary();
    }

    /// A frame for the node, and one for its op and layer: the viewer shows them as FILE:LINE:NAME.
    void frames(step_id t) {
        const node_record& node = s_[steps_[t].node];
        const std::string_view kind = steps_[t].kind == step_kind::recompute ? "run again"
                                      : steps_[t].kind == step_kind::encode  ? "one bit per element"
                                      : steps_[t].kind == step_kind::offload ? "leaves for the host's memory"
                                      : steps_[t].kind == step_kind::reload  ? "comes back"
                                                                             : "run";
        out_.key("frames");
        out_.list(2, [&](std::size_t i) {
            const std::string_view layer = s_.layer_name(node.layer);
            out_.begin_dictionary();
            pair("filename", i == 0 ? "step" : layer.empty() ? "(no layer)" : one_line(layer));
            pair("line", i == 0 ? t.index() : steps_[t].node.index());
            pair("name", one_line(i == 0 ? s_.name(steps_[t].node) + ", " + std::string(kind)
                                         : std::string(s_.op_name(node.op))));
            out_.end_dictionary();
        });
    }
    void no_frames() {
        out_.key("frames");
        out_.list(0, [](std::size_t) {});
    }

    pickle_out& out_;
    const snapshot& s_;
    const schedule& steps_;
};

} // namespace detail

/// O(steps + copies). Errors: as `liveness_analysis`.
inline void write_memory_snapshot(const byte_sink& sink, const snapshot& s, const schedule& steps,
                                  const memory_plan& arena) {
    const detail::planned_memory made = detail::planned(s, steps, arena);
    pickle_out out(sink);
    detail::memory_snapshot_writer write(out, s, steps);
    std::uint64_t resident = 0;
    for (const auto& block : made.residents) resident += block.bytes;
    out.begin_dictionary();
    out.key("segments");
    out.list(3, [&](std::size_t i) {
        if (i == 0) write.segment(detail::arena_address, arena.bytes(), made.at_end);
        if (i == 1) write.segment(detail::workspace_address, made.most_workspace, {});
        if (i == 2) write.segment(detail::resident_address, resident, made.residents);
    });
    out.key("device_traces");
    out.list(1, [&](std::size_t) {
        // What is freed has two events: that it is asked for, and that it is done.
        std::vector<std::pair<std::size_t, std::string_view>> lines;
        for (std::size_t i = 0; i < made.events.size(); ++i) {
            lines.emplace_back(i, made.events[i].is_free ? "free_requested" : "alloc");
            if (made.events[i].is_free) lines.emplace_back(i, "free_completed");
        }
        out.list(lines.size(),
                 [&](std::size_t i) { write.event(made.events[lines[i].first], lines[i].second); });
    });
    out.end_dictionary();
    out.finish();
}

} // namespace echo::format
