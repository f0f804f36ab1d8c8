// SPDX-License-Identifier: BSL-1.0
/// @file
/// Where the bytes are at the peak of a schedule: by layer, by op and by data structure (the paper's memory
/// profiler, its section on the memory consumption breakdown).
#pragma once

#include <echo/analysis/schedule/footprint.hpp>
#include <echo/graph/ranking.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echo {

/// What a storage is for. `resident`: parameters, optimizer state and data, whatever runs; `feature_map`:
/// made by the forward pass; `encoding`: made by an encode step; `gradient`: made by the backward pass;
/// `update`: made by an update.
enum class data_structure : std::uint8_t { resident, feature_map, encoding, gradient, update, workspace };

/// The name in words, as reports print it.
constexpr std::string_view name_of(data_structure what) noexcept {
    constexpr std::string_view names[] = {"resident",  "feature maps", "encodings",
                                          "gradients", "updates",      "workspace"};
    return names[static_cast<std::size_t>(what)];
}

/// Bytes under one name.
struct profile_row {
    /// Of a data structure, a layer or an op.
    std::string name{};
    /// Live at the step of the peak.
    std::uint64_t bytes = 0;
    friend bool operator==(const profile_row&, const profile_row&) = default;
};

/// Bytes live at the step of the peak. The rows of each kind sum to `peak_bytes` + resident bytes; largest
/// first.
struct memory_profile {
    /// Resident storages left out.
    std::uint64_t peak_bytes = 0;
    std::string at{}; ///< name of the node that runs at the peak
    /// By what the storages are for, `data_structure`.
    std::vector<profile_row> by_structure{};
    std::vector<profile_row> by_layer{}; ///< by the layer of the node that made the storage
    std::vector<profile_row> by_op{};    ///< likewise by op
};

namespace detail {

inline std::vector<profile_row> sorted_rows(std::vector<profile_row> rows) {
    ranking by_bytes;
    for (std::uint32_t i = 0; i < rows.size(); ++i)
        if (rows[i].bytes > 0) by_bytes.add(i, rows[i].bytes);
    std::vector<profile_row> sorted;
    for (const auto i : by_bytes.descending()) sorted.push_back(std::move(rows[i]));
    return sorted;
}

inline data_structure structure_of(const snapshot& s, const schedule& steps, const storage_record& storage) {
    if (storage.resident) return data_structure::resident;
    if (storage.encoded) return data_structure::encoding;
    switch (s[steps[storage.maker.step].node].phase) {
    case phase::input:
        return data_structure::resident;
    case phase::forward:
        return data_structure::feature_map;
    case phase::backward:
        return data_structure::gradient;
    case phase::update:
        return data_structure::update;
    }
    return data_structure::feature_map;
}

} // namespace detail

/// O(steps + copies). Errors: as `footprint`.
[[nodiscard]] inline memory_profile profile(const snapshot& s, const schedule& steps) {
    memory_profile out;
    if (steps.empty()) return out;
    const replayed found = replay{}(s, steps);
    const footprint_result& result = found.footprint;
    const node_id at = steps[result.peak_step].node;
    out.peak_bytes = result.peak_bytes;
    out.at = s.name(at);

    std::vector<profile_row> structures, layers, ops;
    for (auto d = data_structure::resident; d <= data_structure::workspace;
         d = static_cast<data_structure>(static_cast<int>(d) + 1))
        structures.push_back({std::string(name_of(d)), 0});
    for (std::uint32_t i = 0; i < s.layer_count(); ++i) layers.push_back({std::string(s.layer_name(i)), 0});
    for (std::uint32_t i = 0; i < s.op_count(); ++i) ops.push_back({std::string(s.op_name(i)), 0});
    const auto add = [&](data_structure what, node_id maker, std::uint64_t bytes) {
        structures[static_cast<std::size_t>(what)].bytes += bytes;
        layers[s[maker].layer].bytes += bytes;
        ops[s[maker].op].bytes += bytes;
    };
    const liveness& live = found.live;
    for (const auto i : live.storages()) {
        const storage_record& storage = live[i];
        const bool there = storage.first <= result.peak_step && storage.last >= result.peak_step;
        if (!storage.resident && !there) continue;
        add(detail::structure_of(s, steps, storage), steps[storage.maker.step].node, storage.bytes);
    }
    if (runs_node(steps[result.peak_step].kind)) add(data_structure::workspace, at, s[at].workspace);
    out.by_structure = detail::sorted_rows(std::move(structures));
    out.by_layer = detail::sorted_rows(std::move(layers));
    out.by_op = detail::sorted_rows(std::move(ops));
    return out;
}

/// Bytes of the row of that name; 0 if there is none. O(rows). Errors: none.
[[nodiscard]] inline std::uint64_t bytes_of(const std::vector<profile_row>& rows, std::string_view name) {
    for (const profile_row& row : rows)
        if (row.name == name) return row.bytes;
    return 0;
}

} // namespace echo
