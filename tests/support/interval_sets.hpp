// SPDX-License-Identifier: BSL-1.0
/// @file
/// Sets of intervals that tests and benchmarks place.
#pragma once

#include <echo/analysis/memory/arena/interval.hpp>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace support {

/// A published hard instance, 'A' to 'K', with its times as they are, from the folder that ECHO_PLANNER_DATA names;
/// empty where there is no such file.
inline std::vector<echo::arena::interval> published(char name) {
    const char* const stated = std::getenv("ECHO_PLANNER_DATA");
    const std::filesystem::path folder = stated ? stated : ECHO_SOURCE_DIR "/../shared/data/planner";
    std::ifstream file(folder / (std::string(1, name) + ".csv"));
    std::vector<echo::arena::interval> items;
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
        std::istringstream row(line);
        std::uint64_t id = 0, lower = 0, upper = 0, bytes = 0;
        char comma = 0;
        row >> id >> comma >> lower >> comma >> upper >> comma >> bytes;
        items.push_back({static_cast<std::uint32_t>(lower), static_cast<std::uint32_t>(upper - 1), bytes});
    }
    return items;
}

/// A chain of layers: each stashes one feature map until its gradient and needs a temporary either way.
inline std::vector<echo::arena::interval> training_chain(std::mt19937_64& engine, std::uint32_t layers) {
    std::vector<echo::arena::interval> items;
    const std::uint32_t end = 2 * layers - 1;
    for (std::uint32_t i = 0; i < layers; ++i) {
        const std::uint64_t bytes = 256 * (1 + engine() % 100'000);
        items.push_back({i, end - i, bytes});
        items.push_back({i, i + 1 + static_cast<std::uint32_t>(engine() % 3), bytes});
        items.push_back({end - i - (i < layers - 1), end - i, bytes});
    }
    return items;
}

} // namespace support
