// SPDX-License-Identifier: BSL-1.0
/// @file
/// `same_file`: whether two paths of a command line name one file.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace echo::format {

/// Whatever way the paths take, links of both kinds included. Files that are not there yet are compared by where they
/// would be. A path that cannot be followed is another file: opening it will say what is wrong.
inline bool same_file(const std::string& a, const std::string& b) {
    if (a == b) return true;
    std::error_code failure;
    if (std::filesystem::equivalent(a, b, failure)) return true;
    const auto first = std::filesystem::weakly_canonical(a, failure);
    if (failure) return false;
    const auto second = std::filesystem::weakly_canonical(b, failure);
    return !failure && first == second;
}

} // namespace echo::format
