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
    echo-arena FILE.csv [--limit SECONDS] [--capacity BYTES] [--quiet]
               [--output FILE]
    echo-arena --help | --version

DESCRIPTION
    Reads minimalloc's CSV: a header, and one buffer a line. Columns, in any
    order:

    id         a name of the buffer's own; or buffer, buffer_id
    lower      the time from which it lives; or start, begin
    upper      the first time behind its life; or end, the last time of it
    size       bytes, also with a unit: 4KiB; nothing if lower is upper
    alignment  its offset is a multiple of it (default 1)
    gaps       times within its life in which it needs nothing, with blanks
               between them: 4-7 9-12; with @low:high, only those of its bytes
    hint       an offset for a search to begin with, not needed here; or -1
    offset     is written anew

    A column of another name is refused. Prints the size of the arena, the
    bound below which there is none, and their ratio.

    .csv.gz is read and written compressed. FILE.csv may be -, which is
    standard input.

OPTIONS
    --limit SECONDS
        Search so long for a smaller arena (default 0.2), unless the bound is
        reached before; 0: greedy orders only. The limit is spent as a fixed
        amount of work, so that the same file with the same limit gives the
        same result everywhere; on another machine it may take longer or
        shorter.
    --capacity BYTES
        An arena of so many bytes (1048576, 1MiB) will do: the search ends with
        the first.
    --quiet
        Show no progress. It is shown on standard error, only where that is a
        terminal, of what takes longer than a second.
    --output FILE
        Write the table with a column offset added. The file is written whole
        or not at all. - is standard output; then nothing else is printed there.
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
