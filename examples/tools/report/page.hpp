// SPDX-License-Identifier: BSL-1.0
/// @file
/// The page of a report: one HTML file with its data, its script and its style inside.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace echo::report {

/// A figure at the head of the page.
struct tile {
    std::string label{}, figure{}, note{};
};

/// What stands on the page before any script runs.
struct page_head {
    std::string title{};                  ///< of the graph
    std::string subtitle{};               ///< such as "16,438 nodes · budget"
    std::vector<tile> tiles{};            ///< the figures that matter most
    std::vector<std::string> sentences{}; ///< a paragraph
};

/// Whether the plotting library was found when this program was built.
bool can_draw();

/// What to do where it was not: one line.
std::string_view how_to_draw();

/// The file. `data` is JSON. Errors: `echo::error` where `can_draw()` is false.
std::string make_page(const page_head& head, std::string_view data);

} // namespace echo::report
