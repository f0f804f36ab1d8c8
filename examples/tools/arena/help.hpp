// SPDX-License-Identifier: BSL-1.0
/// @file
/// What `echo-arena --help` prints.
#pragma once

#include "command_line/help.hpp"

#include <string>
#include <string_view>

namespace echo::format {

inline std::string arena_help() {
    constexpr std::string_view head = R"(NAME
    echo-arena - place buffers with known lifetimes in as small an arena as
    can be found

SYNOPSIS
    echo-arena FILE.csv [--limit SECONDS] [--capacity BYTES] [--output FILE]
    echo-arena --help | --version

DESCRIPTION
    Reads minimalloc's CSV: a header with the columns id, lower, upper and
    size, in any order, and one buffer a line. A buffer needs size bytes from
    time lower on, until before time upper. Other columns are kept and not
    looked at; if lower is upper, the buffer needs nothing. Prints the size of
    the arena, the bound below which there is none, and their ratio.

    .csv.gz is read and written compressed.

OPTIONS
    --limit SECONDS
        Search so long for a smaller arena (default 0.2), unless the bound is
        reached before; 0: greedy orders only. The limit is spent as a fixed
        amount of work, so that the same file with the same limit gives the
        same result everywhere; on another machine it may take longer or
        shorter.
    --capacity BYTES
        An arena of so many bytes will do: the search ends with the first.
    --output FILE
        Write the table with a column offset added. The file is written whole
        or not at all.
)";
    constexpr std::string_view end =
        R"(    3  no arena within --capacity was found; one line on standard error says
       what the bound is and what was reached

EXAMPLES
    echo-arena A.csv
    echo-arena A.csv --limit 5 --capacity 1048576 --output placed.csv
)";
    return std::string(head).append(common_help).append(end);
}

} // namespace echo::format
