#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""What including <echo/echo.hpp> costs, in counts that are the same on every machine: lines behind the preprocessor, and
templates that the compiler instantiates before anyone plans. bench/run include measures seconds.

    python3 tests/include_cost.py CLANG     fails where one of them has grown by more than a hundredth

What becomes cheaper is to be written down here.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINES = 60324
INSTANTIATIONS = 30482
MARGIN = 0.01


def count(clang: str) -> tuple[int, int]:
    """Lines of text that the compiler reads, and classes and functions that it makes of templates."""
    with tempfile.TemporaryDirectory() as folder:
        unit = pathlib.Path(folder, "unit.cpp")
        unit.write_text("#include <echo/echo.hpp>\n", encoding="utf-8")
        options = [clang, "-std=c++20", f"-I{ROOT / 'include'}"]
        text = subprocess.run([*options, "-E", "-P", str(unit)], check=True, text=True, stdout=subprocess.PIPE).stdout
        subprocess.run([*options, "-c", "-ftime-trace", "-ftime-trace-granularity=0", "-o", str(unit.with_suffix(".o")),
                        str(unit)], check=True)
        trace = json.loads(unit.with_suffix(".json").read_text(encoding="utf-8"))
    made = sum(re.fullmatch(r"Instantiate(Class|Function)", event["name"]) is not None for event in trace["traceEvents"])
    return sum(bool(line.strip()) for line in text.splitlines()), made


def main(clang: str) -> int:
    """Exit status: 1 where a count has grown, or has fallen without being written down."""
    wrong = 0
    for name, found, known in zip(("LINES", "INSTANTIATIONS"), count(clang), (LINES, INSTANTIATIONS)):
        print(f"{name} = {found}, recorded: {known}")
        if abs(found - known) > MARGIN * known:
            print(f"error: {'more' if found > known else 'fewer'} than recorded: " +
                  ("look for what is compiled by everyone who includes it" if found > known else f"write {found}"))
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
