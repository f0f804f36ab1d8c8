#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Writes a page of the manual from what a command prints for --help, which has the sections of one.

    packaging/man_page.py PROGRAM [FILE] [--word WORD]

The page of `PROGRAM WORD` is called PROGRAM-WORD.
A line that begins at the left edge is a heading; 4 spaces are a paragraph or an option, and 8 are
what an option does. Lines indented further, and those with columns, are printed as they are.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

COLUMNS = re.compile(r"\S {2,}\S")


def escape(text: str) -> str:
    """What roff would take for a command, as text."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\\&" + text if text.startswith(".") else text


def paragraph(lines: list[str], lead: str) -> list[str]:
    """Lines of one block: filled, or as they are where they stand in columns."""
    if any(COLUMNS.search(line) for line in lines) or any(line.startswith(" ") for line in lines):
        return (
            [lead, ".nf", *map(escape, lines), ".fi"]
            if lead
            else [".nf", *map(escape, lines), ".fi"]
        )
    return ([lead] if lead else []) + list(map(escape, lines))


def blocks(lines: list[str], indent: int) -> list[list[str]]:
    """The lines without their indent, parted at empty ones."""
    found: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            found[-1].append(line[indent:])
        elif found[-1]:
            found.append([])
    return [block for block in found if block]


def options(lines: list[str]) -> list[str]:
    """Of a section with heads at 4 spaces and their text at 8."""
    out: list[str] = []
    body: list[str] = []

    def flush() -> None:
        for number, block in enumerate(blocks(body, 8)):
            out.extend(paragraph(block, ".IP" if number else ""))
        body.clear()

    for line in lines:
        if line.startswith("        ") or not line.strip():
            body.append(line)
        else:
            flush()
            out.extend([".TP", f"\\fB{escape(line.strip())}\\fR"])
    flush()
    return out


def sections(text: str) -> list[tuple[str, list[str]]]:
    """Headings with the lines below them."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line and not line.startswith(" "):
            found.append((line, []))
        elif found:
            found[-1][1].append(line)
        else:
            raise ValueError(f"the help page begins with '{line}' instead of a heading")
    return found


def page(text: str, version: str, date: str) -> str:
    """The page in roff. Errors: ValueError where the help page has no NAME."""
    parts = dict(sections(text))
    name = " ".join(line.strip() for line in parts.get("NAME", []) if line.strip())
    if " - " not in name:
        raise ValueError("the help page has no section NAME with 'command - what it does'")
    command, purpose = name.split(" - ", 1)
    command = command.replace(" ", "-")
    out = [
        f'.TH {command.upper()} 1 "{date}" "Echo {version}" "User Commands"',
        ".SH NAME",
        f"{escape(command)} \\- {escape(purpose)}",
    ]
    for heading, lines in sections(text):
        if heading == "NAME":
            continue
        out.append(f".SH {heading}")
        if heading == "SYNOPSIS":
            out += [".nf", *(escape(line[4:]) for line in lines if line.strip()), ".fi"]
        elif heading in ("OPTIONS", "EXAMPLES"):
            out += options(lines)
        elif heading == "EXIT STATUS":
            for line in lines:
                status = re.match(r" {4}(\d+)  (.*)", line)
                out += (
                    [".TP", f"\\fB{status[1]}\\fR", escape(status[2])]
                    if status
                    else [escape(line.strip())] * bool(line.strip())
                )
        else:
            for number, block in enumerate(blocks(lines, 4)):
                out += paragraph(block, ".PP" if number else "")
    return "\n".join(out) + "\n"


def said(program: pathlib.Path, *words: str) -> str:
    """What the program prints."""
    return subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("file", nargs="?", type=pathlib.Path)
    parser.add_argument("--word", action="append", default=[])
    given = parser.parse_args()
    version = said(given.program.resolve(), "--version").split()[-1]
    text = page(
        said(given.program.resolve(), *given.word, "--help"),
        version,
        os.environ.get("ECHO_PAGE_DATE", ""),
    )
    if given.file:
        given.file.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
