#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The whole host of docs/guide/plug-in-your-engine.md as a program, letter by letter: guide.py
FILE.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import docs  # noqa: E402

GUIDE = docs.ROOT / "docs" / "guide" / "plug-in-your-engine.md"


def host(one_header: bool = False) -> str:
    """The first program of the guide; with one_header its only include of Echo is the generated
    echo.hpp.
    """
    blocks = docs.blocks_of(GUIDE, GUIDE.read_text(encoding="utf-8"))
    whole = [
        block
        for block in blocks
        if block.language == "cpp" and any("int main(" in line for line in block.lines)
    ]
    if not whole:
        raise ValueError(f"{GUIDE} shows no program: a block of C++ with main")
    unit = "\n".join(whole[0].numbered()) + "\n"
    if one_header:
        unit = '#include "echo.hpp"\n' + re.sub(
            r"^#include <echo/.*\n", "", unit, flags=re.MULTILINE
        )
    return unit


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text(host(), encoding="utf-8")
