#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""What including <echo/echo.hpp> costs, against <boost/graph/adjacency_list.hpp>: the same compiler, in turns."""
import resource
import statistics
import subprocess

import results

HEADERS = ("echo/echo.hpp", "boost/graph/adjacency_list.hpp")
ROUNDS = 7


def seconds(header):
    """The processor time of compiling the header alone: other work on the machine does not count."""
    before = spent()
    subprocess.run(["g++", "-fsyntax-only", "-std=c++20", f"-I{results.ROOT / 'include'}", "-xc++", "-"],
                   input=f"#include <{header}>\n", text=True, check=True)
    return spent() - before


def spent():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main():
    for header in HEADERS:  # fills the file cache
        seconds(header)
    times = {header: [] for header in HEADERS}
    for _ in range(ROUNDS):
        for header in HEADERS:
            times[header].append(seconds(header))
    medians = {header: statistics.median(values) for header, values in times.items()}
    rows = [{"header": header, "median s": round(medians[header], 3), "least s": round(min(times[header]), 3),
             "most s": round(max(times[header]), 3)} for header in HEADERS]
    results.write("include-cost", rows, ratio=round(medians[HEADERS[0]] / medians[HEADERS[1]], 3), rounds=ROUNDS)


if __name__ == "__main__":
    main()
