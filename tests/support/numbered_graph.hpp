// SPDX-License-Identifier: BSL-1.0
/// @file
/// Random graphs by number, for programs that go through a million of them: the same number is the same graph.
#pragma once

#include "random_graph.hpp"

namespace support {

/// Graph `number`, of 10 to `most` nodes. Of every third graph no forward result is kept.
inline echo::snapshot numbered_graph(std::uint64_t number, std::size_t most = 60) {
    const auto drawn = recipes(most / 3);
    rc::Random random(number);
    echo::snapshot s;
    do s = build(drawn(random.split(), 0).value(), true, number % 3 != 2);
    while (s.node_count() < 10 || s.node_count() > most);
    return s;
}

} // namespace support
