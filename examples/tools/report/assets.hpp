// SPDX-License-Identifier: BSL-1.0
/// @file
/// The files of page/ and the plotting library as text inside the program; embed.cmake writes their definitions.
#pragma once

#include <string_view>

namespace echo::report::assets {

extern const std::string_view page;          ///< the template
extern const std::string_view style;         ///< the page's own style
extern const std::string_view script;        ///< the page's own script: all of page/*.js in their order
extern const std::string_view library;       ///< uPlot; empty where it was not found
extern const std::string_view library_style; ///< likewise
extern const std::string_view licence;       ///< uPlot's

} // namespace echo::report::assets
