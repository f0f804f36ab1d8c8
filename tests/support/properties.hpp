// SPDX-License-Identifier: BSL-1.0
/// @file
/// Properties of random recipes within Catch2's test cases, and the coverage they reach.
#pragma once

#include <catch2/catch.hpp>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <utility>

namespace support {

/// Checks `testable` on `share` × the number of cases that RC_PARAMS asks for (100 without it).
template <class Testable>
void check(double share, Testable&& testable) {
    auto params = rc::detail::configuration().testParams;
    params.maxSuccess = std::max(1, static_cast<int>(params.maxSuccess * share));
    const auto result =
        rc::detail::checkTestable(std::forward<Testable>(testable), rc::detail::TestMetadata{}, params);
    std::ostringstream said;
    rc::detail::printResultMessage(result, said);
    INFO(said.str());
    CHECK(result.template is<rc::detail::SuccessResult>());
}

/// How often something was the case.
class coverage {
public:
    void of(const std::string& what, bool is) {
        auto& [times, all] = seen_[what];
        times += is;
        ++all;
    }
    double share(const std::string& what) const {
        const auto at = seen_.find(what);
        if (at == seen_.end() || at->second.second == 0) return 0;
        return static_cast<double>(at->second.first) / static_cast<double>(at->second.second);
    }
    void print() const {
        for (const auto& [what, seen] : seen_)
            std::printf("  %5.1f %% of %zu: %s\n", 100 * share(what), seen.second, what.c_str());
    }
    bool empty() const { return seen_.empty(); }
    /// Checks that each of these was the case more often than that; what was never asked was not.
    void require(const std::map<std::string, double>& more_than) const {
        for (const auto& [what, least] : more_than) {
            CAPTURE(what);
            CHECK(share(what) > least);
        }
    }

private:
    std::map<std::string, std::pair<std::size_t, std::size_t>> seen_;
};

} // namespace support
