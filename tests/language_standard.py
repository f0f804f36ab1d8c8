#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Each header alone, compiled as C++17: the compiler says that Echo needs C++20, and nothing else.

    python3 tests/language_standard.py COMPILER…    .cuh are compiled by nvcc, .hpp by all compilers but nvcc
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORDS = "Echo needs C++20: compile with -std=c++20 or later"


def said(compiler: str, header: str, standard: str, folder: str) -> list[str]:
    """The errors and warnings of a unit that includes the header alone."""
    nvcc = pathlib.Path(compiler).name.startswith("nvcc")
    unit = pathlib.Path(folder, "unit.cu" if nvcc else "unit.cpp")
    unit.write_text(f"#include <{header}>\n", encoding="utf-8")
    mode = ["--cuda", "--expt-relaxed-constexpr", "-o", str(unit.with_suffix(".ii"))] if nvcc else ["-fsyntax-only"]
    run = subprocess.run([compiler, f"-std={standard}", *mode, f"-I{ROOT / 'include'}", str(unit)], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return [line for line in run.stdout.splitlines() if re.search(r": (fatal )?(error|warning)\b", line)]


def main(*compilers: str) -> int:
    """Exit status: 1 where a header says something else; one line for each."""
    wrong = 0
    include = ROOT / "include"
    with tempfile.TemporaryDirectory() as folder:
        for compiler in compilers:
            nvcc = pathlib.Path(compiler).name.startswith("nvcc")
            headers = [path.relative_to(include).as_posix() for path in sorted(include.rglob("*.cuh" if nvcc else "*.hpp"))]
            for header in headers + (["echo/echo.hpp"] if nvcc else []):
                lines = said(compiler, header, "c++17", folder)
                if len(lines) != 1 or WORDS not in lines[0]:
                    wrong += 1
                    print(f"error: {compiler} says {len(lines)} things of {header}, such as {lines[:1]}")
            right = said(compiler, "echo/config.hpp", "c++20", folder)
            if right:
                wrong += 1
                print(f"error: {compiler} refuses C++20, too: {right[0]}")
            print(f"{compiler}: {len(headers)} headers")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
