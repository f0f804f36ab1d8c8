// SPDX-License-Identifier: BSL-1.0
/// @file
/// `copy_times`: how long a copy to the host's memory takes, and one back.
#pragma once

#include <echo/analysis/plan/decision/cost.hpp>
#include <echo/analysis/plan/offload/link.hpp>
#include <echo/error.hpp>
#include <echo/numbers.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace echo::detail {

/// Never less than in truth, and hardly more. Errors: a rate of 0 or less, or that is no number.
class copy_times {
public:
    copy_times(const link_model& link, int exponent)
        : exponent_(exponent), out_(rate_of(link.out_bytes_per_us, "out_bytes_per_us")),
          in_(rate_of(link.in_bytes_per_us, "in_bytes_per_us")) {}

    /// One way there. O(1).
    ticks out(std::uint64_t bytes) const { return time(bytes, out_); }
    /// One way back. O(1).
    ticks in(std::uint64_t bytes) const { return time(bytes, in_); }

    /// No more bytes than this can leave within `before` and come back within `behind`, and do both within `all`, in
    /// however many copies. O(1).
    std::uint64_t most_there_and_back(ticks before, ticks behind, ticks all) const {
        constexpr ticks rounded_up = 2; // of each of the times below
        std::uint64_t most = 0;
        for (int bit = 61; bit >= 0; --bit) {
            const std::uint64_t more = most | std::uint64_t{1} << bit;
            const ticks there = out(more) - rounded_up, back = in(more)-rounded_up;
            if (there <= before && back <= behind && there + back <= all) most = more;
        }
        return most + 1;
    }

private:
    /// Bytes in a microsecond: digits × 2^power.
    struct rate {
        std::uint64_t digits = 1;
        int power = 0;
    };
    static constexpr int digits_kept = 40;
    static constexpr ticks longest = ticks{1} << 58;

    static rate rate_of(double x, const char* key) {
        if (!is_amount(x) || x < power_of_two(-100))
            throw error({}, key, "is no rate above 0", "say how many bytes the link moves, such as 25GB/s");
        const int power = exponent_of(x) - digits_kept;
        return {whole(x * power_of_two(-power)), power};
    }
    ticks time(std::uint64_t bytes, const rate& at) const {
        const int shift = exponent_ - at.power;
        const int width = static_cast<int>(std::bit_width(bytes));
        if (width + shift > 126) return bytes ? longest : 0;
        const uint128 scaled = shift < 0 ? uint128{bytes >> std::min(-shift, 63)} : uint128{bytes} << shift;
        const uint128 found = scaled / at.digits + 1;
        return found < uint128{longest} ? static_cast<ticks>(found) : longest;
    }

    int exponent_;
    rate out_, in_;
};

} // namespace echo::detail
