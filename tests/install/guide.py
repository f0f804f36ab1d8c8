#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The host that README.md shows, "I have an engine in C++", as a program to compile: guide.py FILE [--one-header].

The code is README's, letter by letter, in its frame (tests/docs/engine.cpp); behind it comes guide_main.cpp.
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import docs  # noqa: E402


def host(one_header: bool = False) -> str:
    """The unit; with one_header its only include of Echo is echo.hpp, the generated file."""
    readme = docs.ROOT / "README.md"
    blocks = [block for block in docs.blocks_of(readme, readme.read_text(encoding="utf-8"))
              if block.frame == "tests/docs/engine.cpp"]
    if not blocks:
        raise ValueError("README.md shows no host in the frame tests/docs/engine.cpp")
    ((_, unit),) = docs.units_of(blocks)
    if one_header:
        unit = '#include "echo.hpp"\n' + re.sub(r"^#include <echo/.*\n", "", unit, flags=re.MULTILINE)
    return "#include <memory>\n" + unit + (HERE / "guide_main.cpp").read_text(encoding="utf-8")


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text(host("--one-header" in sys.argv), encoding="utf-8")
