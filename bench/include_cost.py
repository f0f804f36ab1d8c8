#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""What the files of tests/include_cost.py pay, and one that includes <boost/graph/adjacency_list.hpp>: processor seconds
and memory of g++ -O2, in turns.
"""
import statistics
import sys

import results

sys.path.insert(0, str(results.ROOT / "tests"))
import include_cost  # noqa: E402

BOOST = "#include <boost/graph/adjacency_list.hpp>\n"
FILES = {"the standard library alone": (include_cost.YARDSTICK, ()), "Boost.Graph's adjacency_list": (BOOST, ()),
         **include_cost.UNITS}
ROUNDS = 3


def main():
    costs = {name: [] for name in FILES}
    for _ in range(ROUNDS):
        for name, (text, options) in FILES.items():
            costs[name].append(include_cost.cost("g++", text, options))
    rows = []
    for name, found in costs.items():
        seconds = [s for s, _ in found]
        rows.append({"file": name, "median s": round(statistics.median(seconds), 3), "least s": round(min(seconds), 3),
                     "most s": round(max(seconds), 3), "MB": round(max(megabytes for _, megabytes in found))})
    results.write("include-cost", rows, rounds=ROUNDS)


if __name__ == "__main__":
    main()
