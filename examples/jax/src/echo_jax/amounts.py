"""Amounts as people write them, by the rule of docs/formats.md: bytes with a unit, parts with a per cent sign."""

from __future__ import annotations

import math
import re

UNITS = {"": 1} | {letter: 1000**power for power, letter in enumerate("kmgt", 1)}
UNITS |= {letter + "i": 1024**power for power, letter in enumerate("kmgt", 1)}


def bytes_of_budget(amount: str | float) -> int:
    """Errors: ValueError, where it is no number of bytes, or below 2, which could be a part."""
    found = re.fullmatch(r"\s*([\d.]+(?:e\+?\d+)?)\s*([a-z]*)\s*", str(amount).lower())
    if found is None or found[2].removesuffix("b") not in UNITS:
        raise ValueError(f"budget is {amount!r}; write bytes, as '8GiB' or 8e9")
    size = float(found[1]) * UNITS[found[2].removesuffix("b")]
    if size < 2:
        raise ValueError(f"budget is {amount!r}, which is no number of bytes; write bytes, as '8GiB' or 8e9")
    return int(size)


def megabytes(size: float) -> str:
    return f"{size / 1e6:,.1f}" if abs(size) >= 1e5 else f"{size / 1e6:.4f}"


def part_of(amount: str | float, name: str) -> float:
    """Errors: ValueError, where it is no part, such as 0.05 or '5%'; a bare 1 or more could mean either."""
    text = str(amount).strip()
    try:
        part = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        part = -1.0
    if not 0 <= part < (math.inf if text.endswith("%") else 1):
        raise ValueError(f"{name} is {amount!r}; write a part, as 0.05 or '5%'")
    return part
