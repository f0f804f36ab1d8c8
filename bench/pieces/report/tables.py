# SPDX-License-Identifier: BSL-1.0
"""Puts what bench/report measured into docs/report.md: python3 bench/pieces/report/tables.py"""
from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import results  # noqa: E402


def markdown(rows: list[dict[str, object]], left: int = 1) -> str:
    """A table; the first `left` columns stand left."""
    keys = list(rows[0])
    lines = [keys, ["---" if i < left else "--:" for i in range(len(keys))]]
    lines += [[f"{row[key]:,}" if isinstance(row[key], int) else str(row[key]) for key in keys] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def beside_the_first(rows: list[dict[str, object]]) -> str:
    """A sentence on each library: how many times the bytes and the time of the first."""
    size, time = "kB", "100,000 points, ms"
    sentences = [f"{row['library']} has {row[size] / rows[0][size]:.0f} times the bytes of {rows[0]['library']} and takes "
                 f"{row[time] / rows[0][time]:.1f} times as long until the curve is there." for row in rows[1:]]
    return "\n".join(sentences)


def section(name: str, found: dict, rows: list[dict[str, object]]) -> str:
    more = f"\n\n{beside_the_first(rows)}" if name == "libraries" else ""
    machine = found["machine"]
    return (f"<!-- table: bench/report {name} -->\n\nMeasured on {found['date']} on {machine['cores']} cores of an "
            f"{machine['cpu']}, which had other work (a load of {found['load_of_machine']}).\n\n{markdown(rows)}{more}\n\n"
            f"{results.END_OF_TABLE}")


def main() -> None:
    found = results.load("report")
    page = results.ROOT / "docs" / "report.md"
    results.put_section(page, section("libraries", found, found["libraries"]))
    results.put_section(page, section("costs", found, found["rows"]))


if __name__ == "__main__":
    main()
