// SPDX-License-Identifier: BSL-1.0
/// @file
/// `join`: one front of two.
#pragma once

#include <echo/analysis/plan/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace echo::detail {

/// Adds points to a front: of all, those stay that no other beats.
inline void join(std::vector<front_point>& points, const std::vector<front_point>& more) {
    points.insert(points.end(), more.begin(), more.end());
    std::sort(points.begin(), points.end(), [](const front_point& a, const front_point& b) {
        if (a.recompute_time_ratio != b.recompute_time_ratio)
            return a.recompute_time_ratio < b.recompute_time_ratio;
        return a.peak_bytes < b.peak_bytes;
    });
    std::size_t kept = 0;
    for (const front_point& p : points)
        if (kept == 0 || p.peak_bytes < points[kept - 1].peak_bytes) points[kept++] = p;
    points.resize(kept);
}

} // namespace echo::detail
