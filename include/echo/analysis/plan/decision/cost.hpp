// SPDX-License-Identifier: BSL-1.0
/// @file
/// What a run of a node costs: its measured time, or the one model of formats.md, so that overheads compare. Times are
/// whole numbers, so that sums do not depend on their order, nor plans on how the compiler treats floating point.
#pragma once

#include <echo/error.hpp>
#include <echo/graph/id_vector.hpp>
#include <echo/graph/snapshot.hpp>
#include <echo/numbers.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace echo {

/// The device of the time model: `launch_us + flops / flops_per_us + bytes / bytes_per_us`. The defaults are
/// those of formats.md, a GPU of 15 TFLOP/s and 1.5 TB/s.
struct device_model {
    /// Of each node that does anything, in microseconds.
    double launch_us = 2;
    /// Floating-point operations in a microsecond.
    double flops_per_us = 15e6;
    /// Bytes read or written in a microsecond.
    double bytes_per_us = 1.5e6;
};

/// A time as a count of equal parts of a microsecond; how many they are is a fact of the graph (`run_times`).
using ticks = std::int64_t;

/// The times of all nodes of a snapshot. Sums over the runs of a plan fit as long as it runs the nodes less than 32
/// times each on the mean.
struct run_times {
    id_vector<node_id, ticks> of_node; ///< one run, by node index
    ticks total = 0;                   ///< every node once
    int exponent = 0;                  ///< a microsecond has 2^this ticks

    /// The time in microseconds.
    double microseconds(ticks t) const noexcept {
        return static_cast<double>(t) * detail::power_of_two(-exponent);
    }
    /// `t` as a part of the time of all nodes; 0 where that takes no time. O(1).
    double part(ticks t) const noexcept {
        return total > 0 ? static_cast<double>(t) / static_cast<double>(total) : 0;
    }
    /// The longest time whose `part` is at most `ratio` (0 or more). O(1).
    ticks at_most(double ratio) const noexcept {
        if (!(ratio > 0) || total <= 0) return 0; // where nothing takes time, no time is a part of it
        const int point = 53 - detail::exponent_of(ratio);
        if (point > 110) return 0;
        if (point < 0) return std::numeric_limits<ticks>::max() / 4;
        const auto digits = static_cast<std::uint64_t>(ratio * detail::power_of_two(point));
        const auto floor = detail::uint128{digits} * static_cast<std::uint64_t>(total) >> point;
        ticks t = static_cast<ticks>(
            std::min<detail::uint128>(floor, std::numeric_limits<std::uint64_t>::max() / 8));
        while (part(t + 1) <= ratio) ++t; // a double tells few neighbours apart
        return t;
    }
};

namespace detail {

/// Times of the model in ticks, of which a microsecond has 2^`exponent`.
class time_model {
public:
    /// Errors: a rate of 0 or less, or a number that is none.
    time_model(const device_model& device, int exponent)
        : parts_(std::uint64_t{rate_parts} << exponent),
          launch_(whole(amount(device.launch_us, "launch_us") * power_of_two(exponent))),
          flops_per_us_(rate(device.flops_per_us, "flops_per_us")),
          bytes_per_us_(rate(device.bytes_per_us, "bytes_per_us")) {}

    /// At most 2^61. O(inputs + outputs).
    std::uint64_t operator()(const snapshot& s, node_id n) const {
        const node_record& node = s[n];
        if (node.kind == op_kind::view || node.phase == phase::input) return 0;
        std::uint64_t bytes = 0;
        for (const auto v : s.inputs(n)) bytes = std::min(bytes + s[v].bytes, most);
        for (const auto v : s.outputs(n)) bytes = std::min(bytes + s[v].bytes, most);
        const std::uint64_t computing = mul_div_nearest(whole(node.flops), parts_, flops_per_us_);
        const std::uint64_t moving = mul_div_nearest(bytes, parts_, bytes_per_us_);
        return std::min(most, std::min(most, launch_) + std::min(most, computing) + std::min(most, moving));
    }

private:
    static constexpr std::uint64_t most = std::uint64_t{1} << 61;
    static constexpr std::uint64_t rate_parts = 1024; // rates are counted in 1/1024 per µs

    static double amount(double x, const char* key) {
        if (!is_amount(x))
            throw error({}, key, "is no number of 0 or more", "describe the device that runs the graph");
        return x;
    }
    static std::uint64_t rate(double x, const char* key) {
        const std::uint64_t parts = whole(amount(x, key) * double{rate_parts});
        if (parts == 0) throw error({}, key, "is 0, or nearly so", "describe the device that runs the graph");
        return parts;
    }

    std::uint64_t parts_, launch_, flops_per_us_, bytes_per_us_;
};

/// The least e such that no node takes 2^e µs or more; at least 0.
inline int longest_exponent(const snapshot& s, const device_model& device) {
    constexpr int fine = 20;
    const time_model model(device, fine);
    int longest = 0;
    for (const auto n : s.nodes()) {
        const double measured = s[n].time_us;
        longest = std::max(longest, measured < 0   ? static_cast<int>(std::bit_width(model(s, n))) - fine
                                    : measured > 0 ? exponent_of(measured)
                                                   : 0);
    }
    return longest;
}

} // namespace detail

/// The time of every node: measured where the host measured it, else 0 for views and inputs, else the model over the
/// FLOPs and the bytes of all input positions and outputs. Ticks are as short as lets all sums fit. Errors: a device
/// that is none. O(nodes + edges).
inline run_times times_of(const snapshot& s, const device_model& device = {}) {
    const int room = 58 - static_cast<int>(std::bit_width(s.node_count()));
    const int exponent = std::min(36, room - detail::longest_exponent(s, device));
    const int modelled =
        std::max(exponent, 0); // a model of less than a tick per µs is counted finer, then divided
    const detail::time_model model(device, modelled);
    run_times times{.of_node = id_vector<node_id, ticks>(s.node_count(), 0), .exponent = exponent};
    for (const auto n : s.nodes()) {
        const double measured = s[n].time_us;
        const std::uint64_t time = measured < 0
                                       ? model(s, n) >> std::min(modelled - exponent, 63)
                                       : detail::whole(measured * detail::power_of_two(exponent) + 0.5);
        times.of_node[n] = static_cast<ticks>(time);
        times.total += static_cast<ticks>(time);
    }
    return times;
}

} // namespace echo
