// SPDX-License-Identifier: BSL-1.0
/// @file
/// `copy_times`: how long a copy to the host's memory takes, and one back.
#pragma once

#include <echo/analysis/plan/decision/cost.hpp>
#include <echo/analysis/plan/offload/link.hpp>
#include <echo/error.hpp>
#include <echo/numbers.hpp>

#include <cstdint>

namespace echo::detail {

/// Rates are counted in 1/1024 byte per µs, as those of a device are.
class copy_times {
public:
    /// Errors: a rate of 0 or less, or that is no number.
    copy_times(const link_model& link, int exponent)
        : fine_(exponent > 0 ? exponent : 0), coarse_(fine_ - exponent),
          out_(rate(link.out_bytes_per_us, "out_bytes_per_us")),
          in_(rate(link.in_bytes_per_us, "in_bytes_per_us")) {}

    /// No more bytes than this can leave and come back within a time, however the two are shared out. O(1).
    std::uint64_t most_there_and_back(ticks within) const {
        const uint128 rate = product(out_, in_) / (uint128{out_} + in_) + 1;
        if (coarse_ > 60 || within < 0 || rate > mul_div_most || within > (std::int64_t{1} << (60 - coarse_)))
            return mul_div_most;
        const auto fine_ticks = static_cast<std::uint64_t>(within) << coarse_;
        return mul_div(fine_ticks, static_cast<std::uint64_t>(rate), parts << fine_) + 1;
    }
    /// One way there. O(1).
    ticks out(std::uint64_t bytes) const { return time(bytes, out_); }
    /// One way back. O(1).
    ticks in(std::uint64_t bytes) const { return time(bytes, in_); }

private:
    static constexpr std::uint64_t parts = 1024;

    static std::uint64_t rate(double x, const char* key) {
        const std::uint64_t counted = is_amount(x) ? whole(x * double{parts}) : 0;
        if (counted == 0)
            throw error({}, key, "is no rate above 0", "say how many bytes the link moves, such as 25GB/s");
        return counted;
    }
    ticks time(std::uint64_t bytes, std::uint64_t rate) const {
        const std::uint64_t longest = std::uint64_t{1} << 58;
        const std::uint64_t found = mul_div(bytes, parts << fine_, rate) + 1; // never less than in truth
        return static_cast<ticks>(((found < longest ? found : longest) >> (coarse_ < 63 ? coarse_ : 63)) + 1);
    }

    int fine_, coarse_;
    std::uint64_t out_, in_;
};

} // namespace echo::detail
