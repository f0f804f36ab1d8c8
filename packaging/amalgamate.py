#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Writes Echo as one file, for a try in a browser or for a project that copies headers.

    packaging/amalgamate.py build/echo.hpp

holds all but CUDA and the adapter of Boost.Graph, and needs Boost's headers (Hana). With --no-boost
it is without ops as types, and without the vocabularies, which are made of them.

Each header is put where it is first included, and once. What it includes from elsewhere stands at
the head.
"""

import argparse
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ["echo/echo.hpp", "echo/analysis/profile.hpp", "echo/graph/graphviz.hpp"]
ON_HANA = ["echo/op_traits.hpp", "echo/symbol.hpp"]
ON_HANA_FOLDERS = ["ops", "vocabulary"]
INCLUDE = re.compile(r"\s*#\s*include\s*<([^>]+)>")
NOT_TWICE = re.compile(r"\s*#\s*pragma once\b|// SPDX-License-Identifier:")


def on_hana(include: pathlib.Path) -> list[str]:
    """The headers of all that needs Boost.Hana besides."""
    return ON_HANA + [
        path.relative_to(include).as_posix()
        for folder in ON_HANA_FOLDERS
        for path in sorted((include / "echo" / folder).glob("*.hpp"))
    ]


def amalgamate(include: pathlib.Path, headers: list[str]) -> str:
    """The text of all headers in one. Errors: ValueError where a header of Echo is included under a
    condition.
    """
    outside: set[str] = set()
    done: set[str] = set()
    body: list[str] = []

    def add(header: str) -> None:
        if header in done:
            return
        done.add(header)
        depth = 0
        text = [f"// ---- {header}"]
        for number, line in enumerate(
            (include / header).read_text(encoding="utf-8").splitlines(), 1
        ):
            directive = line.strip().replace(" ", "")
            depth += directive.startswith("#if") - directive.startswith("#endif")
            found = INCLUDE.match(line)
            if found and found[1].endswith("_impl.hpp"):  # at the end, unless echo::core has it
                body.extend(text[:-1])
                add(found[1])
                return
            if NOT_TWICE.match(line):
                continue
            if not found or (depth and not found[1].startswith("echo/")):
                text.append(line)
            elif depth:
                raise ValueError(
                    f"{header}:{number}: whether {found[1]} is included hangs on a condition"
                )
            elif found[1].startswith("echo/"):
                add(found[1])
            else:
                outside.add(found[1])
        body.extend(text)

    for header in headers:
        add(header)
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8").splitlines()
    numbers = dict(re.findall(r"#define ECHO_VERSION_(\w+) (\d+)", "\n".join(body)))
    head = [
        "// SPDX-License-Identifier: BSL-1.0",
        f"// Echo {numbers['MAJOR']}.{numbers['MINOR']}.{numbers['PATCH']} in one file, written by "
        f"packaging/amalgamate.py from {len(done)} headers.",
        "//",
        *(f"// {line}".rstrip() for line in licence),
        "#pragma once",
        "",
        *(f"#include <{name}>" for name in sorted(outside)),
        "",
    ]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(head + body)) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--no-boost", action="store_true", help="without what needs Boost.Hana")
    given = parser.parse_args()
    include = ROOT / "include"
    text = amalgamate(include, HEADERS + ([] if given.no_boost else on_hana(include)))
    given.file.parent.mkdir(parents=True, exist_ok=True)
    given.file.write_text(text, encoding="utf-8")
    print(f"{given.file}: {len(text.splitlines())} lines, {len(text.encode()) // 1000} kB")


if __name__ == "__main__":
    main()
