// SPDX-License-Identifier: BSL-1.0
/// @file
/// Boost.Graph, both ways: `boost_graph` makes any graph type of Boost.Graph a host by property maps alone,
/// and `snapshot` becomes a model of Boost.Graph's concepts, so that its algorithms run on it. An adapter:
/// `echo.hpp` does not include it. Example: examples/adapt_a_boost_graph.cpp.
#pragma once

#include <echo/graph/boost_graph.hpp>
#include <echo/graph/boost_snapshot.hpp>
